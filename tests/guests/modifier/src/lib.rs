//! A component that changes the context of its caller. All of its tools do the same, under different records.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fixture::{Access, Input, Tool, Toolkit};
use serde_json::{Value, json};

wit_bindgen::generate!({
    inline: "
        package toolcell:test-guests;
        world modifier {
            include toolcell:tool/tool@0.2.0;
        }
    ",
    path: "../../../wit",
    generate_all,
});

use exports::toolcell::tool::guest::{Call, Guest, Outcome, Output, PartialOutput};
use toolcell::tool::context_modifiers::{ModifyError, modify};
use toolcell::tool::types::{ErrorClass, ToolError};

struct Modifier;

impl Guest for Modifier {
    fn describe() -> String {
        // Without capabilities, and outside of a call.
        assert!(matches!(
            modify("describe", "true"),
            Err(ModifyError::Forbidden(_))
        ));
        let plain = |name| {
            let input = json!({
                "changes": { "type": "array", "items": { "type": "object" } },
                "ms": { "type": "integer", "minimum": 0 },
                "secret": { "type": "string" },
                "then": { "enum": ["answer", "fail", "partial"] },
            });
            Tool::new(name, Access::Nothing, "Changes the context").input(input, &[])
        };
        let policy = |name, policy: &str| plain(name).claims("context_modifier_policy", policy);
        let kept = |name, strategy: &str| plain(name).promises("persistence_policy_ref", strategy);
        Toolkit::new("modifier")
            .with([
                plain("modify"),
                policy("modify_serially", "allow_serial_only"),
                policy("modify_later", "defer_until_batch_complete"),
                policy("modify_never", "forbid"),
                kept("modify_by_reference", "ref_only"),
                kept("modify_in_passing", "never_persist"),
                plain("modify_secretly").contract("sensitive_fields", json!(["secret"])),
                plain("modify_ruled").promises("redaction_rules", json!(["token", "/patient/hiv"])),
            ])
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        match Input::parse(&call.input) {
            Ok(input) => run(&input),
            Err(_) => Outcome::Failure(error("input_not_json")),
        }
    }
}

/// Sleeps, then changes the context, then ends.
fn run(input: &Input) -> Outcome {
    let entered = nanoseconds();
    std::thread::sleep(Duration::from_millis(input.number("ms")));
    let none = Vec::new();
    let changes = input
        .value()
        .get("changes")
        .and_then(Value::as_array)
        .unwrap_or(&none);
    let refused: Vec<Value> = changes.iter().map(change).collect();
    if let Some(secret) = input.given("secret") {
        let _ = modify("secret", &json!({ "inner": [secret] }).to_string());
        let _ = modify(secret, "true");
    }
    let structured = json!({ "refused": refused, "entered_ns": entered, "left_ns": nanoseconds() });
    let output = Output {
        content: "[]".into(),
        structured: Some(structured.to_string()),
        ui_summary: None,
    };
    match input.text("then") {
        "fail" => Outcome::Failure(error("as_asked")),
        "partial" => Outcome::Partial(PartialOutput {
            output,
            error: error("as_asked"),
        }),
        _ => Outcome::Success(output),
    }
}

/// Makes one change, `{"key", "value"}`, or `{"key", "text"}` with the text of the value. Returns why not.
fn change(change: &Value) -> Value {
    let text = change["text"]
        .as_str()
        .map_or_else(|| change["value"].to_string(), str::to_owned);
    match modify(change["key"].as_str().unwrap_or_default(), &text) {
        Ok(()) => Value::Null,
        Err(ModifyError::Forbidden(why)) => json!({ "forbidden": why }),
        Err(ModifyError::Invalid(why)) => json!({ "invalid": why }),
        Err(ModifyError::QuotaExceeded(why)) => json!({ "quota_exceeded": why }),
    }
}

fn nanoseconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

fn error(code: &str) -> ToolError {
    ToolError {
        class: ErrorClass::ExecutionFailed,
        code: code.into(),
        message: "it was told to fail".into(),
        detail: None,
        retry_after_ms: None,
    }
}

export!(Modifier);
