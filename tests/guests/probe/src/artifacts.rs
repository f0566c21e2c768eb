//! Files that belong to an answer, written in chunks: whole ones, unfinished ones, and references to others.

use fixture::{Access, Input, Tool};
use serde_json::{Value, json};

use crate::files::symlink;
use crate::toolcell::tool::artifacts::{Artifact, StoreError, create};
use crate::toolcell::tool::progress::partial_result;
use crate::{Call, ErrorClass, Handler, Outcome, Output, refuse};

pub(crate) fn tools() -> Vec<Tool> {
    let files = || json!({ "type": "array", "items": { "type": "object" } });
    let input = json!({
        "files": files(),
        "repeat": { "type": "integer", "minimum": 0 },
        "refer_to": { "type": "array", "items": { "type": "string" } },
        "note": { "type": "string" },
        "twice": { "type": "boolean" },
        "early": { "type": "boolean" },
        "secret": { "type": "string" },
        "then": { "enum": ["answer", "fail", "panic", "spin", "sleep"] },
    });
    vec![
        Tool::new(
            "artifacts",
            Access::Nothing,
            "Writes files in chunks, and refers to those that it finished",
        )
        .input(input, &[])
        .contract("sensitive_fields", json!(["secret"])),
        Tool::new(
            "artifacts_ruled",
            Access::Nothing,
            "The same, where the output contract has redaction rules",
        )
        .input(json!({ "files": files() }), &[])
        .promises(
            "redaction_rules",
            json!([{ "pattern": "AKIA[0-9A-Z]{16}" }]),
        ),
        Tool::new(
            "artifacts_swapping",
            Access::DestroysFiles,
            "Renames `from` to `to`, puts a link to `link` in its place",
        )
        .input(
            json!({
                "files": files(),
                "from": { "type": "string" },
                "to": { "type": "string" },
                "link": { "type": "string" },
            }),
            &["from", "to", "link"],
        ),
        Tool::new(
            "artifacts_plain",
            Access::Nothing,
            "The same, without sensitive arguments",
        )
        .input(json!({ "files": files() }), &[]),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    Some(match tool {
        "artifacts" | "artifacts_ruled" | "artifacts_plain" => artifacts,
        "artifacts_swapping" => |call, input| match swap(input) {
            Ok(()) => artifacts(call, input),
            Err(error) => refuse(
                ErrorClass::ExecutionFailed,
                "not_swapped",
                &error.to_string(),
            ),
        },
        _ => return None,
    })
}

fn swap(input: &Input) -> std::io::Result<()> {
    std::fs::rename(input.text("from"), input.text("to"))?;
    symlink(input.text("link"), input.text("from"))
}

fn artifacts(_: &Call, input: &Input) -> Outcome {
    let mut blocks = Vec::new();
    let mut errors = Vec::new();
    let none = Vec::new();
    let files = input.value()["files"].as_array().unwrap_or(&none);
    for file in (0..input.number_or("repeat", 1)).flat_map(|_| files) {
        match write(file, input.text("secret")) {
            Ok(Some(reference)) if file["refer"] != json!(false) => {
                blocks.push(json!({ "type": "artifact_ref", "reference": reference, "note": input.text("note") }));
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    let others = input.value()["refer_to"].as_array().unwrap_or(&none);
    blocks.extend(
        others
            .iter()
            .map(|other| json!({ "type": "artifact_ref", "reference": other })),
    );
    if input.flag("twice") {
        blocks.extend_from_within(..);
    }
    if input.flag("early") {
        partial_result(&json!(blocks).to_string());
    }
    match input.text("then") {
        "fail" => {
            return refuse(
                ErrorClass::ExecutionFailed,
                "told_to_fail",
                "The tool was told to fail.",
            );
        }
        "panic" => panic!("after all that"),
        "spin" => loop {
            std::hint::spin_loop();
        },
        "sleep" => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        _ => {}
    }
    // Repeated errors only make the answer long.
    errors.dedup();
    Outcome::Success(Output {
        content: json!(blocks).to_string(),
        structured: Some(json!({ "errors": errors }).to_string()),
        ui_summary: None,
    })
}

/// Writes `text`, then `bytes` times an x, `chunk` bytes at a time. Returns the reference of a file that is finished.
fn write(file: &Value, secret: &str) -> Result<Option<String>, String> {
    let word =
        |name: &str, otherwise: &'static str| file[name].as_str().unwrap_or(otherwise).to_owned();
    let number = |name: &str, otherwise: u64| file[name].as_u64().unwrap_or(otherwise) as usize;
    let name = format!("{}{secret}", word("name", "file")).repeat(number("name_times", 1));
    let artifact = create(&name, &word("media_type", "text/plain")).map_err(told)?;
    let chunk = number("chunk", 64 << 10).max(1);
    let text = format!("{}{secret}", word("text", ""));
    text.as_bytes()
        .chunks(chunk)
        .try_for_each(|part| artifact.write(part))
        .map_err(told)?;
    let filler = vec![b'x'; chunk];
    let mut left = number("bytes", 0);
    while left > 0 {
        let part = &filler[..left.min(chunk)];
        artifact.write(part).map_err(told)?;
        left -= part.len();
    }
    match file["finish"].as_str() {
        Some("never") => Ok(None),
        // It stays open until the instance ends.
        Some("keep_open") => {
            std::mem::forget(artifact);
            Ok(None)
        }
        _ => Artifact::finish(artifact).map(Some).map_err(told),
    }
}

fn told(error: StoreError) -> String {
    match error {
        StoreError::Denied(why) => format!("denied: {why}"),
        StoreError::QuotaExceeded(why) => format!("quota: {why}"),
        StoreError::Invalid(why) => format!("invalid: {why}"),
        StoreError::Failed(why) => format!("failed: {why}"),
    }
}
