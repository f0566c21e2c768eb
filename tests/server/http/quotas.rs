//! One client must leave room for the others.
//!
//! Promise: One client does not lock out another.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use toolcell_server::HttpLimits;

use crate::server::contracts::heavy;
use crate::support::{Web, scratch};

/// Longer than any step takes on a busy machine.
const SOON: Duration = Duration::from_secs(8);

fn works(web: &Web) {
    let reply = web.stateless(
        "tools/call",
        json!({ "name": "invocation", "arguments": {} }),
        json!({}),
    );
    assert_eq!(
        reply.answer()["result"]["isError"],
        json!(false),
        "{reply:?}"
    );
}

const ANNA: &str = "0123456789abcdef0";
const BERT: &str = "fedcba98765432100";

/// A server with two principals; the token is Anna's at first.
fn of_two(tools: &[&str], options: &[&str]) -> Web {
    with_idle(0, tools, options)
}

/// The same, with so many others that do nothing.
fn with_idle(others: usize, tools: &[&str], options: &[&str]) -> Web {
    let (_guard, path) = scratch();
    let tokens = path.join("tokens");
    let others = (0..others).map(|n| format!("other{n} a-token-of-another-{n}\n"));
    let others: String = others.collect();
    std::fs::write(&tokens, format!("anna {ANNA}\nbert {BERT}\n{others}")).unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = format!("--token-file={}", tokens.display());
    let mut web = Web::with(tools, options.iter().copied().chain([file.as_str()]));
    web.token = ANNA.to_owned();
    web
}

/// Whether the stream of a call has received an answer by now.
fn answers(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    stream.peek(&mut [0]).is_ok_and(|read| read > 0)
}

/// Whether the stream of a call has received a progress notification by now.
fn speaks(mut stream: &TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    let mut bytes = [0; 4 << 10];
    let read = stream.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).contains("notifications/progress")
}

