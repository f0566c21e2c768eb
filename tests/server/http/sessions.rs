//! Sessions of 2025-11-25, requests of 2026-07-28, and their owners.
//!
//! Promise: Clients are isolated.
//! Promise: A request is one request.

use std::io::Read;

use serde_json::{Value, json};

use crate::support::{Web, frame, scratch};

/// A server for two principals.
fn for_two(tools: &[&str]) -> (Web, tempfile::TempDir) {
    let (guard, path) = scratch();
    let tokens = path.join("tokens");
    std::fs::write(&tokens, "anna 0123456789abcdef0\nbert fedcba98765432100\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut web = Web::with(tools, [format!("--token-file={}", tokens.display())]);
    anna(&mut web);
    (web, guard)
}

fn anna(web: &mut Web) {
    web.token = "0123456789abcdef0".to_owned();
}

fn bert(web: &mut Web) {
    web.token = "fedcba98765432100".to_owned();
}

#[test]
fn both_revisions_are_spoken() {
    let web = Web::of(&["probe#echo"]);
    let session = web.session(json!({}));
    let answer = web.call(&session, "echo", json!({ "n": 1 }));
    assert_eq!(
        answer["result"]["structuredContent"]["input"],
        json!({ "n": 1 })
    );
    let listed = web.stateless("tools/list", json!({}), json!({}));
    assert_eq!(
        listed.answer()["result"]["tools"][0]["name"],
        "probe_echo",
        "{listed:?}"
    );
    let called = web.stateless(
        "tools/call",
        json!({ "name": "echo", "arguments": { "n": 2 } }),
        json!({}),
    );
    let result = called.answer()["result"].clone();
    assert_eq!(
        (&result["structuredContent"]["input"], &result["resultType"]),
        (&json!({ "n": 2 }), &json!("complete"))
    );
    assert!(called.header("mcp-session-id").is_none());
    let found = web
        .stateless("server/discover", json!({}), json!({}))
        .answer()["result"]
        .clone();
    assert!(
        found["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28")),
        "{found}"
    );
}

#[test]
fn a_session_is_its_principals_alone_and_gone_when_it_was_ended() {
    let (mut web, _guard) = for_two(&["probe"]);
    let session = web.session(json!({}));
    let big = web.call(&session, "big", json!({ "bytes": 200_000 }));
    let uri = big["result"]["content"][1]["uri"].clone();
    let read = |web: &Web, session: &str| {
        web.request(
            "POST /mcp",
            &web.in_session(session),
            &frame(json!(2), "resources/read", json!({ "uri": uri })),
        )
    };
    assert_eq!(
        read(&web, &session).answer()["result"]["contents"][0]["uri"],
        uri
    );
    bert(&mut web);
    assert_eq!(
        read(&web, &session).status,
        404,
        "a session of another principal"
    );
    web.request("DELETE /mcp", &web.in_session(&session), "");
    let own = web.session(json!({}));
    assert!(
        read(&web, &own).answer()["error"]["code"].is_number(),
        "the payload of another principal"
    );
    anna(&mut web);
    assert_eq!(read(&web, &session).status, 200, "bert ended it");
    assert_eq!(
        web.request("DELETE /mcp", &web.in_session(&session), "")
            .status
            / 100,
        2
    );
    assert_eq!(read(&web, &session).status, 404);
    assert_eq!(read(&web, "guessed").status, 404);
}

#[test]
fn sessions_with_equal_ids_get_their_own_answers_and_cancel_their_own_calls() {
    let web = Web::of(&["probe#hold", "probe#echo"]);
    let one = web.session(json!({}));
    let other = web.session(json!({}));
    let hold = frame(
        json!(7),
        "tools/call",
        json!({ "name": "hold", "arguments": { "ms": 600 } }),
    );
    let mut held = web.send("POST /mcp", &web.changed(&web.in_session(&one)), &hold);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(
        web.request("POST /mcp", &web.in_session(&other), &cancel.to_string())
            .status,
        202
    );
    let echo = frame(
        json!(7),
        "tools/call",
        json!({ "name": "echo", "arguments": { "who": "other" } }),
    );
    let answer = web
        .request("POST /mcp", &web.in_session(&other), &echo)
        .answer();
    assert_eq!(
        answer["result"]["structuredContent"]["input"],
        json!({ "who": "other" })
    );
    let answer: Value = held.next();
    assert!(
        answer["result"]["structuredContent"]["left_ns"].is_number(),
        "{answer}"
    );
}

