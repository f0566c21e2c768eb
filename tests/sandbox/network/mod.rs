//! Requests: which ones are sent, where they arrive, and which ones are refused. Servers on the loopback interface
//! count their connections; look-ups use a script.

mod addresses;
mod endless;
mod fetch;
mod framing;
mod grants;
mod names;
mod scopes;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcell::{Host, NetworkSettings};

use crate::support::{Called, ScriptedResolver, Test, host};

/// A host that resolves names with `resolver`.
fn looking_up_in(resolver: &Arc<ScriptedResolver>) -> Arc<Host> {
    let resolver = Arc::clone(resolver);
    Arc::new(host(|settings| {
        settings.network(NetworkSettings {
            resolver,
            ..NetworkSettings::default()
        })
    }))
}

/// The outcome of each request.
async fn answers(test: Test, requests: &[Value]) -> Vec<Value> {
    let called = test.call(json!({ "requests": requests })).await;
    called.succeeded()["answers"].as_array().unwrap().clone()
}

/// The outcome of one request.
async fn answer(test: Test, request: Value) -> Value {
    answers(test, &[request]).await.remove(0)
}

/// Checks that the answer is an error that contains `word`.
#[track_caller]
fn failed(answer: &Value, word: &str) {
    let error = answer["error"]
        .as_str()
        .unwrap_or_else(|| panic!("it worked: {answer}"));
    assert!(error.contains(word), "{error}");
}

/// The recorded facts of each denial of the sandbox.
fn denials(called: &Called) -> Vec<Value> {
    let record = called.record();
    let events = record["events"].as_array().unwrap().iter();
    events
        .filter(|event| event["event_type"] == "tool.sandbox.denied")
        .map(|event| event["data"].clone())
        .collect()
}

/// Waits for a condition that another thread will fulfil.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..5_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{what} never came about");
}
