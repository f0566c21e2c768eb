//! Phase 8: how many calls run at once, and what happens to the others.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use toolcell::Host;
use toolcell_core::record::AbortReason;

use crate::support::{Test, scratch};

use super::doubles::{RecordingListener, own_host};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The duration of calls that end when the test cancels them, in milliseconds.
const LONG_MS: u64 = 600_000;

#[tokio::test]
async fn a_second_call_waits_until_the_first_one_ends() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| {
        settings.calls_at_once = 1;
        settings.listeners = vec![heard];
    });
    let first = Test::new("hostile#sleep").on(&host);
    let end_first = first.cancellation();
    let second = async {
        listener.wait_for("hostile.sleep", "tool.invocation.started").await;
        let second = Test::new("probe#counter").on(&host).call(json!({}));
        let release = async {
            listener.wait_for("probe.counter", "tool.invocation.queued").await;
            assert!(!listener.heard().contains(&("probe.counter".to_owned(), "tool.invocation.started")));
            end_first.cancel(AbortReason::UserInterruption);
        };
        tokio::join!(second, release).0
    };
    let (first, second) = tokio::join!(first.call(json!({})), second);
    first.ended("canceled", "canceled");
    assert_eq!(second.succeeded(), json!({"count": 1}));
    let passed: Vec<&str> = second.0.invocation.status_transitions().iter().map(|step| step.to.as_str()).collect();
    assert_eq!(passed, ["selected", "arguments_ready", "approved", "queued", "running", "succeeded"]);
    let heard = listener.heard();
    let at = |tool: &str, event: &str| heard.iter().position(|(id, heard)| id == tool && *heard == event).unwrap();
    let left = at("hostile.sleep", "tool.invocation.canceled");
    assert!(at("probe.counter", "tool.invocation.queued") < left);
    assert_eq!(first.0.result.usage.as_ref().unwrap().fuel.limit, second.0.result.usage.as_ref().unwrap().fuel.limit);
}

#[tokio::test]
async fn as_many_calls_as_there_are_places_run_at_once() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| {
        settings.calls_at_once = 2;
        settings.listeners = vec![heard];
    });
    let calls = ["hostile#sleep", "cancellable#cooperative"].map(|tool| Test::new(tool).on(&host));
    let stops = calls.each_ref().map(Test::cancellation);
    let [first, second] = calls.map(|test| test.call(json!({})));
    let both_run = async {
        listener.wait_for("hostile.sleep", "tool.invocation.started").await;
        listener.wait_for("cancellable.cooperative", "tool.invocation.started").await;
        stops.iter().for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    };
    let (first, second, ()) = tokio::join!(first, second, both_run);
    first.ended("canceled", "canceled");
    second.ended("canceled", "canceled");
    assert!(listener.heard().iter().all(|(_, event)| !event.ends_with("queued")));
}

#[tokio::test]
async fn checking_the_values_of_one_call_needs_no_place_of_another() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = Arc::new(crate::support::host(|settings| {
        settings.calls_at_once = 1;
        settings.listeners = vec![heard];
    }));
    let first = Test::new("hostile#sleep").on(&host);
    let stop = first.cancellation();
    let refused = async {
        listener.wait_for("hostile.sleep", "tool.invocation.started").await;
        let refused = Test::new("validated#even").on(&host).call(json!({"n": 3})).await;
        stop.cancel(AbortReason::UserInterruption);
        refused
    };
    let (_, refused) = tokio::join!(first.call(json!({})), refused);
    refused.failed("invalid_arguments", "odd_number");
}

/// A host with four places for two callers.
fn host_of_two(listener: &Arc<RecordingListener>) -> Arc<Host> {
    let heard = Arc::clone(listener);
    own_host(|settings| {
        settings.calls_at_once = 4;
        settings.callers = 2;
        settings.listeners = vec![heard];
    })
}

#[tokio::test]
async fn a_flood_of_readers_does_not_delay_the_writer_of_another_caller() {
    let (_guard, folder) = scratch();
    let listener = Arc::new(RecordingListener::default());
    let host = host_of_two(&listener);
    let (mut flood, mut stops) = (JoinSet::new(), Vec::new());
    for at in 0..10 {
        let reader = Test::new("probe#hold_reading").on(&host).read(&folder).actor("anna").timeout_ms(LONG_MS);
        stops.push(reader.cancellation());
        flood.spawn(reader.call(json!({ "path": folder, "ms": LONG_MS })));
        // The first two take all places of this caller.
        let (event, count) =
            if at < 2 { ("tool.invocation.started", at + 1) } else { ("tool.invocation.queued", at - 1) };
        listener.wait_for_count("probe.hold_reading", event, count).await;
    }
    let writer = Test::new("probe#hold_writing").on(&host).write(&folder).actor("bert");
    let writer = tokio::spawn(writer.call(json!({ "path": folder, "ms": 1 })));
    listener.wait_for("probe.hold_writing", "tool.invocation.queued").await;
    // The calls that run end.
    stops.iter().take(2).for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    let wrote = tokio::time::timeout(PATIENCE, writer).await;
    assert!(wrote.is_ok(), "the writer waits for readers that do not run: {:?}", listener.heard());
    wrote.unwrap().unwrap().succeeded();
    let heard = listener.heard();
    let started: Vec<&str> =
        heard.iter().filter(|(_, event)| *event == "tool.invocation.started").map(|(id, _)| id.as_str()).collect();
    let wrote = started.iter().position(|id| *id == "probe.hold_writing").unwrap();
    assert_eq!(wrote, 2, "{started:?}");
    stops.iter().for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    while let Some(reader) = flood.join_next().await {
        reader.unwrap().ended("canceled", "canceled");
    }
}

#[tokio::test]
async fn a_call_that_has_no_place_keeps_no_call_of_another_caller_waiting() {
    let (_guard, folder) = scratch();
    let listener = Arc::new(RecordingListener::default());
    let host = host_of_two(&listener);
    let sleepers = [(); 2].map(|()| Test::new("hostile#sleep").on(&host).actor("anna").timeout_ms(LONG_MS));
    let stops = sleepers.each_ref().map(Test::cancellation);
    let sleepers = sleepers.map(|test| tokio::spawn(test.call(json!({}))));
    listener.wait_for_count("hostile.sleep", "tool.invocation.started", 2).await;
    let write = |caller: &str| {
        let test = Test::new("probe#hold_writing").on(&host).write(&folder).actor(caller);
        test.call(json!({ "path": folder, "ms": 1 }))
    };
    let placeless = tokio::spawn(write("anna"));
    listener.wait_for("probe.hold_writing", "tool.invocation.queued").await;
    let wrote = tokio::time::timeout(PATIENCE, write("bert")).await;
    assert!(wrote.is_ok(), "it waits for a call that does not run: {:?}", listener.heard());
    wrote.unwrap().succeeded();
    assert!(!placeless.is_finished());
    stops.iter().for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    for sleeper in sleepers {
        sleeper.await.unwrap().ended("canceled", "canceled");
    }
    placeless.await.unwrap().succeeded();
}
