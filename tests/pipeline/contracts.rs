//! Contracts that a host refuses to load, and the part of a contract that a model may see.
use serde_json::{Value, json};
use toolcell::ErrorCode;

use super::doubles::{declaring, echoing, own_host};
use crate::support::{Test, fixture};

/// The reason why a component with this declaration does not load.
async fn refused(change: impl FnOnce(&mut Value)) -> String {
    let host = own_host(|settings| settings);
    let refusal = Test::of_bytes(echoing("contracts", change), None)
        .on(&host)
        .load()
        .await
        .unwrap_err();
    assert_eq!(refusal.code, ErrorCode::DescriptionInvalid, "{refusal:?}");
    refusal.message
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused_at_load_with_its_place() {
    let message = refused(|toolkit| {
        toolkit["declarations"][0]["input_contract"]["model_input_schema"] =
            json!({"properties": {"a": {"type": "strnig"}}});
    })
    .await;
    assert!(
        message.contains("contracts.echo") && message.contains("model_input_schema"),
        "{message}"
    );
    assert!(message.contains("/properties/a/type"), "{message}");
}

#[tokio::test]
async fn an_example_that_breaks_its_own_schema_is_refused_at_load() {
    let message = refused(|toolkit| {
        toolkit["declarations"][0]["input_contract"] = json!({
            "model_input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
            "examples": [{"a": 1}, {"a": "one"}],
        });
    })
    .await;
    assert!(
        message.contains("examples[1]") && message.contains("/a"),
        "{message}"
    );
}

#[tokio::test]
async fn a_schema_from_elsewhere_is_not_fetched_and_a_pattern_that_can_explode_is_not_compiled() {
    for schema in [
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"properties": {"a": {"pattern": "(a)\\1"}}}),
        json!({"properties": {"a": {"pattern": "(?=a)b"}}}),
    ] {
        let message = refused(|toolkit| {
            toolkit["declarations"][0]["input_contract"]["model_input_schema"] = schema.clone();
        })
        .await;
        assert!(message.contains("model_input_schema"), "{message}");
    }
}

#[tokio::test]
async fn a_reference_that_leads_nowhere_is_refused_at_load() {
    for field in [
        "interface_ref",
        "execution_profile_ref",
        "permission_profile_ref",
    ] {
        let message = refused(|toolkit| toolkit["declarations"][0][field] = json!("missing")).await;
        assert!(
            message.contains(&format!("{field} `missing` leads nowhere")),
            "{message}"
        );
    }
}

#[tokio::test]
async fn what_a_declaration_must_say_is_demanded_at_load() {
    for (field, value, why) in [
        ("description", json!("  "), "the description is empty"),
        ("name", json!("e cho"), "other than letters"),
        ("namespace", json!("a\u{202e}b"), "other than letters"),
        ("aliases", json!(["a.b"]), "other than letters"),
        ("tool_kind", json!(""), "tool_kind is empty"),
        ("schema_version", json!("9.0.0"), "schema_version 9.0.0"),
        ("lifecycle", json!("asleep"), "asleep"),
    ] {
        let message = refused(|toolkit| toolkit["declarations"][0][field] = value.clone()).await;
        assert!(message.contains(why), "{field}: {message}");
    }
    let message = refused(|toolkit| {
        let twin = toolkit["declarations"][0].clone();
        toolkit["declarations"].as_array_mut().unwrap().push(twin);
    })
    .await;
    assert!(message.contains("two tools are named `echo`"), "{message}");
}

#[tokio::test]
async fn a_minor_version_that_is_newer_is_read_and_kept() {
    let bytes = declaring("contracts_minor", |declaration| {
        declaration["schema_version"] = json!("0.9.1")
    });
    let called = Test::of_bytes(bytes, None).call(json!({})).await;
    called.succeeded();
    assert_eq!(called.record()["declaration"]["schema_version"], "0.9.1");
    assert_eq!(called.record()["invocation"]["schema_version"], "0.2.0");
}

#[tokio::test]
async fn no_model_sees_a_field_that_only_hooks_may_fill() {
    let host = own_host(|settings| settings);
    let loaded = host
        .load(&std::fs::read(fixture("probe")).unwrap())
        .await
        .unwrap();
    let tool = loaded
        .tools
        .iter()
        .find(|tool| tool.name().as_ref() == "internal")
        .unwrap();
    let shown = tool.contract().model_schema();
    assert_eq!(shown["properties"], json!({"query": {"type": "string"}}));
    assert!(!shown.to_string().contains("zz_internal_7f3"));
}

#[tokio::test]
async fn an_internal_field_is_taken_out_wherever_a_schema_names_it() {
    let bytes = declaring("contracts_internal", |declaration| {
        declaration["input_contract"] = json!({
            "model_input_schema": {
                "type": "object",
                "properties": {"zz_top": {}, "list": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
                "required": ["zz_top", "list"],
                "$defs": {"item": {"type": "object", "properties": {"zz_top": {}, "a": {}}, "required": ["zz_top"]}},
            },
            "internal_only_fields": ["zz_top"],
        });
    });
    let host = own_host(|settings| settings);
    let loaded = host.load(&bytes).await.unwrap();
    let shown = loaded.tools[0].contract().model_schema().to_string();
    assert!(!shown.contains("zz_top"), "{shown}");
    // A caller cannot send the internal field at any depth.
    let tool = || Test::of_bytes(bytes.clone(), None).on(&host);
    let called = tool().call(json!({"list": [{"a": 1, "zz_top": 2}]})).await;
    called
        .failed("schema_validation_failed", "schema_mismatch")
        .ended("failed", "failed")
        .never_ran();
    tool().call(json!({"list": [{"a": 1}]})).await.succeeded();
}
