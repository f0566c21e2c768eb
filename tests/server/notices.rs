//! Promise: Sensitive arguments reach only the tool.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Canary, Client, NEW};

fn progress_of(client: &mut Client, token: &Value) -> Vec<Value> {
    let seen = client.seen();
    let meant = |frame: &&Value| {
        frame["method"] == "notifications/progress" && frame["params"]["progressToken"] == *token
    };
    seen.iter()
        .filter(meant)
        .map(|frame| frame["params"].clone())
        .collect()
}

#[test]
fn progress_comes_while_the_tool_runs_and_only_grows() {
    let mut client = Client::of(&["probe#progress"]);
    for token in [json!("a token"), json!(7)] {
        let params = json!({
            "name": "progress", "arguments": { "count": 4, "interval_ms": 150, "percent": "even" },
            "_meta": { "progressToken": token },
        });
        let id = client.begin("tools/call", params);
        let (first, _) = client.until(|frame| frame["params"]["progressToken"] == token);
        client.answer(&id);
        assert!(
            first.elapsed() > Duration::from_millis(200),
            "progress came with the result"
        );
        let said = progress_of(&mut client, &token);
        assert!(said.len() >= 4, "{said:?}");
        let numbers: Vec<f64> = said
            .iter()
            .map(|said| said["progress"].as_f64().unwrap())
            .collect();
        assert!(
            numbers.windows(2).all(|pair| pair[1] > pair[0]),
            "{numbers:?}"
        );
    }
    // The order on the stream: every notification comes before the answer.
    let frames = client.seen();
    let last = frames
        .iter()
        .rposition(|frame| frame["method"] == "notifications/progress")
        .unwrap();
    assert!(
        frames
            .iter()
            .skip(last)
            .any(|frame| frame.get("result").is_some())
    );
}

#[test]
fn a_tool_that_reports_nothing_is_heard_of_all_the_same() {
    let mut client = Client::of(&["probe#hold"]);
    let meta = json!({ "progressToken": "quiet" });
    let id = client.begin(
        "tools/call",
        json!({ "name": "hold", "arguments": { "ms": 2_500 }, "_meta": meta }),
    );
    client.answer(&id);
    let said = progress_of(&mut client, &json!("quiet"));
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn nobody_hears_of_progress_who_did_not_ask() {
    let mut client = Client::of(&["probe#progress"]);
    client.call("progress", json!({ "count": 4 }));
    assert!(
        client
            .seen()
            .iter()
            .all(|frame| frame["method"] != "notifications/progress")
    );
}

#[test]
fn progress_of_one_call_comes_before_the_result_of_another() {
    let mut client = Client::of(&["probe"]);
    let long = client.begin_call("hold", json!({ "ms": 900 }));
    let params = json!({
        "name": "progress", "arguments": { "count": 3, "interval_ms": 50 }, "_meta": { "progressToken": "t" },
    });
    let short = client.begin("tools/call", params);
    client.answer(&short);
    client.answer(&long);
    let frames = client.seen();
    let at = |meant: &dyn Fn(&Value) -> bool| frames.iter().position(meant).unwrap();
    assert!(
        at(&|frame| frame["params"]["progressToken"] == "t") < at(&|frame| frame["id"] == short)
    );
    assert!(at(&|frame| frame["id"] == short) < at(&|frame| frame["id"] == long));
}

#[test]
fn logs_come_from_the_level_on_that_was_asked_for() {
    let mut client = Client::of(&["probe#log"]);
    let logs = |client: &mut Client| {
        let seen = client.seen();
        seen.into_iter()
            .filter(|frame| frame["method"] == "notifications/message")
            .collect::<Vec<_>>()
    };
    client.call("log", json!({ "count": 2, "level": "warn" }));
    let heard = logs(&mut client);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(
        (&heard[0]["params"]["level"], &heard[0]["params"]["logger"]),
        (&json!("warning"), &json!("probe_log"))
    );
    client.call("log", json!({ "count": 2, "level": "debug" }));
    assert_eq!(logs(&mut client).len(), 2);
    client.request("logging/setLevel", json!({ "level": "debug" }));
    client.call("log", json!({ "count": 1, "level": "debug" }));
    assert_eq!(logs(&mut client).len(), 3);
    client.request("logging/setLevel", json!({ "level": "emergency" }));
    client.call("log", json!({ "count": 5, "level": "error" }));
    assert_eq!(logs(&mut client).len(), 3);
}

#[test]
fn a_sensitive_argument_is_in_no_log_message() {
    let canary = Canary::new("pw-7f3/Qz+tT\"x0~long-enough");
    let mut client = Client::of(&["probe#leak"]);
    let params = json!({ "name": "leak", "arguments": { "secret": canary.value() }, "_meta": { "progressToken": 1 } });
    let answer = client.request("tools/call", params);
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    let frames = client.seen();
    let logged = frames
        .iter()
        .find(|frame| frame["method"] == "notifications/message");
    let logged = logged.unwrap_or_else(|| panic!("no log: {frames:#?}"));
    assert!(
        logged["params"]["data"].to_string().contains("[redacted]"),
        "{logged}"
    );
    canary.is_not_in("the frames", &json!(frames).to_string());
}

#[test]
fn the_newer_revision_asks_for_logs_with_each_request() {
    let mut client = Client::silent(&["probe#log"], [""; 0]);
    client.speak_new();
    client.call("log", json!({ "count": 1, "level": "error" }));
    assert!(
        client
            .seen()
            .iter()
            .all(|frame| frame.get("method").is_none()),
        "{NEW}"
    );
    let params = json!({
        "name": "log", "arguments": { "count": 1, "level": "error" },
        "_meta": { "io.modelcontextprotocol/logLevel": "info" },
    });
    client.request("tools/call", params);
    assert_eq!(
        client
            .seen()
            .iter()
            .filter(|frame| frame["method"] == "notifications/message")
            .count(),
        1
    );
}

#[test]
fn a_client_that_reads_slowly_does_not_hold_the_tool_up() {
    let mut client = Client::of(&["hostile#flood_progress", "probe#invocation"]);
    let params = json!({ "name": "flood_progress", "arguments": { "count": 100_000 }, "_meta": { "progressToken": 1 } });
    let began = Instant::now();
    let id = client.begin("tools/call", params);
    client.answer(&id);
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(
        client.call("invocation", json!({}))["isError"],
        json!(false)
    );
}
