//! Promise: Clients are isolated.

use serde_json::{Value, json};

use crate::cli::example;
use crate::support::{Client, OLD, Toolcell, Web, frame, records, scratch};

#[test]
fn structured_output_comes_as_it_is_with_a_text_copy() {
    let mut client = Client::of(&["probe"]);
    let answer = client.call("good_structured", json!({}));
    assert_eq!(answer["structuredContent"], json!({ "n": 7 }));
    assert_eq!(
        answer["content"],
        json!([{ "type": "text", "text": "{\"n\":7}" }])
    );
    assert_eq!(answer["isError"], json!(false));
}

/// Clients give their model one of the two, and no server learns which.
#[test]
fn content_and_structured_content_are_each_the_whole_answer() {
    let (_guard, folder) = scratch();
    let cities = "name,people\nBern,134591\nOslo,709037\n";
    std::fs::write(folder.join("cities.csv"), cities).unwrap();
    let long: String = (0..300).map(|n| format!("{n};{}\n", n * n)).collect();
    std::fs::write(folder.join("long.csv"), &long).unwrap();
    let tools = [
        example("files"),
        example("jq"),
        example("sql"),
        example("ticker"),
    ];
    let arguments = ["mcp"]
        .into_iter()
        .chain(tools.iter().map(String::as_str))
        .chain(["--allow-read=."]);
    let mut client = Client::run(Toolcell::new(arguments).dir(&folder));
    client.initialize(OLD);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let mut call = |name: &str, input: Value| {
        let answer = client.call(name, input);
        assert_eq!(answer["isError"], json!(false), "{answer:#}");
        let tool = listed
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap();
        let schema = &tool["outputSchema"];
        let structured = answer["structuredContent"].clone();
        assert!(
            jsonschema::is_valid(schema, &structured),
            "{name}: {structured:#} does not fit {schema:#}"
        );
        let texts = answer["content"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|block| block["text"].as_str());
        let texts: Vec<String> = texts.map(str::to_owned).collect();
        (texts, structured)
    };
    for (file, text) in [("cities.csv", cities), ("long.csv", long.as_str())] {
        let (content, structured) = call("files_read", json!({ "path": file }));
        assert_eq!(
            (content[0].as_str(), &structured["text"]),
            (text, &json!(text))
        );
        let facts: Value = serde_json::from_str(&content[1]).unwrap();
        assert_eq!(
            (&facts["file_bytes"], &structured["file_bytes"]),
            (&json!(text.len()), &json!(text.len()))
        );
    }
    for (name, input, words) in [
        ("files_list", json!({}), "cities.csv"),
        ("files_search", json!({ "pattern": "Oslo" }), "709037"),
        ("jq", json!({ "filter": "1 + 2" }), "3"),
        (
            "sql_query",
            json!({ "files": [{ "path": "cities.csv" }], "sql": "select 40 + 2 as answer" }),
            "answer",
        ),
        ("ticker", json!({ "ticks": 1, "interval_ms": 0 }), "1"),
    ] {
        let (content, structured) = call(name, input);
        assert!(
            content.concat().contains(words) && structured.to_string().contains(words),
            "{content:?} {structured}"
        );
    }
}

#[test]
fn every_content_block_keeps_its_meaning() {
    let mut client = Client::of(&["probe"]);
    let content = client.call("blocks", json!({}))["content"].clone();
    let kinds: Vec<&str> = content
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    // A log is not for models; a video and a file are resources.
    assert_eq!(
        kinds,
        [
            "text",
            "image",
            "audio",
            "resource",
            "resource",
            "resource_link",
            "resource",
            "text"
        ]
    );
    assert_eq!(content[1]["mimeType"], "image/png");
    assert_eq!(
        content[6]["resource"],
        json!({ "uri": "memo:1", "mimeType": "text/plain", "text": "a memo" })
    );
}

