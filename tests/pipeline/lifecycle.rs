use serde_json::json;

use crate::support::{Called, Test};

async fn call(lifecycle: &str) -> Called {
    Test::new(&format!("probe#lifecycle_{lifecycle}"))
        .call(json!({}))
        .await
}

#[tokio::test]
async fn a_draft_and_a_retired_tool_cannot_be_called_and_keep_their_identity() {
    for lifecycle in ["draft", "retired"] {
        let called = call(lifecycle).await;
        called
            .failed("capability_gap", &format!("tool_{lifecycle}"))
            .ended("failed", "blocked")
            .never_ran();
        assert_eq!(
            called.0.invocation.tool_id,
            format!("probe.lifecycle_{lifecycle}")
        );
        assert!(called.0.declaration.is_some());
        assert!(!called.events().contains(&"tool.invocation.selected"));
    }
}

#[tokio::test]
async fn a_disabled_tool_is_blocked_by_policy_and_not_unknown() {
    let called = call("disabled").await;
    called
        .failed("policy_blocked", "tool_disabled")
        .ended("denied", "blocked")
        .never_ran();
    let record = called.record();
    let named = json!(["lifecycle:disabled"]);
    assert_eq!(
        (
            &record["invocation"]["policy_refs"],
            &record["result"]["policy_refs"]
        ),
        (&named, &named)
    );
    assert_eq!(record["result"]["error"]["policy_refs"], named);
}

#[tokio::test]
async fn a_tool_that_was_not_set_up_says_so() {
    let called = call("requires_setup").await;
    called
        .failed("setup_required", "tool_requires_setup")
        .ended("failed", "blocked")
        .never_ran();
    let error = called.0.result.error.as_ref().unwrap();
    assert_eq!(
        serde_json::to_value(error.recoverability).unwrap(),
        "setup_first"
    );
}

#[tokio::test]
async fn a_deferred_tool_says_that_its_schema_was_not_loaded_whatever_it_was_sent() {
    let arguments = ["{}", "{\"wrong\": true}", "[]", "not JSON"];
    for text in arguments {
        let called = Test::new("probe#lifecycle_deferred").call_text(text).await;
        called
            .failed("schema_not_loaded", "schema_not_loaded")
            .ended("failed", "blocked")
            .never_ran();
        let error = called.0.result.error.as_ref().unwrap();
        assert!(error.retry.discovery_first && !error.retry.arguments_must_change);
        assert!(
            !called
                .events()
                .contains(&"tool.invocation.validation_failed")
        );
        assert!(
            called
                .message()
                .contains("`select:probe.lifecycle_deferred`"),
            "{}",
            called.message()
        );
    }
}

#[tokio::test]
async fn a_deprecated_tool_runs_and_the_record_says_that_it_is_deprecated() {
    let called = call("deprecated").await;
    assert_eq!(called.succeeded()["ran"], "lifecycle_deprecated");
    called.ended("succeeded", "succeeded");
    assert_eq!(called.0.events[1].data["deprecated"], true);
    let called = Test::new("probe#echo").call(json!({})).await;
    assert_eq!(called.0.events[1].data["deprecated"], false);
}
