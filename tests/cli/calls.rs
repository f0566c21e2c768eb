//! The journal of all calls: what `toolcell calls`, `show` and `log verify` know after calls, kills and damage.
//!
//! Promise: What happened is on record.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{example, guest};
use crate::pipeline::doubles::{echoing, hiding_a_token};
use crate::support::{Home, Server, check_record, scratch};

impl Home {
    #[track_caller]
    fn verify(&self, sound: bool) -> String {
        let ran = self
            .toolcell(&["log", "verify"])
            .run()
            .exits(if sound { 0 } else { 1 });
        ran.stdout
    }
}

fn id(record: &Value) -> String {
    record["invocation"]["invocation_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn every_call_can_be_listed_and_shown_after_its_end() {
    let home = Home::new();
    assert!(
        home.toolcell(&["show"])
            .run()
            .exits(2)
            .stderr
            .contains("no call is on record")
    );
    assert_eq!(
        home.toolcell(&["calls"]).run().exits(0).stdout,
        "no calls\n"
    );
    let first = home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    let second = home.call(&guest("probe#nowhere"), &json!({}), &[]);
    let calls = home.calls(&[]);
    assert_eq!(
        calls
            .iter()
            .map(|call| call["invocation_id"].as_str().unwrap())
            .collect::<Vec<_>>(),
        [id(&second), id(&first)]
    );
    assert_eq!(
        (&calls[1]["status"], &calls[0]["error_class"]),
        (&json!("succeeded"), &json!("unknown_tool"))
    );
    assert_eq!(home.calls(&["--status=succeeded"]).len(), 1);
    assert_eq!(home.calls(&["--tool=probe.*"]).len(), 1);
    assert_eq!(home.calls(&["--since=1m"]).len(), 2);
    assert_eq!(home.calls(&["--since=2999-01-01T00:00:00Z"]).len(), 0);
    assert_eq!(home.calls(&["--limit=1"]).len(), 1);
    let mut expected = first.clone();
    expected.as_object_mut().unwrap().remove("declaration");
    let shown = home
        .toolcell(&["show", &id(&first), "--json"])
        .run()
        .exits(0)
        .json();
    check_record(&shown);
    assert_eq!(shown, expected);
    let text = home
        .toolcell(&["show", &id(&first)[20..]])
        .run()
        .exits(0)
        .stdout;
    for part in [
        "succeeded after ",
        "probe.echo",
        " ms  requested probe.echo\n",
        " ms  started: at most ",
        "one",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("blanks]") && !text.contains("{\"decision_id"),
        "{text}"
    );
    // Without an id, it is the call that began last; the name of a component stands for all of its tools.
    assert!(
        home.toolcell(&["show"])
            .run()
            .exits(0)
            .stdout
            .contains(&id(&second))
    );
    assert_eq!(home.calls(&["--tool=probe"]).len(), 1);
    assert_eq!(home.calls(&["--tool=prob"]).len(), 0);
    let unknown = home.toolcell(&["show", "NOSUCHCALL"]).run().exits(2);
    assert!(
        unknown.stderr.contains("toolcell calls"),
        "{}",
        unknown.stderr
    );
    home.toolcell(&["calls", "--status=odd"]).run().exits(2);
    assert!(home.verify(true).contains("as they were written"));
    home.toolcell(&["log", "verify", "--json"])
        .run()
        .exits(0)
        .json();
}

#[test]
fn an_end_that_fits_several_ids_is_a_bad_request_that_lists_them() {
    let home = Home::new();
    let mut last = String::new();
    let mut ids = Vec::new();
    // An id ends in one of 32 letters.
    while ids
        .iter()
        .filter(|id: &&String| id.ends_with(&last))
        .count()
        < 2
    {
        ids.push(id(&home.call(&guest("probe#nowhere"), &json!({}), &[])));
        last = ids.last().unwrap()[25..].to_owned();
    }
    let several = home.toolcell(&["show", &last]).run().exits(2);
    assert!(
        several.stderr.contains("several calls") && several.stderr.contains(ids.last().unwrap()),
        "{}",
        several.stderr
    );
}

#[test]
fn a_page_says_what_a_call_wrote_and_requested() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    let file = folder.join("a.txt");
    let allowed = format!("--allow-write={}", folder.display());
    let record = home.call(
        &guest("probe#append"),
        &json!({ "path": file, "text": "x" }),
        &[&allowed],
    );
    let page = home.toolcell(&["show", &id(&record)]).run().exits(0).stdout;
    let written = format!("written {}", file.display());
    assert_eq!(
        page.lines().filter(|line| *line == written).count(),
        1,
        "{page}"
    );
    let server = Server::hello();
    let allowed = format!("--allow-net={}", server.url(""));
    home.call(
        &example("fetch"),
        &json!({ "url": server.url("/a?b=c") }),
        &[&allowed],
    );
    let page = home.toolcell(&["show"]).run().exits(0).stdout;
    let requested = format!("requested GET {}, status 200", server.url("/a"));
    assert_eq!(
        page.lines().filter(|line| *line == requested).count(),
        1,
        "{page}"
    );
}