#[test]
fn what_a_tool_changes_in_the_context_is_in_the_metadata_of_its_answer() {
    let mut client = Client::of(&["modifier#modify"]);
    let input = json!({ "changes": [{ "key": "branch", "value": { "name": "fix" } }] });
    let answer = client.call("modify", input.clone());
    let changes = json!([{ "key": "branch", "value": { "name": "fix" } }]);
    assert_eq!(answer["_meta"]["toolcell/context_modifiers"], changes);
    assert!(
        !answer["content"].to_string().contains("branch"),
        "a model does not read it: {answer:#}"
    );
    let mut failing = input;
    failing["then"] = json!("fail");
    let failed = client.call("modify", failing);
    assert_eq!(
        (
            &failed["isError"],
            failed["_meta"].get("toolcell/context_modifiers")
        ),
        (&json!(true), None)
    );
}

#[test]
fn an_error_is_a_result_with_class_code_and_hint() {
    let mut client = Client::of(&["probe"]);
    let answer = client.call(
        "fail",
        json!({ "class": "dependency_unavailable", "code": "no_wind", "message": "calm" }),
    );
    assert_eq!(answer["isError"], json!(true));
    let error = &answer["_meta"]["toolcell/error"];
    assert_eq!(
        (error["class"].as_str(), error["code"].as_str()),
        (Some("dependency_unavailable"), Some("no_wind"))
    );
    assert!(!error["hint"].as_str().unwrap().is_empty());
    assert_eq!(
        answer["content"].as_array().unwrap().last().unwrap()["text"],
        "calm"
    );
}

#[test]
fn a_call_that_lacks_access_says_what_the_operator_can_give() {
    let mut client = Client::of(&["probe#read", "probe#fail"]);
    let answer = client.call("read", json!({ "path": "/etc/hostname" }));
    let error = &answer["_meta"]["toolcell/error"];
    let needed =
        json!({ "access_kind": "file_read", "subject": null, "next_action": "--allow-read=DIR" });
    assert_eq!(
        (&error["code"], &error["needs_authorization"]),
        (&json!("not_granted"), &needed)
    );
    // A tool that claims the same class cannot tell the operator what to do.
    let claimed = client.call(
        "fail",
        json!({ "class": "credential_missing", "code": "no_key", "message": "give" }),
    );
    let error = &claimed["_meta"]["toolcell/error"];
    assert_eq!(
        (&error["class"], error.get("needs_authorization")),
        (&json!("credential_missing"), None)
    );
}

#[test]
fn wrong_arguments_are_a_result_and_arguments_that_are_no_object_an_error() {
    let (_folder, path) = scratch();
    let file = path.join("records");
    let mut client = Client::with(&["probe"], ["--record-to", file.to_str().unwrap()]);
    let wrong = client.call("read", json!({ "path": 7 }));
    assert_eq!(
        wrong["_meta"]["toolcell/error"]["class"],
        "schema_validation_failed"
    );
    for arguments in [json!([1]), json!("text"), json!(7)] {
        let id = client.begin_call("read", arguments);
        let answer = client.answer(&id);
        assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
        assert_eq!(
            answer["error"]["data"]["error"]["error_code"],
            "protocol_error"
        );
    }
    let id = client.begin("tools/call", json!({ "arguments": {} }));
    assert_eq!(client.answer(&id)["error"]["code"], json!(-32602));
    assert_eq!(
        client.request("no/such/method", json!({}))["error"]["code"],
        json!(-32601)
    );
    // Each of them is recorded, and none of them ran.
    client.close();
    let records = records(&file);
    assert_eq!(records.len(), 5);
    assert!(
        records
            .iter()
            .all(|record| record["invocation"]["started_at"].is_null())
    );
}

