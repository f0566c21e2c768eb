//! `toolcell trace`: the calls of a session, and what the agent added, as a reasoning trace of agentool.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};
use toolcell_spec::Timestamp;

use super::guest;
use crate::pipeline::doubles::{echoing, hiding_a_token};
use crate::support::{Home, Ran, Toolcell, check_one};

const SESSION: &str = "--session=review";

impl Home {
    /// The trace of the session; `Ran::json` validates it.
    #[track_caller]
    fn trace(&self, options: &[&str]) -> Value {
        self.toolcell(&[&["trace", SESSION, "--json"], options].concat())
            .run()
            .exits(0)
            .json()
    }

    fn add(&self, steps: &str) -> Ran {
        self.toolcell(&["trace", "add", SESSION, "-"])
            .stdin(steps)
            .run()
    }

    fn called(&self, tool: &str, input: &Value) -> Value {
        self.call(&guest(tool), input, &[SESSION])
    }
}

fn steps<'a>(trace: &'a Value, kind: &str) -> Vec<&'a Value> {
    trace["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["type"] == kind)
        .collect()
}

fn time(value: &Value) -> Timestamp {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Recomputes what a trace says of itself from its steps.
#[track_caller]
fn check_trace(trace: &Value) {
    let all = trace["steps"].as_array().unwrap();
    let ids: HashSet<&str> = all
        .iter()
        .map(|step| step["step_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), all.len(), "{trace:#}");
    let times: Vec<Timestamp> = all.iter().map(|step| time(&step["timestamp"])).collect();
    assert!(times.is_sorted(), "{trace:#}");
    let metrics = &trace["metrics"];
    assert_eq!(metrics["step_count"], all.len());
    assert_eq!(metrics["tool_call_count"], steps(trace, "tool_call").len());
    let started = time(&trace["started_at"]);
    let finished = time(&trace["finished_at"]);
    assert_eq!(metrics["total_duration_ms"], finished.millis_since(started));
    assert!(
        times.iter().all(|at| started <= *at && *at <= finished),
        "{trace:#}"
    );
    let mut calls = HashSet::new();
    for step in all {
        match step["type"].as_str().unwrap() {
            "tool_call" => assert!(calls.insert(&step["tool_call"]["id"]), "{step}"),
            "tool_result" => assert!(calls.remove(&step["tool_result"]["call_id"]), "{step}"),
            _ => {}
        }
    }
    assert!(calls.is_empty(), "without a result: {calls:?}");
}

#[test]
fn every_call_of_a_session_is_a_call_and_a_result_whatever_became_of_it() {
    let home = Home::new();
    let fine = home.called("probe#echo", &json!({ "text": "one" }));
    let failed = home.called("probe#fail", &json!({ "class": "execution-failed" }));
    let unknown = home.called("probe#nowhere", &json!({}));
    let blocked = home.called("probe#lifecycle_disabled", &json!({}));
    let denied = home.called("probe#hold_writing", &json!({ "path": "/", "ms": 0 }));
    home.call(
        &guest("probe#echo"),
        &json!({ "text": "of another session" }),
        &["--session=other"],
    );
    let trace = home.trace(&[]);
    check_trace(&trace);
    let records = [&fine, &failed, &unknown, &blocked, &denied];
    let calls = steps(&trace, "tool_call");
    let results = steps(&trace, "tool_result");
    assert_eq!(
        (calls.len(), results.len()),
        (records.len(), records.len()),
        "{trace:#}"
    );
    for ((record, call), result) in records.into_iter().zip(calls).zip(results) {
        let invocation = &record["invocation"];
        let error = &record["result"]["error"];
        let call = &call["tool_call"];
        let result = &result["tool_result"];
        assert_eq!(call["arguments"], invocation["model_input"]);
        assert_eq!(
            (&call["id"], &result["call_id"]),
            (&invocation["invocation_id"], &invocation["invocation_id"])
        );
        let told = if error.is_null() {
            Value::Null
        } else {
            format!(
                "{}: {}",
                error["error_class"].as_str().unwrap(),
                error["message"].as_str().unwrap()
            )
            .into()
        };
        assert_eq!(result["error"], told);
        let begun = invocation
            .get("started_at")
            .unwrap_or(&invocation["created_at"]);
        assert_eq!(
            result["duration_ms"],
            time(&invocation["ended_at"]).millis_since(time(begun))
        );
        check_one("agentool-tool-call", call);
        check_one("agentool-tool-result", result);
    }
    let names = [0, 1].map(|at| {
        steps(&trace, "tool_call")[at]["tool_call"]["name"]
            .as_str()
            .unwrap()
    });
    assert_eq!(names, ["echo", "fail"]);
    assert_eq!(
        steps(&trace, "tool_result")[0]["tool_result"]["output"],
        fine["result"]["structured_content"]
    );
    assert_eq!(
        steps(&trace, "tool_result")[4]["tool_result"]["output"],
        Value::Null
    );
    assert_eq!(
        (&trace["status"], &trace["session_id"], &trace["input"]),
        (&json!("error"), &json!("review"), &Value::Null)
    );
    assert_eq!(
        home.trace(&[])["trace_id"],
        trace["trace_id"],
        "the same each time"
    );
    let people = home.toolcell(&["trace", SESSION]).run().exits(0).stdout;
    for part in ["review", "error", "step_010", "tool_call  echo", "5 calls"] {
        assert!(people.contains(part), "{part}: {people}");
    }
    let other = home.toolcell(&["trace", "--json"]).run().exits(0).json();
    assert_eq!(
        (&other["session_id"], &other["status"]),
        (&json!("other"), &json!("success")),
        "the latest call's"
    );
    let nothing = home.toolcell(&["trace", "--session=never"]).run().exits(2);
    assert!(
        nothing.stderr.contains("no call and no step"),
        "{}",
        nothing.stderr
    );
}

#[test]
fn a_loop_is_found_whatever_the_agent_says() {
    let home = Home::new();
    for text in ["same", "same", "other"] {
        home.called("probe#echo", &json!({ "text": text }));
    }
    assert_eq!(home.trace(&[])["status"], "success");
    assert_eq!(home.trace(&["--loop-after=2"])["status"], "loop_detected");
    home.called("probe#echo", &json!({ "text": "same" }));
    home.add(r#"{"type": "end", "status": "success", "output": "done"}"#)
        .exits(0);
    let trace = home.trace(&[]);
    check_trace(&trace);
    assert_eq!(
        (&trace["status"], &trace["output"]),
        (&json!("loop_detected"), &json!("done"))
    );
    let noted =
        json!({ "loop": { "tool_name": "echo", "equal_calls": 3 }, "posted_status": "success" });
    assert_eq!(trace["metadata"]["toolcell"], noted);
    assert_eq!(home.trace(&["--loop-after=4"])["status"], "success");
    home.toolcell(&["trace", SESSION, "--loop-after=1"])
        .run()
        .exits(2);
}

#[test]
fn what_the_agent_adds_is_between_its_calls() {
    let home = Home::new();
    let add = |steps: &Value| home.add(&steps.to_string()).exits(0);
    add(
        &json!({ "type": "start", "input": "What is new?", "agent_id": "researcher", "metadata": { "team": "x" },
            "x_framework": { "name": "f" }, "trace_id": "mine" }),
    );
    add(&json!([
        { "type": "reasoning", "content": "I look it up.", "context_tokens": 1200, "x_model": "m" },
        { "type": "memory_read", "query": "news", "results": [{ "id": 1 }] },
    ]));
    home.called("probe#echo", &json!({ "text": "news" }));
    add(
        &json!([{ "type": "memory_write", "content": "seen", "key": "news" }, { "type": "handoff", "to_agent": "writer", "message": "go on" }]),
    );
    add(
        &json!({ "type": "end", "output": "Nothing.", "status": "refusal", "total_tokens": 3200, "total_cost_usd": 0.0032,
            "x_stop": [1.5, null] }),
    );
    let trace = home.trace(&["--token-budget=3200"]);
    check_trace(&trace);
    let kinds: Vec<&str> = trace["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["type"].as_str().unwrap())
        .collect();
    let expected = [
        "reasoning",
        "memory_read",
        "tool_call",
        "tool_result",
        "memory_write",
        "handoff",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(trace["steps"][0]["x_model"], "m");
    let said = ["agent_id", "input", "output", "status"].map(|name| trace[name].as_str().unwrap());
    assert_eq!(said, ["researcher", "What is new?", "Nothing.", "refusal"]);
    assert_eq!(
        (
            &trace["metrics"]["total_tokens"],
            &trace["metrics"]["total_cost_usd"]
        ),
        (&json!(3200), &json!(0.0032))
    );
    assert_eq!(trace["metadata"]["team"], "x");
    let unknown = ["x_framework", "x_stop", "caller_trace_id"].map(|name| trace[name].clone());
    assert_eq!(
        unknown,
        [json!({ "name": "f" }), json!([1.5, null]), json!("mine")]
    );
    assert!(trace["trace_id"].as_str().unwrap().starts_with("tr_"));
    let over = home.trace(&["--token-budget=3199"]);
    assert_eq!(
        (
            &over["status"],
            &over["metadata"]["toolcell"]["posted_status"]
        ),
        (&json!("context_overflow"), &json!("refusal"))
    );
    let people = home.toolcell(&["trace", SESSION]).run().exits(0).stdout;
    for part in [
        "researcher",
        "I look it up.",
        "writer",
        "Nothing.",
        "3200 tokens",
        "0.0032 USD",
    ] {
        assert!(people.contains(part), "{part}: {people}");
    }
}

#[test]
fn a_step_can_have_any_value_in_the_fields_of_other_types() {
    let home = Home::new();
    let posted = json!([
        { "type": "reasoning", "content": "c", "key": 7, "to_agent": null, "query": ["q"], "tool_call": 1 },
        { "type": "memory_read", "query": "q", "results": null, "content": { "a": 1 }, "context_tokens": "few" },
        { "type": "handoff", "to_agent": "a", "tool_result": { "cost_tokens": u64::MAX }, "message": "m" },
        { "type": "reasoning", "content": "c", "tool_result": { "cost_tokens": 1 } },
    ]);
    home.add(&posted.to_string()).exits(0);
    let trace = home.trace(&["--token-budget=100"]);
    check_trace(&trace);
    assert_eq!(trace["metrics"]["total_tokens"], 0);
    let shown = trace["steps"].as_array().unwrap();
    for (step, posted) in shown.iter().zip(posted.as_array().unwrap()) {
        for (name, value) in posted.as_object().unwrap() {
            assert_eq!(step.get(name), Some(value), "{name} of {step}");
        }
    }
    home.toolcell(&["trace", SESSION]).run().exits(0);
}

#[test]
fn steps_are_added_all_or_none_and_only_their_user_can_read_them() {
    let home = Home::new();
    home.add("{\"type\": \"reasoning\", \"content\": \"one\"}\n{\"type\": \"reasoning\", \"content\": \"two\"}\n")
        .exits(0);
    for (steps, words) in [
        (
            "{\"type\": \"reasoning\", \"content\": \"three\"}\n{\"type\": \"thought\"}",
            "step 2",
        ),
        (
            "{\"type\": \"tool_call\", \"tool_call\": {\"id\": \"1\", \"name\": \"n\", \"arguments\": {}}}",
            "call log",
        ),
        ("{\"type\": \"end\", \"status\": \"paused\"}", "paused"),
        (
            "{\"type\": \"reasoning\", \"content\": 3}",
            "it has no text `content`",
        ),
        (
            "{\"type\": \"reasoning\", \"content\": \"c\", \"context_tokens\": 1.5}",
            "`context_tokens` is not a whole number",
        ),
        (
            "{\"type\": \"handoff\", \"to_agent\": \"\"}",
            "it has no text `to_agent`",
        ),
        (
            "{\"type\": \"handoff\", \"to_agent\": \"a\", \"message\": null}",
            "`message` is not a text",
        ),
        (
            "{\"type\": \"memory_write\", \"content\": \"c\", \"key\": 7}",
            "`key` is not a text",
        ),
        (
            "{\"type\": \"memory_read\", \"query\": {}}",
            "it has no text `query`",
        ),
        ("", "no step"),
    ] {
        let ran = home.add(steps).exits(2);
        assert!(
            ran.stderr.contains(words) && ran.stdout.is_empty(),
            "{words}: {}",
            ran.stderr
        );
    }
    let large = home
        .add(&format!(
            "{{\"type\": \"reasoning\", \"content\": \"{}\"}}",
            "x".repeat(1 << 20)
        ))
        .exits(2);
    assert!(
        large
            .stderr
            .contains("larger than 1048576 bytes; add them in parts"),
        "{}",
        large.stderr
    );
    let trace = home.trace(&[]);
    let contents: Vec<&str> = steps(&trace, "reasoning")
        .into_iter()
        .map(|step| step["content"].as_str().unwrap())
        .collect();
    assert_eq!(contents, ["one", "two"]);
    let folder = home.path().join("journal");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains("/journal.db"))
        .collect();
    assert!(files.contains(&folder.join("journal.db")));
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    home.configure("[log]\nkeep = \"none\"\n");
    let off = home.add("{\"type\": \"end\"}").exits(2);
    assert!(off.stderr.contains("turned off"), "{}", off.stderr);
}

/// The kernel cuts a write short at the limit of a file's size, as on a full disk.
#[test]
fn steps_that_do_not_fit_on_the_disk_leave_none_of_them_behind() {
    let home = Home::new();
    let step = |content: &str| format!("{}\n", json!({ "type": "reasoning", "content": content }));
    home.add(&step("one")).exits(0);
    let mut command = Command::new("sh");
    let limited = "trap '' XFSZ; ulimit -f 128 && exec \"$0\" \"$@\"";
    command.args([
        "-c",
        limited,
        env!("CARGO_BIN_EXE_toolcell"),
        "trace",
        "add",
        SESSION,
        "-",
    ]);
    command.env("TOOLCELL_HOME", home.path());
    let many: String = (0..100)
        .map(|at| step(&format!("{at}-{}", "x".repeat(1_000))))
        .collect();
    let ran = Toolcell::exactly(command).stdin(&many).run();
    assert!(
        ran.code != Some(0) && ran.stderr.contains("cannot write the steps"),
        "{ran:?}"
    );
    home.add(&step("two")).exits(0);
    let ran = home.toolcell(&["trace", SESSION, "--json"]).run().exits(0);
    let trace = ran.json();
    let contents: Vec<&Value> = steps(&trace, "reasoning")
        .into_iter()
        .map(|step| &step["content"])
        .collect();
    assert_eq!(contents, ["one", "two"]);
    assert!(!ran.stderr.contains("cannot be read"), "{}", ran.stderr);
}

/// Eight processes add fifty steps each; all arrive whole.
#[test]
fn steps_of_several_processes_do_not_mix() {
    let home = Home::new();
    let lines = |process: usize| -> String {
        (0..50)
            .map(|at| format!("{{\"type\": \"reasoning\", \"content\": \"{process}-{at}\"}}\n"))
            .collect()
    };
    let adding: Vec<_> = (0..8)
        .map(|process| {
            home.toolcell(&["trace", "add", SESSION, "-"])
                .stdin(&lines(process))
                .spawn()
        })
        .collect();
    for child in adding {
        Ran::from(child.wait_with_output().unwrap()).exits(0);
    }
    let trace = home.trace(&[]);
    check_trace(&trace);
    let contents: HashSet<&str> = steps(&trace, "reasoning")
        .into_iter()
        .map(|step| step["content"].as_str().unwrap())
        .collect();
    assert_eq!(contents.len(), 8 * 50);
}

#[test]
fn the_steps_of_a_session_take_so_much_space_and_no_more() {
    let home = Home::new();
    let step = format!(
        "{{\"type\": \"reasoning\", \"content\": \"{}\"}}",
        "x".repeat((1 << 20) - 100)
    );
    let mut added = 0;
    let refused = loop {
        match home.add(&step) {
            ran if ran.code == Some(0) => added += 1,
            ran => break ran,
        }
        assert!(added < 9, "nine MiB were added");
    };
    assert!(
        refused.code == Some(2) && refused.stderr.contains("8388608 bytes"),
        "{}",
        refused.stderr
    );
    assert_eq!(steps(&home.trace(&[]), "reasoning").len(), added);
    // Another session has room of its own.
    home.toolcell(&["trace", "add", "--session=other", "-"])
        .stdin("{\"type\": \"end\"}")
        .run()
        .exits(0);
}

#[test]
fn a_trace_has_no_sensitive_argument_and_acts_on_no_terminal() {
    let home = Home::new();
    let tool = home.keep("shy.wasm", &echoing("shy", hiding_a_token));
    let canary = "c4n4ry-7f3a99";
    for _ in 0..3 {
        home.call(
            &tool,
            &json!({ "token": canary, "other": "plain" }),
            &[SESSION],
        );
    }
    let evil = "\u{1b}[2J\u{202e}";
    home.add(&json!({ "type": "memory_write", "content": evil, "key": evil }).to_string())
        .exits(0);
    let ran = home.toolcell(&["trace", SESSION, "--json"]).run().exits(0);
    let trace = ran.json();
    let arguments = &steps(&trace, "tool_call")[0]["tool_call"]["arguments"];
    assert_eq!(
        arguments["other"], "[redacted]",
        "the schema does not name it, and names the sensitive one"
    );
    assert_eq!(
        trace["status"], "success",
        "the hidden arguments may differ"
    );
    let people = home.toolcell(&["trace", SESSION]).run().exits(0);
    for text in [&ran.stdout, &people.stdout] {
        assert!(
            !text.contains(canary) && !text.contains(['\u{1b}', '\u{202e}']),
            "{text:?}"
        );
    }
}
