//! Every request that arrives gets an answer: however many come at once, and while the server ends.
//!
//! Promise: A door has limits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolcell_server::HttpLimits;

use crate::support::Web;

const SOON: Duration = Duration::from_secs(1);
/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn call(ms: u64) -> String {
    json!({ "tool": "hold", "input": { "ms": ms } }).to_string()
}

/// Everything that the server sends until it closes the connection.
fn whole(mut stream: &TcpStream) -> String {
    let mut seen = Vec::new();
    stream
        .read_to_end(&mut seen)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&seen)));
    String::from_utf8_lossy(&seen).to_ascii_lowercase()
}

/// Whether it says that the request can be sent again.
fn can_be_repeated(answer: &str) -> bool {
    answer.starts_with("http/1.1 503")
        && answer.contains("\r\nretry-after: 1\r\n")
        && answer.contains("\r\nconnection: close\r\n")
}

#[test]
fn five_hundred_requests_at_once_are_all_answered() {
    let web = Web::of(&["probe#hold"]);
    let sent: Vec<TcpStream> = (0..500)
        .map(|_| web.begin("POST /v1/calls", &web.headers(), &call(20)))
        .collect();
    let answers: Vec<String> = sent.iter().map(whole).collect();
    let succeeded = answers
        .iter()
        .filter(|answer| answer.starts_with("http/1.1 200"))
        .count();
    assert!(succeeded >= 192, "{succeeded}");
    for answer in answers
        .iter()
        .filter(|answer| !answer.starts_with("http/1.1 200"))
    {
        assert!(can_be_repeated(answer), "{answer:?}");
    }
}

#[test]
fn one_waits_for_a_place_and_who_comes_then_is_told_at_once() {
    let mut limits = HttpLimits::default();
    (
        limits.requests,
        limits.waiting,
        limits.place_time,
        limits.strangers,
    ) = (1, 1, PATIENCE, 2);
    let web = Web::embedded("probe", limits);
    let holds = web.begin("POST /v1/calls", &web.headers(), &call(2_500));
    std::thread::sleep(Duration::from_millis(200));
    let waits = web.begin("POST /v1/calls", &web.headers(), &call(0));
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    // With a body that nobody reads: a reset would take the answer away.
    let body = format!("{}{}", call(0), " ".repeat(1 << 20));
    for line in ["POST /v1/calls", "POST /mcp"] {
        let answer = whole(&web.begin(line, &web.headers(), &body));
        assert!(can_be_repeated(&answer), "{answer:?}");
    }
    assert!(began.elapsed() < SOON * 2, "{:?}", began.elapsed());
    // Strangers do not take the place of the one that waits.
    let mut strangers: Vec<TcpStream> = (0..8).map(|_| web.connect()).collect();
    // Who is silent needs no place.
    strangers
        .iter_mut()
        .for_each(|stranger| stranger.write_all(b"G").unwrap());
    assert!(whole(&holds).starts_with("http/1.1 200"));
    assert!(whole(&waits).starts_with("http/1.1 200"));
    drop(strangers);
}

#[test]
fn a_stranger_that_has_begun_a_request_and_loses_its_place_is_told_so() {
    let web = Web::embedded(
        "probe",
        HttpLimits {
            strangers: 1,
            ..HttpLimits::default()
        },
    );
    let mut slow = web.connect();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").unwrap();
    // Who speaks first has the place.
    std::thread::sleep(Duration::from_millis(200));
    let reply = web.request("GET /healthz", &[], "");
    assert_eq!(reply.status, 200, "{reply:?}");
    let answer = whole(&slow);
    assert!(can_be_repeated(&answer), "{answer:?}");
}

#[test]
fn while_the_server_ends_new_requests_are_told_and_calls_that_are_cut_can_be_repeated() {
    let (ends, ended) = oneshot::channel::<()>();
    let limits = HttpLimits {
        drain_time: SOON,
        ..HttpLimits::default()
    };
    let web = Web::embedded_until("probe", limits, Box::pin(async move { _ = ended.await }));
    let short = web.begin("POST /v1/calls", &web.headers(), &call(700));
    let long = web.begin("POST /v1/calls", &web.headers(), &call(60_000));
    assert_eq!(web.request("GET /readyz", &[], "").status, 200);
    std::thread::sleep(Duration::from_millis(200));
    ends.send(()).unwrap();
    let began = Instant::now();
    while web.request("GET /readyz", &[], "").status == 200 {
        assert!(began.elapsed() < SOON, "it stays ready");
    }
    assert_eq!(web.request("GET /readyz", &[], "").body, "ending");
    assert_eq!(web.request("GET /healthz", &[], "").status, 200);
    for line in ["POST /v1/calls", "POST /mcp"] {
        let answer = whole(&web.begin(line, &web.headers(), &call(0)));
        assert!(can_be_repeated(&answer), "{answer:?}");
    }
    assert!(whole(&short).starts_with("http/1.1 200"));
    let cut = whole(&long);
    assert!(
        cut.starts_with("http/1.1 503") && cut.contains("\r\nretry-after: 1\r\n"),
        "{cut:?}"
    );
    let body: Value = serde_json::from_str(cut.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(
        (&body["error"]["error_class"], &body["error"]["error_code"]),
        (&json!("canceled"), &json!("host_stopped"))
    );
}
