//! `toolcell batch`: what runs at once, what waits, and what the end of one call means for the others.
//!
//! Promise: Calls of a batch keep apart.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolcell_spec::Timestamp;

use super::guest;
use crate::pipeline::doubles::echoing;
use crate::support::{Ran, Toolcell, check_printed, scratch};

/// Runs calls with these options, and with so little memory for each that any machine holds eight of them.
pub(super) fn batch(calls: &[Value], options: &[&str]) -> Toolcell {
    let text: String = calls.iter().map(|call| format!("{call}\n")).collect();
    let small = [
        "batch",
        "-",
        "--memory=16MiB",
        "--max-output=1MiB",
        "--no-config",
    ];
    Toolcell::new(small.iter().chain(options)).stdin(&text)
}

/// One line of a batch.
pub(super) fn call(id: &str, tool: &str, input: Value) -> Value {
    json!({ "id": id, "tool": guest(tool), "input": input })
}

/// One line, which depends on others.
fn after(needs: &[&str], call: Value) -> Value {
    let mut call = call;
    call["depends_on"] = json!(needs);
    call
}

/// The records on standard output, in their order; each is validated.
#[track_caller]
pub(super) fn printed(ran: &Ran) -> Vec<Value> {
    let read = |line: &str| {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        check_printed(&value);
        value
    };
    ran.stdout.lines().map(read).collect()
}

fn ids(records: &[Value]) -> Vec<&str> {
    records
        .iter()
        .map(|record| record["invocation"]["native_call_id"].as_str().unwrap())
        .collect()
}

/// When the guest of a record entered and left, by its own clock.
#[track_caller]
fn held(record: &Value) -> (u64, u64) {
    let said = &record["result"]["structured_content"];
    let time = |name: &str| {
        said[name]
            .as_u64()
            .unwrap_or_else(|| panic!("it did not hold: {}", record["result"]))
    };
    (time("entered_ns"), time("left_ns"))
}

pub(super) fn overlap(one: &Value, other: &Value) -> bool {
    let one = held(one);
    let other = held(other);
    one.0 < other.1 && other.0 < one.1
}

fn error(record: &Value) -> (&str, &str) {
    let error = &record["result"]["error"];
    (
        error["error_class"].as_str().unwrap_or_default(),
        error["error_code"].as_str().unwrap_or_default(),
    )
}

