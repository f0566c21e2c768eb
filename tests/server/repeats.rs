//! Calls that are sent again with their key, over MCP, in batches and to an endpoint of agentool.
//!
//! Promise: At most once, and never lost.

use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http_api::{Api, Said};
use crate::support::{Client, Coming, Web, frame, records, scratch};

const KEY: &str = "toolcell/idempotency_key";

fn keyed(key: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    json!({ "name": tool, "arguments": arguments, "_meta": { KEY: key.into() } })
}

fn invocation(answer: &Value) -> &Value {
    let id = &answer["result"]["_meta"]["toolcell/invocation_id"];
    assert!(id.is_string(), "{answer:#}");
    id
}

fn until_recorded(file: &Path, count: usize) {
    let began = Instant::now();
    while records(file).len() < count {
        assert!(began.elapsed() < Duration::from_secs(30), "no record");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_call_of_mcp_with_the_same_key_runs_once() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let record = format!("--record-to={}", file.display());
    let mut client = Client::with(&["probe#hold", "probe#echo"], [record]);
    let call = keyed("one", "hold", &json!({ "ms": 300 }));
    // Two at once.
    let twins = [(); 2].map(|()| client.begin("tools/call", call.clone()));
    let [first, second] = twins.map(|id| client.answer(&id));
    assert_eq!(invocation(&first), invocation(&second));
    assert_eq!(first["result"], second["result"]);
    assert_eq!(
        client.request("tools/call", call)["result"],
        first["result"]
    );
    let again = keyed("two", "hold", &json!({ "ms": 300 }));
    let again = client.request("tools/call", again);
    assert_ne!(invocation(&again), invocation(&first));
    for (key, tool, state) in [
        (json!("one"), "echo", "idempotency_key_reused"),
        (json!(""), "echo", "idempotency_key_invalid"),
        (json!("x".repeat(257)), "echo", "idempotency_key_invalid"),
        (json!(1), "echo", "idempotency_key_invalid"),
    ] {
        let refused = client.request("tools/call", keyed(key, tool, &json!({})));
        assert_eq!(refused["error"]["data"]["state"], state, "{refused:#}");
    }
    // What did not run leaves its key free.
    for tool in ["nothing", "echo"] {
        let answer = client.request("tools/call", keyed("three", tool, &json!({})));
        assert_eq!(
            answer.get("error").is_some(),
            tool == "nothing",
            "{answer:#}"
        );
    }
    client.close();
    let ran = |record: &&Value| record["invocation"]["status"] == "succeeded";
    assert_eq!(records(&file).iter().filter(ran).count(), 3);
}

#[test]
fn a_call_of_mcp_with_a_key_outlives_a_connection_that_cancels_nothing() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(
        &["probe#progress"],
        [format!("--record-to={}", file.display())],
    );
    let call = |key: &str| {
        let arguments = json!({ "count": 10, "interval_ms": 200 });
        keyed(key, "progress", &arguments)
    };
    let in_session = || {
        let session = web.session(json!({}));
        let headers = web.changed(&web.in_session(&session));
        let body = frame(json!(1), "tools/call", call("one"));
        web.begin("POST /mcp", &headers, &body)
    };
    // In 2026-07-28 a client cancels by closing the connection.
    let alone = || web.begin_stateless("tools/call", call("two"), json!({}));
    let again = |send: &dyn Fn() -> TcpStream, status: &str| {
        let first = send();
        std::thread::sleep(Duration::from_millis(500));
        drop(first);
        let answer = Coming::head(send()).whole().frames().pop().unwrap();
        let meta = &answer["result"]["_meta"];
        assert_eq!(meta["toolcell/status"], status, "{answer:#}");
        invocation(&answer).clone()
    };
    let answered = [again(&in_session, "succeeded"), again(&alone, "canceled")];
    web.end();
    let seen = records(&file);
    assert_eq!(seen.len(), 2, "{seen:#?}");
    for (record, id) in seen.iter().zip(answered) {
        assert_eq!(record["invocation"]["invocation_id"], id);
    }
}

