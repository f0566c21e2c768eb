//! Floods of answers, logs, progress and output.

use std::io::Write;

use fixture::{Access, Input, Tool};
use serde_json::json;
use wasip2::cli::stdout::get_stdout;

use crate::toolcell::tool::log::{Level, log};
use crate::toolcell::tool::progress::{Update, partial_result, report};
use crate::{Attack, ErrorClass, Outcome, ToolError, answer, raw};

const MIB: usize = 1 << 20;

pub(crate) fn tools() -> Vec<Tool> {
    let plain = |name, description| Tool::new(name, Access::Nothing, description);
    let mebibytes = || json!({ "mib": { "type": "integer", "minimum": 0 } });
    let many = || {
        json!({
            "count": { "type": "integer", "minimum": 0 },
            "bytes": { "type": "integer", "minimum": 0 },
        })
    };
    vec![
        plain("flood_stdout", "Prints that much to stdout").input(mebibytes(), &["mib"]),
        plain("flood_stderr", "Prints that much to stderr").input(mebibytes(), &["mib"]),
        plain(
            "flood_empty_writes",
            "Writes nothing to stdout, that many times",
        )
        .input(many(), &["count"]),
        plain("flood_output", "Answers content of that size").input(mebibytes(), &["mib"]),
        plain(
            "flood_structured",
            "Answers structured content of that size",
        )
        .input(mebibytes(), &["mib"]),
        plain("flood_log", "Writes that many log lines of that length").input(many(), &["count"]),
        plain(
            "flood_progress",
            "Reports progress that many times, with messages of that length",
        )
        .input(many(), &["count"]),
        plain(
            "flood_partial",
            "Hands over that many partial results of that length",
        )
        .input(many(), &["count"]),
        plain("one_huge_log", "Writes one log line of that size").input(mebibytes(), &["mib"]),
        plain(
            "huge_failure",
            "Fails with a message and a detail of that size each",
        )
        .input(mebibytes(), &["mib"]),
    ]
}

pub(crate) fn attack(tool: &str) -> Option<Attack> {
    Some(match tool {
        "flood_stdout" => |input| flood_stream(input, &mut std::io::stdout()),
        "flood_stderr" => |input| flood_stream(input, &mut std::io::stderr()),
        "flood_empty_writes" => flood_empty_writes,
        "flood_output" => |input| {
            let wrapped = wrap(
                r#"[{"type":"text","text":""#,
                input.number("mib") as usize,
                r#""}]"#,
            );
            raw(wrapped, None)
        },
        "flood_structured" => |input| {
            raw(
                "[]".into(),
                Some(wrap("\"", input.number("mib") as usize, "\"")),
            )
        },
        "flood_log" => flood_log,
        "flood_progress" => flood_progress,
        "flood_partial" => flood_partial,
        "one_huge_log" => |input| {
            log(Level::Info, &"x".repeat(mebibytes(input)), None);
            answer(json!({ "logged": 1 }))
        },
        "huge_failure" => huge_failure,
        _ => return None,
    })
}

fn mebibytes(input: &Input) -> usize {
    input.number("mib") as usize * MIB
}

/// That many MiB between two ends, in one allocation, so that most of the guest's memory can become an answer.
fn wrap(before: &str, mib: usize, after: &str) -> String {
    let mut text = String::with_capacity(before.len() + mib * MIB + after.len());
    let block = "x".repeat(MIB);
    text.push_str(before);
    for _ in 0..mib {
        text.push_str(&block);
    }
    text.push_str(after);
    text
}

fn filler(input: &Input) -> String {
    "x".repeat(input.number_or("bytes", 100) as usize)
}

/// If the stream is closed or cut off, the guest reports how many bytes it wrote.
fn flood_stream(input: &Input, stream: &mut dyn Write) -> Outcome {
    let block = [b'x'; 4096];
    let mut written = 0;
    let mut error = None;
    while written < mebibytes(input) {
        if let Err(cause) = stream.write_all(&block) {
            error = Some(cause.to_string());
            break;
        }
        written += block.len();
    }
    answer(json!({ "written": written, "error": error }))
}

/// Writes empty buffers without checking for room, after one write that used some of it.
fn flood_empty_writes(input: &Input) -> Outcome {
    let stdout = get_stdout();
    let room = stdout.check_write().unwrap_or(0).min(1024) as usize;
    let _ = stdout.write(&vec![b'x'; room]);
    let mut done = 0;
    for _ in 0..input.number("count") {
        if stdout.write(&[]).is_err() {
            break;
        }
        done += 1;
    }
    answer(json!({ "writes": done }))
}

fn flood_log(input: &Input) -> Outcome {
    let message = filler(input);
    let count = input.number("count");
    for _ in 0..count {
        log(Level::Info, &message, None);
    }
    answer(json!({ "logged": count }))
}

fn flood_progress(input: &Input) -> Outcome {
    let message = filler(input);
    let count = input.number("count");
    for step in 1..=count {
        report(&Update {
            message: Some(message.clone()),
            percent: Some(step as f64 / count as f64 * 100.0),
            current_step: Some(step.to_string()),
            total_steps: None,
            bytes_read: None,
            bytes_written: None,
            line_count: Some(step),
        });
    }
    answer(json!({ "reported": count }))
}

fn flood_partial(input: &Input) -> Outcome {
    let content = json!([{ "type": "text", "text": filler(input) }]).to_string();
    let count = input.number("count");
    for _ in 0..count {
        partial_result(&content);
    }
    answer(json!({ "handed_over": count }))
}

fn huge_failure(input: &Input) -> Outcome {
    let text = "x".repeat(mebibytes(input));
    Outcome::Failure(ToolError {
        class: ErrorClass::ExecutionFailed,
        code: "huge".into(),
        message: text.clone(),
        detail: Some(text),
        retry_after_ms: None,
    })
}
