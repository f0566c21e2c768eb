//! Promise: Servers cannot exhaust the host.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_policy::NetworkLimits;
use toolcell_spec::AbortReason;

use crate::support::{Server, Test};

use super::{answer, denials, eventually, failed};

fn limited(server: &Server, tool: &str, change: impl FnOnce(&mut NetworkLimits)) -> Test {
    Test::new(&format!("egress#{tool}"))
        .net(&server.url(""))
        .limit(|limits| change(&mut limits.network))
}

/// A server that sends until the client disconnects.
fn endless(head: &'static str, piece: &'static str) -> Server {
    Server::start(move |visit| {
        visit.head();
        visit.say(head);
        let piece = piece.repeat(1_000);
        while visit.say(&piece) {}
    })
}

#[tokio::test]
async fn a_body_without_an_end_is_cut_at_the_limit() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ] {
        let server = endless(head, "0123456789abcdef");
        let test = limited(&server, "ask", |limits| limits.received_bytes = 1 << 20);
        let input = json!({ "requests": [{ "authority": server.authority() }], "fail": true });
        let called = test.call(input).await;
        called.failed("result_too_large", "network_received_limit");
        let used = called
            .0
            .result
            .usage
            .as_ref()
            .unwrap()
            .network
            .unwrap()
            .received_bytes;
        assert!(
            used.used > used.limit && used.used < used.limit + (256 << 10),
            "{used:?}"
        );
        assert_eq!(denials(&called).len(), 1);
        eventually("the end of the connection", || server.open() == 0).await;
    }
}

#[tokio::test]
async fn a_guest_that_reads_part_of_a_body_gets_that_part() {
    let server = endless("HTTP/1.1 200 OK\r\n\r\n", "0123456789abcdef");
    let request = json!({ "authority": server.authority(), "read_bytes_max": 100 });
    let answer = answer(limited(&server, "ask", |_| ()), request).await;
    assert!(
        answer["bytes"].as_u64().unwrap() >= 100 && answer["body_error"] == Value::Null,
        "{answer}"
    );
}

