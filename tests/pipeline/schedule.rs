//! Phase 8: how many calls run at once, and what happens to the others.
//!
//! Promise: No limit is lost silently.
//! Promise: One client does not lock out another.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcell::{Batch, BatchCall, BatchListener, Host, Request};
use toolcell_executor::hook::{Hook, HookCall, HookFuture, Registration};
use toolcell_spec::{AbortReason, CallRecord, ContextModifier, EventType, HookEvent, ToolEvent};

use crate::support::{Test, scratch};

use super::doubles::{RecordingListener, echoing, own_host};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The duration of calls that end when the test cancels them, in milliseconds.
const LONG_MS: u64 = 600_000;

#[tokio::test]
async fn a_second_call_waits_until_the_first_one_ends() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.calls_at_once(1).listener(heard));
    let first = Test::new("hostile#sleep").on(&host);
    let end_first = first.cancellation();
    let second = async {
        listener
            .wait_for("hostile.sleep", "tool.invocation.started")
            .await;
        let second = Test::new("probe#counter").on(&host).call(json!({}));
        let release = async {
            listener
                .wait_for("probe.counter", "tool.invocation.queued")
                .await;
            assert!(
                !listener
                    .heard()
                    .contains(&("probe.counter".to_owned(), "tool.invocation.started"))
            );
            end_first.cancel(AbortReason::UserInterruption);
        };
        tokio::join!(second, release).0
    };
    let (first, second) = tokio::join!(first.call(json!({})), second);
    first.ended("canceled", "canceled");
    assert_eq!(second.succeeded(), json!({"count": 1}));
    let mut events = second.0.events.iter();
    let queued = events.find(|event| event.event_type == EventType::Queued);
    assert_eq!(queued.unwrap().data, json!({ "position": 1 }));
    let passed: Vec<&str> = second
        .0
        .invocation
        .status_transitions()
        .iter()
        .map(|step| step.to.as_str())
        .collect();
    assert_eq!(
        passed,
        [
            "selected",
            "arguments_ready",
            "approved",
            "queued",
            "running",
            "succeeded"
        ]
    );
    let heard = listener.heard();
    let at = |tool: &str, event: &str| {
        heard
            .iter()
            .position(|(id, heard)| id == tool && *heard == event)
            .unwrap()
    };
    let left = at("hostile.sleep", "tool.invocation.canceled");
    assert!(at("probe.counter", "tool.invocation.queued") < left);
    assert_eq!(
        first.0.result.usage.as_ref().unwrap().fuel.limit,
        second.0.result.usage.as_ref().unwrap().fuel.limit
    );
}

#[tokio::test]
async fn as_many_calls_as_there_are_places_run_at_once() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.calls_at_once(2).listener(heard));
    let calls = ["hostile#sleep", "cancellable#cooperative"].map(|tool| Test::new(tool).on(&host));
    let stops = calls.each_ref().map(Test::cancellation);
    let [first, second] = calls.map(|test| test.call(json!({})));
    let both_run = async {
        listener
            .wait_for("hostile.sleep", "tool.invocation.started")
            .await;
        listener
            .wait_for("cancellable.cooperative", "tool.invocation.started")
            .await;
        stops
            .iter()
            .for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    };
    let (first, second, ()) = tokio::join!(first, second, both_run);
    first.ended("canceled", "canceled");
    second.ended("canceled", "canceled");
    assert!(
        listener
            .heard()
            .iter()
            .all(|(_, event)| !event.ends_with("queued"))
    );
}

#[tokio::test]
async fn checking_the_values_of_one_call_needs_no_place_of_another() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = Arc::new(crate::support::host(|settings| {
        settings.calls_at_once(1).listener(heard)
    }));
    let first = Test::new("hostile#sleep").on(&host);
    let stop = first.cancellation();
    let refused = async {
        listener
            .wait_for("hostile.sleep", "tool.invocation.started")
            .await;
        let refused = Test::new("validated#even")
            .on(&host)
            .call(json!({"n": 3}))
            .await;
        stop.cancel(AbortReason::UserInterruption);
        refused
    };
    let (_, refused) = tokio::join!(first.call(json!({})), refused);
    refused.failed("invalid_arguments", "odd_number");
}

/// Two of four places are a caller's own, and it borrows one of the two others: the last is kept for the other caller.
const PLACES_OF_ONE: usize = 3;

/// A host with four places for two callers.
fn host_of_two(listener: &Arc<RecordingListener>) -> Arc<Host> {
    let heard = Arc::clone(listener);
    own_host(|settings| settings.calls_at_once(4).callers(2).listener(heard))
}

