//! A guest's account of its own failure, and the part of it that the host trusts.

use serde_json::{Value, json};

use crate::support::{Called, Test};

async fn fail(input: Value) -> Called {
    Test::new("probe#fail").call(input).await
}

#[tokio::test]
async fn every_class_that_a_guest_may_say_ends_in_its_statuses() {
    for (class, result, invocation, recoverability) in [
        ("invalid_arguments", "failed", "failed", "change_arguments"),
        ("capability_gap", "failed", "failed", "none"),
        ("setup_required", "failed", "failed", "setup_first"),
        ("credential_missing", "failed", "failed", "setup_first"),
        ("timeout", "timed_out", "timed_out", "retry_same"),
        ("rate_limited", "failed", "failed", "retry_after"),
        ("dependency_unavailable", "failed", "failed", "retry_after"),
        ("execution_failed", "failed", "failed", "none"),
        (
            "partial_failure",
            "partial_succeeded",
            "failed",
            "change_arguments",
        ),
        (
            "result_too_large",
            "too_large",
            "failed",
            "change_arguments",
        ),
        ("canceled", "canceled", "canceled", "retry_same"),
    ] {
        let called = fail(json!({"class": class, "code": "of_the_guest"})).await;
        called
            .failed(class, "of_the_guest")
            .ended(result, invocation);
        let error = called.0.result.error.as_ref().unwrap();
        assert_eq!(
            serde_json::to_value(error.recoverability).unwrap(),
            recoverability,
            "{class}"
        );
        assert!(called.0.invocation.started_at().is_some() && called.0.result.usage.is_some());
    }
}

#[tokio::test]
async fn a_class_that_only_the_host_decides_cannot_be_claimed() {
    for word in [
        "permission_denied",
        "policy_blocked",
        "approval_rejected",
        "hook_blocked",
        "sandbox_violation",
        "\u{1b}[2J",
    ] {
        let called = fail(json!({"class": word})).await;
        called
            .failed("execution_failed", "told_to_fail")
            .ended("failed", "failed");
    }
}

#[tokio::test]
async fn message_and_delay_reach_the_caller_and_the_detail_reaches_the_journal_only() {
    let input = json!({
        "class": "rate_limited", "code": "slow_down", "message": "Ask again later.", "detail": "account of ada",
        "retry_after_ms": 2_500,
    });
    let called = fail(input).await;
    let error = called.0.result.error.as_ref().unwrap();
    assert_eq!(
        (error.message.as_str(), error.retry_after),
        ("Ask again later.", Some(2.5))
    );
    assert_eq!(
        (error.retry.safe, error.retry.retry_after),
        (true, Some(2.5))
    );
    assert_eq!(
        called.0.result.model_facing_content[0].as_text(),
        Some("Ask again later.")
    );
    assert!(
        !serde_json::to_string(&called.0.result)
            .unwrap()
            .contains("of ada")
    );
    assert!(
        !serde_json::to_string(&called.0.events)
            .unwrap()
            .contains("of ada")
    );
    assert_eq!(
        called.record()["invocation"]["error_detail"],
        "account of ada"
    );
}

#[tokio::test]
async fn a_code_and_a_message_are_bounded_and_an_empty_code_is_replaced() {
    let called =
        fail(json!({"class": "execution_failed", "code": "c".repeat(1_000), "message": "\u{e9}".repeat(9_000)})).await;
    let error = called.0.result.error.as_ref().unwrap();
    assert_eq!(
        (error.error_code.len(), error.message.chars().count()),
        (64, 4_000)
    );
    fail(json!({"class": "execution_failed", "code": ""}))
        .await
        .failed("execution_failed", "tool_failed");
}

#[tokio::test]
async fn a_partial_result_outlives_the_failure_and_the_trap_after_it() {
    for (then, code) in [
        ("fail", "failed_after_partial_result"),
        ("trap", "guest_panicked"),
    ] {
        let called = Test::new("probe#partial_result")
            .call(json!({"text": "so far", "then": then}))
            .await;
        called
            .failed("execution_failed", code)
            .ended("failed", "failed");
        assert_eq!(
            called.0.progress[0].partial_content,
            Some(json!([{"type": "text", "text": "so far"}]))
        );
        let passed = called
            .0
            .invocation
            .status_transitions()
            .iter()
            .map(|step| step.to.as_str())
            .collect::<Vec<_>>();
        assert!(passed.contains(&"partial_result"), "{passed:?}");
    }
}
