//! Many small tools, most of them well-behaved: what a guest sees, reads, writes and answers.

mod artifacts;
mod contracts;
mod escape;
mod files;
mod network;
mod profiles;
mod questions;
mod replies;
mod reports;
mod retries;
mod surroundings;

use fixture::{Input, Toolkit};
use serde_json::{Value, json};

wit_bindgen::generate!({
    world: "tool",
    path: "../../../wit",
});

use exports::toolcell::tool::guest::{Call, Guest, Outcome, Output, PartialOutput};
use toolcell::tool::types::{ErrorClass, ToolError};

type Handler = fn(&Call, &Input) -> Outcome;

struct Probe;

impl Guest for Probe {
    fn describe() -> String {
        Toolkit::new("probe")
            .reporting_progress()
            .with(surroundings::tools())
            .with(files::tools())
            .with(escape::tools())
            .with(network::tools())
            .with(profiles::tools())
            .with(replies::tools())
            .with(reports::tools())
            .with(contracts::tools())
            .with(questions::tools())
            .with(artifacts::tools())
            .with(retries::tools())
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        let handler = surroundings::handler(&call.tool)
            .or_else(|| files::handler(&call.tool))
            .or_else(|| escape::handler(&call.tool))
            .or_else(|| network::handler(&call.tool))
            .or_else(|| profiles::handler(&call.tool))
            .or_else(|| replies::handler(&call.tool))
            .or_else(|| reports::handler(&call.tool))
            .or_else(|| contracts::handler(&call.tool))
            .or_else(|| questions::handler(&call.tool))
            .or_else(|| artifacts::handler(&call.tool))
            .or_else(|| retries::handler(&call.tool));
        let Some(handler) = handler else {
            return refuse(ErrorClass::CapabilityGap, "unknown_tool", &call.tool);
        };
        match Input::parse(&call.input) {
            Ok(input) => handler(&call, &input),
            Err(error) => refuse(ErrorClass::InvalidArguments, "input_not_json", &error),
        }
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

/// Success with only structured content.
fn answer(structured: Value) -> Outcome {
    Outcome::Success(Output {
        content: "[]".into(),
        structured: Some(structured.to_string()),
        ui_summary: None,
    })
}

/// Success with only content blocks.
fn show(content: Value) -> Outcome {
    Outcome::Success(Output {
        content: content.to_string(),
        structured: None,
        ui_summary: None,
    })
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

export!(Probe);