fn events(record: &Value) -> Vec<&str> {
    record["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect()
}

/// Asserts that the call was canceled for `reason` before its tool was entered.
#[track_caller]
fn never_started(record: &Value, reason: &str) {
    assert_eq!(record["invocation"]["status"], "canceled", "{record:#}");
    assert!(
        record["invocation"].get("started_at").is_none(),
        "{record:#}"
    );
    let events = record["events"].as_array().unwrap();
    let requested = events
        .iter()
        .find(|event| event["event_type"] == "tool.invocation.cancel_requested")
        .unwrap();
    assert_eq!(requested["data"]["abort_reason"], reason);
    assert_eq!(
        record["declaration"]["tool_id"], record["invocation"]["tool_id"],
        "the tool is known"
    );
}

/// The place of the first line of standard error that begins like this.
#[track_caller]
fn place(ran: &Ran, start: &str) -> usize {
    let found = ran.stderr.lines().position(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no line begins with {start}: {}", ran.stderr))
}

#[test]
fn calls_that_cannot_disturb_each_other_run_at_once() {
    let calls: Vec<Value> = ["a", "b", "c", "d", "e"]
        .iter()
        .map(|id| call(id, "probe#hold", json!({ "ms": 1_000 })))
        .collect();
    let ran = batch(&calls, &["--max-parallel=5", "--print-record"])
        .run()
        .exits(0);
    let records = printed(&ran);
    assert_eq!(ids(&records), ["a", "b", "c", "d", "e"]);
    let last_entered = records.iter().map(|record| held(record).0).max();
    let first_left = records.iter().map(|record| held(record).1).min();
    assert!(
        last_entered < first_left,
        "they took turns: {:?}",
        records.iter().map(held).collect::<Vec<_>>()
    );
    for (order, record) in records.iter().enumerate() {
        let yielded = record["events"].as_array().unwrap();
        let yielded = yielded
            .iter()
            .find(|event| event["event_type"] == "tool.invocation.yielded")
            .unwrap();
        assert_eq!(yielded["data"]["order"], order);
        let passed = record["invocation"]["status_transitions"]
            .as_array()
            .unwrap();
        let passed: Vec<&str> = passed
            .iter()
            .map(|step| step["to"].as_str().unwrap())
            .collect();
        assert!(
            passed.ends_with(&["running", "yielded", "succeeded"]),
            "{passed:?}"
        );
    }
}

#[test]
fn the_records_of_calls_that_run_at_once_overlap() {
    let calls: Vec<Value> = (0..5)
        .map(|n| call(&n.to_string(), "probe#hold", json!({ "ms": 300 })))
        .collect();
    let records = printed(
        &batch(&calls, &["--max-parallel=5", "--print-record"])
            .run()
            .exits(0),
    );
    let time = |record: &Value, name: &str| -> Timestamp {
        serde_json::from_value(record["invocation"][name].clone()).unwrap()
    };
    let last_started = records
        .iter()
        .map(|record| time(record, "started_at"))
        .max();
    let first_ended = records.iter().map(|record| time(record, "ended_at")).min();
    assert!(
        last_started < first_ended,
        "{last_started:?} {first_ended:?}"
    );
}

#[test]
fn no_more_calls_run_than_are_wanted_and_one_at_a_time_if_serial() {
    let calls: Vec<Value> = (0..6)
        .map(|n| call(&n.to_string(), "probe#hold", json!({ "ms": 200 })))
        .collect();
    for (option, most) in [("--max-parallel=2", 2), ("--ordering=serial", 1)] {
        let records = printed(&batch(&calls, &[option, "--print-record"]).run().exits(0));
        let at_once = |record: &Value| {
            let (entered, _) = held(record);
            records
                .iter()
                .filter(|other| held(other).0 <= entered && entered < held(other).1)
                .count()
        };
        let counts: Vec<usize> = records.iter().map(at_once).collect();
        assert!(
            counts.iter().all(|count| *count <= most),
            "{option}: {counts:?}"
        );
        assert!(most == 1 || counts.contains(&most), "{option}: {counts:?}");
    }
}

#[test]
fn two_writers_to_one_folder_never_overlap_and_keep_their_order_and_those_elsewhere_run_beside_them()
 {
    let (_guard, root) = scratch();
    let folder = |name: &str| {
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    };
    let (one, inner, other) = (folder("one"), folder("one/inner"), folder("other"));
    let writing =
        |id: &str, path| call(id, "probe#hold_writing", json!({ "path": path, "ms": 700 }));
    let calls = [
        writing("first", &one),
        writing("second", &one),
        writing("inside", &inner),
        writing("beside", &other),
    ];
    let grant = format!("--allow-write={}", root.display());
    let records = printed(&batch(&calls, &[&grant, "--print-record"]).run().exits(0));
    let [first, second, inside, beside] = records.as_slice() else {
        panic!("{records:#?}")
    };
    for (earlier, later) in [(first, second), (second, inside)] {
        assert!(
            held(earlier).1 <= held(later).0,
            "{:?} {:?}",
            held(earlier),
            held(later)
        );
        assert!(
            events(later).contains(&"tool.invocation.queued"),
            "{:?}",
            events(later)
        );
    }
    assert!(
        overlap(first, beside),
        "{:?} {:?}",
        held(first),
        held(beside)
    );
}

#[test]
fn a_tool_that_does_not_say_that_it_may_runs_beside_no_other() {
    let calls = [
        call("a", "probe#hold", json!({ "ms": 300 })),
        call("alone", "probe#hold_unstated", json!({ "ms": 300 })),
        call("b", "probe#hold", json!({ "ms": 300 })),
    ];
    let records = printed(&batch(&calls, &["--print-record"]).run().exits(0));
    let [a, alone, b] = records.as_slice() else {
        panic!("{records:#?}")
    };
    assert!(
        !overlap(a, alone) && !overlap(alone, b),
        "{:?} {:?} {:?}",
        held(a),
        held(alone),
        held(b)
    );
}

#[test]
fn results_come_in_the_order_of_the_calls_and_progress_as_it_happens() {
    let calls = [
        call("slow", "probe#hold", json!({ "ms": 1_500 })),
        call(
            "fast",
            "probe#progress",
            json!({ "count": 2, "interval_ms": 1 }),
        ),
    ];
    let first = |ran: &Ran| printed(ran).first().map(|line| line["id"].clone()).unwrap();
    let ran = batch(&calls, &["--json"]).run().exits(0);
    assert_eq!(first(&ran), "slow");
    assert!(
        place(&ran, "fast: 50% step 1 of 2") < place(&ran, "slow: succeeded"),
        "{}",
        ran.stderr
    );
    let ran = batch(&calls, &["--json", "--output-order=all_ordered"])
        .run()
        .exits(0);
    assert_eq!(first(&ran), "slow");
    assert!(
        place(&ran, "slow: succeeded") < place(&ran, "fast: "),
        "{}",
        ran.stderr
    );
    let ran = batch(&calls, &["--json", "--output-order=unordered_streaming"])
        .run()
        .exits(0);
    assert_eq!(first(&ran), "fast");
    assert_eq!(printed(&ran).len(), 2);
}

/// A fails after a while, B depends on A, C on nothing, D on B.
fn family(siblings: &str, of_c: Value) -> (Ran, Vec<Value>) {
    let calls = [
        call("a", "probe#timeboxed", json!({ "ms": 60_000 })),
        after(
            &["a"],
            call(
                "b",
                "probe#sensitive",
                json!({ "user": "ada", "token": "zz-hidden-8d1" }),
            ),
        ),
        of_c,
        after(&["b"], call("d", "probe#counter", json!({}))),
    ];
    let ran = batch(
        &calls,
        &[&format!("--on-failure={siblings}"), "--print-record"],
    )
    .run()
    .exits(4);
    let records = printed(&ran);
    assert_eq!(ids(&records), ["a", "b", "c", "d"]);
    assert_eq!(error(&records[0]).0, "timeout");
    assert!(
        !ran.stdout.contains("zz-hidden-8d1"),
        "a call that does not start keeps its secrets, too"
    );
    (ran, records)
}

#[test]
fn what_depends_on_a_failure_does_not_start() {
    let (_, records) = family(
        "cancel_dependent",
        call("c", "probe#hold", json!({ "ms": 600 })),
    );
    for at in [1, 3] {
        never_started(&records[at], "sibling_error");
        let result = &records[at]["result"];
        assert_eq!(
            (error(&records[at]), &result["status"]),
            (
                ("sibling_canceled", "sibling_canceled"),
                &json!("synthetic_error")
            )
        );
        assert_eq!(
            result["error"]["message"],
            "the call did not start, because the call \"a\" failed"
        );
        assert_eq!(result["error"]["retry"]["sibling_caused"], true);
    }
    assert_eq!(records[2]["invocation"]["status"], "succeeded");
}

#[test]
fn a_failure_cancels_all_siblings_where_that_is_wanted() {
    let (_, records) = family(
        "cancel_siblings",
        call("c", "cancellable#cooperative", json!({})),
    );
    let running = &records[2];
    assert_eq!(error(running), ("sibling_canceled", "sibling_canceled"));
    assert_eq!(running["result"]["status"], "synthetic_error");
    assert_eq!(
        running["result"]["structured_content"]["reason"], "sibling_error",
        "it was canceled in flight"
    );
    [1, 3]
        .iter()
        .for_each(|at| never_started(&records[*at], "sibling_error"));
}

#[test]
fn a_failure_is_ignored_where_that_is_wanted() {
    let (_, records) = family("ignore", call("c", "probe#counter", json!({})));
    assert!(
        records[1..]
            .iter()
            .all(|record| record["invocation"]["status"] == "succeeded"),
        "{records:#?}"
    );
}

#[test]
fn a_call_starts_after_those_that_it_depends_on_wherever_they_are() {
    let hold = |id: &str| call(id, "probe#hold", json!({ "ms": 100 }));
    let calls = [
        after(&["b", "c"], hold("a")),
        hold("b"),
        after(&["b"], hold("c")),
    ];
    let records = printed(&batch(&calls, &["--print-record"]).run().exits(0));
    let [a, b, c] = records.as_slice() else {
        panic!("{records:#?}")
    };
    assert!(
        held(b).1 <= held(c).0 && held(c).1 <= held(a).0,
        "{:?} {:?} {:?}",
        held(a),
        held(b),
        held(c)
    );
}

/// Sends `signal` once the call `a` runs, and returns what was printed.
fn interrupted(mut child: Child, signal: Signal) -> Ran {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.ends_with("a: started\n") {
        assert_ne!(
            stderr.read_line(&mut said).unwrap(),
            0,
            "a did not start: {said}"
        );
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let rest = std::thread::spawn(move || {
        stderr.read_to_string(&mut said).unwrap();
        said
    });
    let ran = Ran::from(child.wait_with_output().unwrap());
    Ran {
        stderr: rest.join().unwrap(),
        ..ran
    }
}

#[test]
fn an_interrupt_cancels_what_runs_or_waits_for_it_and_starts_nothing_more() {
    let calls = |ms: u64| {
        let next = after(&["a"], call("b", "probe#counter", json!({})));
        [call("a", "probe#hold", json!({ "ms": ms })), next]
    };
    let canceled = interrupted(
        batch(&calls(60_000), &["--on-interrupt=cancel", "--print-record"]).spawn(),
        Signal::INT,
    )
    .exits(5);
    let records = printed(&canceled);
    assert_eq!(
        records.iter().map(error).collect::<Vec<_>>(),
        [("canceled", "canceled"); 2]
    );
    never_started(&records[1], "user_interruption");

    let blocked = interrupted(
        batch(&calls(1_500), &["--print-record"]).spawn(),
        Signal::INT,
    )
    .exits(5);
    let records = printed(&blocked);
    assert_eq!(records[0]["invocation"]["status"], "succeeded");
    never_started(&records[1], "user_interruption");
    assert!(
        blocked
            .stderr
            .contains("the calls that run go on to their end"),
        "{}",
        blocked.stderr
    );

    let ended = interrupted(
        batch(&calls(60_000), &["--print-record"]).spawn(),
        Signal::TERM,
    )
    .exits(5);
    let records = printed(&ended);
    assert_eq!(
        records[0]["result"]["error"]["message"],
        "toolcell is shutting down"
    );
    never_started(&records[1], "runtime_shutdown");
}

#[test]
fn refused_calls_have_results_at_their_places_and_the_first_error_is_the_exit_code() {
    let refused = || call("refused", "probe#read", json!({ "path": "/etc/passwd" }));
    let unknown = || json!({ "id": "unknown", "tool": "no/such/tool.wasm" });
    let good = || call("good", "probe#counter", json!({}));
    for (calls, code) in [
        ([good(), refused(), unknown()], 3),
        ([unknown(), good(), refused()], 2),
    ] {
        let records = printed(&batch(&calls, &["--print-record"]).run().exits(code));
        let wanted: Vec<&str> = calls
            .iter()
            .map(|call| call["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids(&records), wanted);
        for (order, record) in records.iter().enumerate() {
            let events = record["events"].as_array().unwrap();
            let is_yielded = |event: &&Value| event["event_type"] == "tool.invocation.yielded";
            let yielded = events.iter().find(is_yielded).unwrap();
            assert_eq!(yielded["data"]["order"], order);
            let expected = match record["invocation"]["native_call_id"].as_str().unwrap() {
                "refused" => "permission_denied",
                "unknown" => "unknown_tool",
                _ => "",
            };
            assert_eq!(error(record).0, expected, "{record:#}");
        }
    }
    assert!(batch(&[], &["--json"]).run().exits(0).stdout.is_empty());
}

#[test]
fn nothing_runs_if_a_line_is_at_fault() {
    let (_guard, folder) = scratch();
    let file = folder.join("written");
    let grant = format!("--allow-write={}", folder.display());
    let append =
        |id: &str| call(id, "probe#append", json!({ "path": file, "text": "x" })).to_string();
    for (line, why) in [
        ("{\"id\": \"b\"".to_owned(), "EOF while parsing"),
        (append("a"), "two calls have the id \"a\""),
        (
            after(&["z"], call("b", "probe#counter", json!({}))).to_string(),
            "\"z\", which is not a call of this batch",
        ),
        (
            after(&["b"], call("b", "probe#counter", json!({}))).to_string(),
            "none could start: \"b\" -> \"b\"",
        ),
    ] {
        let text = format!("{}\n{line}\n", append("a"));
        let batched = Toolcell::new(["batch", "-", &grant, "--json"])
            .stdin(&text)
            .run()
            .exits(2);
        assert!(batched.stdout.is_empty() && !file.exists(), "{batched:?}");
        assert!(
            batched
                .stderr
                .starts_with("error: standard input: line 2: "),
            "{}",
            batched.stderr
        );
        assert!(batched.stderr.contains(why), "{}", batched.stderr);
    }
    let missing = Toolcell::new(["batch", "no/such/file"]).run().exits(2);
    assert!(
        missing.stderr.contains("cannot open no/such/file"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_line_names_a_tool_that_an_option_offers() {
    let named = |tool: &str| json!({ "id": tool, "tool": tool });
    let offer = format!("--with={}", guest("probe#counter"));
    let ran = batch(
        &[named("counter"), named("probe.counter")],
        &[&offer, "--json"],
    )
    .run()
    .exits(0);
    assert_eq!(
        printed(&ran)[0]["result"]["structured_content"],
        json!({ "count": 1 })
    );
    let ran = batch(&[named("counter"), named("echo")], &[&offer, "--json"])
        .run()
        .exits(2);
    let message = printed(&ran)[1]["result"]["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.ends_with("the tools of --with are: probe.counter"),
        "{message}"
    );
    let ran = batch(&[named("counter")], &["--with=no/such/tool.wasm"])
        .run()
        .exits(2);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("no/such/tool.wasm"),
        "{ran:?}"
    );
}

#[test]
fn people_see_which_call_says_what() {
    let calls = [
        call("a\u{1b}", "probe#summary", json!({})),
        call("b", "probe#partial", json!({})),
    ];
    let ran = batch(&calls, &[]).run().exits(1);
    assert_eq!(ran.stdout, "a\\u{1b}| words for the model\nb| half of it\n");
    for line in [
        "a\\u{1b}: words for the person",
        "b: error: The second half could not be read.",
    ] {
        place(&ran, line);
    }
}

#[test]
fn a_call_that_waits_until_others_end_is_queued_in_its_record() {
    let calls = ["a", "b", "c"].map(|id| call(id, "probe#hold", json!({ "ms": 30 })));
    let records = printed(
        &batch(&calls, &["--print-record", "--max-parallel=2"])
            .run()
            .exits(0),
    );
    let waited = records.iter().map(|record| {
        let queued = record["events"]
            .as_array()
            .unwrap()
            .iter()
            .find(|event| event["event_type"] == "tool.invocation.queued");
        let since = queued.map(|event| event["data"]["since"].as_str().unwrap().to_owned());
        assert!(queued.is_none_or(|event| event["data"]["position"] == 1));
        let steps = record["invocation"]["status_transitions"]
            .as_array()
            .unwrap();
        assert_eq!(
            steps.iter().any(|step| step["to"] == "queued"),
            since.is_some()
        );
        since
    });
    let [None, None, Some(since)] =
        <[Option<String>; 3]>::try_from(waited.collect::<Vec<_>>()).unwrap()
    else {
        panic!("{records:#?}")
    };
    assert!(
        since.as_str() < records[2]["invocation"]["created_at"].as_str().unwrap(),
        "{since}"
    );
}

#[test]
fn each_call_of_a_batch_says_how_it_is_scheduled_and_under_which_policy() {
    let calls = [
        call("a", "probe#hold", json!({ "ms": 1 })),
        call("b", "probe#hold_unstated", json!({ "ms": 1 })),
    ];
    let records = printed(
        &batch(
            &calls,
            &["--print-record", "--max-parallel=3", "--on-failure=ignore"],
        )
        .run()
        .exits(0),
    );
    let invocation = |at: usize| &records[at]["invocation"];
    let policy = &invocation(0)["scheduler_policy"];
    assert_eq!(
        (&policy["max_parallel"], &policy["sibling_failure_policy"]),
        (&json!(3), &json!("ignore"))
    );
    for at in [0, 1] {
        assert_eq!(
            invocation(at)["scheduler_policy_ref"],
            policy["scheduler_policy_id"]
        );
        assert_eq!(invocation(at)["scheduler_policy"], *policy);
    }
    let safe = |at: usize| &invocation(at)["scheduler"]["is_concurrency_safe"];
    assert_eq!((safe(0), safe(1)), (&json!(true), &json!(false)));
    assert_eq!(
        invocation(1)["scheduler"]["requires_exclusive_context"],
        json!(false)
    );
}

#[test]
fn the_facts_of_a_decision_are_those_of_the_scheduler_for_every_kind_of_tool() {
    let (_guard, folder) = scratch();
    for (kind, is_open) in [
        ("function", false),
        ("web_search", true),
        ("browser_action", true),
    ] {
        let component = echoing("facts", |toolkit| {
            toolkit["declarations"][0]["tool_kind"] = json!(kind);
            toolkit["declarations"][0]["interface_ref"] = json!("i");
            toolkit["declarations"][0]["permission_profile"] = json!({ "risk_level": "low", "access_kinds": ["file_write"], "write_effects": ["local_persistent"] });
            toolkit["interfaces"] = json!([{
                "schema_version": "0.2.0", "interface_id": "i", "tool_id": "facts.echo", "is_read_only": true,
            }]);
        });
        let file = folder.join("facts.wasm");
        std::fs::write(&file, component).unwrap();
        let line = json!({ "id": "a", "tool": file, "input": {} });
        let records = printed(
            &batch(&[line], &["--print-record", "--allow-write=."])
                .dir(&folder)
                .run()
                .exits(0),
        );
        let effective = &records[0]["decisions"][0]["effective_facts"];
        let said = json!({
            "is_read_only": true, "is_concurrency_safe": false, "is_destructive": false, "is_open_world": is_open,
        });
        assert_eq!(*effective, said, "{kind}");
        for (fact, value) in said.as_object().unwrap() {
            assert_eq!(
                records[0]["invocation"]["scheduler"][fact], *value,
                "{kind} {fact}"
            );
        }
    }
}
