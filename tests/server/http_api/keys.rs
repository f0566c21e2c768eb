//! `Idempotency-Key`: a request that is sent again makes no second call.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Api, BERT, SOON, Said, endless, of_two};
use crate::support::{Web, records, scratch};

#[test]
fn the_same_request_again_makes_no_second_call() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(
        &["probe#progress", "probe#echo"],
        [format!("--record-to={}", file.display())],
    );
    let body = json!({ "tool": "progress", "input": { "count": 3, "interval_ms": 200 } });
    let key = [("Idempotency-Key", "one")];
    // Two at once.
    let mut twin = web.begin("POST /v1/calls", &web.changed(&key), &body.to_string());
    let reply = web.post("/v1/calls", &key, &body);
    let mut answer = String::new();
    twin.read_to_string(&mut answer).unwrap();
    let (head, said) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let first = reply.value();
    assert_eq!(
        (reply.status, &first),
        (200, &serde_json::from_str::<Value>(said).unwrap())
    );
    assert_eq!(web.post("/v1/calls", &key, &body).value(), first);
    web.post("/v1/calls", &key, &json!({ "tool": "echo" }))
        .is_problem(422, "idempotency_key_reused");
    assert_ne!(
        web.post("/v1/calls", &[("Idempotency-Key", "two")], &body)
            .value()["result_id"],
        first["result_id"]
    );
    web.post("/v1/calls", &[("Idempotency-Key", &"x".repeat(257))], &body)
        .is_problem(400, "idempotency_key_invalid");
    web.end();
    assert_eq!(records(&file).len(), 2);
}

#[test]
fn a_key_is_its_principals_alone_and_keeps_the_call_of_a_client_that_goes_away() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let mut web = of_two(
        &["probe#progress"],
        &[&format!("--record-to={}", file.display())],
    );
    let body = json!({ "tool": "progress", "input": { "count": 10, "interval_ms": 200 } });
    let headers = web.changed(&[("Idempotency-Key", "mine")]);
    let waiting = web.begin("POST /v1/calls", &headers, &body.to_string());
    std::thread::sleep(Duration::from_millis(500));
    drop(waiting);
    let kept = web.post("/v1/calls", &[("Idempotency-Key", "mine")], &body);
    assert_eq!(
        (kept.status, &kept.value()["status"]),
        (200, &json!("succeeded")),
        "{kept:?}"
    );
    web.token = BERT.to_owned();
    let other = web.post("/v1/calls", &[("Idempotency-Key", "mine")], &body);
    assert_ne!(
        other.value()["invocation_id"],
        kept.value()["invocation_id"]
    );
    web.end();
    assert_eq!(records(&file).len(), 2, "one call of each principal");
}

#[test]
fn the_answer_of_a_key_needs_no_room_but_a_call_that_its_client_leaves_does() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(
        &["probe#progress"],
        [
            format!("--record-to={}", file.display()),
            "--timeout=2m".to_owned(),
        ],
    );
    let key = [("Idempotency-Key", "one"), ("Prefer", "respond-async")];
    let first = web.post("/v1/calls", &key, &endless());
    assert_eq!(first.status, 202, "{first:?}");
    (1..64).for_each(|_| _ = web.begin_call(&endless()));
    let full = web.post(
        "/v1/calls",
        &[("Idempotency-Key", "new"), ("Prefer", "respond-async")],
        &endless(),
    );
    full.is_problem(429, "too_many_open_calls");
    let again = web.post("/v1/calls", &key, &endless());
    assert_eq!(
        (again.status, &again.value()["invocation_id"]),
        (202, &first.value()["invocation_id"])
    );
    let waiting = web.begin(
        "POST /v1/calls",
        &web.changed(&[("Idempotency-Key", "two")]),
        &endless().to_string(),
    );
    std::thread::sleep(Duration::from_millis(500));
    let leaves = [("Idempotency-Key", "two"), ("Prefer", "respond-async")];
    web.post("/v1/calls", &leaves, &endless())
        .is_problem(429, "too_many_open_calls");
    drop(waiting);
    let began = Instant::now();
    while records(&file).is_empty() {
        assert!(began.elapsed() < SOON, "the call goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(records(&file)[0]["invocation"]["status"], "canceled");
}
