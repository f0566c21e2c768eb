//! Attempts that failed and are repeated: under one id, within one budget, and only where that does no harm.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcell::RetryPolicy;
use toolcell_spec::{AbortReason, ErrorClass};

use crate::support::{Called, Test, scratch};

use super::doubles::{RecordingListener, own_host};

fn trying(tool: &str, attempts: u32) -> Test {
    let retry = RetryPolicy {
        attempts,
        backoff: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    Test::new(tool).policy(|policy| policy.retry = retry)
}

/// The numbers of the attempts that started.
fn attempts(called: &Called) -> Vec<u64> {
    let started = called
        .0
        .events
        .iter()
        .filter(|event| event.event_type.as_str() == "tool.invocation.started");
    started
        .map(|event| event.data["attempt"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn a_failure_that_can_go_away_is_tried_again_under_the_same_id() {
    let called = trying("probe#flaky", 3).call(json!({ "until": 3 })).await;
    let output = called.succeeded();
    assert_eq!(
        (&output["attempt"], &output["invocation_id"]),
        (&json!(3), &json!(called.0.invocation.invocation_id))
    );
    assert_eq!(attempts(&called), [1, 2, 3]);
    let discarded = called.record()["invocation"]["discarded_attempts"].clone();
    let numbers: Vec<&Value> = discarded
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["attempt"])
        .collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(
        (&discarded[0]["error_class"], &discarded[0]["error_code"]),
        (&json!("rate_limited"), &json!("flaky"))
    );
    assert_eq!(discarded[0]["discarded_as"], "streaming_fallback_discarded");
    let events = called.events();
    let story: Vec<&str> = events
        .into_iter()
        .filter_map(|event| event.strip_prefix("tool.invocation."))
        .skip_while(|event| *event != "started")
        .collect();
    let failed = ["started", "attempt_discarded"];
    assert_eq!(
        story,
        [&failed[..], &failed[..], &["started", "succeeded"]].concat()
    );
    called.ended("succeeded", "succeeded");
}

#[tokio::test]
async fn nothing_is_repeated_that_is_not_wanted() {
    let once = Test::new("probe#flaky").call(json!({ "until": 2 })).await;
    assert_eq!(attempts(&once), [1], "by default");
    once.failed("rate_limited", "flaky");
    let all = trying("probe#flaky", 3).call(json!({ "until": 9 })).await;
    assert_eq!(attempts(&all), [1, 2, 3]);
    all.failed("rate_limited", "flaky");
    for class in ["execution_failed", "invalid_arguments", "setup_required"] {
        let called = trying("probe#flaky", 3)
            .call(json!({ "until": 2, "class": class }))
            .await;
        assert_eq!(attempts(&called), [1], "{class}");
    }
    let wanted = trying("probe#flaky", 3)
        .policy(|policy| policy.retry.classes = vec![ErrorClass::ExecutionFailed]);
    let called = wanted
        .call(json!({ "until": 2, "class": "execution_failed" }))
        .await;
    assert_eq!(called.succeeded()["attempt"], 2);
}

#[tokio::test]
async fn what_could_have_changed_something_is_never_repeated() {
    let (_guard, folder) = scratch();
    let test = trying("probe#flaky_writing", 3).write(&folder);
    let called = test.call(json!({ "until": 2, "path": folder })).await;
    called.failed("rate_limited", "flaky");
    assert_eq!(attempts(&called), [1]);
    assert!(!called.0.result.error.as_ref().unwrap().retry.safe);
    // The same tool without the grant is refused, and one that can change nothing is repeated.
    let called = trying("probe#flaky", 3)
        .write(&folder)
        .call(json!({ "until": 2 }))
        .await;
    assert_eq!(called.succeeded()["attempt"], 2);
}

#[tokio::test]
async fn all_attempts_have_one_budget() {
    let spin = 2_000_000;
    let once = Test::new("probe#flaky")
        .call(json!({ "until": 1, "spin": spin }))
        .await;
    let fuel = once.0.result.usage.as_ref().unwrap().fuel.used;
    let budget = fuel * 5 / 2;
    let called = trying("probe#flaky", 9)
        .limit(|limits| limits.fuel = budget)
        .call(json!({ "until": 9, "spin": spin }))
        .await;
    called.failed("timeout", "fuel_exhausted");
    assert_eq!(attempts(&called), [1, 2, 3]);
    let used = called.0.result.usage.as_ref().unwrap().fuel;
    assert_eq!(
        (used.limit, used.used),
        (budget, budget),
        "the bill is for all of them"
    );
}

#[tokio::test]
async fn partial_results_of_all_attempts_are_no_larger_than_an_answer_may_be() {
    let called = trying("probe#flaky", 3)
        .limit(|limits| limits.output_bytes = 100_000)
        .call(json!({ "until": 3, "partial_bytes": 40_000 }))
        .await;
    assert_eq!(called.succeeded()["attempt"], 3);
    let kept = called
        .0
        .progress
        .iter()
        .filter(|update| update.partial_content.is_some());
    assert_eq!(kept.count(), 2, "the third attempt has 20 kB left");
}

#[tokio::test]
async fn the_time_that_a_tool_asks_for_is_waited_as_far_as_the_deadline_lets() {
    let called = trying("probe#flaky", 2)
        .call(json!({ "until": 2, "retry_after_ms": 150 }))
        .await;
    assert_eq!(called.succeeded()["attempt"], 2);
    let used = called.0.result.usage.as_ref().unwrap().wall_ms;
    assert!(used.used >= 150, "the wait counts as time: {used:?}");
    assert!(
        called.record()["invocation"]["discarded_attempts"][0]["retry_in_ms"]
            .as_u64()
            .unwrap()
            >= 150
    );
    let called = trying("probe#flaky", 2)
        .timeout_ms(5_000)
        .call(json!({ "until": 2, "retry_after_ms": 60_000 }))
        .await;
    called.failed("rate_limited", "flaky");
    assert_eq!(attempts(&called), [1]);
    assert_eq!(
        called.0.result.error.as_ref().unwrap().retry_after,
        Some(60.0)
    );
}

#[tokio::test]
async fn a_call_that_is_canceled_between_two_attempts_has_no_further_one() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.listener(heard));
    let test = trying("probe#flaky", 5).on(&host).timeout_ms(60_000);
    let cancellation = test.cancellation();
    let cancel = async {
        listener
            .wait_for("probe.flaky", "tool.invocation.attempt_discarded")
            .await;
        cancellation.cancel(AbortReason::UserInterruption);
    };
    let called = tokio::join!(
        test.call(json!({ "until": 5, "retry_after_ms": 50_000 })),
        cancel
    )
    .0;
    called
        .failed("canceled", "canceled")
        .ended("canceled", "canceled");
    assert_eq!(attempts(&called), [1]);
}
