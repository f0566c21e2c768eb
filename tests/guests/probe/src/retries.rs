//! Tools that fail in the first attempts of a call.

use fixture::{Access, Input, Tool};
use serde_json::json;

use crate::replies::error_class;
use crate::toolcell::tool::progress::partial_result;
use crate::{Call, Handler, Outcome, ToolError, answer, text_block};

pub(crate) fn tools() -> Vec<Tool> {
    let input = |tool: Tool, path: bool| {
        let mut properties = json!({
            "until": { "type": "integer", "minimum": 1 },
            "class": { "type": "string" },
            "retry_after_ms": { "type": "integer", "minimum": 0 },
            "spin": { "type": "integer", "minimum": 0 },
            "partial_bytes": { "type": "integer", "minimum": 0 },
        });
        if path {
            properties["path"] = json!({ "type": "string" });
        }
        tool.input(
            properties,
            if path { &["until", "path"] } else { &["until"] },
        )
    };
    vec![
        input(
            Tool::new(
                "flaky",
                Access::Nothing,
                "Fails in the attempts before `until`",
            ),
            false,
        ),
        input(
            Tool::new(
                "flaky_writing",
                Access::WritesFiles,
                "Like flaky, while it may write in a folder",
            ),
            true,
        )
        .claims("permission_subjects", json!({ "/path": "path" })),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    matches!(tool, "flaky" | "flaky_writing").then_some(flaky as Handler)
}

fn flaky(call: &Call, input: &Input) -> Outcome {
    let spun = (0..input.number("spin")).fold(0_u64, |sum, turn| {
        std::hint::black_box(sum.wrapping_add(turn))
    });
    if let Some(bytes) = input.given_number("partial_bytes") {
        partial_result(&json!([text_block(&"x".repeat(bytes as usize))]).to_string());
    }
    if u64::from(call.attempt) >= input.number("until") {
        return answer(
            json!({ "attempt": call.attempt, "invocation_id": call.invocation_id, "spun": spun }),
        );
    }
    Outcome::Failure(ToolError {
        class: error_class(input.text_or("class", "rate_limited")),
        code: "flaky".into(),
        message: format!("Attempt {} failed.", call.attempt),
        detail: None,
        retry_after_ms: input.given_number("retry_after_ms"),
    })
}
