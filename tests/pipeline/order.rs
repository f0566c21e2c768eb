//! The order of the pipeline, in one call that uses every feature.

use std::sync::Arc;

use serde_json::json;
use toolcell_executor::hook::{HookOutput, Registration, UpdatedOutput};
use toolcell_spec::AbortReason;

use crate::support::{Called, Test, component, scratch};

use super::doubles::{RecordingHook, RecordingListener, home_with_own_payloads, own_host};

const EVENTS: [&str; 24] = [
    "tool.invocation.planned",
    "tool.invocation.selected",
    "tool.invocation.arguments_ready",
    "tool.hook.pre.started",
    "tool.hook.pre.completed",
    "tool.input.mutated",
    "tool.hook.pre.started",
    "tool.hook.pre.completed",
    "tool.permission.decided",
    "tool.invocation.queued",
    // Of the host: that the call waits, that it starts, and below that it has ended.
    "tool.invocation.progress",
    "tool.invocation.started",
    "tool.invocation.progress",
    "tool.invocation.progress",
    "tool.invocation.partial_result",
    "tool.invocation.progress",
    "tool.hook.post.started",
    "tool.hook.post.completed",
    "tool.hook.post.started",
    "tool.hook.post.completed",
    "tool.result.persisted",
    "tool.invocation.progress",
    "tool.result.created",
    "tool.invocation.succeeded",
];

const STATUSES: [&str; 10] = [
    "planned",
    "selected",
    "arguments_ready",
    "pre_hooks_running",
    "approved",
    "queued",
    "running",
    "partial_result",
    "running",
    "post_hooks_running",
];

/// A queued call of the ticker with two hooks, a partial result and an output that is too large.
async fn everything() -> (Called, Vec<&'static str>) {
    let (_guard, folder) = scratch();
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let input = HookOutput::UpdatedInput(json!({"ticks": 2, "partial": true}));
    let output = HookOutput::UpdatedOutput(UpdatedOutput::structured(json!({"ticks": 2, "of": 2})));
    let first = RecordingHook::new("first").before([input]).shared();
    let second = RecordingHook::new("second").after([output]).shared();
    let host = own_host(|settings| {
        settings
            .calls_at_once(1)
            .home(home_with_own_payloads(&folder))
            .inline_bytes_max(8)
            .listener(heard)
            .hook(Registration::new(first))
            .hook(Registration::new(second))
    });
    // The blocker accepts any object, so that the first hook's input is valid for it.
    let blocker = Test::new("wat:spin").on(&host);
    let end = blocker.cancellation();
    let ticker = Test::of_file(&component("example-tools/ticker"), Some("ticker")).on(&host);
    let golden = async {
        listener
            .wait_for("wat.spin", "tool.invocation.started")
            .await;
        let release = async {
            listener
                .wait_for("ticker.ticker", "tool.invocation.queued")
                .await;
            end.cancel(AbortReason::UserInterruption);
        };
        tokio::join!(ticker.call(json!({"ticks": 9_999})), release).0
    };
    let (_, called) = tokio::join!(blocker.call(json!({})), golden);
    let heard = listener.heard();
    let heard = heard
        .into_iter()
        .filter(|(tool, _)| tool == "ticker.ticker")
        .map(|(_, event)| event)
        .collect();
    (called, heard)
}

#[tokio::test]
async fn a_call_with_everything_switched_on_passes_all_phases_in_order() {
    let (called, heard) = everything().await;
    assert_eq!(called.events(), EVENTS);
    // The first event of the call does not name its tool, which is not known yet.
    assert_eq!(
        (heard[0], &heard[1..]),
        ("tool.declared", &EVENTS[1..]),
        "a listener hears the same"
    );
    let steps = called.0.invocation.status_transitions();
    let from: Vec<&str> = steps.iter().map(|step| step.from.as_str()).collect();
    assert_eq!(from, STATUSES);
    assert_eq!(steps.last().unwrap().to.as_str(), "succeeded");
    called.ended("succeeded", "succeeded");
    assert_eq!(called.0.invocation.hook_refs, ["first", "second"]);
}

#[tokio::test]
async fn time_moves_forward_through_a_record() {
    let called = Test::new("probe#progress").call(json!({"count": 50})).await;
    let events = &called.0.events;
    assert!(
        events
            .windows(2)
            .all(|pair| pair[0].time <= pair[1].time && pair[0].event_id < pair[1].event_id)
    );
    let invocation = &called.0.invocation;
    let steps = invocation.status_transitions();
    assert!(
        steps.windows(2).all(|pair| pair[0].at < pair[1].at),
        "strictly"
    );
    assert!(invocation.created_at() < steps[0].at);
    assert_eq!(
        invocation.started_at().unwrap(),
        steps
            .iter()
            .find(|step| step.to.as_str() == "running")
            .unwrap()
            .at
    );
    assert_eq!(invocation.ended_at().unwrap(), steps.last().unwrap().at);
    let progress = &called.0.progress;
    assert_eq!(progress.len(), 51);
    assert!(
        progress
            .windows(2)
            .all(|pair| pair[0].timestamp <= pair[1].timestamp)
    );
    assert_eq!(progress[49].percent, Some(100.0));
}

#[tokio::test]
async fn the_event_before_a_tool_is_known_names_none_and_all_later_ones_do() {
    let called = Test::new("probe#echo").call(json!({})).await;
    let named: Vec<Option<&str>> = called
        .0
        .events
        .iter()
        .map(|event| event.tool_id.as_deref())
        .collect();
    assert_eq!(named[0], None);
    assert!(named[1..].iter().all(|id| *id == Some("probe.echo")));
    assert!(
        called
            .0
            .events
            .iter()
            .all(|event| event.source.starts_with("toolcell/"))
    );
}
