//! One tool per attack. The component does not import `cancellation`, so its calls must be stopped at once.

mod disks;
mod endings;
mod exhaustion;
mod floods;
mod forgeries;
mod pokes;
mod queues;
mod stalls;

use fixture::{Input, Toolkit};
use serde_json::Value;

wit_bindgen::generate!({
    world: "tool",
    path: "../../../wit",
});

use exports::toolcell::tool::guest::{Call, Guest, Outcome, Output};
use toolcell::tool::types::{ErrorClass, ToolError};

type Attack = fn(&Input) -> Outcome;

struct Hostile;

impl Guest for Hostile {
    fn describe() -> String {
        Toolkit::new("hostile")
            .reporting_progress()
            .with(stalls::tools())
            .with(exhaustion::tools())
            .with(endings::tools())
            .with(floods::tools())
            .with(forgeries::tools())
            .with(disks::tools())
            .with(pokes::tools())
            .with(queues::tools())
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        let attack = stalls::attack(&call.tool)
            .or_else(|| exhaustion::attack(&call.tool))
            .or_else(|| endings::attack(&call.tool))
            .or_else(|| floods::attack(&call.tool))
            .or_else(|| forgeries::attack(&call.tool))
            .or_else(|| disks::attack(&call.tool))
            .or_else(|| pokes::attack(&call.tool))
            .or_else(|| queues::attack(&call.tool));
        match (attack, Input::parse(&call.input)) {
            (Some(attack), Ok(input)) => attack(&input),
            (None, _) => refuse(ErrorClass::CapabilityGap, "unknown_tool", &call.tool),
            (_, Err(error)) => refuse(ErrorClass::InvalidArguments, "input_not_json", &error),
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

/// The guest survived its own attack, and reports how far it got.
fn answer(structured: Value) -> Outcome {
    raw("[]".into(), Some(structured.to_string()))
}

fn raw(content: String, structured: Option<String>) -> Outcome {
    Outcome::Success(Output {
        content,
        structured,
        ui_summary: None,
    })
}

export!(Hostile);
