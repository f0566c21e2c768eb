//! The short cases of an outcome: `text` and `json`.

use serde_json::{Value, json};

use super::doubles::{echo_text, echoing, own_host};
use crate::support::{Called, Test};

/// Numbers of the cases in the contract.
const TEXT: u8 = 1;
const JSON: u8 = 2;

/// The echo tool, which answers its input as this case of an outcome. The limit of its output is in bytes.
async fn answer(
    case: u8,
    output_bytes: u64,
    change: impl FnOnce(&mut Value),
    input: &str,
) -> Called {
    let success = "(i32.store8 (i32.const 64) (i32.const 0))";
    let content = "(i32.store (i32.const 72) (i32.const 32))";
    let length = "(i32.store (i32.const 76) (i32.const 2))";
    let text = echo_text("short", change);
    assert!(
        [success, content, length]
            .iter()
            .all(|part| text.matches(part).count() == 1),
        "{text}"
    );
    let text = text
        .replace(
            success,
            &format!("(i32.store8 (i32.const 64) (i32.const {case}))"),
        )
        .replace(content, "(i32.store (i32.const 72) (local.get $input))")
        .replace(length, "(i32.store (i32.const 76) (local.get $input_len))");
    // A host for each, because their tools have the same name.
    let test =
        Test::of_bytes(wat::parse_str(text).unwrap(), None).on(&own_host(|settings| settings));
    test.limit(|limits| limits.output_bytes = output_bytes)
        .call_text(input)
        .await
}

#[tokio::test]
async fn a_text_is_one_block_of_the_type_text() {
    let input = r#"{ "said": "\"gr\u00fc\u00dfe\"\n" }"#;
    let called = answer(TEXT, 1 << 20, |_| {}, input).await;
    called.succeeded();
    assert_eq!(
        called.record()["result"]["content"],
        json!([{ "type": "text", "text": input }])
    );
    assert!(called.0.result.structured_content.is_none());
    assert_eq!(called.0.result.model_facing_content.len(), 1);
    assert_eq!(
        called.0.result.model_facing_content[0].as_text(),
        Some(input)
    );
}

#[tokio::test]
async fn a_json_is_the_structured_value_and_its_text_is_compact() {
    let called = answer(JSON, 1 << 20, |_| {}, r#"{ "n": [1, 2],  "m": null }"#).await;
    called.succeeded();
    assert_eq!(called.record()["result"]["content"], json!([]));
    assert_eq!(
        called.0.result.structured_content,
        Some(json!({ "n": [1, 2], "m": null }))
    );
    let text = called.0.result.model_facing_content[0].as_text().unwrap();
    assert_eq!(text, json!({ "n": [1, 2], "m": null }).to_string());
}

#[tokio::test]
async fn a_short_answer_satisfies_the_output_contract_as_a_long_one_does() {
    let promise = |toolkit: &mut Value| {
        toolkit["declarations"][0]["output_contract"] = json!({
            "structured_schema": { "type": "object", "required": ["n"] }, "content_types": ["structured_content"],
        });
    };
    answer(JSON, 1 << 20, promise, r#"{"n":1}"#)
        .await
        .succeeded();
    answer(JSON, 1 << 20, promise, r#"{"m":1}"#)
        .await
        .failed("execution_failed", "output_schema_mismatch");
    answer(TEXT, 1 << 20, promise, r#"{"n":1}"#)
        .await
        .failed("execution_failed", "content_type_not_declared");
}

#[tokio::test]
async fn a_short_answer_counts_against_the_limit_of_the_output() {
    let input = json!({ "said": "x".repeat(2_000) }).to_string();
    for case in [TEXT, JSON] {
        answer(case, 4_000, |_| {}, &input).await.succeeded();
        answer(case, 1_000, |_| {}, &input)
            .await
            .failed("result_too_large", "output_limit");
    }
}

#[tokio::test]
async fn a_case_after_the_last_one_breaks_the_contract() {
    answer(5, 1 << 20, |_| {}, "{}")
        .await
        .failed("execution_failed", "guest_invalid");
    // The tool is the same otherwise.
    let test = Test::of_bytes(echoing("short", |_| {}), None);
    test.on(&own_host(|settings| settings))
        .call(json!({}))
        .await
        .succeeded();
}
