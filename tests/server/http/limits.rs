//! Requests that are too large, too many or too slow (FE-6, FE-7).
//!
//! Promise: A door has limits.
//! Promise: A request is one request.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Web, frame};

fn works(web: &Web) {
    let session = web.session(json!({}));
    assert_eq!(
        web.call(&session, "echo", json!({ "n": 1 }))["result"]["isError"],
        json!(false)
    );
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let web = Web::of(&["probe#echo"]);
    let body = |size: usize| {
        frame(
            json!(1),
            "tools/call",
            json!({ "name": "echo", "arguments": { "x": "x".repeat(size) } }),
        )
    };
    assert_eq!(web.request("POST /mcp", &[], &body(4 << 20)).status, 413);
    works(&web);
}

#[test]
fn headers_that_are_too_many_or_too_long_are_refused() {
    let web = Web::of(&["probe#echo"]);
    let mut many = web.headers();
    many.extend((0..100).map(|n| (format!("X-{n}"), "x".to_owned())));
    assert_eq!(web.send("GET /healthz", &many, "").status, 431);
    let mut long = web.headers();
    long.push(("X".to_owned(), "x".repeat(64 << 10)));
    assert_eq!(web.send("GET /healthz", &long, "").status, 431);
    works(&web);
}

#[test]
fn what_is_no_request_ends_its_connection_only() {
    let web = Web::of(&["probe#echo"]);
    for bytes in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n\r\n\r\nx",
        b"GET\r\n\r\n",
    ] {
        let mut stream = web.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    works(&web);
}

#[test]
fn who_sends_the_head_slowly_is_left_and_holds_nobody_up() {
    let web = Web::of(&["probe#echo"]);
    let began = Instant::now();
    let mut slow: Vec<_> = (0..32).map(|_| web.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").unwrap();
    }
    works(&web);
    for mut stream in slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    let took = began.elapsed();
    assert!(
        took > Duration::from_secs(5) && took < Duration::from_secs(50),
        "{took:?}"
    );
}

#[test]
fn frames_that_are_no_requests_are_refused() {
    let web = Web::of(&["probe#echo"]);
    let session = web.session(json!({}));
    for body in [
        "",
        "not JSON",
        "[]",
        "7",
        r#"{"jsonrpc":"2.0","id":{},"method":"tools/call"}"#,
    ] {
        let reply = web.request("POST /mcp", &web.in_session(&session), body);
        assert!((400..500).contains(&reply.status), "{body}: {reply:?}");
    }
    works(&web);
}

#[test]
fn a_request_says_once_how_long_its_body_is() {
    // A request without a session gets the same status.
    const AMBIGUOUS: &str = "framed in an ambiguous way";
    let web = Web::of(&["probe#echo"]);
    let head: String = web
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let body = frame(json!(1), "ping", json!({}));
    let length = format!("Content-Length: {}", body.len());
    let chunked = "Transfer-Encoding: chunked";
    let send = |framing: &str| {
        let mut stream = web.connect();
        let size = body.len();
        let probe = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", web.address);
        // Sent after another request on the same connection.
        let text = format!(
            "{probe}POST /mcp HTTP/1.1\r\n{head}Connection: close\r\n{framing}\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let (_, answer) = answer.split_once("\r\n\r\nok").unwrap();
        answer.to_owned()
    };
    for framing in [
        format!("{chunked}, chunked"),
        format!("{chunked}\r\n{chunked}"),
        format!("{chunked}\r\n{length}"),
        format!("{length}\r\n{chunked}"),
        format!("{length}\r\n{length}"),
        "Transfer-Encoding: gzip, chunked".to_owned(),
    ] {
        let answer = send(&framing);
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains(AMBIGUOUS),
            "{framing}: {answer}"
        );
        assert!(
            answer.to_ascii_lowercase().contains("connection: close"),
            "{framing}: {answer}"
        );
    }
    // Valid framing; the request is then refused because it has no session.
    let answer = send(chunked);
    assert!(
        answer.starts_with("HTTP/1.1 4") && !answer.contains(AMBIGUOUS),
        "{answer}"
    );
    works(&web);
}
