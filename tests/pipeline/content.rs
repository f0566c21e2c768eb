//! Phase 10: the guest's answer, checked against the content types it may use and its output contract.

use serde_json::{Value, json};

use super::doubles::declaring;
use crate::support::{Called, Test};

async fn call(tool: &str) -> Called {
    Test::new(&format!("probe#{tool}")).call(json!({})).await
}

#[tokio::test]
async fn content_that_is_no_array_of_blocks_is_never_taken_for_content() {
    for tool in ["bad_content", "bad_block", "bad_json"] {
        let called = call(tool).await;
        called
            .failed("execution_failed", "content_invalid")
            .ended("failed", "failed");
        assert!(called.0.result.content.is_empty() && called.0.result.structured_content.is_none());
        assert!(
            called.0.result.usage.is_some(),
            "it ran, and that is on the bill"
        );
    }
}

#[tokio::test]
async fn every_block_that_a_guest_may_write_arrives_as_it_was() {
    let called = call("blocks").await;
    called.succeeded();
    let kinds: Vec<&str> = called
        .0
        .result
        .content
        .iter()
        .map(|block| block.kind.as_str())
        .collect();
    let expected = [
        "text",
        "image",
        "audio",
        "video",
        "file",
        "resource_link",
        "embedded_resource",
        "log",
        "diff",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(
        called.record()["result"]["content"][5],
        json!({
            "type": "resource_link", "uri": "https://example.com/a", "name": "a page",
        })
    );
    let shown: Vec<&str> = called
        .0
        .result
        .model_facing_content
        .iter()
        .map(|block| block.kind.as_str())
        .collect();
    assert_eq!(
        shown,
        expected
            .into_iter()
            .filter(|kind| *kind != "log")
            .collect::<Vec<_>>(),
        "no log for a model"
    );
}

#[tokio::test]
async fn a_block_that_was_not_promised_fails_the_call() {
    let called = call("blocks_unpromised").await;
    called
        .failed("execution_failed", "content_type_not_declared")
        .ended("failed", "failed");
    assert!(called.message().contains("`image`"));
}

#[tokio::test]
async fn a_guest_cannot_write_a_reference_that_only_the_host_mints() {
    // `forged_record` answers text that looks like a record; as a block type it would be refused.
    let called = Test::new("hostile#forged_record").call(json!({})).await;
    assert!(
        called
            .0
            .result
            .content
            .iter()
            .all(|block| !block.kind.ends_with("_ref"))
    );
    assert!(called.0.result.resource_refs.is_empty() && called.0.result.artifact_refs.is_empty());
}

#[tokio::test]
async fn structured_output_that_breaks_its_schema_is_not_passed_on() {
    for tool in ["bad_structured", "bad_structured_json"] {
        let called = call(tool).await;
        called
            .failed("execution_failed", "output_schema_mismatch")
            .ended("failed", "failed");
        assert!(called.0.result.structured_content.is_none());
    }
    assert_eq!(call("good_structured").await.succeeded(), json!({"n": 7}));
}

#[tokio::test]
async fn a_number_that_would_change_on_its_way_is_an_error_and_any_other_one_is_what_it_was() {
    let bytes = || declaring("content_numbers", |_| {});
    for lost in [
        "18446744073709551616",
        "0.12345678901234567890",
        "123456789.0123456789",
        "1e-400",
    ] {
        let called = Test::of_bytes(bytes(), None)
            .call_text(&format!(r#"{{"rows":[{{"n":{lost}}}]}}"#))
            .await;
        called
            .failed("execution_failed", "output_schema_mismatch")
            .ended("failed", "failed");
        assert!(called.message().contains(lost), "{}", called.message());
    }
    for kept in [
        "18446744073709551615",
        "-9223372036854775808",
        "1.0",
        "0.30000000000000004",
    ] {
        let called = Test::of_bytes(bytes(), None)
            .call_text(&format!(r#"{{"n":{kept}}}"#))
            .await;
        assert_eq!(called.succeeded()["n"].to_string(), kept);
    }
}

#[tokio::test]
async fn structured_output_is_held_against_the_schema_of_the_contract() {
    let bytes = declaring("content_output", |declaration| {
        declaration["output_contract"] = json!({"structured_schema": {"required": ["answer"]}});
    });
    let called = Test::of_bytes(bytes.clone(), None)
        .call(json!({"question": 6}))
        .await;
    called
        .failed("execution_failed", "output_schema_mismatch")
        .ended("failed", "failed");
    Test::of_bytes(bytes, None)
        .call(json!({"answer": 42}))
        .await
        .succeeded();
}

#[tokio::test]
async fn nothing_said_null_said_and_a_crash_are_three_different_records() {
    let empty = call("empty").await.record();
    let null = call("null").await.record();
    let crash = Test::new("hostile#panic").call(json!({})).await.record();
    let facts = |record: &Value| {
        let result = &record["result"];
        let text = result["model_facing_content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned();
        (
            result["is_error"].as_bool().unwrap(),
            result["empty_result"].as_bool().unwrap_or(false),
            text,
        )
    };
    assert_eq!(
        facts(&empty),
        (false, true, "(tool completed with no output)".to_owned())
    );
    assert_eq!(facts(&null), (false, false, "null".to_owned()));
    assert_eq!(facts(&crash), (true, false, "the tool crashed".to_owned()));
    assert!(empty["result"].get("structured_content").is_none());
    assert_eq!(null["result"].get("structured_content"), Some(&Value::Null));
    assert_eq!(
        [&empty, &null].map(|record| record["result"]["content"].clone()),
        [json!([]), json!([])]
    );
}

#[tokio::test]
async fn words_for_the_model_the_program_and_the_person_stay_in_their_places() {
    let called = call("summary").await;
    let result = called.record()["result"].clone();
    assert_eq!(
        result["structured_content"],
        json!({"words": "for the program"})
    );
    assert_eq!(result["ui_facing_summary"], "words for the person");
    assert_eq!(
        result["model_facing_content"],
        json!([{"type": "text", "text": "words for the model"}])
    );
}

#[tokio::test]
async fn structured_output_alone_is_what_the_model_reads() {
    let called = call("good_structured").await;
    assert_eq!(
        called.0.result.model_facing_content[0].as_text(),
        Some("{\"n\":7}")
    );
}

#[tokio::test]
async fn what_a_guest_prints_is_a_log_beside_its_content_and_not_for_the_model() {
    let called = Test::new("probe#stdio")
        .call(json!({"out": "to out", "err": "to err"}))
        .await;
    let record = called.record();
    assert_eq!(
        record["result"]["content"],
        json!([
            {"type": "log", "stream": "stdout", "text": "to out"},
            {"type": "log", "stream": "stderr", "text": "to err"},
        ])
    );
    assert!(
        !record["result"]["model_facing_content"]
            .to_string()
            .contains("to out")
    );
}

#[tokio::test]
async fn every_call_begins_with_a_fresh_instance() {
    for _ in 0..3 {
        assert_eq!(call("counter").await.succeeded(), json!({"count": 1}));
    }
    let called = Test::new("validated#forgetful").call(json!({})).await;
    assert_eq!(
        called.succeeded(),
        json!({"checks_seen": 0}),
        "checks and calls share nothing either"
    );
}