#[tokio::test]
async fn a_flood_of_headers_is_cut() {
    let endless_head = Server::start(|visit| {
        visit.head();
        visit.say("HTTP/1.1 200 OK\r\n");
        while visit.say("x-flood: 0123456789abcdef0123456789abcdef\r\n") {}
    });
    let many = Server::start(|visit| {
        visit.head();
        let headers: String = (0..1_000).map(|n| format!("x-{n}: a\r\n")).collect();
        visit.say(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n"));
    });
    let interim = Server::start(|visit| {
        visit.head();
        while visit.say("HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n") {}
    });
    for server in [endless_head, many, interim] {
        let test = limited(&server, "ask", |limits| limits.received_bytes = 1 << 20);
        let answer = answer(test, json!({ "authority": server.authority() })).await;
        assert!(answer["error"].is_string(), "{answer}");
        eventually("the end of the connection", || server.open() == 0).await;
    }
}

#[tokio::test]
async fn headers_of_a_request_are_bounded() {
    let server = Server::hello();
    let headers: Vec<[String; 2]> = (0..40)
        .map(|n| [format!("x-{n}"), "a".repeat(1_000)])
        .collect();
    let request = json!({ "authority": server.authority(), "headers": headers });
    let called = limited(&server, "ask", |_| ())
        .call(json!({ "requests": [request] }))
        .await;
    called.failed("sandbox_violation", "header_limit");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let server = Server::start(|visit| {
        visit.head();
        visit.drain();
    });
    let began = Instant::now();
    let test = limited(&server, "ask", |limits| {
        limits.first_byte = Duration::from_millis(100)
    });
    failed(
        &answer(test, json!({ "authority": server.authority() })).await,
        "HttpResponseTimeout",
    );
    assert!(began.elapsed() < Duration::from_secs(10));
    eventually("the end of the connection", || server.open() == 0).await;
}

#[tokio::test]
async fn the_guests_own_timeouts_count_where_they_are_shorter_and_never_where_they_are_longer() {
    let silent = || {
        Server::start(|visit| {
            visit.head();
            visit.drain();
        })
    };
    for (limit, wish) in [(60_000, 50), (50, 3_600_000), (60_000, 0)] {
        let server = silent();
        let test = limited(&server, "ask", |limits| {
            limits.first_byte = Duration::from_millis(limit)
        });
        let request = json!({ "authority": server.authority(), "first_byte_ms": wish, "between_bytes_ms": wish });
        failed(&answer(test, request).await, "Timeout");
    }
}

#[tokio::test]
async fn a_body_that_drips_ends_with_the_time_for_the_whole() {
    let server = Server::start(|visit| {
        visit.head();
        visit.say("HTTP/1.1 200 OK\r\n\r\n");
        while visit.say("x") {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let test = limited(&server, "ask", |limits| {
        limits.total = Duration::from_millis(300)
    });
    let answer = answer(test, json!({ "authority": server.authority() })).await;
    assert_eq!(answer["status"], 200, "{answer}");
    assert!(
        answer["body_error"].as_str().unwrap().contains("timeout"),
        "{answer}"
    );
    eventually("the end of the connection", || server.open() == 0).await;
}

#[tokio::test]
async fn a_body_that_stops_in_the_middle_is_given_up() {
    let server = Server::start(|visit| {
        visit.head();
        visit.say("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
        visit.drain();
    });
    let test = limited(&server, "ask", |limits| {
        limits.between_bytes = Duration::from_millis(50)
    });
    let answer = answer(test, json!({ "authority": server.authority() })).await;
    assert_eq!(answer["bytes"], 4);
    assert!(
        answer["body_error"].as_str().unwrap().contains("timeout"),
        "{answer}"
    );
}

#[tokio::test]
async fn an_upload_without_an_end_is_cut_at_the_limit() {
    let server = Server::start(|visit| {
        visit.head();
        visit.drain();
    });
    let test = limited(&server, "change", |limits| limits.sent_bytes = 1 << 20);
    let request =
        json!({ "authority": server.authority(), "method": "POST", "body_bytes": 10_u64 << 30 });
    let called = test
        .call(json!({ "requests": [request], "fail": true }))
        .await;
    called.failed("result_too_large", "network_sent_limit");
    let usage = called.0.result.usage.as_ref().unwrap();
    let sent = usage.network.unwrap().sent_bytes;
    assert!(
        sent.used >= sent.limit && sent.used < sent.limit + (256 << 10),
        "{sent:?}"
    );
}

#[tokio::test]
async fn a_flood_of_requests_meets_a_limit_and_few_connections_at_once() {
    let server = Server::hello();
    let requests: Vec<Value> = (0..300)
        .map(|_| json!({ "authority": server.authority() }))
        .collect();
    let test = limited(&server, "ask", |limits| {
        (limits.requests, limits.connections) = (40, 3)
    });
    let called = test
        .call(json!({ "requests": requests, "at_once": true, "fail": true }))
        .await;
    called.failed("rate_limited", "network_request_limit");
    assert_eq!(denials(&called).len(), 1, "a limit is recorded once");
    // The server sees the end of a connection slightly later than the sandbox.
    assert!(
        server.connections() <= 40 && server.most_open() < 10,
        "{} {}",
        server.connections(),
        server.most_open()
    );
}

#[tokio::test]
async fn denials_without_end_are_counted_and_only_the_first_are_recorded() {
    let server = Server::hello();
    let requests: Vec<Value> = (0..60)
        .map(|_| json!({ "authority": "10.0.0.1" }))
        .collect();
    let called = limited(&server, "ask", |_| ())
        .call(json!({ "requests": requests }))
        .await;
    called.succeeded();
    assert_eq!(denials(&called).len(), 32);
    assert_eq!(
        called
            .0
            .result
            .usage
            .as_ref()
            .unwrap()
            .network
            .unwrap()
            .requests
            .used,
        60
    );
}

#[tokio::test]
async fn the_deadline_and_a_cancellation_close_the_sockets_of_a_call() {
    let silent = Server::start(|visit| {
        visit.head();
        visit.drain();
    });
    let input = json!({ "requests": [{ "authority": silent.authority() }] });
    let called = limited(&silent, "ask", |_| ())
        .timeout_ms(200)
        .call(input.clone())
        .await;
    called.failed("timeout", "deadline_exceeded");
    eventually("the end of the connection", || silent.open() == 0).await;

    let test = limited(&silent, "ask", |_| ());
    let cancellation = test.cancellation();
    let (called, ()) = tokio::join!(test.call(input), async {
        while silent.heads().len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        cancellation.cancel(AbortReason::UserInterruption);
    });
    called.failed("canceled", "canceled");
    eventually("the end of the connection", || silent.open() == 0).await;
}
