//! A cancellation is recorded in order, in whichever phase it reaches the call.

use std::sync::Arc;

use serde_json::json;
use toolcell::{Cancellation, Listener};
use toolcell_spec::{AbortReason, ToolEvent};

use crate::support::{Called, Test};

use super::doubles::{RecordingHook, RecordingListener, canceled_while_running, own_host};

const REQUESTED: &str = "tool.invocation.cancel_requested";
const ACKNOWLEDGED: &str = "tool.invocation.cancel_acknowledged";

/// The events about the cancellation, and who acknowledged it.
fn story(called: &Called) -> (Vec<&'static str>, Vec<String>) {
    let events = called
        .events()
        .into_iter()
        .filter(|event| event.contains("cancel"))
        .collect();
    let acknowledged = called
        .0
        .events
        .iter()
        .filter(|event| event.event_type.as_str() == ACKNOWLEDGED);
    (
        events,
        acknowledged
            .map(|event| event.data["by"].as_str().unwrap().to_owned())
            .collect(),
    )
}

#[tokio::test]
async fn a_tool_that_does_not_listen_is_stopped_by_the_host() {
    for tool in ["hostile#sleep", "hostile#spin", "hostile#clock_flood"] {
        let called = canceled_while_running(tool, json!({}), AbortReason::UserInterruption).await;
        called
            .failed("canceled", "canceled")
            .ended("canceled", "canceled");
        let expected = (
            vec![REQUESTED, ACKNOWLEDGED, "tool.invocation.canceled"],
            vec!["host".to_owned()],
        );
        assert_eq!(story(&called), expected, "{tool}");
        let end = &called.0.events.last().unwrap().data;
        assert_eq!(end["abort_reason"], "user_interruption");
    }
}

#[tokio::test]
async fn a_tool_that_listens_acknowledges_after_the_request_and_its_answer_is_kept() {
    for tool in ["cancellable#cooperative", "cancellable#polling"] {
        let called = canceled_while_running(tool, json!({}), AbortReason::RuntimeShutdown).await;
        called
            .failed("canceled", "host_stopped")
            .ended("canceled", "canceled");
        let expected = (
            vec![REQUESTED, ACKNOWLEDGED, "tool.invocation.canceled"],
            vec!["guest".to_owned()],
        );
        assert_eq!(story(&called), expected, "{tool}");
        let answer = json!({"finished": false, "reason": "runtime_shutdown"});
        assert_eq!(called.0.result.structured_content, Some(answer));
    }
}

#[tokio::test]
async fn a_tool_that_sees_the_request_and_stays_is_stopped_after_the_grace() {
    for tool in [
        "acknowledge_never",
        "acknowledge_and_stay",
        "sleep_ignore_cancel",
        "spin_ignore_cancel",
        "trap_when_asked",
    ] {
        let tool = format!("cancellable#{tool}");
        let called = canceled_while_running(&tool, json!({}), AbortReason::UserInterruption).await;
        called
            .failed("canceled", "canceled")
            .ended("canceled", "canceled");
        assert_eq!(
            story(&called).0,
            [REQUESTED, ACKNOWLEDGED, "tool.invocation.canceled"],
            "{tool}"
        );
    }
}

#[tokio::test]
async fn to_acknowledge_what_nobody_asked_changes_nothing() {
    let called = Test::new("cancellable#acknowledge_unasked")
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({"requested": null}));
    assert_eq!(story(&called), (vec![], vec![]));
}

#[tokio::test]
async fn a_call_that_was_canceled_before_it_began_never_starts() {
    let test = Test::new("probe#echo");
    test.cancellation().cancel(AbortReason::SiblingError);
    let called = test.call(json!({})).await;
    called
        .failed("sibling_canceled", "sibling_canceled")
        .ended("synthetic_error", "canceled")
        .never_ran();
    assert_eq!(called.events()[1], REQUESTED);
    assert!(called.0.result.error.as_ref().unwrap().retry.sibling_caused);
}

#[tokio::test]
async fn a_call_that_is_canceled_while_it_waits_never_starts() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.calls_at_once(1).listener(heard));
    let running = Test::new("hostile#sleep").on(&host);
    let waiting = Test::new("probe#counter").on(&host);
    let stop_running = running.cancellation();
    let stop_waiting = waiting.cancellation();
    let waiting = async {
        listener
            .wait_for("hostile.sleep", "tool.invocation.started")
            .await;
        let stop = async {
            listener
                .wait_for("probe.counter", "tool.invocation.queued")
                .await;
            stop_waiting.cancel(AbortReason::UserInterruption);
        };
        let called = tokio::join!(waiting.call(json!({})), stop).0;
        stop_running.cancel(AbortReason::UserInterruption);
        called
    };
    let (_, called) = tokio::join!(running.call(json!({})), waiting);
    called
        .failed("canceled", "canceled")
        .ended("canceled", "canceled")
        .never_ran();
    assert_eq!(story(&called).0, [REQUESTED, "tool.invocation.canceled"]);
}

#[tokio::test]
async fn a_call_that_is_canceled_while_its_values_are_checked_is_no_failed_validation() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.listener(heard));
    let test = Test::new("validated#check_spins").on(&host);
    let cancellation = test.cancellation();
    let cancel = async {
        listener
            .wait_for("validated.check_spins", "tool.invocation.arguments_ready")
            .await;
        cancellation.cancel(AbortReason::UserInterruption);
    };
    let called = tokio::join!(test.call(json!({})), cancel).0;
    called
        .failed("canceled", "canceled")
        .ended("canceled", "canceled")
        .never_ran();
    assert!(
        !called
            .events()
            .contains(&"tool.invocation.validation_failed"),
        "{:?}",
        called.events()
    );
    assert_eq!(story(&called).0, [REQUESTED, "tool.invocation.canceled"]);
}

/// Cancels a call at its first event of a type.
pub(super) struct CancelsAt(
    pub(super) &'static str,
    pub(super) std::sync::OnceLock<Cancellation>,
);

impl Listener for CancelsAt {
    fn event(&self, event: &ToolEvent) {
        if event.event_type.as_str() == self.0 {
            self.1.get().unwrap().cancel(AbortReason::UserInterruption);
        }
    }
}

#[tokio::test]
async fn a_request_that_comes_after_the_tool_has_answered_is_on_record_and_changes_nothing() {
    let cancels = Arc::new(CancelsAt(
        "tool.hook.post.started",
        std::sync::OnceLock::new(),
    ));
    let listener = Arc::clone(&cancels);
    let hook = RecordingHook::new("watcher").shared();
    let host = own_host(|settings| {
        settings
            .listener(listener)
            .hook(toolcell_executor::hook::Registration::new(hook))
    });
    let test = Test::new("probe#echo").on(&host);
    assert!(cancels.1.set(test.cancellation()).is_ok());
    let called = test.call(json!({ "a": 1 })).await;
    called.ended("succeeded", "succeeded");
    assert_eq!(
        story(&called).0,
        [REQUESTED, "tool.invocation.cancel_failed"]
    );
    let failed = called
        .0
        .events
        .iter()
        .find(|event| event.event_type.as_str().ends_with("cancel_failed"))
        .unwrap();
    assert_eq!(
        failed.data,
        json!({ "abort_reason": "user_interruption", "reason": "already_terminal" })
    );
}
