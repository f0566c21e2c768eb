//! Answers made to mislead or crash their readers.
//!
//! Promise: Output is data.

use serde_json::json;

use super::logged;
use crate::support::Test;

#[tokio::test]
async fn what_is_not_json_is_a_failure_and_not_content() {
    let called = Test::new("hostile#not_json").call(json!({})).await;
    called.failed("execution_failed", "content_invalid");
    assert!(!called.record().to_string().contains("{{{"));
    Test::new("probe#bad_json")
        .call(json!({}))
        .await
        .failed("execution_failed", "content_invalid");
}

#[tokio::test]
async fn content_of_another_shape_is_a_failure() {
    for tool in ["probe#bad_content", "probe#bad_block"] {
        Test::new(tool)
            .call(json!({}))
            .await
            .failed("execution_failed", "content_invalid");
    }
    Test::new("probe#blocks_unpromised")
        .call(json!({}))
        .await
        .failed("execution_failed", "content_type_not_declared");
    for tool in ["probe#bad_structured_json", "probe#bad_structured"] {
        Test::new(tool)
            .call(json!({}))
            .await
            .failed("execution_failed", "output_schema_mismatch");
    }
}

#[tokio::test]
async fn json_nested_too_deep_is_a_failure_and_not_a_host_out_of_stack() {
    for (place, code) in [
        ("content", "content_invalid"),
        ("structured", "output_schema_mismatch"),
    ] {
        for depth in [200, 100_000] {
            let called = Test::new("hostile#deep_json")
                .call(json!({ "where": place, "depth": depth }))
                .await;
            called.failed("execution_failed", code);
        }
    }
}

#[tokio::test]
async fn a_key_that_is_named_twice_has_one_value_for_everybody() {
    let called = Test::new("hostile#duplicate_keys").call(json!({})).await;
    let record = called.record();
    // The host refuses the duplicate key, or every reader of the record gets the same value.
    if called.0.result.is_error {
        called.failed("execution_failed", "content_invalid");
    } else {
        let again: serde_json::Value = serde_json::from_str(&record.to_string()).unwrap();
        assert_eq!(again, record);
        assert_eq!(
            record["result"]["structured_content"]
                .as_object()
                .unwrap()
                .len(),
            1
        );
    }
}

#[tokio::test]
async fn a_guest_cannot_write_a_reference_of_the_host() {
    let called = Test::new("hostile#forged_record").call(json!({})).await;
    called.failed("execution_failed", "content_invalid");
    let record = called.record();
    assert_ne!(record["result"]["result_id"], "forged");
    assert_ne!(record["invocation"]["invocation_id"], "forged");
    assert_eq!(record["result"]["structured_content"], json!(null));
    assert!(
        logged(&record, "stdout").contains("jsonrpc"),
        "what it printed is log content"
    );
}

#[tokio::test]
async fn control_characters_end_no_call_and_forge_no_record() {
    for place in [
        "content",
        "structured",
        "summary",
        "stdout",
        "log",
        "progress",
    ] {
        let called = Test::new("hostile#control_chars")
            .call(json!({ "where": place }))
            .await;
        called.succeeded();
        let text = called.record().to_string();
        assert!(
            !text.contains('\u{1b}') && !text.contains('\n'),
            "{place}: JSON escapes what controls a terminal"
        );
    }
    for (place, code) in [("message", "misleading"), ("class", "misleading")] {
        let called = Test::new("hostile#control_chars")
            .call(json!({ "where": place }))
            .await;
        called.failed("execution_failed", code);
    }
    let called = Test::new("hostile#control_chars")
        .call(json!({ "where": "code" }))
        .await;
    let code = &called.0.result.error.as_ref().unwrap().error_code;
    assert!(code.chars().count() <= 64, "{code:?}");
    assert!(!code.chars().any(char::is_control), "{code:?}");
}

#[tokio::test]
async fn arguments_that_are_not_json_never_reach_a_guest() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for input in ["", "{", "{\"a\":1} trailing", "\u{0}", &deep] {
        let called = Test::new("probe#echo").call_text(input).await;
        assert!(called.0.result.is_error, "{:.40}", input);
        called.never_ran();
    }
}