#[test]
fn ids_keep_their_type_and_meta_survives() {
    let (_folder, path) = scratch();
    let file = path.join("records");
    let mut client = Client::with(
        &["probe#invocation"],
        ["--record-to", file.to_str().unwrap()],
    );
    let meta = json!({ "example.com/trace": { "deep": [1, null] }, "toolcell/timeout_ms": 5_000 });
    for id in [json!(70), json!("70"), json!("a b"), json!(-1)] {
        let params = json!({ "name": "invocation", "arguments": {}, "_meta": meta });
        client
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
        let answer = client.answer(&id);
        assert_eq!(answer["id"], id);
        let told = &answer["result"]["structuredContent"]["invocation_id"];
        assert_eq!(answer["result"]["_meta"]["toolcell/invocation_id"], *told);
    }
    client.close();
    let records = records(&file);
    let mapping = |at: usize| &records[at]["invocation"]["external_mappings"][0];
    assert_eq!(
        (
            &mapping(0)["jsonrpc_request_id"],
            &mapping(1)["jsonrpc_request_id"]
        ),
        (&json!(70), &json!("70"))
    );
    assert_eq!(
        mapping(0)["_meta"]["example.com/trace"],
        json!({ "deep": [1, null] })
    );
    assert_eq!(mapping(0)["source"], "mcp");
    assert_eq!(
        (&mapping(0)["server_id"], &mapping(0)["isError"]),
        (&json!("toolcell"), &json!(false))
    );
    let pointer = mapping(0)["structuredContent"]
        .as_str()
        .unwrap()
        .strip_prefix('#')
        .unwrap();
    assert_eq!(
        records[0].pointer(pointer).unwrap()["invocation_id"],
        records[0]["invocation"]["invocation_id"]
    );
    assert_eq!(
        mapping(0)["mcp_session_id"],
        Value::Null,
        "standard streams have none"
    );
    records.iter().for_each(crate::support::check_record);
}

#[test]
fn an_id_stands_for_one_request_at_a_time() {
    let mut client = Client::of(&["probe#hold"]);
    let params = json!({ "name": "hold", "arguments": { "ms": 300 } });
    let frame = json!({ "jsonrpc": "2.0", "id": 70, "method": "tools/call", "params": params });
    client.send(&frame);
    client.send(&frame);
    let refused = client
        .until(|frame| frame["id"].is_null() && frame.get("error").is_some())
        .1;
    assert_eq!(refused["error"]["code"], json!(-32600));
    assert!(client.answer(&json!(70))["result"]["structuredContent"]["left_ns"].is_number());
    // The id is free again, for any request.
    client.send(&json!({ "jsonrpc": "2.0", "id": 70, "method": "tools/call", "params": { "name": "nothing" } }));
    client.until(|frame| frame["id"] == json!(70) && frame["error"]["code"] == json!(-32602));
    assert_eq!(
        client
            .seen()
            .iter()
            .filter(|frame| frame["id"] == json!(70))
            .count(),
        2
    );
}

#[test]
fn frames_that_are_no_requests_leave_the_stream_alone() {
    let mut client = Client::of(&["probe#invocation"]);
    for bad in [
        "not JSON",
        "",
        "[]",
        "{}",
        r#"{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"invocation"}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"invocation"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"invocation"}}"#,
        r#"[{"jsonrpc":"2.0","id":9,"method":"ping"}]"#,
        "\u{0}\u{1}",
    ] {
        client.send_text(bad);
    }
    client.send_text(&"x".repeat(17 << 20));
    assert_eq!(
        client.call("invocation", json!({}))["isError"],
        json!(false)
    );
    let answered: Vec<Value> = client
        .seen()
        .into_iter()
        .filter(|frame| frame.get("result").is_some())
        .collect();
    assert_eq!(answered.len(), 2, "{answered:#?}");
}

#[test]
fn a_line_that_cannot_be_read_is_answered_and_the_session_goes_on() {
    let mut client = Client::of(&["probe#invocation"]);
    let lines: [(&[u8], i64); 5] = [
        (b"garbage", -32700),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\xff\"}",
            -32700,
        ),
        (b"\x00\x01", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":", -32700),
        (b"7", -32600),
    ];
    for (line, code) in lines {
        client.forget();
        client.send_bytes(line);
        let (_, refused) = client.until(|frame| frame.get("error").is_some());
        assert_eq!(
            (&refused["error"]["code"], refused.get("id")),
            (&json!(code), Some(&Value::Null)),
            "{refused}"
        );
    }
    client.forget();
    // An answer to nothing is answered by nothing: two servers in a circle would never end.
    client.send_text(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#);
    assert_eq!(
        client.call("invocation", json!({}))["isError"],
        json!(false)
    );
    assert!(
        client
            .seen()
            .iter()
            .all(|frame| frame.get("error").is_none()),
        "{:#?}",
        client.seen()
    );
}

