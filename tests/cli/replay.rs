//! `toolcell replay`: a recorded call again, with the random numbers and the clock that it had.
//!
//! Promise: A replay has no grants.

use std::fs;

use serde_json::{Value, json};

use super::guest;
use crate::pipeline::doubles::{echoing, hiding_a_token};
use crate::support::{Home, Ran, root, scratch};

impl Home {
    fn replay(&self, record: &Value, options: &[&str]) -> Ran {
        let id = record["invocation"]["invocation_id"].as_str().unwrap();
        let arguments = [&["replay", id, "--json"][..], options].concat();
        self.toolcell(&arguments).run()
    }

    /// The codes of the reasons for which the call cannot be replayed.
    #[track_caller]
    fn blocked(&self, record: &Value, options: &[&str]) -> Vec<String> {
        let report = self.replay(record, options).exits(3).json();
        assert_eq!(report["verdict"], "not_replayable", "{report}");
        let code = |reason: &Value| reason["code"].as_str().unwrap().to_owned();
        report["reasons"]
            .as_array()
            .unwrap()
            .iter()
            .map(code)
            .collect()
    }

    #[track_caller]
    fn same(&self, record: &Value) -> Value {
        let report = self.replay(record, &[]).exits(0).json();
        assert_eq!(
            (&report["verdict"], &report["replay_of"]),
            (&json!("same"), id(record))
        );
        let shown = self
            .toolcell(&["show", report["invocation_id"].as_str().unwrap(), "--json"])
            .run()
            .exits(0)
            .json();
        assert_eq!(shown["invocation"]["replay_of"], *id(record));
        assert_eq!(
            shown["result"]["structured_content"],
            record["result"]["structured_content"]
        );
        shown
    }
}

fn id(record: &Value) -> &Value {
    &record["invocation"]["invocation_id"]
}

/// The component `chance.wat` with a changed description: one tool, `<namespace>.chance`.
fn chance(namespace: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    wat::parse_str(chance_text(namespace, change)).unwrap()
}

fn chance_text(namespace: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut toolkit = json!({
        "declarations": [{
            "schema_version": "0.2.0",
            "namespace": namespace,
            "name": "chance",
            "description": "Answers random numbers and a clock",
            "lifecycle": "available",
            "tool_kind": "function",
            "input_contract": { "model_input_schema": { "type": "object" }, "strict": false },
        }],
    });
    change(&mut toolkit);
    let text = fs::read_to_string(root().join("tests/guests/wat/chance.wat")).unwrap();
    let (before, rest) = text.split_once("(data (i32.const 1024)").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let described = toolkit.to_string();
    let escaped: String = described
        .bytes()
        .map(|byte| format!("\\{byte:02x}"))
        .collect();
    let length = "(i32.store (i32.const 20) (i32.const ";
    let (head, tail) = after.split_once(length).unwrap();
    let (_, tail) = tail.split_once(')').unwrap();
    format!(
        "{before}(data (i32.const 1024) \"{escaped}\")\n\n{head}{length}{}){tail}",
        described.len()
    )
}