#[test]
fn a_call_with_a_key_that_asks_its_user_is_the_same_call_until_it_ends() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(&["probe#ask"], [format!("--record-to={}", file.display())]);
    let schema = json!({ "type": "object", "properties": { "n": { "type": "string" } } });
    let question = json!({ "key": "a", "message": "A?", "schema": schema });
    let arguments = json!({ "rounds": [[question]], "state": "x" });
    let send = |key: &str, more: Value| {
        let mut params = keyed(key, "ask", &arguments);
        let fields = params.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let reply = web.stateless(
            "tools/call",
            params,
            json!({ "elicitation": { "form": {} } }),
        );
        reply.frames().pop().unwrap()
    };
    let first = send("one", json!({}))["result"].clone();
    assert_eq!(first["resultType"], "input_required", "{first:#}");
    // Not of another key.
    let other = send("two", json!({}))["result"].clone();
    assert_eq!(other["resultType"], "input_required", "{other:#}");
    let again = send("one", json!({}))["result"].clone();
    assert_eq!(again["inputRequests"], first["inputRequests"]);
    let given = json!({ "a": { "action": "accept", "content": { "n": "1" } } });
    let answer = |asked: &Value| {
        let state = json!({ "requestState": asked["requestState"], "inputResponses": given });
        send("one", state)
    };
    let used = answer(&first);
    assert_eq!(used["error"]["code"], -32602, "{used:#}");
    let last = answer(&again);
    assert_eq!(last["result"]["isError"], json!(false), "{last:#}");
    assert_eq!(send("one", json!({}))["result"], last["result"]);
    let of_key = records(&file);
    assert_eq!(of_key.len(), 1, "{of_key:#?}");
}

#[test]
fn a_batch_with_the_same_key_runs_once_and_goes_on_without_its_client() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(
        &["probe#hold", "probe#echo"],
        [format!("--record-to={}", file.display())],
    );
    let call = |id: &str, ms: u64| json!({ "id": id, "tool": "hold", "input": { "ms": ms } });
    let batch = json!([call("a", 10), call("b", 1_000)]);
    let key = [("Idempotency-Key", "one")];
    let headers = web.changed(&key);
    let left = web.begin("POST /v1/batches", &headers, &batch.to_string());
    until_recorded(&file, 1);
    drop(left);
    let answer = web.post("/v1/batches", &key, &batch);
    assert_eq!(answer.status, 200, "{answer:?}");
    let results = answer.value()["results"].clone();
    assert_eq!(results.as_array().unwrap().len(), 2, "{results:#}");
    for result in results.as_array().unwrap() {
        assert_eq!(result["result"]["status"], "succeeded", "{result:#}");
    }
    assert_eq!(
        web.post("/v1/batches", &key, &batch).value()["results"],
        results
    );
    web.post("/v1/batches", &key, &json!([call("a", 11)]))
        .is_problem(422, "idempotency_key_reused");
    // What is refused leaves its key free.
    let free = [("Idempotency-Key", "two")];
    web.post("/v1/batches", &free, &json!([call("a", 1), call("a", 1)]))
        .is_problem(422, "batch_invalid");
    assert_eq!(
        web.post("/v1/batches", &free, &json!([call("a", 1)]))
            .status,
        200
    );
    web.end();
    assert_eq!(records(&file).len(), 3);
}

#[test]
fn a_large_answer_is_not_kept_and_its_batch_runs_no_second_time() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(&["probe#echo"], [format!("--record-to={}", file.display())]);
    let text = "x".repeat(15_000);
    let call = |id: usize| json!({ "id": id.to_string(), "tool": "echo", "input": { "t": text } });
    let batch: Value = (0..100).map(call).collect();
    let key = [("Idempotency-Key", "one")];
    let first = web.post("/v1/batches", &key, &batch);
    assert_eq!(first.status, 200);
    assert!(first.body.len() > 2 << 20, "{}", first.body.len());
    web.post("/v1/batches", &key, &batch)
        .is_problem(410, "result_not_kept");
    web.end();
    assert_eq!(records(&file).len(), 100);
}

#[test]
fn lines_of_a_batch_with_a_key_come_one_by_one_and_again_together() {
    let web = Web::of(&["probe#hold"]);
    let line = |id: &str, ms: u64| {
        json!({ "id": id, "tool": "hold", "input": { "ms": ms } }).to_string() + "\n"
    };
    let body = line("a", 1) + &line("b", 3_000);
    let headers = web.changed(&[
        ("Idempotency-Key", "one"),
        ("Content-Type", "application/x-ndjson"),
    ]);
    let first = web.send("POST /v1/batches", &headers, &body);
    let began = Instant::now();
    let first = first.whole().body;
    assert!(began.elapsed() > Duration::from_secs(1), "only at the end");
    assert_eq!(first.lines().count(), 2, "{first}");
    assert_eq!(
        web.send("POST /v1/batches", &headers, &body).whole().body,
        first
    );
}

#[test]
fn a_call_of_an_endpoint_of_agentool_with_the_same_key_runs_once() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(&["probe#echo"], [format!("--record-to={}", file.display())]);
    let call = json!({ "name": "probe_echo", "arguments": { "n": 1 } });
    let endpoint = "/v1/dialects/agentool/tools/echo";
    let key = [("Idempotency-Key", "one")];
    let first = web.post(endpoint, &key, &call);
    let second = web.post(endpoint, &key, &call);
    assert_eq!((first.status, &first.body), (200, &second.body));
    assert_eq!(first.header("location"), second.header("location"));
    web.end();
    assert_eq!(records(&file).len(), 1);
}
