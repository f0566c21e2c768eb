//! One test for each way in which a host refuses or stops a call. Arguments, names, lifecycles, decisions and hooks
//! have separate files.

use serde_json::json;
use toolcell_engine::pipeline::Request;
use toolcell_policy::Limits;
use toolcell_spec::{AbortReason, ErrorClass, ErrorCode, Refusal};

use crate::support::{Called, Test, check_record};

use super::doubles::{canceled_while_running, own_host};

#[tokio::test]
async fn a_tool_that_takes_too_long_is_timed_out() {
    let called = Test::new("hostile#sleep")
        .timeout_ms(50)
        .call(json!({}))
        .await;
    called
        .failed("timeout", "deadline_exceeded")
        .ended("timed_out", "timed_out");
    let called = Test::new("wat:spin")
        .limit(|limits| limits.fuel = 1_000_000)
        .call(json!({}))
        .await;
    called
        .failed("timeout", "fuel_exhausted")
        .ended("timed_out", "timed_out");
}

#[tokio::test]
async fn the_shortest_of_all_timeouts_counts() {
    let called = Test::new("probe#timeout_in_interface")
        .call(json!({}))
        .await;
    called
        .failed("timeout", "deadline_exceeded")
        .ended("timed_out", "timed_out");
    assert_eq!(called.0.result.usage.as_ref().unwrap().wall_ms.limit, 200);
    let called = Test::new("probe#timeboxed")
        .call(json!({"ms": 5_000}))
        .await;
    called
        .failed("timeout", "deadline_exceeded")
        .ended("timed_out", "timed_out");
    assert_eq!(called.0.result.usage.as_ref().unwrap().wall_ms.limit, 300);
    let called = Test::new("probe#timeboxed")
        .timeout_ms(40)
        .call(json!({"ms": 5_000}))
        .await;
    assert_eq!(called.0.result.usage.as_ref().unwrap().wall_ms.limit, 40);
}

#[tokio::test]
async fn a_limit_of_the_sandbox_ends_the_call() {
    let called = Test::new("hostile#memory").call(json!({"mib": 512})).await;
    called
        .failed("sandbox_violation", "memory_limit")
        .ended("failed", "failed");
    assert!(
        called.message().contains("--memory"),
        "{}",
        called.message()
    );
}

#[tokio::test]
async fn a_crash_is_a_failed_execution_whose_words_stay_in_the_journal() {
    let called = Test::new("hostile#panic")
        .call(json!({"message": "pw=hunter2"}))
        .await;
    called
        .failed("execution_failed", "guest_panicked")
        .ended("failed", "failed");
    let result = serde_json::to_value(&called.0.result).unwrap();
    assert!(!result["error"].to_string().contains("hunter2"));
    assert!(
        !result["model_facing_content"]
            .to_string()
            .contains("hunter2")
    );
    assert!(
        called.record()["invocation"]["error_detail"]
            .as_str()
            .unwrap()
            .contains("hunter2")
    );
}

#[tokio::test]
async fn an_exit_is_no_answer_even_with_status_0() {
    for code in [0, 3] {
        let called = Test::new("hostile#exit").call(json!({"code": code})).await;
        called
            .failed("execution_failed", "guest_exited")
            .ended("failed", "failed");
    }
}

#[tokio::test]
async fn a_partial_answer_is_an_error_that_keeps_what_is_usable() {
    let called = Test::new("probe#partial").call(json!({})).await;
    called
        .failed("partial_failure", "second_half_missing")
        .ended("partial_succeeded", "failed");
    let result = &called.0.result;
    assert_eq!(result.structured_content, Some(json!({"done": 1, "of": 2})));
    assert_eq!(result.content[0].as_text(), Some("half of it"));
    assert_eq!(
        result.ui_facing_summary.as_deref(),
        Some("Half of it is done.")
    );
    let shown: Vec<_> = result
        .model_facing_content
        .iter()
        .map(|block| block.as_text().unwrap())
        .collect();
    assert_eq!(shown, ["half of it", "The second half could not be read."]);
    assert_eq!(
        result.error.as_ref().unwrap().retry_after,
        Some(1.5),
        "seconds"
    );
    assert!(
        !serde_json::to_string(result)
            .unwrap()
            .contains("for the record only")
    );
    assert_eq!(
        called.record()["invocation"]["error_detail"],
        "for the record only"
    );
}

