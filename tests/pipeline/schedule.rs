//! Phase 8: how many calls run at once, and what happens to the others.

use std::sync::Arc;

use serde_json::json;
use toolcell_core::record::AbortReason;

use crate::support::Test;

use super::doubles::{RecordingListener, own_host};

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
