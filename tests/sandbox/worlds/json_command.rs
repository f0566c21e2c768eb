//! Commands that read and print JSON, as a profile in them says.
//!
//! Promise: A component of another world gets no more.

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use super::alone;
use crate::support::{Called, Test};

/// Prints what it reads: its input is its answer.
pub(crate) const CAT: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (loop $more
      (i32.store (i32.const 8) (i32.const 65536))
      (i32.store (i32.const 12) (i32.const 65536))
      (drop (call $read (i32.const 0) (i32.const 8) (i32.const 1) (i32.const 16)))
      (if (i32.load (i32.const 16))
        (then
          (i32.store (i32.const 12) (i32.load (i32.const 16)))
          (drop (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 16)))
          (br $more))))))"#;

fn cat(interface: &Value) -> Vec<u8> {
    let profile = json!({ "namespace": "mine", "command": interface }).to_string();
    let module = wat::parse_str(CAT).unwrap();
    with_custom(&module, "toolcell:profile", profile.as_bytes()).unwrap()
}

fn interface() -> Value {
    json!({
        "name": "same",
        "description": "Answers with its input.",
        "input_schema": {
            "type": "object",
            "properties": { "file": { "type": "string" } },
            "required": ["structured"],
        },
        "output_schema": { "type": "object", "properties": { "n": { "type": "integer" } } },
        "paths": ["/file"],
    })
}

fn test() -> Test {
    alone(cat(&interface()), None)
}

async fn answered(input: Value) -> Called {
    test().call(input).await
}

#[tokio::test]
async fn the_input_is_read_as_json_and_what_is_printed_is_the_answer() {
    let block = json!({ "type": "text", "text": "one" });
    let called = answered(json!({ "structured": { "n": 1 }, "content": [block] })).await;
    assert_eq!(called.succeeded(), json!({ "n": 1, "files": [] }));
    assert_eq!(json!(called.0.result.content)[0], block);
    let mappings = called.record()["invocation"]["external_mappings"].clone();
    let ran = mappings
        .as_array()
        .unwrap()
        .iter()
        .find(|mapping| mapping["source"] == "cli");
    let ran = ran.unwrap();
    assert_eq!(
        (&ran["exit_code"], &ran["argv_ref"]),
        (&json!(0), &Value::Null),
        "{ran}"
    );
}

#[tokio::test]
async fn an_error_that_is_printed_keeps_its_code_and_the_output() {
    let error = json!({ "code": "too_few", "message": "too few", "kind": "invalid_arguments" });
    let called = answered(json!({ "structured": { "n": 1 }, "error": error })).await;
    called.failed("partial_failure", "too_few");
    assert_eq!(called.message(), "too few");
    assert_eq!(
        called.0.result.structured_content,
        Some(json!({ "n": 1, "files": [] }))
    );
}

#[tokio::test]
async fn what_is_printed_is_checked_as_that_of_any_tool() {
    for (input, code) in [
        (json!({ "structured": [] }), "content_invalid"),
        (json!({ "structured": {}, "other": 1 }), "content_invalid"),
        (
            json!({ "structured": { "n": "1" } }),
            "output_schema_mismatch",
        ),
        (
            json!({ "structured": {}, "content": [1] }),
            "content_invalid",
        ),
    ] {
        answered(input).await.failed("execution_failed", code);
    }
    let refused = answered(json!({})).await;
    refused.failed("schema_validation_failed", "schema_mismatch");
}

#[tokio::test]
async fn only_a_command_has_such_an_interface() {
    let module = wat::parse_str(
        r#"(component (core module $m (func (export "f")))
        (core instance $i (instantiate $m)) (func (export "f") (canon lift (core func $i "f"))))"#,
    );
    let profile = json!({ "command": interface() }).to_string();
    let component = with_custom(&module.unwrap(), "toolcell:profile", profile.as_bytes()).unwrap();
    let host = crate::pipeline::doubles::own_host(|settings| settings);
    let refusal = host.load(&component).await.err().unwrap();
    assert!(refusal.message.contains("is none"), "{refusal:?}");
}