#[test]
fn a_greeting_without_a_version_is_taken_and_any_other_gap_is_named() {
    let greeting =
        |client: Value| json!({ "protocolVersion": OLD, "capabilities": {}, "clientInfo": client });
    let mut client = Client::silent(&["probe#invocation"], [""; 0]);
    let refused = client.request("initialize", greeting(json!({ "version": "1" })));
    assert_eq!(refused["error"]["code"], json!(-32602), "{refused}");
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("params.clientInfo.name"),
        "{refused}"
    );
    let greeted = client.request("initialize", greeting(json!({ "name": "test" })));
    assert_eq!(greeted["result"]["protocolVersion"], OLD, "{greeted}");
    client.notify("notifications/initialized", json!({}));
    assert_eq!(
        client.call("invocation", json!({}))["isError"],
        json!(false)
    );
    let web = Web::of(&["probe#invocation"]);
    let greet = |info: Value| {
        web.request(
            "POST /mcp",
            &[],
            &frame(json!(1), "initialize", greeting(info)),
        )
    };
    assert_eq!(greet(json!({ "name": "test" })).status, 200);
    let refused = greet(json!({}));
    assert_eq!(
        (refused.status, refused.answer()["error"]["code"].clone()),
        (400, json!(-32602)),
        "{refused:?}"
    );
    assert!(
        refused.body.contains("params.clientInfo.name"),
        "{refused:?}"
    );
}

#[test]
fn a_large_result_is_a_preview_and_a_resource_that_can_be_read() {
    let mut client = Client::of(&["probe"]);
    let answer = client.call("big", json!({ "bytes": 200_000 }));
    let content = answer["content"].as_array().unwrap();
    assert_eq!(
        (content[0]["type"].as_str(), content[1]["type"].as_str()),
        (Some("text"), Some("resource_link"))
    );
    assert!(content[0]["text"].as_str().unwrap().len() < 4_000);
    let uri = content[1]["uri"].clone();
    let read =
        client.request("resources/read", json!({ "uri": uri }))["result"]["contents"][0].clone();
    assert_eq!(read["uri"], uri);
    assert_eq!(read["text"].as_str().unwrap().len(), 200_000);
    let listed = client.request("resources/list", json!({}))["result"]["resources"].clone();
    assert_eq!(listed[0]["uri"], uri);
    // Another client cannot read the payload, although it knows its URI.
    let mut other = Client::of(&["probe"]);
    assert_eq!(
        other.request("resources/read", json!({ "uri": uri }))["error"]["code"],
        json!(-32002)
    );
    let forged = json!({ "uri": "toolcell:payload/sha256:../../keys/components" });
    assert_eq!(
        client.request("resources/read", forged)["error"]["code"],
        json!(-32002)
    );
}

#[test]
fn promised_structured_output_is_whole_however_large() {
    let mut client = Client::of(&["probe"]);
    let answer = client.call("structured_big", json!({ "bytes": 200_000 }));
    let promised = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let promised = promised
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "probe_structured_big")
        .unwrap()
        .clone();
    let whole = answer["structuredContent"]["text"].as_str().map(str::len);
    assert_eq!(
        whole,
        promised.get("outputSchema").map(|_| 200_000),
        "{promised}"
    );
    assert!(answer["content"][0]["text"].as_str().unwrap().len() < 4_000);
}

#[test]
fn nothing_said_differs_from_null_and_from_failure() {
    let mut client = Client::of(&["probe", "hostile"]);
    let empty = client.call("empty", json!({}));
    let null = client.call("null", json!({}));
    let panicked = client.call("panic", json!({}));
    assert_eq!(
        (&empty["content"], &empty["_meta"]["toolcell/empty_result"]),
        (&json!([]), &json!(true))
    );
    assert_eq!(
        (&null["content"][0]["text"], &null["isError"]),
        (&json!("null"), &json!(false))
    );
    assert_eq!(panicked["isError"], json!(true));
}
