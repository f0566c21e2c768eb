//! The example tool `fetch`: what it reads, and what it does not reach, by the servers' own counters.
//!
//! Promise: Redirects are requests.
//! Promise: Servers cannot exhaust the host.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{denials, eventually, looking_up_in};
use crate::support::{Called, ScriptedResolver, Server, Test, component};

fn fetch() -> Test {
    Test::of_file(&component("example-tools/fetch"), None)
}

async fn fetched(test: Test, url: &str) -> Called {
    test.call(json!({ "url": url })).await
}

const PAGE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n\
                    <title>Page</title><nav>menu</nav><h1>Head</h1><p>Some <a href='/b'>link</a>.";

#[tokio::test]
async fn a_page_of_a_server_that_was_named_comes_as_markdown() {
    let server = Server::saying(PAGE);
    let called = fetched(fetch().net(&server.url("")), &server.url("/a?b=c")).await;
    let expected = json!({"url": server.url("/a?b=c"), "title": "Page", "content_type": "text/html", "bytes": 77});
    assert_eq!(called.succeeded(), expected);
    let text = called.0.result.content[0].as_text().unwrap();
    assert!(
        text.contains("# Head") && text.contains(&format!("[link]({})", server.url("/b"))),
        "{text}"
    );
    assert!(!text.contains("menu"), "{text}");
    assert_eq!((server.connections(), server.heads().len()), (1, 1));
    let used = called.0.result.usage.as_ref().unwrap().network.unwrap();
    assert_eq!(used.requests.used, 1);
    // What was asked for is not noted.
    let requested =
        json!({"how": "requested", "what": format!("GET {}", server.url("/a")), "status": 200});
    let touched = &called.record()["result"]["usage"]["touched"];
    assert_eq!(*touched, json!({"listed": [requested], "more": 0}));
}

#[tokio::test]
async fn the_status_of_a_failed_request_is_the_cause_of_the_failure() {
    let server = Server::saying("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let called = fetched(fetch().net(&server.url("")), &server.url("/")).await;
    called.failed("execution_failed", "not_found");
    assert_eq!(
        called.record()["result"]["error"]["native_error_ref"],
        json!({ "http_status": 404 })
    );
}

#[tokio::test]
async fn only_the_server_of_its_argument_is_there_whatever_was_granted() {
    let server = Server::saying(PAGE);
    let other = Server::hello();
    let elsewhere = Server::start({
        let to = other.url("/");
        move |visit| {
            visit.head();
            visit.say(&format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\n\r\n"));
        }
    });
    let both = || {
        fetch()
            .net(&server.url(""))
            .net(&other.url(""))
            .net(&elsewhere.url(""))
    };
    // Both hosts are granted, but the call names only one; a redirect target needs another call.
    let called = fetched(both(), &elsewhere.url("/")).await;
    called.failed("sandbox_violation", "network_denied");
    assert!(
        called.record()["result"]["error"]["native_error_ref"]["request"].is_string(),
        "{:?}",
        called.record()
    );
    assert!(
        called.message().contains("fetch that URL itself"),
        "{}",
        called.message()
    );
    assert_eq!(denials(&called).len(), 1);
    assert_eq!(
        (
            elsewhere.connections(),
            other.connections(),
            server.connections()
        ),
        (1, 0, 0)
    );
    fetched(both(), &server.url("/")).await.succeeded();
    assert_eq!((server.connections(), other.connections()), (1, 0));
}

#[tokio::test]
async fn what_was_not_granted_is_refused_before_the_tool_runs() {
    let server = Server::hello();
    let granted = || fetch().net(&server.url(""));
    let port = server.port;
    for url in [
        format!("http://127.0.0.1:{}/", port ^ 1),
        format!("https://127.0.0.1:{port}/"),
        format!("http://127.0.0.2:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://[::ffff:7f00:1]:{port}/"),
        format!("http://2130706433.example.com:{port}/"),
        format!("http://127.0.0.1:{port}@example.com/"),
        format!("http://user:pass@127.0.0.1:{port}.example.com/"),
    ] {
        let called = fetched(granted(), &url).await;
        assert!(called.0.result.is_error, "{url}");
        called.never_ran();
    }
    // A user name before the granted host does not change the host, and is not sent.
    let called = fetched(granted(), &format!("http://user:pass@127.0.0.1:{port}/")).await;
    assert!(
        server
            .heads()
            .iter()
            .all(|head| !head.contains("authorization") && !head.contains("pass")),
        "{called:?}"
    );
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_not_reached() {
    let server = Server::hello();
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::ffff:127.0.0.1",
        "fd00::1",
    ] {
        let resolver = Arc::new(ScriptedResolver::answering(&[&[address]]));
        let test = fetch()
            .on(&looking_up_in(&resolver))
            .net("http://api.ex.test:*");
        let called = fetched(test, &format!("http://api.ex.test:{}/", server.port)).await;
        assert!(called.0.result.is_error, "{address}");
        assert_eq!(
            (denials(&called).len(), resolver.asked().len()),
            (1, 1),
            "{address}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_body_of_ten_gigabytes_is_not_read() {
    let server = Server::start(|visit| {
        let announced = visit.head().is_some_and(|head| head.contains("/announced"));
        let length = if announced {
            "content-length: 10737418240\r\n"
        } else {
            ""
        };
        visit.say(&format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{length}\r\n"
        ));
        let piece = "0123456789abcdef".repeat(4_096);
        while visit.say(&piece) {}
    });
    for path in ["/announced", "/unannounced"] {
        let called = fetched(fetch().net(&server.url("")), &server.url(path)).await;
        called.failed("result_too_large", "too_large");
        let received = called
            .0
            .result
            .usage
            .as_ref()
            .unwrap()
            .network
            .unwrap()
            .received_bytes;
        assert!(received.used < 8 << 20, "{path}: {received:?}");
        eventually("the end of the connection", || server.open() == 0).await;
    }
}

#[tokio::test]
async fn a_server_that_never_answers_does_not_hold_the_call() {
    let server = Server::start(|visit| _ = visit.drain());
    let test = fetch()
        .net(&server.url(""))
        .limit(|limits| limits.network.first_byte = Duration::from_millis(200));
    let called = fetched(test, &server.url("/")).await;
    assert!(
        called.0.result.is_error && called.0.result.content == Vec::new(),
        "{called:?}"
    );
    let called = fetched(
        fetch().net(&server.url("")).timeout_ms(300),
        &server.url("/"),
    )
    .await;
    called.failed("timeout", "deadline_exceeded");
    eventually("the end of the connections", || server.open() == 0).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn progress_tells_how_much_was_read() {
    let server = Server::start(|visit| {
        visit.head();
        visit.say("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1048576\r\n\r\n");
        visit.say(&"x".repeat(1 << 20));
    });
    let called = fetched(fetch().net(&server.url("")), &server.url("/")).await;
    let read: Vec<u64> = called
        .0
        .progress
        .iter()
        .filter_map(|update| update.bytes_read)
        .collect();
    assert!(
        read.len() >= 3 && read.is_sorted() && read.last() == Some(&(1 << 20)),
        "{read:?}"
    );
    let kept: Vec<Value> = serde_json::from_value(called.record()["persistence"].clone()).unwrap();
    assert_eq!(kept[0]["strategy"], "preview_and_persist");
}
