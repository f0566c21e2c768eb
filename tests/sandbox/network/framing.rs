//! Promise: A tool reaches only what was granted.

use serde_json::{Value, json};

use super::{answer, answers, failed};
use crate::support::{Server, Test};

#[tokio::test]
async fn a_guest_writes_no_header_that_frames_or_routes_a_request() {
    let server = Server::hello();
    let forbidden = [
        ["Host", "evil.test"],
        ["Transfer-Encoding", "chunked"],
        ["Connection", "keep-alive"],
        ["Upgrade", "websocket"],
        ["Proxy-Authorization", "Basic eA=="],
        ["Proxy-Connection", "keep-alive"],
        ["HTTP2-Settings", "x"],
        ["TE", "trailers"],
        ["Trailer", "x"],
        ["Expect", "100-continue"],
        ["Keep-Alive", "x"],
        ["x-a", "b\r\nHost: evil.test"],
        ["x-a", "b\nc"],
        ["a b", "c"],
        ["", "c"],
    ];
    for header in forbidden {
        let request = json!({ "authority": server.authority(), "headers": [header] });
        failed(
            &answer(Test::new("egress#change").net(&server.url("")), request).await,
            "header",
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_guest_sends_no_credentials_of_its_own() {
    let server = Server::hello();
    for name in [
        "Authorization",
        "Cookie",
        "X-Api-Key",
        "Api-Key",
        "X-Auth-Token",
        "Private-Token",
    ] {
        let request = json!({ "authority": server.authority(), "headers": [[name, "mine"]] });
        let test = Test::new("egress#ask").net(&server.url(""));
        let called = test
            .call(json!({ "requests": [request], "fail": true }))
            .await;
        called.failed("sandbox_violation", "network_request_refused");
        assert!(
            called.message().contains(&name.to_lowercase()),
            "{}",
            called.message()
        );
        assert!(!called.record()["events"].to_string().contains("mine"));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_server_sees_one_well_formed_request_whatever_the_guest_says_of_its_body() {
    let server = Server::start(|visit| {
        visit.head();
        visit.until("0\r\n\r\n");
        visit.say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let chunked =
        json!({ "authority": server.authority(), "method": "POST", "body_bytes": 70_000 });
    assert_eq!(
        answer(Test::new("egress#change").net(&server.url("")), chunked).await["status"],
        200
    );
    let head = server.heads().remove(0);
    assert_eq!(head.matches("\r\nhost: ").count(), 1, "{head}");
    assert_eq!(
        head.matches("\r\ntransfer-encoding: chunked\r\n").count(),
        1,
        "{head}"
    );
    assert!(!head.contains("content-length"), "{head}");

    let server = Server::start(|visit| {
        visit.head();
        visit.until("uuuuu");
        visit.say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let told = json!({ "authority": server.authority(), "method": "POST", "body_bytes": 5,
        "headers": [["content-length", "5"]] });
    assert_eq!(
        answer(Test::new("egress#change").net(&server.url("")), told).await["status"],
        200
    );
    let head = server.heads().remove(0);
    assert_eq!(
        head.matches("\r\ncontent-length: 5\r\n").count(),
        1,
        "{head}"
    );
    assert!(!head.contains("transfer-encoding"), "{head}");
}

#[tokio::test]
async fn a_body_of_another_length_than_was_said_never_makes_a_whole_request() {
    let request = |server: &Server, length: &str, bytes: u64| {
        json!({ "authority": server.authority(), "method": "POST", "body_bytes": bytes,
            "headers": [["content-length", length]] })
    };
    for (length, bytes) in [("10", 5), ("5", 10)] {
        let server = Server::start(|visit| {
            visit.head();
            assert!(visit.drain() <= 5);
        });
        let answer = answer(
            Test::new("egress#change").net(&server.url("")),
            request(&server, length, bytes),
        )
        .await;
        assert!(answer["error"].is_string(), "{answer}");
    }
    let server = Server::hello();
    for headers in [
        json!([["content-length", "5"], ["content-length", "6"]]),
        json!([["content-length", "+5"]]),
    ] {
        let request =
            json!({ "authority": server.authority(), "method": "POST", "headers": headers });
        failed(
            &answer(Test::new("egress#change").net(&server.url("")), request).await,
            "header",
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_path_cannot_name_another_host_nor_break_the_request_line() {
    let server = Server::hello();
    let paths = [
        "http://evil.test/",
        "evil.test:80",
        "*",
        "//evil.test/",
        "/a\r\nHost: evil.test",
        "/a\u{0}",
        "\\evil.test",
    ];
    let requests = paths.map(|path| json!({ "authority": server.authority(), "path": path }));
    let answers = answers(Test::new("egress#ask").net(&server.url("")), &requests).await;
    for (path, answer) in paths.iter().zip(answers) {
        let arrived = *path == "//evil.test/";
        assert_eq!(answer["status"] == json!(200), arrived, "{path}: {answer}");
    }
    assert_eq!(server.heads().len(), 1);
    assert!(server.heads()[0].starts_with("GET //evil.test/ HTTP/1.1\r\n"));
    let query = json!({ "authority": server.authority(), "path": "?a" });
    assert_eq!(
        answer(Test::new("egress#ask").net(&server.url("")), query).await["status"],
        200
    );
    assert!(
        server.heads()[1].starts_with("GET /?a HTTP/1.1\r\n"),
        "{}",
        server.heads()[1]
    );
    // What is a URL for people arrives as one for servers. The length of no body is not sent, and is no error.
    let people = json!({ "authority": server.authority(), "path": "/b\u{fc}cher und%20mehr?a=\u{20ac} b",
        "headers": [["content-length", "5"]] });
    assert_eq!(
        answer(Test::new("egress#ask").net(&server.url("")), people).await["status"],
        200
    );
    let head = &server.heads()[2];
    assert!(
        head.starts_with("GET /b%C3%BCcher%20und%20mehr?a=%E2%82%AC%20b HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(!head.contains("content-length"), "{head}");
}

#[tokio::test]
async fn no_method_opens_a_tunnel_and_no_answer_does() {
    let server = Server::saying(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    );
    for method in ["CONNECT", "TRACE"] {
        let request = json!({ "authority": server.authority(), "method": method });
        failed(
            &answer(Test::new("egress#change").net(&server.url("")), request).await,
            "HttpRequestDenied",
        );
    }
    for scheme in ["ws", "file", "ftp", "gopher"] {
        let request = json!({ "authority": server.authority(), "scheme": scheme });
        failed(
            &answer(Test::new("egress#change").net(&server.url("")), request).await,
            "HttpRequestDenied",
        );
    }
    assert_eq!(server.connections(), 0);
    let request = json!({ "authority": server.authority() });
    failed(
        &answer(Test::new("egress#ask").net(&server.url("")), request).await,
        "HttpUpgradeFailed",
    );
}

#[tokio::test]
async fn headers_of_a_connection_do_not_reach_the_guest() {
    let server = Server::saying(
        "HTTP/1.1 200 OK\r\nconnection: close\r\nproxy-authenticate: Basic\r\nalt-svc: h2=\":443\"\r\nx-kept: yes\r\n\
         content-length: 0\r\n\r\n",
    );
    let request = json!({ "authority": server.authority() });
    let answer = answer(Test::new("egress#ask").net(&server.url("")), request).await;
    let mut names: Vec<&str> = answer["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair: &Value| pair[0].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "x-kept"]);
}
