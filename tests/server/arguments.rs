//! The guest and the record get the client's arguments byte for byte.
//!
//! Promise: A request is one request.
//! Promise: Arguments arrive as they were sent.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Client, NEW, Reply, Web, records, scratch};

const LARGE: &str =
    r#"{"id": 12345678901234567890123, "part": 0.10000000000000000001, "whole": 1.0}"#;
const TWICE: &str = r#"{"path": "a", "path": "/etc"}"#;

/// A call with the arguments in their exact spelling.
fn call(id: u32, arguments: &str, more: &str) -> String {
    let params = format!(r#"{{"name":"echo","arguments":{arguments}{more}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

fn is_as_sent(answer: &Value, text: &str) {
    assert_eq!(
        answer["result"]["structuredContent"]["input_text"], text,
        "{answer:#}"
    );
}

fn is_refused(answer: &Value) {
    let error = &answer["result"]["_meta"]["toolcell/error"];
    assert_eq!(answer["result"]["isError"], json!(true), "{answer:#}");
    assert_eq!(error["class"], "invalid_arguments", "{answer:#}");
}

fn record_has(file: &Path, text: &str) {
    let record = records(file)
        .into_iter()
        .find(|record| record["invocation"]["model_input_text"] == text);
    let record = record.unwrap_or_else(|| panic!("no record has {text}"));
    crate::support::check_record(&record);
}

#[test]
fn numbers_come_as_they_were_sent_over_standard_streams_and_names_count_once() {
    let (_guard, folder) = scratch();
    let file = folder.join("records");
    let mut client = Client::with(&["probe#echo"], ["--record-to", file.to_str().unwrap()]);
    client.send_text(&call(71, LARGE, ""));
    is_as_sent(&client.answer(&json!(71)), LARGE);
    client.send_text(&call(72, TWICE, ""));
    is_refused(&client.answer(&json!(72)));
    assert!(client.close().0.success());
    record_has(&file, LARGE);
    record_has(&file, TWICE);
}

/// A call of 2026-07-28.
fn stateless(web: &Web, arguments: &str) -> Reply {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("MCP-Protocol-Version", NEW),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
    ];
    web.request(
        "POST /mcp",
        &headers,
        &call(1, arguments, &format!(r#","_meta":{meta}"#)),
    )
}

#[test]
fn numbers_come_as_they_were_sent_over_http_and_names_count_once() {
    let (_guard, folder) = scratch();
    let file = folder.join("records");
    let web = Web::with(&["probe#echo"], [format!("--record-to={}", file.display())]);
    is_as_sent(&stateless(&web, LARGE).answer(), LARGE);
    is_refused(&stateless(&web, TWICE).answer());
    let session = web.session(json!({}));
    let in_session = |id, text| {
        web.request("POST /mcp", &web.in_session(&session), &call(id, text, ""))
            .answer()
    };
    is_as_sent(&in_session(2, LARGE), LARGE);
    is_refused(&in_session(3, TWICE));
    assert!(web.terminate().0.success());
    record_has(&file, LARGE);
    record_has(&file, TWICE);
}

#[test]
fn numbers_stay_as_they_were_sent_where_defaults_are_filled_in() {
    let (_guard, folder) = scratch();
    let file = folder.join("records");
    let mut client = Client::with(&["probe#defaults"], ["--record-to", file.to_str().unwrap()]);
    let arguments = r#"{"query":"x","limit":12345678901234567890123}"#;
    client.send_text(&call(71, arguments, "").replace("\"echo\"", "\"defaults\""));
    let answer = client.answer(&json!(71));
    assert_eq!(answer["result"]["isError"], json!(false), "{answer:#}");
    assert!(client.close().0.success());
    let record = records(&file).pop().unwrap();
    let filled = r#"{"query":"x","limit":12345678901234567890123,"order":"newest"}"#;
    assert_eq!(
        record["invocation"]["call_input_ref"],
        toolcell_spec::digest(filled.as_bytes()),
        "{record:#}"
    );
}

/// Positional params of the tool `echo`, which some parsers accept for a structure.
const BY_PLACE: &str = r#"[null,"echo",{"a":1},null,null]"#;

#[test]
fn params_that_are_no_object_call_no_tool_without_its_arguments() {
    let call = format!(r#"{{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{BY_PLACE}}}"#);
    let mut client = Client::of(&["probe#echo"]);
    client.send_text(&call);
    let answer = client.answer(&json!(71));
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
    let web = Web::of(&["probe#echo"]);
    let session = web.session(json!({}));
    let reply = web.request("POST /mcp", &web.in_session(&session), &call);
    assert_eq!(reply.status, 415, "{reply:?}");
}

#[test]
fn a_message_in_an_array_is_refused() {
    let mut client = Client::of(&["probe#echo"]);
    client.send_text("[INFO] a log line is no array");
    client.until(|frame| frame["error"]["code"] == json!(-32700));
    client.forget();
    let params = r#"{"name":"echo","arguments":{"a":1}}"#;
    let message = format!(r#"["2.0",71,"tools/call",{params}]"#);
    for array in [
        message.clone(),
        format!(" [{}]", call(71, r#"{"a":1}"#, "")),
    ] {
        client.send_text(&array);
        let (_, answer) = client.until(|frame| frame.get("error").is_some() || frame["id"] == 71);
        assert!(
            answer["id"].is_null() && answer["error"]["code"] == json!(-32600),
            "{answer}"
        );
        client.forget();
    }
    client.call("echo", json!({}));
    assert!(
        client
            .close()
            .3
            .iter()
            .all(|frame| frame.get("error").is_none()),
        "something was called"
    );
    let web = Web::of(&["probe#echo"]);
    let session = web.session(json!({}));
    let reply = web.request("POST /mcp", &web.in_session(&session), &message);
    assert_eq!(
        (reply.status, reply.answer()["error"]["code"].clone()),
        (400, json!(-32600)),
        "{reply:?}"
    );
}

#[test]
fn a_frame_that_names_its_params_twice_is_refused() {
    let twice = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"},"params":{"name":"counter"}}"#;
    let mut client = Client::of(&["probe#echo", "probe#counter"]);
    client.send_text(twice);
    let answer = client.answer(&json!(7));
    assert_eq!(answer["error"]["code"], json!(-32600), "{answer}");
    let web = Web::of(&["probe#echo", "probe#counter"]);
    let session = web.session(json!({}));
    let reply = web.request("POST /mcp", &web.in_session(&session), twice);
    assert_eq!(
        (reply.status, reply.answer()["error"]["code"].clone()),
        (400, json!(-32600)),
        "{reply:?}"
    );
}