#[tokio::test]
async fn a_flood_of_readers_does_not_delay_the_writer_of_another_caller() {
    let (_guard, folder) = scratch();
    let listener = Arc::new(RecordingListener::default());
    let host = host_of_two(&listener);
    let mut flood = JoinSet::new();
    let mut stops = Vec::new();
    for at in 0..10 {
        let reader = Test::new("probe#hold_reading")
            .on(&host)
            .read(&folder)
            .actor("anna")
            .timeout_ms(LONG_MS);
        stops.push(reader.cancellation());
        flood.spawn(reader.call(json!({ "path": folder, "ms": LONG_MS })));
        // The first ones take all places of this caller.
        let (event, count) = if at < PLACES_OF_ONE {
            ("tool.invocation.started", at + 1)
        } else {
            ("tool.invocation.queued", at + 1 - PLACES_OF_ONE)
        };
        listener
            .wait_for_count("probe.hold_reading", event, count)
            .await;
    }
    let writer = Test::new("probe#hold_writing")
        .on(&host)
        .write(&folder)
        .actor("bert");
    let writer = tokio::spawn(writer.call(json!({ "path": folder, "ms": 1 })));
    listener
        .wait_for("probe.hold_writing", "tool.invocation.queued")
        .await;
    // The calls that run end.
    stops
        .iter()
        .take(PLACES_OF_ONE)
        .for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    let wrote = tokio::time::timeout(PATIENCE, writer).await;
    assert!(
        wrote.is_ok(),
        "the writer waits for readers that do not run: {:?}",
        listener.heard()
    );
    wrote.unwrap().unwrap().succeeded();
    let heard = listener.heard();
    let started: Vec<&str> = heard
        .iter()
        .filter(|(_, event)| *event == "tool.invocation.started")
        .map(|(id, _)| id.as_str())
        .collect();
    let wrote = started
        .iter()
        .position(|id| *id == "probe.hold_writing")
        .unwrap();
    assert_eq!(wrote, PLACES_OF_ONE, "{started:?}");
    stops
        .iter()
        .for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    while let Some(reader) = flood.join_next().await {
        reader.unwrap().ended("canceled", "canceled");
    }
}

#[tokio::test]
async fn a_call_that_has_no_place_keeps_no_call_of_another_caller_waiting() {
    let (_guard, folder) = scratch();
    let listener = Arc::new(RecordingListener::default());
    let host = host_of_two(&listener);
    let sleepers = [(); PLACES_OF_ONE].map(|()| {
        Test::new("hostile#sleep")
            .on(&host)
            .actor("anna")
            .timeout_ms(LONG_MS)
    });
    let stops = sleepers.each_ref().map(Test::cancellation);
    let sleepers = sleepers.map(|test| tokio::spawn(test.call(json!({}))));
    listener
        .wait_for_count("hostile.sleep", "tool.invocation.started", PLACES_OF_ONE)
        .await;
    let write = |caller: &str| {
        let test = Test::new("probe#hold_writing")
            .on(&host)
            .write(&folder)
            .actor(caller);
        test.call(json!({ "path": folder, "ms": 1 }))
    };
    let placeless = tokio::spawn(write("anna"));
    listener
        .wait_for("probe.hold_writing", "tool.invocation.queued")
        .await;
    let wrote = tokio::time::timeout(PATIENCE, write("bert")).await;
    assert!(
        wrote.is_ok(),
        "it waits for a call that does not run: {:?}",
        listener.heard()
    );
    wrote.unwrap().succeeded();
    assert!(!placeless.is_finished());
    stops
        .iter()
        .for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    for sleeper in sleepers {
        sleeper.await.unwrap().ended("canceled", "canceled");
    }
    placeless.await.unwrap().succeeded();
}

/// Keeps the first call from ending, so that it holds what it claimed.
struct Brake {
    held: tokio::sync::Mutex<bool>,
    release: tokio::sync::Notify,
}

impl Hook for Brake {
    fn id(&self) -> &str {
        "brake"
    }

    fn events(&self) -> &[HookEvent] {
        &[HookEvent::PostToolUse]
    }

    fn handle<'a>(&'a self, _: &'a HookCall) -> HookFuture<'a> {
        Box::pin(async move {
            let mut held = self.held.lock().await;
            if !std::mem::replace(&mut *held, true) {
                drop(held);
                self.release.notified().await;
            }
            Ok(Vec::new()).into()
        })
    }
}