/// A call waits for the log in proportion to its bytes.
#[test]
fn no_line_of_a_call_repeats_what_another_one_has() {
    let home = Home::new();
    let record = home.call(&guest("probe#echo"), &json!({ "text": "once" }), &[]);
    let [file] = home.segments().try_into().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let [_, start, end] = lines.as_slice() else {
        panic!("{text}")
    };
    assert!(start.len() <= 3_600, "{} bytes: {start}", start.len());
    assert!(end.len() <= 4_500, "{} bytes: {end}", end.len());
    for event in record["events"].as_array().unwrap() {
        let id = event["event_id"].as_str().unwrap();
        assert_eq!(text.matches(id).count(), 1, "{event}");
    }
    let mut expected = record.clone();
    expected.as_object_mut().unwrap().remove("declaration");
    // `Value`s are equal in whatever order their fields are, texts are not.
    let shown = home
        .toolcell(&["show", &id(&record), "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(
        (shown["events"].to_string(), &shown),
        (record["events"].to_string(), &expected)
    );
}

#[test]
fn large_arguments_are_in_the_journal_once_and_every_reader_has_them() {
    let home = Home::new();
    // The answer repeats it, and is too large for the record.
    let text = "large ".repeat(20_000) + "and its end";
    let record = home.call(&guest("probe#echo"), &json!({ "text": text }), &[]);
    let [file] = home.segments().try_into().unwrap();
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.matches("and its end").count(), 1);
    assert_eq!(record["invocation"]["call_input"], json!({ "text": text }));
    let evidence = record["result"]["evidence_refs"][0].as_str().unwrap();
    let shown = home
        .toolcell(&["show", evidence, "--json"])
        .run()
        .exits(0)
        .json();
    check_record(&shown);
    for input in [
        "model_input",
        "observable_input",
        "permission_input",
        "call_input",
    ] {
        assert_eq!(
            shown["invocation"][input],
            json!({ "text": text }),
            "{input}"
        );
    }
    home.verify(true);
}

#[test]
fn a_call_whose_process_is_killed_ends_as_canceled_and_runs_once() {
    let home = Home::new();
    let mut child = home
        .toolcell(&["call", &guest("hostile#spin"), "{}", "--timeout=60s"])
        .spawn();
    let begun = Instant::now();
    while home_running(&home) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never ran");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let calls = home.calls(&[]);
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (&calls[0]["status"], &calls[0]["error_code"]),
        (&json!("canceled"), &json!("runtime_shutdown"))
    );
    let shown = home
        .toolcell(&[
            "show",
            calls[0]["invocation_id"].as_str().unwrap(),
            "--json",
        ])
        .run()
        .exits(0)
        .json();
    assert_eq!(shown["result"]["error"]["error_class"], "canceled");
    check_record(&shown);
    // What was decided was written down with the start.
    let invocation = &shown["invocation"];
    let decisions = shown["decisions"].as_array().unwrap();
    assert_eq!(
        invocation["permission_decision_refs"],
        json!([decisions[0]["decision_id"]])
    );
    let policies = json!(["permission_profile:hostile.spin.permissions"]);
    assert_eq!(
        (&decisions[0]["policy_refs"], &invocation["policy_refs"]),
        (&policies, &policies)
    );
    assert_eq!(shown["result"]["policy_refs"], policies);
    let events = shown["events"].as_array().unwrap().iter();
    let types: Vec<&str> = events
        .map(|event| event["event_type"].as_str().unwrap())
        .collect();
    let [first, .., started, last] = types.as_slice() else {
        panic!("{types:?}")
    };
    assert_eq!(
        [*first, *started, *last],
        [
            "tool.invocation.planned",
            "tool.invocation.started",
            "tool.invocation.canceled"
        ]
    );
    assert!(types.contains(&"tool.permission.decided"), "{types:?}");
    home.verify(true);
}

fn home_running(home: &Home) -> usize {
    home.calls(&["--status=running"]).len()
}

/// Changes each byte of the journal's only file, one after the other, in steps.
#[test]
fn one_changed_byte_anywhere_is_found_and_its_call_is_named() {
    let home = Home::new();
    let record = home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    home.call(&guest("probe#echo"), &json!({ "text": "two" }), &[]);
    let [file] = home.segments().try_into().unwrap();
    let sound = std::fs::read(&file).unwrap();
    let step = sound.len() / 40;
    for at in (0..sound.len()).step_by(step).chain([sound.len() - 1]) {
        let mut changed = sound.clone();
        changed[at] ^= 1;
        std::fs::write(&file, &changed).unwrap();
        home.verify(false);
    }
    let at = sound
        .windows(5)
        .position(|bytes| bytes == b"\"one\"")
        .unwrap()
        + 1;
    let mut changed = sound.clone();
    changed[at] = b'O';
    std::fs::write(&file, &changed).unwrap();
    assert!(home.verify(false).contains(&id(&record)));
    let lines: Vec<&[u8]> = sound.split_inclusive(|byte| *byte == b'\n').collect();
    for without in 0..lines.len() {
        let rest: Vec<&[u8]> = lines
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != without)
            .map(|(_, line)| *line)
            .collect();
        std::fs::write(&file, rest.concat()).unwrap();
        home.verify(false);
    }
    let mut swapped = lines.clone();
    swapped.swap(1, 3);
    std::fs::write(&file, swapped.concat()).unwrap();
    home.verify(false);
    std::fs::write(&file, &sound).unwrap();
    home.verify(true);
}

