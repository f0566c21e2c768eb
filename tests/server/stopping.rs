//! Promise: A request is one request.
//! Promise: A client that disconnects stops its calls.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Client, records, scratch};

/// A server with `tools`, and the file of its records.
fn recorded(tools: &[&str]) -> (Client, tempfile::TempDir, std::path::PathBuf) {
    let (folder, path) = scratch();
    let file = path.join("records");
    let client = Client::with(
        tools,
        ["--record-to", file.to_str().unwrap(), "--timeout", "50s"],
    );
    (client, folder, file)
}

/// Waits for the record of a call that does not end by itself; the record shows that the guest has stopped.
fn wait_for_record(file: &std::path::Path, began: Instant) -> (Value, Duration) {
    loop {
        if let Some(record) = records(file).pop() {
            return (record, began.elapsed());
        }
        assert!(began.elapsed() < Duration::from_secs(20), "no record");
        std::thread::yield_now();
    }
}

fn is_canceled(record: &Value) {
    assert_eq!(record["invocation"]["status"], "canceled", "{record:#}");
    crate::support::check_record(record);
}

#[test]
fn canceling_stops_a_spinning_tool_and_the_next_call_does_not_notice() {
    let mut client = Client::with(&["hostile#spin", "probe#counter"], ["--timeout", "50s"]);
    let id = client.begin(
        "tools/call",
        json!({ "name": "spin", "arguments": {}, "_meta": { "progressToken": 1 } }),
    );
    client.call("counter", json!({}));
    let began = Instant::now();
    client.notify(
        "notifications/cancelled",
        json!({ "requestId": id, "reason": "enough" }),
    );
    assert_eq!(
        client.call("counter", json!({}))["structuredContent"]["count"],
        json!(1)
    );
    assert!(began.elapsed() < Duration::from_secs(5));
    let (status, took, _, frames) = client.close();
    assert!(
        status.success() && took < Duration::from_secs(3),
        "{took:?}"
    );
    // A canceled request gets no answer.
    assert!(
        frames
            .iter()
            .all(|frame| frame["id"] != id || frame.get("method").is_some()),
        "{frames:#?}"
    );
}

