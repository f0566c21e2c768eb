//! A component that calls other tools. All of its tools do the same, under different profiles.

use fixture::{Access, Input, Tool, Toolkit};
use serde_json::{Value, json};

wit_bindgen::generate!({
    inline: "
        package toolcell:test-guests;
        world caller {
            include toolcell:tool/tool@0.2.0;
            include toolcell:tool/calling@0.2.0;
        }
    ",
    path: "../../../wit",
    generate_all,
});

use exports::toolcell::tool::guest::{Call, Guest, Outcome, Output};
use toolcell::tool::tools;
use toolcell::tool::types::{ErrorClass, ToolError};

struct Caller;

impl Guest for Caller {
    fn describe() -> String {
        let input = || {
            json!({
                "tool": { "type": "string" },
                "input": {},
                "input_text": { "type": "string" },
                "times": { "type": "integer", "minimum": 0 },
                "list": { "type": "boolean" },
                "spin": { "type": "integer", "minimum": 0 },
                "then": { "enum": ["answer", "panic", "fail"] },
            })
        };
        let calling = |name, access, description| {
            Tool::new(name, access, description)
                .input(input(), &[])
                .permits("tool_calls", json!(["*"]))
        };
        let plain = |name| calling(name, Access::Nothing, "Calls a tool");
        Toolkit::new("caller")
            .with([plain("call").declares("aliases", json!(["caller_alias"]))])
            .with(["call_2", "call_3", "call_4", "call_5", "call_6"].map(plain))
            .with([
                calling(
                    "call_reading",
                    Access::ReadsFiles,
                    "Calls a tool, and may read files",
                ),
                calling(
                    "call_writing",
                    Access::WritesFiles,
                    "Calls a tool, and may write files",
                ),
                calling(
                    "call_network",
                    Access::Network,
                    "Calls a tool, and may send requests",
                ),
                calling(
                    "call_widely",
                    Access::WritesFiles,
                    "Calls a tool, and may write files and send requests",
                )
                .permits(
                    "access_kinds",
                    json!(["file_read", "file_write", "network"]),
                )
                .permits("network_scope", "any"),
                calling(
                    "call_carrying",
                    Access::Network,
                    "Calls a tool, and may send requests with a secret",
                )
                .permits("access_kinds", json!(["network", "credential"]))
                .permits("credential_refs", json!(["API_KEY"])),
                calling(
                    "call_reading_secretly",
                    Access::ReadsFiles,
                    "Calls a tool, and may read files",
                )
                .contract("sensitive_fields", json!(["input"])),
                plain("call_secretly").contract("sensitive_fields", json!(["input"])),
                plain("call_narrow").permits("tool_calls", json!(["probe.invocation"])),
                Tool::new(
                    "call_undeclared",
                    Access::Nothing,
                    "Calls a tool, and does not say so",
                )
                .input(input(), &[]),
            ])
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        match Input::parse(&call.input) {
            Ok(input) => run(&call, &input),
            Err(error) => failure("input_not_json", &error),
        }
    }
}

/// Spins, then lists, then calls, then ends.
fn run(call: &Call, input: &Input) -> Outcome {
    for turn in 0..input.number("spin") {
        std::hint::black_box(turn);
    }
    let arguments = match input.given("input_text") {
        Some(text) => text.to_owned(),
        None => input.value().get("input").unwrap_or(&json!({})).to_string(),
    };
    let listed: Option<Vec<String>> = input
        .flag("list")
        .then(|| tools::list().into_iter().map(|tool| tool.name).collect());
    let times = if input.given("tool").is_some() {
        input.number_or("times", 1)
    } else {
        0
    };
    let answers: Vec<Value> = (0..times)
        .map(|_| outcome(tools::call(input.text("tool"), &arguments)))
        .collect();
    match input.text("then") {
        "panic" => panic!("after its calls"),
        "fail" => failure("as_asked", "it was told to fail"),
        _ => {
            let structured = json!({ "listed": listed, "answers": answers, "invocation_id": call.invocation_id });
            Outcome::Success(Output {
                content: "[]".into(),
                structured: Some(structured.to_string()),
                ui_summary: None,
            })
        }
    }
}

fn outcome(answered: Result<tools::Answer, ToolError>) -> Value {
    match answered {
        Ok(answer) => json!({
            "invocation_id": answer.invocation_id,
            "content": serde_json::from_str::<Value>(&answer.content).ok(),
            "structured": answer.structured.and_then(|text| serde_json::from_str::<Value>(&text).ok()),
            "missing": answer.missing.map(error),
        }),
        Err(refused) => json!({ "error": error(refused) }),
    }
}

fn error(error: ToolError) -> Value {
    let class = match error.class {
        ErrorClass::Other(word) => format!("other({word})"),
        class => format!("{class:?}")
            .rsplit("::")
            .next()
            .unwrap_or_default()
            .to_owned(),
    };
    json!({ "class": class, "code": error.code, "message": error.message, "detail": error.detail })
}

fn failure(code: &str, message: &str) -> Outcome {
    Outcome::Failure(ToolError {
        class: ErrorClass::ExecutionFailed,
        code: code.into(),
        message: message.into(),
        detail: None,
        retry_after_ms: None,
    })
}

export!(Caller);
