//! `toolcell artifact`: every reference in a record leads to its bytes, or to the reason why there are none.
//!
//! Promise: Disk use is bounded.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolcell_spec::digest;

use super::approvals::Place;
use super::approvals::terminal::Terminal;
use super::hooks::{configured, scripted};
use super::{example, guest};
use crate::pipeline::doubles::{echoing, hiding_a_token};
use crate::support::{Home, Toolcell};

impl Home {
    /// The program in the folder of its state, for paths that are relative.
    fn inside(&self, arguments: &[&str]) -> Toolcell {
        self.toolcell(arguments).dir(self.path())
    }

    /// The state of a reference, and the exit code that goes with it.
    fn state(&self, reference: &str, code: i32) -> Value {
        let told = self
            .toolcell(&["artifact", reference, "--json"])
            .run()
            .exits(code)
            .json();
        let people = self.toolcell(&["artifact", reference]).run().exits(code);
        if code != 0 {
            let end = format!("[{}]\n", told["state"].as_str().unwrap());
            assert!(
                people.stdout.is_empty() && people.stderr.ends_with(&end),
                "{people:?}"
            );
        }
        told
    }

    fn payload(&self, reference: &str) -> PathBuf {
        self.path()
            .join("payloads")
            .join(reference.rsplit_once("sha256:").unwrap().1)
    }
}

/// The reference to the payload of a result of 200,000 bytes, and its record.
fn large(home: &Home) -> (String, Value) {
    let record = home.call(&guest("probe#big"), &json!({ "bytes": 200_000 }), &[]);
    let uri = record["result"]["resource_refs"][0]["uri"]
        .as_str()
        .unwrap()
        .to_owned();
    (uri, record)
}

#[test]
fn a_large_result_is_fetched_by_each_of_its_references() {
    let home = Home::new();
    let (uri, record) = large(&home);
    let stored = &record["persistence"][0]["persisted_ref"];
    for reference in [
        uri.as_str(),
        stored["digest"].as_str().unwrap(),
        stored["uri"].as_str().unwrap(),
    ] {
        let text = home
            .toolcell(&["artifact", reference])
            .run()
            .exits(0)
            .stdout;
        assert!(
            text.len() == 200_000 && text.bytes().all(|byte| byte == b'x'),
            "{reference}: {}",
            text.len()
        );
    }
    let told = home.state(&uri, 0);
    assert_eq!(
        (&told["state"], &told["size_bytes"]),
        (&json!("available"), &json!(200_000))
    );
    assert_eq!(told["media_type"], stored["media_type"]);
    assert_eq!(
        told["calls"],
        json!([record["invocation"]["invocation_id"]])
    );
}

#[test]
fn a_file_is_new_and_its_owners_alone_unless_it_shall_be_replaced() {
    let home = Home::new();
    let (uri, _) = large(&home);
    let file = home.path().join("out");
    let told = home
        .inside(&["artifact", &uri, "-o", "out", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(told["file"], "out");
    let metadata = std::fs::metadata(&file).unwrap();
    assert_eq!(
        (metadata.len(), metadata.permissions().mode() & 0o777),
        (200_000, 0o600)
    );
    std::fs::write(&file, "mine").unwrap();
    let refused = home.inside(&["artifact", &uri, "-o", "out"]).run().exits(2);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    // A link is not followed: neither when it is refused, nor when it is replaced.
    std::os::unix::fs::symlink(&file, home.path().join("link")).unwrap();
    home.inside(&["artifact", &uri, "-o", "link"])
        .run()
        .exits(2);
    home.inside(&["artifact", &uri, "-o", "link", "--force"])
        .run()
        .exits(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    home.inside(&["artifact", &uri, "--output=out", "--force"])
        .run()
        .exits(0);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 200_000);
    home.inside(&["artifact", &uri, "-o", "nowhere/out"])
        .run()
        .exits(2);
    // Nothing is written where there is nothing.
    std::fs::remove_file(home.payload(&uri)).unwrap();
    home.inside(&["artifact", &uri, "-o", "other"])
        .run()
        .exits(1);
    assert!(!home.path().join("other").exists());
}

#[test]
fn an_output_that_is_older_than_the_log_keeps_calls_is_removed() {
    let home = Home::new();
    let (uri, _) = large(&home);
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let written = |path: PathBuf, ago: std::time::Duration| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::now() - ago)
            .unwrap();
    };
    let again = || home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    written(home.payload(&uri), day * 89);
    again();
    assert!(home.payload(&uri).exists());
    written(home.payload(&uri), day * 91);
    written(home.path().join("payloads.swept"), day * 2);
    again();
    assert_eq!(home.state(&uri, 1)["state"], "result_removed");
}

