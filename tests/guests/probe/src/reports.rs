//! Output of a guest while it runs: progress, partial results, log lines.

use std::time::Duration;

use fixture::{Access, Input, Tool};
use serde_json::json;

use crate::toolcell::tool::log::{Level, log};
use crate::toolcell::tool::progress::{Update, partial_result, report};
use crate::{Call, ErrorClass, Handler, Outcome, Output, ToolError, answer, text_block};

pub(crate) fn tools() -> Vec<Tool> {
    let plain = |name, description| Tool::new(name, Access::Nothing, description);
    vec![
        plain(
            "progress",
            "Reports progress that many times, with a percent of the wanted kind",
        )
        .input(
            json!({
                "count": { "type": "integer", "minimum": 0 },
                "interval_ms": { "type": "integer", "minimum": 0 },
                "percent": { "enum": ["even", "over", "negative", "nan", "infinite", "none"] },
            }),
            &["count"],
        ),
        plain(
            "partial_result",
            "Hands over usable content before it is done",
        )
        .input(
            json!({
                "text": { "type": "string" },
                "then": { "enum": ["succeed", "fail", "trap"] },
            }),
            &[],
        ),
        plain(
            "partial_result_bad",
            "Hands over a partial result that is not JSON",
        ),
        plain("log", "Writes that many log lines of that many bytes").input(
            json!({
                "count": { "type": "integer", "minimum": 0 },
                "bytes": { "type": "integer", "minimum": 0 },
                "level": { "enum": ["trace", "debug", "info", "warn", "error"] },
            }),
            &["count"],
        ),
        plain(
            "log_bad_fields",
            "Writes a log line whose fields are not a JSON object",
        ),
        plain(
            "leak",
            "Copies a secret to every place where a guest can put text",
        )
        .input(
            json!({ "secret": { "type": "string" }, "fail": { "type": "boolean" } }),
            &["secret"],
        )
        .contract("sensitive_fields", json!(["secret"])),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    Some(match tool {
        "progress" => progress,
        "partial_result" => usable_early,
        "partial_result_bad" => |_, _| answer(json!({ "reference": partial_result("not JSON") })),
        "log" => log_lines,
        "log_bad_fields" => |_, _| {
            log(Level::Info, "fields are not an object", Some("[1, 2"));
            answer(json!({ "logged": 1 }))
        },
        "leak" => leak,
        _ => return None,
    })
}

fn progress(_: &Call, input: &Input) -> Outcome {
    let count = input.number("count");
    let pause = Duration::from_millis(input.number("interval_ms"));
    for step in 1..=count {
        let percent = match input.text_or("percent", "even") {
            "over" => Some(150.0),
            "negative" => Some(-1.0),
            "nan" => Some(f64::NAN),
            "infinite" => Some(f64::INFINITY),
            "none" => None,
            _ => Some(step as f64 / count as f64 * 100.0),
        };
        report(&Update {
            message: Some(format!("step {step} of {count}")),
            percent,
            current_step: Some(format!("step {step}")),
            total_steps: u32::try_from(count).ok(),
            bytes_read: Some(step * 10),
            bytes_written: None,
            line_count: Some(step),
        });
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    answer(json!({ "reported": count }))
}

fn usable_early(_: &Call, input: &Input) -> Outcome {
    let text = input.text_or("text", "usable already");
    let reference = partial_result(&json!([text_block(text)]).to_string());
    match input.text_or("then", "succeed") {
        "trap" => panic!("trapped after a partial result"),
        "fail" => crate::refuse(
            ErrorClass::ExecutionFailed,
            "failed_after_partial_result",
            "The rest could not be done.",
        ),
        _ => answer(json!({ "reference": reference })),
    }
}

fn log_lines(_: &Call, input: &Input) -> Outcome {
    let count = input.number("count");
    let message = "x".repeat(input.number_or("bytes", 16) as usize);
    let level = match input.text_or("level", "info") {
        "trace" => Level::Trace,
        "debug" => Level::Debug,
        "warn" => Level::Warn,
        "error" => Level::Error,
        _ => Level::Info,
    };
    for line in 1..=count {
        log(level, &message, Some(&json!({ "line": line }).to_string()));
    }
    answer(json!({ "logged": count }))
}

fn leak(_: &Call, input: &Input) -> Outcome {
    let secret = input.text("secret");
    println!("stdout {secret}");
    eprintln!("stderr {secret}");
    log(
        Level::Info,
        &format!("log {secret}"),
        Some(&json!({ "field": secret }).to_string()),
    );
    let (first, second) = secret.split_at(secret.floor_char_boundary(secret.len() / 2));
    for message in [secret, first, second] {
        report(&Update {
            message: Some(format!("progress {message}")),
            percent: None,
            current_step: Some(message.into()),
            total_steps: None,
            bytes_read: None,
            bytes_written: None,
            line_count: None,
        });
    }
    partial_result(&json!([text_block(secret)]).to_string());
    if input.flag("fail") {
        return Outcome::Failure(ToolError {
            class: ErrorClass::ExecutionFailed,
            code: "leaked".into(),
            message: format!("message {secret}"),
            detail: Some(format!("detail {secret}")),
            retry_after_ms: None,
        });
    }
    Outcome::Success(Output {
        content: json!([text_block(&format!("content {secret}"))]).to_string(),
        structured: Some(json!({ "structured": secret }).to_string()),
        ui_summary: Some(format!("summary {secret}")),
    })
}