#[test]
fn all_the_places_of_one_principal_leave_some_for_another() {
    // So small that memory does not limit their number.
    let options = ["--timeout=2m", "--memory=32MiB", "--max-output=1MiB"];
    let mut web = of_two(&["probe#progress", "probe#invocation"], &options);
    let call = || {
        let arguments = json!({ "count": 10_000, "interval_ms": 100 });
        let params =
            json!({ "name": "progress", "arguments": arguments, "_meta": { "progressToken": 1 } });
        web.begin_stateless("tools/call", params, json!({}))
    };
    // More calls than places.
    let running: Vec<TcpStream> = (0..80).map(|_| call()).collect();
    // Her running calls report progress: they have her half of the places, and borrow most of the other half.
    let mut silent: Vec<&TcpStream> = running.iter().collect();
    let began = Instant::now();
    while silent.len() > 24 {
        assert!(
            began.elapsed() < SOON * 4,
            "{} of hers run",
            80 - silent.len()
        );
        silent.retain(|stream| !speaks(stream));
    }
    web.token = BERT.to_owned();
    let began = Instant::now();
    works(&web);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_busy_principal_borrows_the_places_of_nine_that_are_idle() {
    let options = [
        "--timeout=2m",
        "--max-calls=32",
        "--memory=32MiB",
        "--max-output=1MiB",
    ];
    let mut web = with_idle(8, &["probe#progress", "probe#invocation"], &options);
    let arguments = json!({ "count": 10_000, "interval_ms": 100 });
    let params =
        json!({ "name": "progress", "arguments": arguments, "_meta": { "progressToken": 1 } });
    let running: Vec<TcpStream> = (0..40)
        .map(|_| web.begin_stateless("tools/call", params.clone(), json!({})))
        .collect();
    // Three places are hers, and four of all are not lent.
    let mut silent: Vec<&TcpStream> = running.iter().collect();
    let began = Instant::now();
    while silent.len() > 12 {
        assert!(
            began.elapsed() < SOON * 4,
            "{} of hers run",
            40 - silent.len()
        );
        silent.retain(|stream| !speaks(stream));
    }
    std::thread::sleep(Duration::from_millis(500));
    silent.retain(|stream| !speaks(stream));
    assert_eq!(silent.len(), 12, "the reserve was lent");
    web.token = BERT.to_owned();
    let began = Instant::now();
    works(&web);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// A connection that has had an answer, and is kept.
fn rested(web: &Web) -> TcpStream {
    let headers: String = web
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let mut stream = web.connect();
    let request = format!("GET /v1/tools/none HTTP/1.1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = [0; 4 << 10];
    let read = stream.read(&mut bytes).unwrap();
    let answer = String::from_utf8_lossy(&bytes[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    stream
}

#[test]
fn idle_connections_of_who_has_most_make_room() {
    let mut web = Web::embedded(
        "probe",
        HttpLimits {
            requests: 6,
            waiting: 2,
            ..HttpLimits::default()
        },
    );
    let mut rested = |token: &str, count: usize| -> Vec<TcpStream> {
        web.token = token.to_owned();
        (0..count).map(|_| rested(&web)).collect()
    };
    let first = rested("", 8);
    let next = rested("", 4);
    std::thread::sleep(Duration::from_millis(300));
    let is_open = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut [0]).is_err()
    };
    // The longest idle ones are closed.
    assert_eq!(first.iter().filter(is_open).count(), 4);
    assert_eq!(next.iter().filter(is_open).count(), 4);
    assert!(first.iter().take(4).all(|stream| !is_open(&stream)));
}

#[test]
fn the_checks_of_one_principal_do_not_hold_up_those_of_another() {
    let (_guard, path) = scratch();
    let heavy = heavy(&path).display().to_string();
    let mut web = of_two(&[], &["--timeout=2m", &heavy]);
    let call = || json!({ "name": "echo", "arguments": { "list": vec![json!({}); 60] } });
    let waiting: Vec<TcpStream> = (0..90)
        .map(|_| web.begin_stateless("tools/call", call(), json!({})))
        .collect();
    web.token = BERT.to_owned();
    let reply = web.stateless("tools/call", call(), json!({}));
    assert_eq!(
        reply.answer()["result"]["isError"],
        json!(false),
        "{reply:?}"
    );
    let answered = waiting.iter().filter(|stream| answers(stream)).count();
    assert!(
        answered < 45,
        "{answered} calls of hers were answered before his"
    );
}

#[test]
fn all_the_connections_of_one_principal_leave_room_for_another() {
    let mut web = of_two(&["probe#progress", "probe#invocation"], &["--timeout=2m"]);
    // More than all connections that authenticate. Calls that wait for a place hold theirs, too.
    let params =
        json!({ "name": "progress", "arguments": { "count": 10_000, "interval_ms": 100 } });
    let held: Vec<TcpStream> = (0..256)
        .map(|_| web.begin_stateless("tools/call", params.clone(), json!({})))
        .collect();
    web.token = BERT.to_owned();
    let began = Instant::now();
    works(&web);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(held);
    web.token = ANNA.to_owned();
    works(&web);
}

#[test]
fn silent_connections_without_a_token_leave_room_for_who_has_one() {
    let web = Web::of(&["probe#invocation"]);
    let silent: Vec<TcpStream> = (0..300).map(|_| web.connect()).collect();
    let began = Instant::now();
    works(&web);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // The same with connections that begin a request and send no token.
    for stream in &silent {
        let _ = (&*stream).write_all(b"POST /mcp HTTP/1.1\r\nHost: ");
    }
    let begun: Vec<TcpStream> = (0..100).map(|_| web.connect()).collect();
    for stream in &begun {
        let _ = (&*stream).write_all(b"POST /mcp HTTP/1.1\r\nHost: ");
    }
    let began = Instant::now();
    works(&web);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn six_hundred_silent_connections_do_not_delay_a_new_one() {
    let web = Web::of(&["probe#invocation"]);
    works(&web);
    let began = Instant::now();
    // The kernel lets a connection wait a second, then three and seven, if the server does not take those before it.
    let silent: Vec<TcpStream> = (0..600).map(|_| web.connect()).collect();
    works(&web);
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    drop(silent);
    // Silence takes no place at all: with only one, a hundred would have it for ten seconds.
    let web = Web::embedded(
        "probe",
        HttpLimits {
            strangers: 1,
            ..HttpLimits::default()
        },
    );
    let silent: Vec<TcpStream> = (0..100).map(|_| web.connect()).collect();
    let began = Instant::now();
    assert_eq!(web.request("GET /healthz", &[], "").status, 200);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    drop(silent);
}

#[test]
fn a_crowd_that_begins_requests_and_goes_no_further_is_turned_away_soon() {
    let web = Web::embedded(
        "probe",
        HttpLimits {
            strangers: 2,
            ..HttpLimits::default()
        },
    );
    let begun: Vec<TcpStream> = (0..40).map(|_| web.connect()).collect();
    for stream in &begun {
        let _ = (&*stream).write_all(b"POST /mcp HTTP/1.1\r\nHost: ");
    }
    let began = Instant::now();
    assert_eq!(web.request("GET /healthz", &[], "").status, 200);
    // One after the other, each for a second, they would take twenty.
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_connection_that_says_nothing_is_closed_soon() {
    let web = Web::of(&["probe#invocation"]);
    let mut stream = web.connect();
    let began = Instant::now();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(
        rest.is_empty() && began.elapsed() < SOON,
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_caller_that_is_named_in_two_places_has_one_part() {
    let (_guard, path) = scratch();
    let settings = path.join("settings.toml");
    std::fs::write(&settings, "[[principal]]\nname = \"anna\"\n").unwrap();
    let tokens = path.join("tokens");
    // Her next token is there before the old one goes.
    std::fs::write(
        &tokens,
        format!("anna {ANNA}\nanna another-token-of-anna\n"),
    )
    .unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let options = [
        format!("--token-file={}", tokens.display()),
        format!("--config={}", settings.display()),
        "--max-calls=8".to_owned(),
        "--timeout=2m".to_owned(),
        "--memory=32MiB".to_owned(),
        "--max-output=1MiB".to_owned(),
    ];
    let mut web = Web::with(&["probe#progress"], &options);
    web.token = ANNA.to_owned();
    let arguments = json!({ "count": 10_000, "interval_ms": 100 });
    let params =
        json!({ "name": "progress", "arguments": arguments, "_meta": { "progressToken": 1 } });
    let running: Vec<TcpStream> = (0..10)
        .map(|_| web.begin_stateless("tools/call", params.clone(), json!({})))
        .collect();
    // Nothing is kept back for others, because there are none.
    let mut silent: Vec<&TcpStream> = running.iter().collect();
    let began = Instant::now();
    while silent.len() > 2 {
        assert!(
            began.elapsed() < SOON * 4,
            "{} of hers run",
            10 - silent.len()
        );
        silent.retain(|stream| !speaks(stream));
    }
}