#[test]
fn progress_comes_on_the_stream_of_its_call_while_it_runs() {
    let web = Web::of(&["probe#progress"]);
    let session = web.session(json!({}));
    let params = json!({
        "name": "progress", "arguments": { "count": 3, "interval_ms": 50 }, "_meta": { "progressToken": "t" },
    });
    let body = frame(json!(1), "tools/call", params);
    let mut coming = web.send("POST /mcp", &web.changed(&web.in_session(&session)), &body);
    let first = coming.next();
    assert_eq!(
        (&first["method"], &first["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("t"))
    );
    let mut last = first;
    while last.get("result").is_none() {
        last = coming.next();
        assert!(last.get("error").is_none(), "{last}");
    }
}

#[test]
fn an_id_that_is_in_flight_is_not_taken_twice_and_the_first_request_gets_its_answer() {
    let web = Web::of(&["probe#progress", "probe#echo"]);
    let session = web.session(json!({}));
    let arguments = json!({ "count": 20, "interval_ms": 100 });
    let params =
        json!({ "name": "progress", "arguments": arguments, "_meta": { "progressToken": "t" } });
    let headers = web.changed(&web.in_session(&session));
    let mut first = web.send(
        "POST /mcp",
        &headers,
        &frame(json!(7), "tools/call", params),
    );
    assert_eq!(first.next()["method"], "notifications/progress");
    let echo = |id: Value| {
        let params = json!({ "name": "echo", "arguments": { "who": "second" } });
        web.request(
            "POST /mcp",
            &web.in_session(&session),
            &frame(id, "tools/call", params),
        )
    };
    let refused = echo(json!(7));
    assert_eq!(
        (refused.status, refused.answer()["error"]["code"].clone()),
        (400, json!(-32600)),
        "{refused:?}"
    );
    // An id of another JSON type is another id.
    assert_eq!(echo(json!("7")).answer()["result"]["isError"], json!(false));
    let answer = std::iter::repeat_with(|| first.next())
        .find(|frame| frame["id"] == 7)
        .unwrap();
    assert!(answer.get("result").is_some(), "{answer}");
    first.whole();
    // The request was answered, so the id is free.
    let began = std::time::Instant::now();
    while echo(json!(7)).status != 200 {
        assert!(
            began.elapsed() < std::time::Duration::from_secs(20),
            "the id stays taken"
        );
    }
}

#[test]
fn no_more_sessions_than_a_principal_may_have() {
    let web = Web::of(&["probe#echo"]);
    let sessions: Vec<String> = (0..64).map(|_| web.session(json!({}))).collect();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let open = || {
        web.request(
            "POST /mcp",
            &[],
            &frame(json!(0), "initialize", params.clone()),
        )
    };
    let refused = open();
    assert_eq!(
        (refused.status, refused.header("retry-after").is_some()),
        (503, true),
        "{refused:?}"
    );
    assert_eq!(
        web.request("DELETE /mcp", &web.in_session(&sessions[0]), "")
            .status
            / 100,
        2
    );
    assert_eq!(open().status, 200);
    // Existing sessions still work.
    assert_eq!(
        web.call(&sessions[1], "echo", json!({}))["result"]["isError"],
        json!(false)
    );
}

#[test]
fn a_connection_serves_one_request_after_another() {
    use std::io::Write;
    let web = Web::of(&["probe#echo"]);
    let mut stream = web.connect();
    for _ in 0..3 {
        let text = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", web.address);
        stream.write_all(text.as_bytes()).unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\nok") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
        assert!(seen.starts_with(b"HTTP/1.1 200"));
    }
}