#[test]
fn payloads_have_a_bound_and_the_oldest_of_their_caller_make_room() {
    let home = Home::new();
    home.configure("[log]\npayloads = \"1MiB\"\n");
    let big = |bytes: u64| home.call(&guest("probe#big"), &json!({ "bytes": bytes }), &[]);
    let uri = |record: Value| {
        record["result"]["resource_refs"][0]["uri"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let uris: Vec<String> = (0..5).map(|more| uri(big(400_000 + more))).collect();
    let are_there = || {
        uris.iter()
            .map(|uri| home.payload(uri).exists())
            .collect::<Vec<bool>>()
    };
    assert_eq!(are_there(), [false, false, false, true, true]);
    assert_eq!(home.state(&uris[0], 1)["state"], "result_removed");
    let error = big(2_000_000)["result"]["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(
        error["error_code"] == "not_persistable" && message.contains("`payloads` under [log]"),
        "{error}"
    );
    // What is being written has no room either.
    let files = json!({ "files": [{ "bytes": 2_000_000 }] });
    let record = home.call(&guest("probe#artifacts"), &files, &[]);
    let told = record["result"]["structured_content"]["errors"][0].to_string();
    assert!(told.contains("`payloads` under [log]"), "{record:#}");
    assert_eq!(are_there(), [false, false, false, true, true]);
    home.configure("[log]\npayloads = \"lots\"\n");
    let refused = home
        .toolcell(&["call", &guest("probe#big"), "{}"])
        .run()
        .exits(3);
    assert!(
        refused.stderr.contains("[log] payloads"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_is_not_there_says_why() {
    let home = Home::new();
    let (uri, record) = large(&home);
    let payload = home.payload(&uri);
    let mut bytes = std::fs::read(&payload).unwrap();
    bytes[0] = b'y';
    std::fs::write(&payload, &bytes).unwrap();
    assert_eq!(home.state(&uri, 1)["state"], "damaged");
    std::fs::remove_file(&payload).unwrap();
    let gone = home.state(&uri, 1);
    assert_eq!(gone["state"], "result_removed");
    assert_eq!(
        gone["calls"],
        json!([record["invocation"]["invocation_id"]])
    );
    // Everything else of the call is still there.
    let id = record["invocation"]["invocation_id"].as_str().unwrap();
    let shown = home.toolcell(&["show", id, "--json"]).run().exits(0).json();
    assert_eq!(
        shown["result"]["resource_refs"],
        record["result"]["resource_refs"]
    );
    let other = digest(b"other");
    assert_eq!(home.state(&other, 2)["state"], "unknown");
    // The journal without its first file.
    let segment = |number: u32| home.path().join(format!("journal/calls/{number:010}.log"));
    std::fs::rename(segment(1), segment(2)).unwrap();
    assert_eq!(home.state(&other, 1)["state"], "reference_expired");
    for text in [
        "",
        "sha256:00",
        "/etc/passwd",
        "toolcell:payload/../../keys/calls",
    ] {
        let ran = home.toolcell(&["artifact", text]).run().exits(2);
        assert!(ran.stderr.contains("is not a reference"), "{}", ran.stderr);
    }
}

#[test]
fn an_artifact_that_was_removed_is_gone_and_its_call_is_shown() {
    let home = Home::new();
    let files = json!({ "files": [{ "name": "a.txt", "text": "a" }] });
    let record = home.call(&guest("probe#artifacts"), &files, &[]);
    let artifact = &record["result"]["artifact_refs"][0];
    let uri = artifact["uri"].as_str().unwrap();
    let digest = artifact["digest"].as_str().unwrap();
    assert_eq!(home.state(digest, 0)["state"], "available");
    std::fs::remove_file(home.payload(digest)).unwrap();
    let id = record["invocation"]["invocation_id"].as_str().unwrap();
    for reference in [uri, digest] {
        let gone = home.state(reference, 1);
        assert_eq!(
            (&gone["state"], &gone["calls"]),
            (&json!("result_removed"), &json!([id]))
        );
    }
    let shown = home.toolcell(&["show", id, "--json"]).run().exits(0).json();
    assert_eq!(
        shown["result"]["artifact_refs"],
        record["result"]["artifact_refs"]
    );
    assert!(
        home.toolcell(&["show", id])
            .run()
            .exits(0)
            .stdout
            .contains("succeeded")
    );
}

#[test]
fn inputs_and_partial_results_are_fetched_from_the_record() {
    let home = Home::new();
    let record = home.call(
        &example("ticker"),
        &json!({ "ticks": 2, "partial": true }),
        &[],
    );
    let fetch = |reference: &Value| {
        let ran = home
            .toolcell(&["artifact", reference.as_str().unwrap()])
            .run()
            .exits(0);
        ran.stdout
    };
    assert_eq!(
        fetch(&record["invocation"]["model_input_ref"]),
        r#"{"ticks":2,"partial":true}"#
    );
    let with_defaults: Value =
        serde_json::from_str(&fetch(&record["invocation"]["call_input_ref"])).unwrap();
    assert_eq!(with_defaults, record["invocation"]["call_input"]);
    let progress = record["progress"].as_array().unwrap();
    let partial = progress
        .iter()
        .find(|progress| progress["status"] == "partial_result")
        .unwrap();
    let content: Value = serde_json::from_str(&fetch(&partial["partial_result_refs"][0])).unwrap();
    assert_eq!(content, partial["partial_content"]);
}

/// Two hooks change the input, and what the first one made of it is no input of the record.
#[test]
fn an_input_between_two_hooks_is_fetched_too() {
    let home = Home::new();
    let one = scripted("");
    let two = one.replace("id = \"scripted\"", "id = \"second\"");
    configured(home.path(), &format!("{one}\n{two}"));
    let changing = |to: &Value| json!({ "hook": { "pre_tool_use": [{ "updated_input": to }] } });
    let last = json!({ "n": 2 });
    let between = changing(&last);
    let record = home.call(&guest("probe#echo"), &changing(&between), &[]);
    assert_eq!(record["invocation"]["call_input"], last);
    let changes = &record["result"]["input_mutations"];
    assert_eq!(changes[0]["to_input_ref"], changes[1]["from_input_ref"]);
    let reference = changes[0]["to_input_ref"].as_str().unwrap();
    let fetched = home
        .toolcell(&["artifact", reference])
        .run()
        .exits(0)
        .stdout;
    assert_eq!(fetched, between.to_string());
}

/// An adapter, the defaults and one hook change the input, the hook twice.
#[test]
fn an_input_between_any_two_changes_is_fetched() {
    let home = Home::new();
    configured(home.path(), &scripted(""));
    let component = echoing("changing", |toolkit| {
        toolkit["declarations"][0]["input_contract"] = json!({
            "model_input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                "properties": { "a": { "type": "string" } },
            },
            "defaults": { "b": 3 },
            "strict": false,
        });
    });
    let tool = home.keep("changing.wasm", &component);
    let (first, last) = (json!({ "n": 1 }), json!({ "n": 2 }));
    let steps = json!([{ "updated_input": first }, { "updated_input": last }]);
    let script = json!({ "pre_tool_use": steps });
    let record = home.call(&tool, &json!({ "a": null, "hook": script }), &[]);
    assert_eq!(record["invocation"]["call_input"], last);
    let changes = record["result"]["input_mutations"].as_array().unwrap();
    let between: Vec<Value> = changes
        .iter()
        .map(|change| {
            let reference = change["to_input_ref"].as_str().unwrap();
            let fetched = home.toolcell(&["artifact", reference]).run().exits(0);
            assert_eq!(digest(fetched.stdout.as_bytes()), reference);
            fetched.json()
        })
        .collect();
    let filled = json!({ "hook": script, "b": 3 });
    assert_eq!(between, [json!({ "hook": script }), filled, first, last]);
}

#[test]
fn a_redacted_input_stays_redacted() {
    let home = Home::new();
    let component = echoing("shy_artifact", hiding_a_token);
    let tool = home.keep("shy.wasm", &component);
    let record = home.call(&tool, &json!({ "token": "c4n4ry-51d0", "other": 1 }), &[]);
    let reference = record["invocation"]["model_input_ref"].as_str().unwrap();
    assert!(reference.starts_with("blake3-keyed:"), "{reference}");
    let told = home.state(reference, 3);
    assert_eq!(told["state"], "redacted");
    assert!(!told.to_string().contains("c4n4ry"));
}

/// A terminal gets text, in which nothing acts on it, and no other bytes.
#[test]
fn a_terminal_gets_no_raw_bytes() {
    let place = Place::of(&guest("probe#echo"));
    for (bytes, octal, shown, code) in [
        (&b"\xff\xfe"[..], r"\377\376", "--output FILE", 2),
        (&b"a\x1b[2Jb"[..], r"a\033[2Jb", r"a\u{1b}[2Jb", 0),
    ] {
        let reference = digest(bytes);
        let name = reference.trim_start_matches("sha256:");
        let command = format!(
            "umask 077; mkdir -p $TOOLCELL_HOME/payloads; printf '{octal}' > $TOOLCELL_HOME/payloads/{name}; \
             exec $TOOLCELL artifact {reference}"
        );
        let (ended, seen) = Terminal::run(&place, &command).ends();
        assert_eq!(ended, Some(code), "{seen:?}");
        assert!(
            seen.contains(shown) && !seen.contains("\u{1b}[2J") && !seen.contains('\u{fffd}'),
            "{seen:?}"
        );
    }
}
