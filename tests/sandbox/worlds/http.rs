//! Servers: components that export `wasi:http/incoming-handler`.
//!
//! Promise: Nothing without a grant.

use std::fs;

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

use super::alone;
use crate::pipeline::doubles::own_host;
use crate::sandbox::logged;
use crate::support::{Called, Server, Test, fixture, scratch};

fn server() -> Vec<u8> {
    fs::read(fixture("server")).unwrap()
}

fn profiled(profile: &Value) -> Vec<u8> {
    with_custom(
        &server(),
        "toolcell:profile",
        profile.to_string().as_bytes(),
    )
    .unwrap()
}

/// Asks for no network, although the guest imports it.
fn offline() -> Vec<u8> {
    profiled(&json!({ "tools": { "server": { "network": false } } }))
}

fn test() -> Test {
    alone(offline(), None)
}

async fn get(path: &str) -> Called {
    test().call(json!({ "path": path })).await
}

#[tokio::test]
async fn a_call_is_a_request_and_its_response() {
    let input = json!({
        "method": "put",
        "path": "/echo/a b",
        "query": { "q": ["1", 2] },
        "headers": { "X-A": "1" },
        "body": { "n": 1 },
    });
    let output = test().call(input).await.succeeded();
    assert_eq!(output["status"], 200);
    assert_eq!(
        output["headers"],
        json!({ "content-type": "application/json" })
    );
    let headers = json!({ "x-a": "1", "content-type": "application/json", "content-length": "7" });
    let seen = json!({
        "method": "Method::Put",
        "target": "/echo/a%20b?q=1&q=2",
        "authority": "localhost",
        "headers": headers,
        "body": "{\"n\":1}",
    });
    assert_eq!(output["body"], seen);
    let called = test().call(json!({})).await;
    called.failed("partial_failure", "http_404");
    let headers = get("/headers").await.succeeded()["headers"].clone();
    assert_eq!(headers, json!({ "x-a": "1, 2", "x-b": "\u{fffd}" }));
    let large = "x".repeat(15_000);
    let output = test()
        .call(json!({ "path": "/echo", "body": large }))
        .await
        .succeeded();
    assert_eq!(output["body"]["body"], large);
}

#[tokio::test]
async fn a_body_is_shown_as_what_it_is() {
    assert_eq!(
        get("/json").await.succeeded()["body"],
        json!({ "n": 1.10, "pets": ["Rex"] })
    );
    assert_eq!(get("/not-json").await.succeeded()["body"], "{");
    assert_eq!(
        get("/bytes/3").await.succeeded()["body"],
        json!({ "base64": "////" })
    );
    let called = get("/bytes/100000").await;
    let output = called.succeeded();
    let kept = &called.0.result.artifact_refs[0];
    assert_eq!(output["body"], json!({ "reference": kept["reference"] }));
    assert_eq!(
        (&kept["media_type"], &kept["size_bytes"]),
        (&json!("image/png"), &json!(100_000))
    );
    assert_eq!(get("/trailers").await.succeeded()["body"], "with trailers");
}

#[tokio::test]
async fn each_request_meets_a_fresh_instance() {
    let host = own_host(|settings| settings);
    for _ in 0..3 {
        let test = Test::of_bytes(offline(), None).on(&host);
        let called = test.call(json!({ "path": "/count" })).await;
        assert_eq!(called.succeeded()["body"], "1");
    }
}

#[tokio::test]
async fn a_status_of_an_error_is_one_and_the_response_is_kept() {
    let called = get("/status/422").await;
    called.failed("partial_failure", "http_422");
    let said = r#"the server answered with 422 Unprocessable Entity: {"detail":"no such pet"}"#;
    assert_eq!(called.message(), said);
    let output = called.0.result.structured_content.as_ref().unwrap();
    assert_eq!(output["body"], json!({ "detail": "no such pet" }));
    let error = called.0.result.error.as_ref().unwrap();
    assert_eq!(error.retry_after, Some(7.0));
    for status in ["100", "204", "302", "399"] {
        let output = get(&format!("/status/{status}")).await.succeeded();
        assert_eq!(output["status"].to_string(), status);
    }
}

