//! What clients and browsers may expect of a server of HTTP.

use serde_json::json;

use crate::support::{Web, frame};

const PAGE: &str = "https://app.example";

fn greeting() -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    frame(json!(1), "initialize", params)
}

#[test]
fn the_end_of_a_session_has_no_content() {
    let web = Web::of(&["probe#echo"]);
    let session = web.session(json!({}));
    let ended = web.request("DELETE /mcp", &web.in_session(&session), "");
    assert_eq!((ended.status, ended.body.as_str()), (204, ""), "{ended:?}");
    assert_eq!(
        web.request(
            "POST /mcp",
            &web.in_session(&session),
            &frame(json!(2), "ping", json!({}))
        )
        .status,
        404
    );
}

#[test]
fn who_takes_anything_is_answered_at_either_spelling_of_the_path_and_of_the_host() {
    let web = Web::of(&["probe#echo"]);
    for more in [
        &[("Accept", "")][..],
        &[("Accept", "*/*")],
        &[("Accept", "application/*, text/*")],
        &[("Host", "localhost")],
        &[("Host", "127.0.0.1")],
        &[("Host", "[::1]"), ("Accept", "*/*")],
    ] {
        for line in ["POST /mcp", "POST /mcp/"] {
            let reply = web.request(line, more, &greeting());
            assert_eq!(reply.status, 200, "{line} {more:?}: {reply:?}");
        }
    }
    let session = web.session(json!({}));
    let mut listens = web.in_session(&session).to_vec();
    listens.push(("Accept", ""));
    assert_eq!(
        web.send("GET /mcp/", &web.changed(&listens), "").status,
        200
    );
    for (header, value, status) in [("Accept", "text/html", 406), ("Host", "localhost:1", 403)] {
        assert_eq!(
            web.request("POST /mcp", &[(header, value)], &greeting())
                .status,
            status,
            "{header}: {value}"
        );
    }
}

#[test]
fn a_body_that_is_no_json_is_a_parse_error() {
    let web = Web::of(&["probe#echo"]);
    for (body, code) in [("garbage", -32700), ("", -32700), ("7", -32600)] {
        let reply = web.request("POST /mcp", &[], body);
        let error = reply.answer();
        assert_eq!(
            (reply.status, &error["error"]["code"], error.get("id")),
            (400, &json!(code), Some(&json!(null)))
        );
    }
}

#[test]
fn a_page_of_an_allowed_origin_can_ask_and_read_and_no_other_can() {
    let web = Web::with(&["probe#echo"], [&format!("--allow-origin={PAGE}")]);
    for path in ["/mcp", "/v1/calls", "/mcp/"] {
        let ask = |origin: &str, wish: &str| {
            let more = [
                ("Origin", origin),
                ("Authorization", ""),
                ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", wish),
            ];
            web.request(&format!("OPTIONS {path}"), &more, "")
        };
        let asked = ask(
            PAGE,
            "authorization,content-type,mcp-protocol-version,mcp-param-city",
        );
        assert_eq!((asked.status, asked.body.as_str()), (204, ""), "{asked:?}");
        assert_eq!(
            asked.header("access-control-allow-origin").as_deref(),
            Some(PAGE)
        );
        let allowed = asked.header("access-control-allow-headers").unwrap();
        for name in [
            "authorization",
            "content-type",
            "mcp-session-id",
            "mcp-protocol-version",
            "last-event-id",
            "mcp-param-city",
        ] {
            assert!(
                allowed.split(", ").any(|known| known == name),
                "{name}: {allowed}"
            );
        }
        let methods = asked.header("access-control-allow-methods").unwrap();
        assert!(
            ["GET", "POST", "DELETE"]
                .iter()
                .all(|method| methods.contains(method)),
            "{methods}"
        );
        assert!(
            !ask(PAGE, "x-anything")
                .header("access-control-allow-headers")
                .unwrap()
                .contains("x-anything")
        );
        let refused = ask("https://evil.example", "authorization");
        assert_eq!(
            (
                refused.status,
                refused.header("access-control-allow-origin")
            ),
            (403, None),
            "{refused:?}"
        );
    }
    let answer = web.request("POST /mcp", &[("Origin", PAGE)], &greeting());
    assert_eq!(
        (
            answer.status,
            answer.header("access-control-allow-origin").as_deref()
        ),
        (200, Some(PAGE)),
        "{answer:?}"
    );
    assert!(
        answer
            .header("access-control-expose-headers")
            .unwrap()
            .contains("mcp-session-id"),
        "{answer:?}"
    );
    assert_eq!(answer.header("vary").as_deref(), Some("origin"));
    // A page also learns why it is refused.
    let unauthorized = web.request(
        "POST /v1/calls",
        &[("Origin", PAGE), ("Authorization", "")],
        "{}",
    );
    assert_eq!(
        (
            unauthorized.status,
            unauthorized
                .header("access-control-allow-origin")
                .as_deref()
        ),
        (401, Some(PAGE))
    );
    for reply in [
        web.request("POST /mcp", &[], &greeting()),
        web.request("OPTIONS /mcp", &[], ""),
    ] {
        assert!(
            reply.header("access-control-allow-origin").is_none(),
            "{reply:?}"
        );
    }
}
