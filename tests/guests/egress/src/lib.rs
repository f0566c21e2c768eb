//! Sends requests in every shape that `wasi:http` allows and in some that it should not, and reports each outcome. The
//! code is the same under several permission profiles.

mod send;

use fixture::{Access, Input, Tool, Toolkit};
use serde_json::{Value, json};

wit_bindgen::generate!({
    world: "tool",
    path: "../../../wit",
});

use exports::toolcell::tool::guest::{Call, Guest, Outcome, Output};
use toolcell::tool::types::{ErrorClass, ToolError};

struct Egress;

/// The arguments of all tools: requests, and whether to send them at once, or to fail afterwards.
fn tool(name: &'static str, access: Access, description: &str) -> Tool {
    Tool::new(name, access, description).input(
        json!({
            "url": { "type": "string" },
            "requests": { "type": "array", "items": { "type": "object" } },
            "at_once": { "type": "boolean" },
            "fail": { "type": "boolean" },
        }),
        &["requests"],
    )
}

impl Guest for Egress {
    fn describe() -> String {
        Toolkit::new("egress")
            .with([
                tool(
                    "ask",
                    Access::Network,
                    "Sends requests, and changes nothing",
                ),
                tool(
                    "change",
                    Access::Network,
                    "Sends requests that change something",
                )
                .permits("write_effects", json!(["remote_mutation"])),
                tool(
                    "narrowed",
                    Access::Network,
                    "Sends requests to the host of its argument",
                )
                .permits("network_scope", "argument")
                .claims("permission_subjects", json!({ "/url": "url" })),
                tool("scoped", Access::Network, "Sends requests to two hosts")
                    .permits("network_scope", "http://127.0.0.1:*, http://*.ex.test:*"),
                tool("unscoped", Access::Network, "Does not say where to")
                    .permits("network_scope", Value::Null),
                tool("raw", Access::Network, "Wants sockets")
                    .permits("network_scope", "tcp://127.0.0.1:80"),
                tool(
                    "undeclared",
                    Access::Nothing,
                    "Sends requests that it does not declare",
                ),
            ])
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        let input = match Input::parse(&call.input) {
            Ok(input) => input,
            Err(error) => return refuse(ErrorClass::InvalidArguments, "input_not_json", &error),
        };
        let requests = input.value()["requests"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let answers = if input.flag("at_once") {
            send::at_once(&requests)
        } else {
            send::in_turn(&requests)
        };
        if input.flag("fail") {
            return refuse(
                ErrorClass::ExecutionFailed,
                "as_asked",
                "the tool was told to fail",
            );
        }
        let structured = Some(json!({ "answers": answers }).to_string());
        Outcome::Success(Output {
            content: "[]".into(),
            structured,
            ui_summary: None,
        })
    }
}

fn refuse(class: ErrorClass, code: &str, message: &str) -> Outcome {
    Outcome::Failure(ToolError {
        class,
        code: code.into(),
        message: message.into(),
        detail: None,
        retry_after_ms: None,
    })
}

export!(Egress);
