//! Phases 2 and 3: the caller's arguments, validated against the model schema.
//!
//! Promise: Claims only narrow.

use serde_json::{Value, json};
use toolcell_spec::EventType;

use super::doubles::declaring;
use crate::support::{Called, Test};

#[track_caller]
fn refused(called: &Called, class: &str, code: &str) {
    called
        .failed(class, code)
        .ended("failed", "failed")
        .never_ran();
    let events = called.events();
    assert!(
        events.contains(&"tool.invocation.validation_failed"),
        "{events:?}"
    );
    assert!(
        !events.contains(&"tool.invocation.arguments_ready"),
        "{events:?}"
    );
    assert!(
        called.0.decisions.is_empty(),
        "nothing was decided on arguments that are wrong"
    );
}

#[tokio::test]
async fn arguments_that_are_not_json_are_refused_and_kept_as_they_were_sent() {
    let nested = "[".repeat(100_000);
    for text in [
        "",
        "{",
        "{'a': 1}",
        "{\"a\": NaN}",
        "{} {}",
        "\u{0}",
        &nested,
    ] {
        let called = Test::new("wat:echo").call_text(text).await;
        refused(&called, "invalid_arguments", "arguments_not_json");
        assert_eq!(
            *called.0.invocation.model_input,
            Value::String(text.to_owned())
        );
        assert_eq!(
            *called.0.invocation.model_input_ref,
            *toolcell_spec::digest(text.as_bytes())
        );
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_refused() {
    for value in [
        json!([1]),
        json!("text"),
        json!(7),
        json!(true),
        json!(null),
    ] {
        let called = Test::new("wat:echo").call(value).await;
        refused(&called, "invalid_arguments", "arguments_not_an_object");
    }
}

#[tokio::test]
async fn a_wrong_type_a_missing_and_a_wrong_value_are_refused_with_the_place() {
    for (input, place, pointer) in [
        (json!({"query": 7}), "/query", "/query"),
        (json!({"limit": 3}), "query is required", "/query"),
        (json!({"query": "x", "limit": 0}), "/limit", "/limit"),
        (json!({"query": "x", "order": "random"}), "/order", "/order"),
    ] {
        let called = Test::new("probe#defaults").call(input).await;
        refused(&called, "schema_validation_failed", "schema_mismatch");
        assert!(called.message().contains(place), "{}", called.message());
        let mut events = called.0.events.iter();
        let failed = events.find(|event| event.event_type == EventType::ValidationFailed);
        let data = &failed.unwrap().data;
        assert_eq!(data["pointers"], json!([pointer]));
        let sent = called.record()["invocation"]["model_input_ref"].clone();
        assert_eq!(data["input_ref"], sent);
    }
}

#[tokio::test]
async fn a_refusal_does_not_repeat_the_value_that_was_wrong() {
    let called = Test::new("probe#defaults")
        .call(json!({"query": "x", "order": "hunter2"}))
        .await;
    refused(&called, "schema_validation_failed", "schema_mismatch");
    assert!(
        !called.message().contains("hunter2"),
        "{}",
        called.message()
    );
}

#[tokio::test]
async fn an_argument_that_the_schema_does_not_name_passes_only_where_the_contract_is_lenient() {
    let input = json!({"text": "x", "more": [1]});
    let called = Test::new("probe#strict").call(input.clone()).await;
    refused(&called, "schema_validation_failed", "schema_mismatch");
    let called = Test::new("probe#lenient").call(input.clone()).await;
    assert_eq!(called.succeeded()["input"], input);
}

#[tokio::test]
async fn a_tool_without_an_input_contract_takes_no_arguments() {
    let tool = || {
        let bytes = declaring("arguments_none", |declaration| {
            declaration
                .as_object_mut()
                .unwrap()
                .remove("input_contract");
        });
        Test::of_bytes(bytes, None)
    };
    tool().call(json!({})).await.succeeded();
    refused(
        &tool().call(json!({"a": 1})).await,
        "schema_validation_failed",
        "schema_mismatch",
    );
}

#[tokio::test]
async fn a_caller_cannot_send_a_field_that_only_hooks_may_fill() {
    let called = Test::new("probe#internal")
        .call(json!({"query": "x", "zz_internal_7f3": 1}))
        .await;
    refused(&called, "schema_validation_failed", "schema_mismatch");
    assert_eq!(
        Test::new("probe#internal")
            .call(json!({"query": "x"}))
            .await
            .succeeded()["input"],
        json!({"query": "x"})
    );
}

#[tokio::test]
async fn the_tool_itself_can_refuse_values_before_it_runs() {
    let called = Test::new("validated#even").call(json!({"n": 3})).await;
    called
        .failed("invalid_arguments", "odd_number")
        .ended("failed", "failed")
        .never_ran();
    assert_eq!(called.message(), "`n` must be even.");
    let called = Test::new("validated#even").call(json!({"n": 102})).await;
    called
        .failed("setup_required", "number_too_large")
        .ended("failed", "failed")
        .never_ran();
    assert_eq!(
        Test::new("validated#even")
            .call(json!({"n": 4}))
            .await
            .succeeded()["ran"],
        "even"
    );
}

#[tokio::test]
async fn a_check_that_spins_or_panics_ends_the_call_before_the_tool_runs() {
    for tool in ["validated#check_panics", "validated#preflight_panics"] {
        let called = Test::new(tool).call(json!({})).await;
        called
            .failed("execution_failed", "guest_panicked")
            .ended("failed", "failed")
            .never_ran();
    }
    for tool in ["validated#check_spins", "validated#preflight_spins"] {
        let called = Test::new(tool).timeout_ms(100).call(json!({})).await;
        // The graph has only one transition from a failed validation, to `failed`.
        called
            .failed("timeout", "epoch_deadline")
            .ended("timed_out", "failed")
            .never_ran();
    }
}

#[tokio::test]
async fn the_keywords_of_json_schema_mean_what_they_say() {
    let schema = json!({
        "type": "object",
        "$defs": {"id": {"type": "string", "pattern": "^[a-z]+$"}},
        "properties": {
            "id": {"$ref": "#/$defs/id"},
            "step": {"type": "number", "multipleOf": 0.5},
            "one": {"oneOf": [{"type": "integer"}, {"type": "number", "maximum": 1}]},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
            "unique": {"type": "array", "uniqueItems": true},
            "not": {"not": {"const": 7}},
        },
        "dependentRequired": {"step": ["id"]},
        "if": {"properties": {"id": {"const": "x"}}, "required": ["id"]},
        "then": {"required": ["one"]},
        "unevaluatedProperties": false,
    });
    let bytes = declaring("arguments_keywords", |declaration| {
        declaration["input_contract"]["model_input_schema"] = schema;
    });
    for (right, input) in [
        (true, json!({"id": "abc", "step": 1.5})),
        (false, json!({"id": "ABC"})),
        (false, json!({"id": "abc", "step": 1.2})),
        (false, json!({"step": 1.5})),
        (true, json!({"one": 2})),
        (false, json!({"one": 1})),
        (true, json!({"pair": ["a", 1, 2]})),
        (false, json!({"pair": ["a", "b"]})),
        (false, json!({"unique": [1, 1.0]})),
        (false, json!({"not": 7})),
        (false, json!({"id": "x"})),
        (true, json!({"id": "x", "one": 0.5})),
        (false, json!({"other": 1})),
    ] {
        let called = Test::of_bytes(bytes.clone(), None)
            .call(input.clone())
            .await;
        if right {
            assert_eq!(called.succeeded(), input)
        } else {
            refused(&called, "schema_validation_failed", "schema_mismatch")
        }
    }
}

#[tokio::test]
async fn a_name_that_stands_twice_is_refused_because_the_tool_might_read_the_other_value() {
    let called = Test::new("probe#echo")
        .call_text(r#"{"path": "allowed", "path": "other"}"#)
        .await;
    called
        .failed("invalid_arguments", "arguments_not_json")
        .never_ran();
    assert!(
        called.message().contains("duplicate key"),
        "{}",
        called.message()
    );
}
