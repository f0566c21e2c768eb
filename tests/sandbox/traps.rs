//! Ways for a call to end without an answer, and answers that break the contract of components.
//!
//! Promise: Fresh state.

use serde_json::{Value, json};

use crate::support::{Called, Test};

async fn ended(tool: &str, input: Value) -> Called {
    let called = Test::new(tool).call(input).await;
    assert_eq!(
        called.statuses(),
        ("failed".into(), "failed".into()),
        "{tool}"
    );
    assert!(called.0.result.structured_content.is_none(), "{tool}");
    // The host answers the next call, whatever the guest did to itself.
    assert_eq!(
        Test::new("probe#counter").call(json!({})).await.succeeded()["count"],
        1
    );
    called
}

#[tokio::test]
async fn the_message_of_a_panic_is_for_the_journal_and_not_for_the_model() {
    let secret = "internal-connection-string-7261";
    let called = ended("hostile#panic", json!({ "message": secret })).await;
    called.failed("execution_failed", "guest_panicked");
    assert!(!called.message().contains(secret));
    let record = called.record();
    assert!(
        record["invocation"]["error_detail"]
            .as_str()
            .unwrap()
            .contains(secret),
        "{record:#}"
    );
    assert!(
        !record["result"]["model_facing_content"]
            .to_string()
            .contains(secret),
        "{record:#}"
    );
}

#[tokio::test]
async fn every_trap_is_a_failed_call() {
    for (tool, code) in [
        ("hostile#unreachable", "guest_panicked"),
        ("wat:divide-by-zero", "arithmetic_fault"),
        ("wat:out-of-bounds-access", "memory_fault"),
    ] {
        ended(tool, json!({}))
            .await
            .failed("execution_failed", code);
    }
}

#[tokio::test]
async fn an_exit_is_no_answer_whatever_its_code() {
    for code in [0, 1] {
        let called = ended("hostile#exit", json!({ "code": code })).await;
        called.failed("execution_failed", "guest_exited");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_the_canonical_abi_is_a_failed_call() {
    for tool in [
        "wat:invalid-utf8",
        "wat:out-of-bounds-string",
        "wat:invalid-outcome",
        "wat:unaligned-outcome",
        "wat:realloc-out-of-bounds",
    ] {
        ended(tool, json!({}))
            .await
            .failed("execution_failed", "guest_invalid");
    }
}

#[tokio::test]
async fn the_names_of_functions_that_trap_reach_nobody_as_they_are() {
    let called = ended("wat:hostile-names", json!({})).await;
    let record = called.record();
    let mut texts = Vec::new();
    gather(&record, &mut texts);
    for text in texts {
        assert!(
            !text.contains('\u{1b}') && !text.contains("forged"),
            "{text:?}"
        );
    }
}

fn gather<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| gather(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, texts)),
        _ => {}
    }
}

#[tokio::test]
async fn a_partial_result_outlives_the_trap_that_follows() {
    let called = ended(
        "probe#partial_result",
        json!({ "text": "half of it", "then": "trap" }),
    )
    .await;
    called.failed("execution_failed", "guest_panicked");
    let partial = called.0.progress[0].partial_content.as_ref().unwrap();
    assert_eq!(*partial, json!([{ "type": "text", "text": "half of it" }]));
}

#[tokio::test]
async fn no_state_is_left_for_the_next_call() {
    for _ in 0..10 {
        assert_eq!(
            Test::new("probe#counter").call(json!({})).await.succeeded()["count"],
            1
        );
    }
}

#[tokio::test]
async fn a_call_in_the_place_of_one_that_trapped_finds_nothing_of_it() {
    let host = std::sync::Arc::new(crate::support::host(|settings| settings.calls_at_once(1)));
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..5 {
        Test::new("probe#partial_result")
            .on(&host)
            .call(json!({ "then": "trap" }))
            .await;
        let counted = Test::new("probe#counter").on(&host).call(json!({})).await;
        assert_eq!(counted.succeeded()["count"], 1);
        let called = Test::new("probe#invocation")
            .on(&host)
            .call(json!({}))
            .await;
        let answer = called.succeeded();
        assert_eq!(
            answer["invocation_id"],
            called.record()["invocation"]["invocation_id"]
        );
        assert!(ids.insert(answer["invocation_id"].to_string()));
    }
}