/// A component with one tool, `<namespace>.echo`, that has this interface.
fn component(namespace: &str, interface: &Value) -> Vec<u8> {
    echoing(namespace, |toolkit| {
        let mut record = json!({ "schema_version": "0.2.0", "interface_id": "i", "tool_id": format!("{namespace}.echo") });
        record
            .as_object_mut()
            .unwrap()
            .extend(interface.as_object().unwrap().clone());
        toolkit["declarations"][0]["interface_ref"] = json!("i");
        toolkit["interfaces"] = json!([record]);
    })
}

/// A host whose first call does not end before the brake is released.
fn braked() -> (Arc<Host>, Arc<RecordingListener>, Arc<Brake>) {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let brake = Arc::new(Brake {
        held: false.into(),
        release: tokio::sync::Notify::new(),
    });
    let hook = Arc::clone(&brake);
    let host = own_host(|settings| settings.listener(heard).hook(Registration::new(hook)));
    (host, listener, brake)
}

/// Whether a call of `second` waits while one of `first` runs; each is an interface of a tool, and of the same component if
/// they are the same.
async fn waits(first: Value, second: Value) -> bool {
    let other = if first == second { "first" } else { "second" };
    let one = component("first", &first);
    let two = component(other, &second);
    let (host, listener, brake) = braked();
    let begun = async {
        listener
            .wait_for("first.echo", "tool.hook.post.started")
            .await;
        let second = Test::of_bytes(two, None).on(&host).actor("ada");
        let second = second.call(json!({}));
        let look = async {
            let queued = listener
                .wait_for_any("tool.invocation.queued", "tool.invocation.succeeded")
                .await;
            brake.release.notify_one();
            queued
        };
        tokio::join!(second, look)
    };
    let first = Test::of_bytes(one, None).on(&host).actor("ada");
    let (first, (second, waited)) = tokio::join!(first.call(json!({})), begun);
    first.succeeded();
    second.succeeded();
    waited
}

#[tokio::test]
async fn calls_that_lock_one_resource_take_turns_and_others_do_not() {
    let lock = |resource, mode| json!({ "is_concurrency_safe": true, "resource_locks": [{ "resource": resource, "mode": mode }] });
    assert!(waits(lock("printer", "exclusive"), lock("printer", "exclusive")).await);
    assert!(waits(lock("printer", "shared"), lock("printer", "exclusive")).await);
    assert!(!waits(lock("printer", "shared"), lock("printer", "shared")).await);
    assert!(!waits(lock("printer", "exclusive"), lock("plotter", "exclusive")).await);
    let unstated = json!({ "is_read_only": true });
    assert!(waits(unstated.clone(), unstated.clone()).await);
    assert!(!waits(unstated, json!({})).await, "another tool");
    let context = json!({ "is_concurrency_safe": true, "requires_exclusive_context": true });
    assert!(waits(context.clone(), context.clone()).await);
    assert!(!waits(context, json!({})).await, "another component");
}

/// Takes what a batch hands out.
struct Taker;

impl BatchListener for Taker {
    fn event(&self, _: usize, _: &ToolEvent) {}

    fn ended(&self, _: usize, record: CallRecord) {
        assert!(!record.result.is_error, "{record:?}");
        let locks = &record.invocation.extra["scheduler_policy"]["resource_locks"];
        assert_eq!(*locks, json!([{ "resource": "printer", "mode": "shared" }]));
    }

    fn modified(&self, _: usize, _: Vec<ContextModifier>) {}
}

#[tokio::test]
async fn a_tool_that_wants_a_context_for_itself_runs_beside_no_other_call_of_its_batch() {
    for wants in [true, false] {
        let (host, listener, brake) = braked();
        let safe = json!({ "is_concurrency_safe": true });
        let first = json!({
            "is_concurrency_safe": true, "requires_exclusive_context": wants,
            "resource_locks": [{ "resource": "printer", "mode": "shared" }],
        });
        host.load(&component("first", &first)).await.unwrap();
        host.load(&component("second", &safe)).await.unwrap();
        let calls = ["first.echo", "second.echo"]
            .map(|tool| BatchCall::new(tool, Request::new(tool, "{}")));
        let look = async {
            let queued = listener
                .wait_for_any("tool.invocation.queued", "tool.invocation.succeeded")
                .await;
            brake.release.notify_one();
            queued
        };
        let (ended, waited) =
            tokio::join!(host.batch(Batch::new(calls.into(), Arc::new(Taker))), look);
        ended.unwrap();
        assert_eq!(waited, wants);
    }
}