/// Adds a permission profile with these fields to the only tool.
fn permits(toolkit: &mut Value, fields: &Value) {
    let mut profile =
        json!({ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low" });
    profile
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    toolkit["permission_profiles"] = json!([profile]);
    toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
}

#[test]
fn random_numbers_and_clocks_are_those_of_the_recorded_call() {
    let home = Home::new();
    let tool = home.keep("chance.wasm", &chance("replayed", |_| {}));
    let first = home.call(&tool, &json!({}), &[]);
    let second = home.call(&tool, &json!({}), &[]);
    assert_ne!(
        first["result"]["structured_content"],
        second["result"]["structured_content"]
    );
    for (record, other) in [(&first, &second), (&second, &first)] {
        let replay = &record["invocation"]["replay"];
        assert_eq!(
            replay["random_seed"].as_str().unwrap().len(),
            64,
            "{replay}"
        );
        assert_ne!(
            replay["random_seed"],
            other["invocation"]["replay"]["random_seed"]
        );
        assert_eq!(
            (
                &replay["monotonic_clock"]["count"],
                &replay["component_file"]
            ),
            (&json!(1), &json!(tool))
        );
        home.same(record);
    }
    let again = home.same(&first);
    assert_eq!(home.blocked(&again, &[]), ["is_a_replay"]);
    let text = home
        .toolcell(&["replay", id(&first).as_str().unwrap()])
        .run()
        .exits(0)
        .stdout;
    assert!(
        text.starts_with("the output of ") && text.contains(" is the same"),
        "{text}"
    );
    home.toolcell(&["log", "verify"]).run().exits(0);
}

#[test]
fn what_a_tool_sees_of_time_and_of_its_call_comes_back() {
    let home = Home::new();
    let held = home.call(&guest("probe#hold"), &json!({ "ms": 5 }), &[]);
    assert!(
        held["invocation"]["replay"]["wall_clock"]["count"]
            .as_u64()
            .unwrap()
            >= 2,
        "{held}"
    );
    home.same(&held);
    // It answers its own invocation id.
    home.same(&home.call(&guest("probe#invocation"), &json!({}), &[]));
    // The defaults of the contract were added to these arguments.
    home.same(&home.call(&guest("probe#defaults"), &json!({ "query": "a  b" }), &[]));
    let failed = json!({ "class": "timeout", "code": "slow", "message": "too slow" });
    let report = home
        .replay(&home.call(&guest("probe#fail"), &failed, &[]), &[])
        .exits(0)
        .json();
    assert_eq!(report["verdict"], "same");
}

#[test]
fn the_limits_of_artifacts_are_those_of_the_recorded_call() {
    let home = Home::new();
    let files =
        json!({ "files": [{ "bytes": 600, "chunk": 100 }, { "bytes": 600, "chunk": 100 }] });
    let limited = home.call(
        &guest("probe#artifacts_plain"),
        &files,
        &["--max-artifact-bytes=1000"],
    );
    let errors = &limited["result"]["structured_content"]["errors"];
    assert!(
        errors[0].as_str().unwrap().contains("1000 are allowed"),
        "{errors}"
    );
    home.same(&limited);
}

#[test]
fn another_version_of_the_component_may_differ_and_the_place_is_named() {
    let home = Home::new();
    let text = chance_text("versions", |_| {});
    let tool = home.keep("tool.wasm", &wat::parse_str(&text).unwrap());
    let record = home.call(&tool, &json!({}), &[]);
    let letters = text.replacen("(i32.const 97) (i32.and", "(i32.const 98) (i32.and", 1);
    assert_ne!(letters, text);
    let newer = home.keep("newer.wasm", &wat::parse_str(&letters).unwrap());
    let report = home
        .replay(&record, &["--component", &newer])
        .exits(1)
        .json();
    let difference = &report["difference"];
    assert_eq!(
        (&report["verdict"], &difference["part"]),
        (&json!("differs"), &json!("structured_content"))
    );
    assert_eq!(
        (
            &difference["pointer"],
            &difference["line"],
            &difference["byte"]
        ),
        (&json!(""), &json!(1), &json!(1))
    );
    assert_eq!(
        difference["recorded"],
        record["result"]["structured_content"]
    );
    let arguments = [
        "replay",
        id(&record).as_str().unwrap(),
        "--component",
        &newer,
    ];
    let shown = home.toolcell(&arguments).run().exits(1).stdout;
    assert!(
        shown.contains("structured_content, line 1, byte 1") && shown.contains("  recorded: "),
        "{shown}"
    );
    // The place of the recorded component holds another one now, and then none.
    fs::copy(&newer, &tool).unwrap();
    assert_eq!(home.blocked(&record, &[]), ["component_changed"]);
    fs::remove_file(&tool).unwrap();
    assert_eq!(home.blocked(&record, &[]), ["component_missing"]);
    let copy = home.keep("copy.wasm", &wat::parse_str(&text).unwrap());
    home.replay(&record, &["--component", &copy]).exits(0);
    let other = guest("probe#echo");
    let other = other.split_once('#').unwrap().0;
    let wrong = home.replay(&record, &["--component", other]).exits(2);
    assert!(wrong.stderr.contains("versions.chance"), "{}", wrong.stderr);
    home.replay(&record, &["--component", "no-such-file.wasm"])
        .exits(2);
}

#[test]
fn a_call_that_could_use_what_is_not_recorded_has_no_replay() {
    let home = Home::new();
    let (_files, files) = scratch();
    fs::write(files.join("a.txt"), "a").unwrap();
    let folder = files.display().to_string();
    let path = files.join("a.txt").display().to_string();
    let read = home.call(
        &guest("probe#read"),
        &json!({ "path": path }),
        &[&format!("--allow-read={folder}")],
    );
    assert_eq!(read["result"]["status"], "succeeded", "{read}");
    assert_eq!(home.blocked(&read, &[]), ["files_used"]);
    let input = json!({ "path": path, "text": "b" });
    let written = home.call(
        &guest("probe#append"),
        &input,
        &[&format!("--allow-write={folder}")],
    );
    assert_eq!(home.blocked(&written, &[]), ["files_used"]);
    assert_eq!(
        fs::read_to_string(files.join("a.txt")).unwrap(),
        "ab",
        "it ran once"
    );
    let requests = json!({ "access_kinds": ["network"], "network_scope": "any" });
    let tool = home.keep(
        "net.wasm",
        &echoing("replay_net", |toolkit| permits(toolkit, &requests)),
    );
    let sent = home.call(&tool, &json!({}), &["--allow-net=example.com"]);
    assert_eq!(home.blocked(&sent, &[]), ["network_used"]);
    let seen = home.call(
        &guest("probe#env"),
        &json!({ "name": "PATH" }),
        &["--allow-env=PATH"],
    );
    assert!(
        seen["invocation"]["replay"].get("blocked_by").is_none(),
        "it does not ask for the variable: {seen}"
    );
    let asks = json!({ "environment": ["PATH"] });
    let tool = home.keep(
        "env.wasm",
        &echoing("replay_env", |toolkit| permits(toolkit, &asks)),
    );
    let seen = home.call(&tool, &json!({}), &["--allow-env=PATH"]);
    assert_eq!(home.blocked(&seen, &[]), ["environment_used"]);
    let refused = home.call(&guest("probe#nowhere"), &json!({}), &[]);
    assert_eq!(home.blocked(&refused, &[]), ["never_ran"]);
    let spun = home.call(
        &guest("hostile#sleep"),
        &json!({ "ms": 60_000 }),
        &["--timeout=100ms"],
    );
    assert_eq!(home.blocked(&spun, &[]), ["stopped_by_clock"]);
}

#[test]
fn a_clock_that_is_read_too_often_is_not_kept() {
    let home = Home::new();
    let tool = home.keep("flood.wasm", &chance("replay_flood", |_| {}));
    let record = home.call(&tool, &json!({ "often": true }), &[]);
    let clock = &record["invocation"]["replay"]["monotonic_clock"];
    assert_eq!(
        (&clock["exceeded"], &clock["steps"]),
        (&json!(true), &json!(""))
    );
    assert_eq!(home.blocked(&record, &[]), ["clock_readings_exceeded"]);
}

/// Sensitive arguments are not on record, so a seed would serve nothing.
#[test]
fn no_seed_is_kept_of_a_call_that_cannot_be_replayed() {
    let home = Home::new();
    let component = chance("replay_shy", hiding_a_token);
    let tool = home.keep("shy.wasm", &component);
    let record = home.call(&tool, &json!({ "token": "c4n4ry-7f3a99" }), &[]);
    assert_eq!(record["result"]["status"], "succeeded", "{record}");
    assert_eq!(
        record["invocation"]["replay"],
        json!({ "blocked_by": ["input_redacted"] })
    );
    assert_eq!(home.blocked(&record, &[]), ["input_redacted"]);
}

#[test]
fn a_call_whose_output_was_not_kept_has_no_replay_and_says_why() {
    let home = Home::new();
    let component = chance("replay_passing", |toolkit| {
        toolkit["declarations"][0]["output_contract"] =
            json!({ "persistence_policy_ref": "never_persist" });
    });
    let tool = home.keep("passing.wasm", &component);
    let record = home.call(&tool, &json!({}), &[]);
    assert!(
        record["result"]["structured_content"].is_string(),
        "the caller has it: {record}"
    );
    assert_eq!(
        record["invocation"]["replay"],
        json!({ "blocked_by": ["output_not_kept"] }),
        "and no seed is kept"
    );
    assert_eq!(home.blocked(&record, &[]), ["output_not_kept"]);
    // The same if the operator decides that.
    home.configure("[results]\npersistence = \"never_persist\"\n");
    let tool = home.keep("chance.wasm", &chance("replay_unkept", |_| {}));
    let record = home.call(&tool, &json!({}), &[]);
    assert_eq!(home.blocked(&record, &[]), ["output_not_kept"]);
    let ran = home
        .toolcell(&["replay", id(&record).as_str().unwrap()])
        .run()
        .exits(3);
    assert!(
        ran.stderr.contains("was not kept") && ran.stderr.contains("[output_not_kept]"),
        "{}",
        ran.stderr
    );
    // Another setting does not bring the output back.
    home.configure("");
    assert_eq!(home.blocked(&record, &[]), ["output_not_kept"]);
    home.same(&home.call(&tool, &json!({}), &[]));
}

#[test]
fn nothing_is_recorded_for_replays_if_that_is_turned_off() {
    let home = Home::new();
    let tool = home.keep("chance.wasm", &chance("replay_off", |_| {}));
    home.configure("[log]\nreplay = \"off\"\n");
    let record = home.call(&tool, &json!({}), &[]);
    assert!(record["invocation"].get("replay").is_none(), "{record}");
    assert_eq!(home.blocked(&record, &[]), ["not_recorded"]);
    home.configure("[log]\nreplay = \"on\"\n");
    home.same(&home.call(&tool, &json!({}), &[]));
    home.configure("[log]\nreplay = \"often\"\n");
    let wrong = home.toolcell(&["calls"]).run();
    assert!(
        wrong.code != Some(0) && wrong.stderr.contains("line 2"),
        "{wrong:?}"
    );
}

#[test]
fn a_replay_gets_no_grants_whatever_the_files_give() {
    let home = Home::new();
    let tool = home.keep("tool.wasm", &echoing("replay_grants", |_| {}));
    let record = home.call(&tool, &json!({ "a": 1 }), &[]);
    home.same(&record);
    let reads = json!({ "access_kinds": ["file_read"] });
    let newer = home.keep(
        "newer.wasm",
        &echoing("replay_grants", |toolkit| permits(toolkit, &reads)),
    );
    let (_files, files) = scratch();
    home.configure(&format!(
        "[grants]\nread = [{:?}]\n",
        files.display().to_string()
    ));
    // The newer one would have the folder in a call.
    assert_eq!(
        home.call(&newer, &json!({ "a": 1 }), &[])["result"]["status"],
        "succeeded"
    );
    assert_eq!(
        home.blocked(&record, &["--component", &newer]),
        ["refused_now"]
    );
    // A rule applies as to any call.
    home.configure("[[rule]]\nbehavior = \"deny\"\ntool = \"replay_grants.*\"\n");
    assert_eq!(home.blocked(&record, &[]), ["refused_now"]);
}

#[test]
fn a_damaged_record_is_not_run() {
    let home = Home::new();
    let record = home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    home.replay(&record, &[]).exits(0);
    let [file] = home.segments().try_into().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes
        .windows(5)
        .position(|found| found == b"\"one\"")
        .unwrap()
        + 1;
    bytes[at] = b'O';
    fs::write(&file, bytes).unwrap();
    let report = home.replay(&record, &[]).exits(3).json();
    assert_eq!(report["reasons"][0]["code"], "log_damaged", "{report}");
    assert!(
        report["reasons"][0]["message"]
            .as_str()
            .unwrap()
            .contains("line"),
        "{report}"
    );
    let said = home
        .toolcell(&["replay", id(&record).as_str().unwrap()])
        .run()
        .exits(3);
    assert!(
        said.stdout.is_empty() && said.stderr.contains("[log_damaged]"),
        "{said:?}"
    );
    let unknown = home.toolcell(&["replay", "NOSUCHCALL"]).run().exits(2);
    assert!(
        unknown.stderr.contains("toolcell calls"),
        "{}",
        unknown.stderr
    );
}
