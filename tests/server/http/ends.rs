//! The end of calls when a client disconnects, or the server is stopped (FE-11).
//!
//! Promise: A client that disconnects stops its calls.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Web, check_record, frame, records, scratch};

/// A server with `tools`, and the file of its records.
fn recorded(tools: &[&str]) -> (Web, tempfile::TempDir, std::path::PathBuf) {
    let (guard, path) = scratch();
    let file = path.join("records");
    let options = [
        format!("--record-to={}", file.display()),
        "--timeout=50s".to_owned(),
    ];
    let web = Web::with(tools, options);
    (web, guard, file)
}

fn wait_for_record(file: &std::path::Path) -> Value {
    let began = Instant::now();
    loop {
        if let Some(record) = records(file).pop() {
            return record;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "no record");
        std::thread::yield_now();
    }
}

/// A long call of either revision, once it runs.
fn spinning(web: &Web, session: Option<&str>) -> crate::support::Coming {
    let mut params = json!({ "name": "progress", "arguments": { "count": 200, "interval_ms": 200 }, "_meta": { "progressToken": 1 } });
    let mut more = vec![];
    match session {
        Some(session) => more.extend(web.in_session(session)),
        None => {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientInfo"] =
                json!({ "name": "t", "version": "1" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
            more.extend([
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "progress"),
            ]);
        }
    }
    let mut coming = web.send(
        "POST /mcp",
        &web.changed(&more),
        &frame(json!(1), "tools/call", params),
    );
    assert_eq!(coming.status, 200, "{}", coming.head);
    assert_eq!(coming.next()["method"], "notifications/progress");
    coming
}

#[test]
fn a_dropped_connection_stops_the_tool_and_leaves_a_terminal_record() {
    let (web, _guard, file) = recorded(&["probe#progress"]);
    let coming = spinning(&web, None);
    let began = Instant::now();
    drop(coming);
    let record = wait_for_record(&file);
    assert_eq!(record["invocation"]["status"], "canceled", "{record:#}");
    check_record(&record);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_canceled_request_stops_the_tool() {
    let (web, _guard, file) = recorded(&["probe#progress"]);
    let session = web.session(json!({}));
    let _coming = spinning(&web, Some(&session));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(
        web.request("POST /mcp", &web.in_session(&session), &cancel.to_string())
            .status,
        202
    );
    assert_eq!(wait_for_record(&file)["invocation"]["status"], "canceled");
}

#[test]
fn an_ended_session_stops_its_calls() {
    let (web, _guard, file) = recorded(&["probe#progress"]);
    let session = web.session(json!({}));
    let _coming = spinning(&web, Some(&session));
    assert_eq!(
        web.request("DELETE /mcp", &web.in_session(&session), "")
            .status
            / 100,
        2
    );
    assert_eq!(wait_for_record(&file)["invocation"]["status"], "canceled");
}

#[test]
fn a_server_that_is_told_to_end_lets_short_calls_finish_and_stops_long_ones() {
    let (web, _guard, file) = recorded(&["probe#progress", "probe#hold"]);
    let session = web.session(json!({}));
    let _spins = spinning(&web, None);
    let hold = frame(
        json!(2),
        "tools/call",
        json!({ "name": "hold", "arguments": { "ms": 1_500 } }),
    );
    let mut held = web.send("POST /mcp", &web.changed(&web.in_session(&session)), &hold);
    let address = web.address;
    let ending = std::thread::spawn(move || web.terminate());
    let answer = held.next();
    assert!(
        answer["result"]["structuredContent"]["left_ns"].is_number(),
        "{answer}"
    );
    let (status, took) = ending.join().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(std::net::TcpStream::connect(address).is_err());
    let mut ends: Vec<String> = records(&file)
        .iter()
        .map(|record| record["invocation"]["status"].as_str().unwrap().to_owned())
        .collect();
    ends.sort();
    assert_eq!(ends, ["canceled", "succeeded"]);
}