#[tokio::test]
async fn an_output_over_the_limit_is_refused_and_one_exactly_at_it_is_not() {
    // `[{"type":"text","text":""}]` around the text.
    let frame = json!([{"type": "text", "text": ""}]).to_string().len() as u64;
    let call = |limit| {
        Test::new("probe#big").limit(move |limits: &mut Limits| limits.output_bytes = limit)
    };
    let exact = call(1_000 + frame).call(json!({"bytes": 1_000})).await;
    exact.succeeded();
    assert_eq!(
        exact.0.result.usage.as_ref().unwrap().output_bytes.used,
        1_000 + frame
    );
    let over = call(1_000 + frame - 1).call(json!({"bytes": 1_000})).await;
    over.failed("result_too_large", "output_limit")
        .ended("too_large", "failed");
    assert!(over.0.result.content.is_empty() && over.message().contains("--max-output"));
}

#[tokio::test]
async fn a_canceled_call_ends_as_canceled_with_its_reason() {
    for (reason, class, code, result) in [
        (
            AbortReason::UserInterruption,
            "canceled",
            "canceled",
            "canceled",
        ),
        (
            AbortReason::RuntimeShutdown,
            "canceled",
            "host_stopped",
            "canceled",
        ),
        (
            AbortReason::SiblingError,
            "sibling_canceled",
            "sibling_canceled",
            "synthetic_error",
        ),
        (
            AbortReason::Fallback,
            "streaming_fallback_discarded",
            "fallback",
            "discarded",
        ),
    ] {
        let called = canceled_while_running("hostile#sleep", json!({}), reason).await;
        called.failed(class, code).ended(result, "canceled");
        let requested = called
            .0
            .events
            .iter()
            .find(|event| event.event_type.as_str().ends_with("cancel_requested"));
        assert_eq!(
            requested.unwrap().data["abort_reason"],
            serde_json::to_value(reason).unwrap()
        );
    }
}

#[tokio::test]
async fn a_component_that_could_not_be_loaded_still_ends_in_a_result() {
    let host = own_host(|settings| settings);
    let refusal = Refusal::new(ErrorCode::BuildFailed, "it did not build");
    let record = host.refuse(Request::new("some.wasm", "{}"), refusal).await;
    check_record(&serde_json::to_value(&record).unwrap());
    let called = Called(record);
    called
        .failed("setup_required", "build_failed")
        .ended("failed", "blocked")
        .never_ran();
}

#[test]
fn every_error_class_has_the_statuses_of_the_requirements() {
    // Class, terminal status before the guest ran, after it ran, and the status of the result (1.17.3).
    let table = [
        ("unknown_tool", "failed", "failed", "failed"),
        ("invalid_arguments", "failed", "failed", "failed"),
        ("schema_validation_failed", "failed", "failed", "failed"),
        ("schema_not_loaded", "blocked", "failed", "failed"),
        ("permission_denied", "denied", "failed", "denied"),
        ("approval_rejected", "denied", "failed", "rejected"),
        ("policy_blocked", "blocked", "failed", "denied"),
        ("hook_blocked", "blocked", "failed", "denied"),
        ("capability_gap", "blocked", "failed", "failed"),
        ("setup_required", "blocked", "failed", "failed"),
        ("credential_missing", "blocked", "failed", "failed"),
        ("sandbox_violation", "failed", "failed", "failed"),
        ("timeout", "timed_out", "timed_out", "timed_out"),
        ("rate_limited", "blocked", "failed", "failed"),
        ("dependency_unavailable", "failed", "failed", "failed"),
        ("execution_failed", "failed", "failed", "failed"),
        ("partial_failure", "failed", "failed", "partial_succeeded"),
        ("result_too_large", "failed", "failed", "too_large"),
        ("result_redacted", "failed", "failed", "redacted"),
        (
            "sibling_canceled",
            "canceled",
            "canceled",
            "synthetic_error",
        ),
        (
            "streaming_fallback_discarded",
            "canceled",
            "canceled",
            "discarded",
        ),
        ("canceled", "canceled", "canceled", "canceled"),
    ];
    for (word, refused, ran, result) in table {
        let class: ErrorClass = serde_json::from_value(word.into()).unwrap();
        assert_eq!(
            (class.refused_status().as_str(), class.ran_status().as_str()),
            (refused, ran),
            "{word}"
        );
        assert_eq!(
            serde_json::to_value(class.result_status()).unwrap(),
            result,
            "{word}"
        );
    }
}
