//! How far a call is: what the host itself says of it, beside what the tool says. And a cancellation by id.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcell::{CancelOutcome, Host, Listener, Request};
use toolcell_engine::pipeline::Background;
use toolcell_spec::{AbortReason, CallRecord, InvocationId, ToolEvent};

use crate::support::{Called, Test};

use super::doubles::{RecordingListener, own_host};

/// The status of each update.
fn told(record: &CallRecord) -> Vec<Value> {
    record
        .progress
        .iter()
        .map(|update| serde_json::to_value(update.status).unwrap())
        .collect()
}

/// A call that waits for the only place until the one that has it is canceled.
async fn queued(tool: &str, input: Value) -> Called {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.calls_at_once(1).listener(heard));
    let first = Test::new("hostile#sleep").on(&host);
    let end_first = first.cancellation();
    let id = tool.replace('#', ".");
    let second = async {
        listener
            .wait_for("hostile.sleep", "tool.invocation.started")
            .await;
        let release = async {
            listener.wait_for(&id, "tool.invocation.queued").await;
            end_first.cancel(AbortReason::UserInterruption);
        };
        tokio::join!(Test::new(tool).on(&host).call(input), release).0
    };
    tokio::join!(first.call(json!({})), second).1
}

#[tokio::test]
async fn a_call_that_waits_tells_so_and_how_it_goes_on() {
    let called = queued("probe#counter", json!({})).await;
    assert_eq!(told(&called.0), ["queued", "started", "completed"]);
    let called = queued("probe#fail", json!({ "class": "execution_failed" })).await;
    assert_eq!(told(&called.0), ["queued", "started", "failed"]);
    let called = queued("probe#progress", json!({ "count": 2 })).await;
    assert_eq!(
        told(&called.0),
        ["queued", "started", "running", "running", "completed"]
    );
    let rest: Vec<u64> = called
        .0
        .progress_from(4)
        .iter()
        .map(|update| update.sequence)
        .collect();
    assert_eq!(rest, [4, 5]);
    assert!(called.0.progress_from(6).is_empty() && called.0.progress_from(0).len() == 5);
}

#[tokio::test]
async fn a_call_that_neither_waits_nor_reports_tells_nothing() {
    assert!(
        Test::new("probe#counter")
            .call(json!({}))
            .await
            .0
            .progress
            .is_empty()
    );
    let called = Test::new("probe#partial_result")
        .call(json!({ "then": "trap" }))
        .await;
    assert_eq!(told(&called.0), ["partial_result", "failed"]);
}

/// The tool `hostile.sleep`, loaded on `host`, which runs until it is canceled.
async fn sleeping(host: &Arc<Host>) -> Request {
    Test::new("hostile#sleep").on(host).load().await.unwrap();
    Request::new("hostile.sleep", "{}")
}

#[tokio::test]
async fn a_call_whose_caller_leaves_it_tells_so_once_it_runs_and_never_after_its_end() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.listener(heard));
    let background = Background::default();
    background.enter();
    let mut request = sleeping(&host).await;
    request.background = Some(background.clone());
    let cancellation = request.cancellation.clone();
    let leave = async {
        // The tool reports nothing.
        listener
            .wait_for("hostile.sleep", "tool.invocation.progress")
            .await;
        background.enter();
        cancellation.cancel(AbortReason::UserInterruption);
    };
    let record = tokio::join!(host.call(request), leave).0;
    assert_eq!(told(&record), ["running", "backgrounded", "canceled"]);
    let tasks: Vec<Option<InvocationId>> = record
        .progress
        .iter()
        .map(|update| update.task_id)
        .collect();
    let id = Some(record.invocation.invocation_id);
    assert_eq!(tasks, [None, id, id]);
    assert!(
        (2_000..60_000).contains(&record.progress[0].elapsed_ms),
        "{:?}",
        record.progress
    );
    let before = listener.heard().len();
    background.enter();
    assert_eq!(listener.heard().len(), before);
}

/// Keeps the events of all calls.
#[derive(Default)]
struct Events(Mutex<Vec<ToolEvent>>);

impl Events {
    /// The types of the events about the call, and the reason of the last one.
    fn of(&self, id: InvocationId) -> (Vec<&'static str>, Value) {
        let events = self.0.lock().unwrap();
        let mine = || {
            events
                .iter()
                .filter(|event| event.invocation_id == Some(id))
        };
        (
            mine().map(|event| event.event_type.as_str()).collect(),
            mine().next_back().unwrap().data["reason"].clone(),
        )
    }

    fn started(&self) -> Option<InvocationId> {
        let events = self.0.lock().unwrap();
        events
            .iter()
            .find(|event| event.event_type.as_str() == "tool.invocation.started")?
            .invocation_id
    }
}

impl Listener for Events {
    fn event(&self, event: &ToolEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[tokio::test]
async fn a_call_is_canceled_by_its_id_and_a_request_in_vain_says_why() {
    let events = Arc::new(Events::default());
    let heard = Arc::clone(&events);
    let host = own_host(|settings| settings.listener(heard));
    let request = sleeping(&host).await;
    let stop = async {
        let id = loop {
            match events.started() {
                Some(id) => break id,
                None => tokio::task::yield_now().await,
            }
        };
        (id, host.cancel(id, AbortReason::UserInterruption).await)
    };
    let (record, (id, outcome)) = tokio::join!(host.call(request), stop);
    assert_eq!(
        (record.invocation.invocation_id, outcome),
        (id, CancelOutcome::Requested)
    );
    assert_eq!(record.invocation.status().as_str(), "canceled");
    let end = [
        "tool.invocation.cancel_requested",
        "tool.invocation.cancel_failed",
    ];
    assert_eq!(
        host.cancel(id, AbortReason::UserInterruption).await,
        CancelOutcome::AlreadyTerminal
    );
    let (told, reason) = events.of(id);
    assert!(told.ends_with(&end), "{told:?}");
    assert_eq!(reason, "already_terminal");
    let nobody = InvocationId::new();
    assert_eq!(
        host.cancel(nobody, AbortReason::UserInterruption).await,
        CancelOutcome::Unknown
    );
    assert_eq!(
        events.of(nobody),
        (end.to_vec(), json!("unknown_invocation"))
    );
}

#[tokio::test]
async fn more_calls_than_may_wait_are_refused_with_a_time() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.calls_at_once(1).calls_waiting(1).listener(heard));
    let running = Test::new("hostile#sleep").on(&host);
    let waiting = Test::new("probe#counter").on(&host);
    let end = running.cancellation();
    let third = async {
        listener
            .wait_for("hostile.sleep", "tool.invocation.started")
            .await;
        let refused = async {
            listener
                .wait_for("probe.counter", "tool.invocation.queued")
                .await;
            let refused = Test::new("probe#echo").on(&host).call(json!({})).await;
            end.cancel(AbortReason::UserInterruption);
            refused
        };
        tokio::join!(waiting.call(json!({})), refused)
    };
    let (_, (waited, refused)) = tokio::join!(running.call(json!({})), third);
    waited.succeeded();
    refused.failed("rate_limited", "queue_full").never_ran();
    let error = refused.0.result.error.as_ref().unwrap();
    assert_eq!((error.retry_after, error.retry.safe), (Some(1.0), true));
}
