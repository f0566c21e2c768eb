//! Limits on the number of clients and on their time (FE-6, FE-7). The server is the library's own, with shorter limits
//! than its defaults.
//!
//! Promise: A door has limits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_server::HttpLimits;

use crate::support::{Web, frame};

/// Longer than any step takes on a busy machine; on an idle one it takes a second.
const PATIENCE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(1);

/// Serves `probe` with one or two changed limits.
fn web(change: impl FnOnce(&mut HttpLimits)) -> Web {
    let mut limits = HttpLimits::default();
    change(&mut limits);
    Web::embedded("probe", limits)
}

fn works(web: &Web) {
    let reply = web.stateless(
        "tools/call",
        json!({ "name": "counter", "arguments": {} }),
        json!({}),
    );
    assert_eq!(
        reply.answer()["result"]["isError"],
        json!(false),
        "{reply:?}"
    );
}

/// Sends a health check on a connection that stays open.
fn ask(web: &Web, stream: &mut TcpStream) {
    let text = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", web.address);
    stream.write_all(text.as_bytes()).unwrap();
}

#[track_caller]
fn is_answered(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\nok") {
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    assert!(
        seen.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&seen)
    );
}

/// Everything received until the connection ended; `drip` is sent byte by byte meanwhile.
fn dripped(mut stream: TcpStream, drip: &str) -> String {
    let began = Instant::now();
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    for byte in drip.bytes().cycle() {
        assert!(began.elapsed() < PATIENCE, "the server goes on waiting");
        // The server may have closed its side; its answer is readable even so.
        let _ = stream.write_all(&[byte]);
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => seen.extend_from_slice(&buffer[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// Sends a request to MCP on a connection that stays open, and from then on counts for its principal.
fn ping(web: &Web, stream: &mut TcpStream) {
    let head: String = web
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let text = format!("GET /mcp HTTP/1.1\r\n{head}\r\n");
    stream.write_all(text.as_bytes()).unwrap();
}

/// Checks that the server answers, with an error, because there is no session.
#[track_caller]
fn is_told(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let seen = String::from_utf8(seen).unwrap().to_ascii_lowercase();
    assert!(seen.starts_with("http/1.1 4"), "{seen}");
    let length = seen
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    stream.read_exact(&mut vec![0; length]).unwrap();
}

/// A request that is answered for as long as its client listens.
fn endless(web: &Web) -> TcpStream {
    let arguments = json!({ "count": 10_000, "interval_ms": 100 });
    let params =
        json!({ "name": "progress", "arguments": arguments, "_meta": { "progressToken": 1 } });
    let mut stream = web.begin_stateless("tools/call", params, json!({}));
    speaks(&mut stream);
    stream
}

/// Waits for the next part of an answer.
fn speaks(stream: &mut TcpStream) {
    assert!(stream.read(&mut [0; 64 << 10]).unwrap() > 0);
}

#[test]
fn one_connection_too_many_waits_for_its_turn_and_the_others_do_not_notice() {
    let web = web(|limits| (limits.requests, limits.place_time) = (8, PATIENCE));
    let mut there: Vec<TcpStream> = (0..8).map(|_| endless(&web)).collect();
    let mut late = web.connect();
    ping(&web, &mut late);
    there.iter_mut().for_each(speaks);
    late.set_nonblocking(true).unwrap();
    assert_eq!(
        late.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "more than 8 were served at once"
    );
    late.set_nonblocking(false).unwrap();
    drop(there.pop());
    is_told(&mut late);
    // An idle one takes no place: the next is answered at once, and the first is there for another request.
    let mut next = web.connect();
    ping(&web, &mut next);
    is_told(&mut next);
    ping(&web, &mut late);
    is_told(&mut late);
}

#[test]
fn a_principal_with_too_many_requests_is_told_after_a_while() {
    let web = web(|limits| (limits.requests, limits.place_time) = (1, SOON));
    let _there = endless(&web);
    let refused = web.stateless(
        "tools/call",
        json!({ "name": "counter", "arguments": {} }),
        json!({}),
    );
    assert_eq!(
        (refused.status, refused.header("retry-after").is_some()),
        (503, true),
        "{refused:?}"
    );
}

#[test]
fn who_drips_the_head_is_left_however_busily() {
    let web = web(|limits| limits.head_time = SOON);
    let mut stream = web.connect();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nX: ").unwrap();
    let seen = dripped(stream, "x");
    assert!(
        seen.is_empty() || seen.starts_with("HTTP/1.1 408"),
        "{seen}"
    );
    works(&web);
}

#[test]
fn a_connection_that_asks_nothing_more_is_closed() {
    let web = web(|limits| limits.keep_alive = SOON);
    let mut stream = web.connect();
    ask(&web, &mut stream);
    is_answered(&mut stream);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(
        rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"),
        "{}",
        String::from_utf8_lossy(&rest)
    );
    works(&web);
}

#[test]
fn who_drips_the_body_is_answered_that_it_took_too_long() {
    let web = web(|limits| limits.body_time = SOON);
    let mut stream = web.connect();
    let head: String = web
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let text = format!("POST /mcp HTTP/1.1\r\n{head}Content-Length: 1000000\r\n\r\n{{");
    stream.write_all(text.as_bytes()).unwrap();
    works(&web);
    let seen = dripped(stream, " ");
    assert!(seen.starts_with("HTTP/1.1 408"), "{seen}");
    works(&web);
}

/// Opens sessions until one succeeds, which shows that another one ended.
fn until_one_ended(web: &Web) {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let began = Instant::now();
    while web
        .request(
            "POST /mcp",
            &[],
            &frame(json!(0), "initialize", params.clone()),
        )
        .status
        == 503
    {
        assert!(began.elapsed() < PATIENCE, "no session ended");
    }
}

fn answer(web: &Web, session: &str, tool: &str, arguments: Value) -> Value {
    web.call(session, tool, arguments)["result"].clone()
}

#[test]
fn a_session_that_nobody_uses_goes_away() {
    let web = web(|limits| (limits.sessions, limits.session_idle) = (1, SOON));
    let session = web.session(json!({}));
    assert_eq!(
        answer(&web, &session, "counter", json!({}))["isError"],
        json!(false)
    );
    until_one_ended(&web);
    let gone = web.request(
        "POST /mcp",
        &web.in_session(&session),
        &frame(json!(2), "tools/list", json!({})),
    );
    assert_eq!(gone.status, 404, "{gone:?}");
}

#[test]
fn a_session_that_waits_or_listens_is_in_use() {
    let web = web(|limits| (limits.sessions, limits.session_idle) = (3, SOON));
    let waits = web.session(json!({}));
    let listens = web.session(json!({}));
    let unused = web.session(json!({}));
    let stream = web.send("GET /mcp", &web.changed(&web.in_session(&listens)), "");
    assert_eq!(stream.status, 200, "{}", stream.head);
    // Silent for several times the idle limit of a session.
    let held = answer(&web, &waits, "hold", json!({ "ms": 4_000 }));
    assert!(held["structuredContent"]["left_ns"].is_number(), "{held}");
    let list = |session: &str| {
        web.request(
            "POST /mcp",
            &web.in_session(session),
            &frame(json!(2), "tools/list", json!({})),
        )
        .status
    };
    assert_eq!(
        (list(&waits), list(&listens), list(&unused)),
        (200, 200, 404)
    );
    drop(stream);
}

#[test]
#[cfg(target_os = "linux")]
fn who_takes_nothing_of_its_answer_does_not_keep_its_place() {
    let web = web(|limits| (limits.requests, limits.stalled_time) = (1, SOON));
    let session = web.session(json!({}));
    let big = answer(&web, &session, "big", json!({ "bytes": 7_000_000 }));
    let read = frame(
        json!(3),
        "resources/read",
        json!({ "uri": big["content"][1]["uri"] }),
    );
    // Far more than the socket buffers of both ends hold.
    let stream = web.begin("POST /mcp", &web.changed(&web.in_session(&session)), &read);
    // There is only one place, and it is taken.
    works(&web);
    drop(stream);
}
