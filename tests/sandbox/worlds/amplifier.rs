//! Modules of Amplifier.
//!
//! Promise: A component of another world gets no more.

use std::time::Duration;

use serde_json::{Value, json};
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

use super::{alone, with_namespace};
use crate::sandbox::logged;
use crate::support::{Called, Home, Test, fixture, scratch};

fn ask() -> Test {
    Test::of_file(&fixture("amplifier"), None)
}

async fn asked(then: &str, text: &str) -> Called {
    ask().call(json!({ "then": then, "text": text })).await
}

/// A module that exports its functions at the root, and answers `{"output": {"root": true}}`. `get_spec` is the body of a core
/// function that returns an address at which the address and the length of the specification `spec` are kept.
fn at_root(imports: &str, get_spec: &str, spec: &str) -> Vec<u8> {
    let escaped = |text: &str| {
        text.bytes()
            .map(|byte| format!("\\{byte:02x}"))
            .collect::<String>()
    };
    let answer = r#"{"output": {"root": true}}"#;
    let text = format!(
        r#"(component
          {imports}
          (core module $main
            (memory (export "memory") 64)
            (data (i32.const 1024) "{answered}")
            (data (i32.const 65536) "{specified}")
            (global $free (mut i32) (i32.const 32768))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (global.get $free))
            (func (export "get-spec") (result i32)
              (i32.store (i32.const 16) (i32.const 65536))
              (i32.store (i32.const 20) (i32.const {spec_length}))
              {get_spec})
            (func (export "execute") (param i32 i32) (result i32)
              (i32.store8 (i32.const 32) (i32.const 0))
              (i32.store (i32.const 36) (i32.const 1024))
              (i32.store (i32.const 40) (i32.const {answer_length}))
              (i32.const 32)))
          (core instance $main (instantiate $main))
          (func (export "get-spec") (result (list u8))
            (canon lift (core func $main "get-spec") (memory (core memory $main "memory"))))
          (func (export "execute") (param "input" (list u8)) (result (result (list u8) (error string)))
            (canon lift (core func $main "execute") (memory (core memory $main "memory"))
              (realloc (core func $main "realloc")))))"#,
        answered = escaped(answer),
        specified = escaped(spec),
        spec_length = spec.len(),
        answer_length = answer.len(),
    );
    wat::parse_str(text).unwrap()
}

const AT_16: &str = "(i32.const 16)";

fn specified(spec: &str) -> Vec<u8> {
    at_root("", AT_16, spec)
}

async fn refused(component: Vec<u8>) -> Refusal {
    alone(component, None).load().await.unwrap_err()
}

#[tokio::test]
async fn a_module_gets_its_arguments_and_its_output_is_the_structured_output() {
    let called = ask().call(json!({ "text": "\u{e4}" })).await;
    assert_eq!(called.succeeded(), json!({ "input": { "text": "\u{e4}" } }));
    called.ended("succeeded", "succeeded");
}