#[tokio::test]
async fn a_server_that_breaks_its_contract_ends_in_one_result_that_says_how() {
    for (path, class, code) in [
        ("/silent", "execution_failed", "response_missing"),
        ("/leak", "execution_failed", "response_missing"),
        ("/error", "execution_failed", "server_failed"),
        ("/panic", "execution_failed", "guest_panicked"),
        ("/panic-after-head", "execution_failed", "guest_panicked"),
        ("/unfinished", "partial_failure", "response_cut"),
        ("/short", "partial_failure", "response_cut"),
        ("/endless", "result_too_large", "output_limit"),
    ] {
        let called = get(path).await;
        called.failed(class, code);
        let terminal = called
            .events()
            .iter()
            .filter(|event| **event == "tool.result.created")
            .count();
        assert_eq!(terminal, 1, "{path}");
    }
    let called = get("/unfinished").await;
    let output = called.0.result.structured_content.as_ref().unwrap();
    assert_eq!(output["body"], "half of it");
    assert!(get("/error").await.message().contains("no database"));
    let set = get("/invalid-headers").await.succeeded()["body"].clone();
    assert_eq!(set, "[false,false,false,false,true]");
    get("/many-headers")
        .await
        .failed("sandbox_violation", "header_limit");
}

#[tokio::test]
async fn limits_hold_for_a_server_that_never_ends() {
    for (path, code) in [
        ("/hanging", "deadline_exceeded"),
        ("/spin", "epoch_deadline"),
        ("/spin-after", "epoch_deadline"),
    ] {
        let called = test().timeout_ms(500).call(json!({ "path": path })).await;
        called.failed("timeout", code);
    }
    let called = test()
        .limit(|limits| limits.fuel = 50_000_000)
        .call(json!({ "path": "/spin" }))
        .await;
    called.failed("timeout", "fuel_exhausted");
    let called = test().limit(|limits| limits.output_bytes = 1_000);
    let called = called.call(json!({ "path": "/bytes/5000" })).await;
    called.failed("result_too_large", "output_limit");
    let called = test().cancel_after(std::time::Duration::from_millis(100));
    called
        .call(json!({ "path": "/hanging" }))
        .await
        .failed("canceled", "canceled");
}

#[tokio::test]
async fn what_a_server_does_after_its_response_is_waited_for() {
    let called = get("/after").await;
    assert_eq!(called.succeeded()["body"], "answered");
    assert_eq!(logged(&called.record(), "stdout"), "after the answer\n");
    let called = get("/print").await;
    assert_eq!(logged(&called.record(), "stdout"), "printed\n");
}

#[tokio::test]
async fn a_caller_sends_no_header_of_the_connection_and_no_credential() {
    for name in [
        "Host",
        "Transfer-Encoding",
        "Authorization",
        "Cookie",
        "x-api-key",
    ] {
        let called = test()
            .call(json!({ "path": "/echo", "headers": { name: "1" } }))
            .await;
        called.failed("invalid_arguments", "request_invalid");
    }
    for path in ["pets", "http://example.com/", "/a#b", "/\n"] {
        get(path)
            .await
            .failed("invalid_arguments", "request_invalid");
    }
}

#[tokio::test]
async fn a_server_reaches_nothing_that_was_not_granted() {
    assert_eq!(get("/env").await.succeeded()["body"], "[]");
    let (_guard, folder) = scratch();
    let file = folder.join("a.txt");
    fs::write(&file, "inside").unwrap();
    let path = format!("/file{}", file.to_str().unwrap());
    let denied = get(&path).await.succeeded()["body"].clone();
    assert_ne!(denied, "inside");
    let other = Server::saying("HTTP/1.1 204 No Content\r\n\r\n");
    let fetch = json!({ "path": "/fetch", "query": format!("127.0.0.1:{}", other.port) });
    let granting = |spec: &str| alone(server(), None).net(spec);
    let called = alone(server(), None).call(fetch.clone()).await;
    called.failed("permission_denied", "not_granted");
    let called = granting("http://other.ex.test").call(fetch.clone()).await;
    assert_eq!(
        called.succeeded()["body"],
        "Some(ErrorCode::HttpRequestDenied)"
    );
    assert_eq!(other.connections(), 0);
    let called = granting(&other.url("")).call(fetch.clone()).await;
    assert_eq!(called.succeeded()["body"], "204");
    // Its profile asks for no network.
    let called = test().net(&other.url("")).call(fetch).await;
    assert_eq!(
        called.succeeded()["body"],
        "Some(ErrorCode::HttpRequestDenied)"
    );
}

