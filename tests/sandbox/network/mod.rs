//! Requests: what leaves, where it arrives, and what does not leave although a guest tries. Servers on the loopback
//! interface count who comes; look-ups come from a script.

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
use toolcell::host::Host;

use crate::support::{Called, ScriptedResolver, Test, host};

/// A host that looks names up in `resolver`.
fn looking_up_in(resolver: &Arc<ScriptedResolver>) -> Arc<Host> {
    let resolver = Arc::clone(resolver);
    Arc::new(host(|settings| settings.network.resolver = resolver))
}

/// What came of each request.
async fn answers(test: Test, requests: &[Value]) -> Vec<Value> {
    let called = test.call(json!({ "requests": requests })).await;
    called.succeeded()["answers"].as_array().unwrap().clone()
}

/// What came of one request.
async fn answer(test: Test, request: Value) -> Value {
    answers(test, &[request]).await.remove(0)
}

/// The answer is an error whose text holds `word`.
#[track_caller]
fn failed(answer: &Value, word: &str) {
    let error = answer["error"].as_str().unwrap_or_else(|| panic!("it worked: {answer}"));
    assert!(error.contains(word), "{error}");
}

/// The facts that the sandbox recorded of what it denied.
fn denials(called: &Called) -> Vec<Value> {
    let record = called.record();
    let events = record["events"].as_array().unwrap().iter();
    events.filter(|event| event["event_type"] == "tool.sandbox.denied").map(|event| event["data"].clone()).collect()
}

/// Waits for what another thread is about to see.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..5_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{what} never came about");
}