#[tokio::test]
async fn a_module_may_export_its_functions_at_the_root() {
    let component = specified(r#"{"name": "at_root", "parameters": {"type": "object"}}"#);
    assert_eq!(
        alone(with_namespace(&component), None)
            .load()
            .await
            .unwrap(),
        ["mine.at_root"]
    );
    let test = alone(component, None);
    assert_eq!(test.load().await.unwrap(), ["amplifier.at_root"]);
    assert_eq!(
        test.call(json!({})).await.succeeded(),
        json!({ "root": true })
    );
}

#[tokio::test]
async fn what_a_module_says_is_content_and_its_failure_has_its_own_words() {
    let called = asked("say", r#"{"output": "all is well"}"#).await;
    assert_eq!(called.succeeded(), Value::Null);
    assert_eq!(called.0.result.content[0].as_text(), Some("all is well"));
    let called = asked(
        "say",
        r#"{"success": false, "error": {"message": "no such city"}}"#,
    )
    .await;
    assert_eq!(
        called.failed("execution_failed", "tool_failed").message(),
        "no such city"
    );
    assert_eq!(
        asked("refuse", "not today")
            .await
            .failed("execution_failed", "tool_failed")
            .message(),
        "not today"
    );
    let long = "x".repeat(10_000);
    assert_eq!(asked("refuse", &long).await.message().len(), 4_000);
}

#[tokio::test]
async fn an_answer_that_is_none_breaks_the_contract() {
    for answer in [
        "",
        "nonsense",
        "[1]",
        r#"{"success": 1}"#,
        r#"{"output": }"#,
    ] {
        asked("say", answer)
            .await
            .failed("execution_failed", "guest_invalid")
            .ended("failed", "failed");
    }
}

#[tokio::test]
async fn a_module_has_no_files_and_no_network_that_it_does_not_import() {
    let (_guard, folder) = scratch();
    let file = folder.join("file.txt");
    std::fs::write(&file, "what is in it").unwrap();
    let called = ask()
        .read(&folder)
        .call(json!({ "then": "read", "text": file.to_str().unwrap() }))
        .await;
    assert_eq!(called.succeeded(), json!({ "read": false }));
    // The import of wasi:http declares the network, which must be granted.
    let imports = r#"(import "wasi:http/outgoing-handler@0.2.6" (instance))"#;
    let component = at_root(imports, AT_16, r#"{"name": "sender"}"#);
    let sender = || alone(component.clone(), None);
    sender()
        .call(json!({}))
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
    sender()
        .net("http://127.0.0.1:1")
        .call(json!({}))
        .await
        .succeeded();
}

#[tokio::test]
async fn limits_end_a_module_like_any_tool() {
    let spin = || json!({ "then": "spin" });
    ask()
        .limit(|limits| limits.fuel = 50_000_000)
        .call(spin())
        .await
        .failed("timeout", "fuel_exhausted");
    for (then, code) in [("spin", "epoch_deadline"), ("sleep", "deadline_exceeded")] {
        let called = ask().timeout_ms(200).call(json!({ "then": then })).await;
        called
            .failed("timeout", code)
            .ended("timed_out", "timed_out");
    }
    asked("panic", "")
        .await
        .failed("execution_failed", "guest_panicked");
    let called = asked("flood", "").await;
    called.failed("result_too_large", "output_limit");
}

#[tokio::test]
async fn a_canceled_module_stops() {
    ask().load().await.unwrap();
    for then in ["spin", "sleep"] {
        let called = ask()
            .cancel_after(Duration::from_millis(100))
            .call(json!({ "then": then }))
            .await;
        called
            .failed("canceled", "canceled")
            .ended("canceled", "canceled");
    }
}

#[tokio::test]
async fn a_specification_that_cannot_be_used_is_refused_when_the_module_is_loaded() {
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20));
    for (spec, why) in [
        ("", "JSON object"),
        ("[]", "JSON object"),
        ("{}", "`name`"),
        (r#"{"name": "a", "parameters": 7}"#, "parameters"),
        (large.as_str(), "bytes"),
    ] {
        let refusal = refused(specified(spec)).await;
        assert_eq!(
            (refusal.class, refusal.code),
            (ErrorClass::SetupRequired, ErrorCode::DescriptionInvalid),
            "{refusal:?}"
        );
        assert!(refusal.message.contains(why), "{}", refusal.message);
    }
    // A schema that is none is found when the tool is made of the records.
    let refusal = refused(specified(
        r#"{"name": "a", "parameters": {"type": "nothing"}}"#,
    ))
    .await;
    assert_eq!(refusal.code, ErrorCode::DescriptionInvalid);
}

#[tokio::test]
async fn a_module_that_does_not_specify_itself_is_refused() {
    let refusal = refused(at_root("", "unreachable", "{}")).await;
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::ExecutionFailed, ErrorCode::GuestPanicked)
    );
    let refusal = refused(at_root(
        "",
        "(loop $again (br $again)) (i32.const 16)",
        "{}",
    ))
    .await;
    assert_eq!(refusal.class, ErrorClass::Timeout);
    let refusal = refused(at_root("", "(i32.const 4194300)", "{}")).await;
    assert_eq!(refusal.class, ErrorClass::ExecutionFailed);
}

#[tokio::test]
async fn functions_of_other_types_are_no_module() {
    let text = r#"(component
      (core module $main (func (export "get-spec") (result i32) (i32.const 0)) (func (export "execute") (param i32)))
      (core instance $main (instantiate $main))
      (func (export "get-spec") (result u32) (canon lift (core func $main "get-spec")))
      (func (export "execute") (param "input" u32) (canon lift (core func $main "execute"))))"#;
    let refusal = refused(wat::parse_str(text).unwrap()).await;
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::SetupRequired, ErrorCode::ContractMismatch)
    );
    assert!(
        refusal.message.contains("amplifier:modules@1.0.0"),
        "{}",
        refusal.message
    );
}

#[test]
fn the_program_describes_a_module_carefully() {
    let home = Home::new();
    let component = fixture("amplifier").display().to_string();
    let records = home
        .toolcell(&["describe", &component, "--json"])
        .run()
        .exits(0)
        .json();
    let declaration = &records["declarations"][0];
    assert_eq!(
        (&declaration["tool_id"], &declaration["description"]),
        (&json!("amplifier.ask"), &json!("Answers as it is asked to"))
    );
    assert_eq!(
        declaration["input_contract"]["model_input_schema"]["properties"]["text"]["type"],
        "string"
    );
    let profile = &records["permission_profiles"][0];
    assert_eq!(
        (&profile["risk_level"], &profile["access_kinds"]),
        (&json!("medium"), &json!([]))
    );
    assert_eq!(records["interfaces"][0]["is_read_only"], json!(false));
    let record = home.call(&component, &json!({ "text": "a" }), &[]);
    assert_eq!(
        record["result"]["structured_content"],
        json!({ "input": { "text": "a" } })
    );
    assert_eq!(logged(&record, "stderr"), "");
}