#[test]
fn the_removal_of_a_journal_file_is_found_also_if_it_was_the_last_one() {
    let home = Home::new();
    let record = home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    assert!(
        home.toolcell(&["calls"])
            .run()
            .exits(0)
            .stdout
            .contains("probe.echo"),
        "{record}"
    );
    let [file] = home.segments().try_into().unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(home.verify(false).contains("the file was removed"));
}

/// Whoever makes the log look like one of another version must not have its owner remove it.
#[test]
fn a_changed_version_is_damage_and_no_reason_to_remove_the_journal() {
    let home = Home::new();
    home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    let [file] = home.segments().try_into().unwrap();
    let sound = std::fs::read_to_string(&file).unwrap();
    for (from, to) in [
        ("\"format\":", "\"format\":0."),
        ("\"format\":6", "\"format\":4"),
    ] {
        let changed = sound.replacen(from, to, 1);
        assert_ne!(changed, sound);
        std::fs::write(&file, changed).unwrap();
        for is_indexed in [true, false] {
            let said = home.verify(false);
            assert!(said.contains(", line 1: it was changed"), "{said}");
            assert!(!said.contains("rm -r"), "{said}");
            if is_indexed {
                std::fs::remove_file(home.path().join("journal/journal.db")).unwrap();
            }
        }
    }
}

#[test]
fn a_file_with_any_number_in_its_name_does_not_keep_the_check_from_ending() {
    let home = Home::new();
    home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    let [file] = home.segments().try_into().unwrap();
    std::fs::write(file.with_file_name("18446744073709551615.log"), "").unwrap();
    assert!(home.verify(false).contains("the file was removed"));
}

#[test]
fn no_sensitive_argument_reaches_the_journal() {
    let home = Home::new();
    let component = echoing("shy", hiding_a_token);
    let tool = home.keep("shy.wasm", &component);
    let canary = "c4n4ry-7f3a99";
    let input = json!({ "token": canary, "other": "plain" }).to_string();
    home.toolcell(&["call", &tool, &input, "--print-record"])
        .run()
        .exits(0);
    let [file] = home.segments().try_into().unwrap();
    let written = std::fs::read_to_string(&file).unwrap();
    // The schema names `token` alone: what else was sent may be a misspelt one.
    assert!(
        !written.contains("plain") && !written.contains(canary),
        "{written}"
    );
}

#[test]
fn only_failures_are_kept_if_that_is_all_that_is_wanted() {
    let home = Home::new();
    home.configure("[log]\nkeep = \"failures\"\ndurability = \"full\"\n");
    home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    assert_eq!(home.calls(&[]), [] as [Value; 0]);
    let failed = home.call(&guest("probe#nowhere"), &json!({}), &[]);
    let calls = home.calls(&[]);
    assert_eq!(
        (calls.len(), &calls[0]["invocation_id"]),
        (1, &json!(id(&failed)))
    );
    home.verify(true);
    home.configure("[log]\nkeep = \"some\"\n");
    let wrong = home.toolcell(&["calls"]).run();
    assert!(
        wrong.code != Some(0) && wrong.stderr.contains("line 2"),
        "{wrong:?}"
    );
}

/// A folder that cannot be written is a clear refusal, and the tool does not run.
#[test]
fn without_a_journal_nothing_runs_unless_it_is_turned_off() {
    let home = Home::new();
    std::fs::create_dir_all(home.path().join("journal")).unwrap();
    std::fs::write(home.path().join("journal/calls"), "a file").unwrap();
    let refused = home
        .toolcell(&["call", &guest("probe#echo"), r#"{"text":"x"}"#, "--json"])
        .run()
        .exits(1)
        .json();
    assert_eq!(refused["error"]["error_code"], "journal_unavailable");
    // Its record says that it is not kept.
    let record = home.call(&guest("probe#echo"), &json!({ "text": "x" }), &[]);
    assert!(
        record["invocation"]["journal_error"]
            .as_str()
            .unwrap()
            .contains("journal/calls"),
        "{record}"
    );
    home.configure("[log]\nkeep = \"none\"\n");
    home.toolcell(&["call", &guest("probe#echo"), r#"{"text":"x"}"#])
        .run()
        .exits(0);
}

#[test]
fn the_progress_of_a_call_is_read_on_from_a_number() {
    let home = Home::new();
    let record = home.call(&guest("probe#progress"), &json!({ "count": 3 }), &[]);
    let read = |from: &str| -> Vec<Value> {
        let ran = home
            .toolcell(&["show", &id(&record), "--progress-from", from])
            .run()
            .exits(0);
        ran.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let all = read("0");
    assert_eq!(json!(all), record["progress"]);
    assert_eq!(all.last().unwrap()["status"], "completed");
    assert_eq!(read("3"), all[2..]);
    assert!(read("9").is_empty());
}