#[test]
fn a_canceled_call_ends_in_a_record_at_once() {
    let (mut client, _folder, file) = recorded(&["hostile#spin"]);
    let id = client.begin_call("spin", json!({}));
    // The answer shows that the server has taken up the call.
    client.request("tools/list", json!({}));
    let began = Instant::now();
    client.notify("notifications/cancelled", json!({ "requestId": id }));
    let (record, took) = wait_for_record(&file, began);
    is_canceled(&record);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn canceling_what_is_not_there_changes_nothing() {
    let mut client = Client::of(&["probe#counter"]);
    for id in [json!(99), json!("1"), Value::Null] {
        client.notify("notifications/cancelled", json!({ "requestId": id }));
    }
    client.notify("notifications/cancelled", json!({}));
    assert_eq!(
        client.call("counter", json!({}))["structuredContent"]["count"],
        json!(1)
    );
}

#[test]
fn closed_standard_input_stops_everything_and_leaves_terminal_records() {
    let (mut client, _folder, file) = recorded(&[
        "hostile#spin",
        "hostile#sleep",
        "cancellable#acknowledge_and_stay",
    ]);
    for tool in ["spin", "sleep", "acknowledge_and_stay"] {
        let arguments = if tool == "sleep" {
            json!({ "ms": 60_000 })
        } else {
            json!({})
        };
        client.begin_call(tool, arguments);
    }
    client.request("tools/list", json!({}));
    let (status, took, stderr, _) = client.close();
    assert!(status.success(), "{stderr}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    let records = records(&file);
    assert_eq!(records.len(), 3);
    records.iter().for_each(is_canceled);
}

#[test]
fn requests_that_are_piped_in_are_answered_before_the_end() {
    let mut client = Client::of(&["probe#invocation"]);
    let id = client.begin_call("invocation", json!({}));
    let (status, _, _, frames) = client.close();
    assert!(status.success());
    assert!(
        frames
            .iter()
            .any(|frame| frame["id"] == id && frame.get("result").is_some()),
        "{frames:#?}"
    );
}

#[test]
fn many_requests_that_are_piped_in_are_all_taken_before_the_end() {
    for _ in 0..10 {
        let mut client = Client::of(&["probe#invocation"]);
        client.call("invocation", json!({}));
        let ids: Vec<Value> = (0..40)
            .map(|_| client.begin_call("invocation", json!({})))
            .collect();
        let (_, _, _, frames) = client.close();
        for id in ids {
            let answer = frames.iter().find(|frame| frame["id"] == id);
            let answer = answer.unwrap_or_else(|| panic!("nothing answers {id}: {frames:#?}"));
            assert_ne!(
                answer["result"]["_meta"]["toolcell/error"]["code"], "too_many_calls",
                "{answer:?}"
            );
        }
    }
}

#[test]
fn one_request_that_is_piped_in_has_its_result() {
    for _ in 0..20 {
        let mut client = Client::of(&["probe#invocation"]);
        // The first call of a server takes longer.
        client.call("invocation", json!({}));
        let id = client.begin_call("invocation", json!({}));
        let (_, _, _, frames) = client.close();
        let answer = frames
            .iter()
            .find(|frame| frame["id"] == id)
            .unwrap_or_else(|| panic!("{frames:#?}"));
        assert_eq!(answer["result"]["isError"], json!(false), "{answer:#}");
    }
}

#[test]
fn an_id_that_was_canceled_is_not_that_of_a_second_request() {
    let mut client = Client::with(&["hostile#spin", "probe#counter"], ["--timeout", "50s"]);
    let id = client.begin_call("spin", json!({}));
    client.request("tools/list", json!({}));
    client.notify("notifications/cancelled", json!({ "requestId": id }));
    let params = json!({ "name": "counter", "arguments": {} });
    client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    let answers_it = |frame: &Value| frame["id"] == id && frame.get("method").is_none();
    let (_, answer) = client.until(|frame| answers_it(frame) || frame.get("error").is_some());
    assert_eq!(answer["error"]["code"], json!(-32600), "{answer:#}");
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("was canceled"),
        "{answer:#}"
    );
    assert!(answer["id"].is_null(), "{answer:#}");
    assert_eq!(
        client.call("counter", json!({}))["structuredContent"]["count"],
        json!(1)
    );
    let (.., frames) = client.close();
    assert!(!frames.iter().any(answers_it), "{frames:#?}");
}

#[test]
fn termination_cancels_what_runs_and_says_so() {
    let (mut client, _folder, file) = recorded(&["hostile#spin"]);
    let id = client.begin_call("spin", json!({}));
    client.request("tools/list", json!({}));
    let began = Instant::now();
    let pid = client.pid().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let answer = client.answer(&id)["result"].clone();
    assert_eq!(answer["_meta"]["toolcell/error"]["class"], "canceled");
    let (status, took, _, _) = client.end(began);
    assert!(
        status.success() && took < Duration::from_secs(3),
        "{status} {took:?}"
    );
    let records = records(&file);
    assert_eq!(records.len(), 1);
    is_canceled(&records[0]);
    assert_eq!(records[0]["result"]["abort_reason"], "runtime_shutdown");
    assert_eq!(
        records[0]["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|e| e["data"]["abort_reason"] == "runtime_shutdown")
            .count(),
        // The request, and the end.
        2
    );
}

#[test]
fn a_request_can_shorten_its_time_and_not_lengthen_it() {
    let mut client = Client::with(&["hostile#spin"], ["--timeout", "2s"]);
    for (wish, at_most) in [(200, 1_500), (60_000, 10_000)] {
        let began = Instant::now();
        let params =
            json!({ "name": "spin", "arguments": {}, "_meta": { "toolcell/timeout_ms": wish } });
        let answer = client.request("tools/call", params)["result"].clone();
        assert_eq!(answer["_meta"]["toolcell/error"]["class"], "timeout");
        assert!(
            began.elapsed() < Duration::from_millis(at_most),
            "{:?}",
            began.elapsed()
        );
    }
}