#[tokio::test]
async fn routes_are_tools_that_reach_nothing_else() {
    let routes = json!({
        "namespace": "pets",
        "routes": [
            {
                "name": "show pet",
                "description": "Shows a pet.",
                "request": { "path": "/echo/{id}", "parameters": { "q": { "in": "query" } } },
                "input_schema": {
                    "type": "object",
                    "properties": { "id": { "type": "string" }, "q": { "type": "integer" } },
                    "required": ["id"],
                    "additionalProperties": false,
                },
                "output_schema": { "type": "object", "required": ["target"] },
            },
            { "name": "fail", "request": { "path": "/status/{status}" } },
            { "name": "bytes", "request": { "path": "/bytes/3" } },
            { "name": "empty", "request": { "path": "/headers" } },
        ],
        "tools": { "show-pet": { "network": false }, "fail": { "network": false }, "bytes": { "network": false }, "empty": { "network": false } },
    });
    let component = profiled(&routes);
    let of = |tool: &str| alone(component.clone(), Some(tool));
    let called = of("show-pet")
        .call(json!({ "id": "../status/500", "q": 7 }))
        .await;
    assert_eq!(called.succeeded()["target"], "/echo/..%2Fstatus%2F500?q=7");
    let id = &called.record()["declaration"]["tool_id"];
    assert_eq!(id, "pets.show-pet");
    for input in [json!({ "id": ".." }), json!({ "id": "" })] {
        of("show-pet")
            .call(input)
            .await
            .failed("invalid_arguments", "request_invalid");
    }
    of("show-pet")
        .call(json!({ "q": 7 }))
        .await
        .failed("schema_validation_failed", "schema_mismatch");
    let called = of("fail").call(json!({ "status": "503" })).await;
    called.failed("partial_failure", "http_503");
    let block = &called.record()["result"]["content"][0];
    assert_eq!(block["text"], r#"{"detail":"no such pet"}"#);
    let called = of("bytes").call(json!({})).await;
    called.succeeded();
    let block = &called.record()["result"]["content"][0];
    assert_eq!(
        (&block["type"], &block["data"]),
        (&json!("file"), &json!("////"))
    );
    let called = of("empty").call(json!({})).await;
    called.succeeded();
    assert_eq!(called.record()["result"]["content"][0]["text"], "200 OK");
}

async fn refused(component: Vec<u8>) -> Refusal {
    alone(component, None).load().await.unwrap_err()
}

#[tokio::test]
async fn a_profile_that_is_not_for_a_server_is_refused() {
    let route = json!({ "name": "a", "request": { "path": "/" } });
    for (profile, why) in [
        (
            json!({ "routes": [{ "name": "a", "request": { "path": "a" } }] }),
            "does not begin with /",
        ),
        (
            json!({ "routes": vec![route.clone(); 257] }),
            "more than 256 routes",
        ),
        (
            json!({ "routes": [route], "functions": true }),
            "leave out one",
        ),
        (json!({ "tools": { "other": {} } }), "none of its tools"),
    ] {
        let refusal = refused(profiled(&profile)).await;
        assert_eq!(
            (refusal.class, refusal.code),
            (ErrorClass::SetupRequired, ErrorCode::DescriptionInvalid)
        );
        assert!(refusal.message.contains(why), "{}", refusal.message);
    }
}

fn service() -> Test {
    let profile = json!({ "tools": { "service": { "network": false } } });
    let bytes = fs::read(fixture("service")).unwrap();
    alone(
        with_custom(&bytes, "toolcell:profile", profile.to_string().as_bytes()).unwrap(),
        None,
    )
}

#[tokio::test]
async fn a_server_of_wasi_0_3_is_called_as_others_are() {
    let ask = async |input: Value| service().call(input).await;
    assert_eq!(ask(json!({})).await.succeeded()["body"], "hello");
    let echo = json!({ "method": "POST", "path": "/echo", "query": { "a": 1 }, "body": "hi" });
    assert_eq!(ask(echo).await.succeeded()["body"], "true a=1 hi");
    for (path, class, code) in [
        ("/missing", "partial_failure", "http_404"),
        ("/fail", "execution_failed", "server_failed"),
        ("/panic", "execution_failed", "guest_panicked"),
        ("/flood", "result_too_large", "output_limit"),
    ] {
        ask(json!({ "path": path })).await.failed(class, code);
    }
    let hanging = service()
        .timeout_ms(500)
        .call(json!({ "path": "/hang" }))
        .await;
    assert!(hanging.0.result.error.is_some());
    let other = Server::saying("HTTP/1.1 204 No Content\r\n\r\n");
    let fetch = json!({ "path": "/fetch", "query": format!("127.0.0.1:{}", other.port) });
    assert_eq!(
        ask(fetch.clone()).await.succeeded()["body"],
        "ErrorCode::HttpRequestDenied"
    );
    let bytes = fs::read(fixture("service")).unwrap();
    let granted = alone(bytes.clone(), None)
        .net("http://other.ex.test")
        .call(fetch.clone())
        .await;
    assert_eq!(granted.succeeded()["body"], "ErrorCode::HttpRequestDenied");
    assert_eq!(other.connections(), 0);
    let granted = alone(bytes, None).net(&other.url("")).call(fetch).await;
    assert_eq!(granted.succeeded()["body"], "204");
    let touched = &granted.record()["result"]["usage"]["network"]["requests"]["used"];
    assert_eq!(touched, 1);
}
