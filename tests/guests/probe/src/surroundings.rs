//! The surroundings that a guest sees, and the state that an earlier call left behind.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fixture::{Access, Input, Tool};
use serde_json::{Map, Value, json};
use wasip2::filesystem::preopens;

use crate::{Call, Handler, Outcome, answer};

/// Folders that exist on nearly every host: a guest that can list one of them sees too much.
pub(crate) const HOST_FOLDERS: [&str; 10] = [
    "/", ".", "..", "/etc", "/tmp", "/home", "/root", "/proc", "/dev", "/sys",
];

pub(crate) fn tools() -> Vec<Tool> {
    let milliseconds = || json!({ "ms": { "type": "integer", "minimum": 0 } });
    vec![
        Tool::new(
            "echo",
            Access::Nothing,
            "Returns its input verbatim, and everything it sees of its world",
        )
        .input(json!({}), &[])
        .contract("model_input_schema", json!({ "type": "object" }))
        .contract("strict", false),
        Tool::new(
            "counter",
            Access::Nothing,
            "Counts its calls in a static: 1 whenever the instance is fresh",
        ),
        Tool::new(
            "invocation",
            Access::Nothing,
            "Returns its invocation id and attempt",
        ),
        Tool::new("env", Access::Nothing, "Reads one environment variable")
            .input(json!({ "name": { "type": "string" } }), &["name"]),
        Tool::new(
            "stdio",
            Access::Nothing,
            "Prints text to stdout and to stderr",
        )
        .input(
            json!({ "out": { "type": "string" }, "err": { "type": "string" } }),
            &[],
        ),
        Tool::new(
            "stdin",
            Access::Nothing,
            "Reads the standard input to its end",
        ),
        Tool::new(
            "hold",
            Access::Nothing,
            "Sleeps, and says when it entered and left",
        )
        .input(milliseconds(), &["ms"]),
        Tool::new(
            "hold_unstated",
            Access::Unstated,
            "Like hold, but states no fact: must never overlap another call",
        )
        .input(milliseconds(), &["ms"]),
        Tool::new(
            "hold_writing",
            Access::WritesFiles,
            "Like hold, while it may write in the folder of its argument",
        )
        .input(
            json!({ "path": { "type": "string" }, "ms": { "type": "integer", "minimum": 0 } }),
            &["path", "ms"],
        )
        .claims("is_concurrency_safe", true)
        .claims("permission_subjects", json!({ "/path": "path" })),
        Tool::new(
            "hold_reading",
            Access::ReadsFiles,
            "Like hold, while it may read in the folder of its argument",
        )
        .input(
            json!({ "path": { "type": "string" }, "ms": { "type": "integer", "minimum": 0 } }),
            &["path", "ms"],
        )
        .claims("permission_subjects", json!({ "/path": "path" })),
        Tool::new(
            "timeboxed",
            Access::Nothing,
            "Like hold, with 300 ms in its own profile",
        )
        .input(milliseconds(), &["ms"])
        .executes("timeout_ms", 300),
        Tool::new(
            "hold_background",
            Access::Nothing,
            "Like hold, for clients only that ask for its result later",
        )
        .input(milliseconds(), &["ms"])
        .executes("requires_background", true),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    Some(match tool {
        "echo" => echo,
        "counter" => counter,
        "invocation" => invocation,
        "env" => env,
        "stdio" => stdio,
        "stdin" => stdin,
        "hold" | "hold_unstated" | "hold_writing" | "hold_reading" | "timeboxed"
        | "hold_background" => hold,
        _ => return None,
    })
}

/// The guest paths of the folders that the host opened for this call.
pub(crate) fn preopened_paths() -> Vec<String> {
    preopens::get_directories()
        .into_iter()
        .map(|(_, path)| path)
        .collect()
}

fn echo(call: &Call, input: &Input) -> Outcome {
    let environment: Map<String, Value> = std::env::vars()
        .map(|(name, value)| (name, value.into()))
        .collect();
    let readable: Map<String, Value> = HOST_FOLDERS
        .iter()
        .filter_map(|folder| {
            let entries = std::fs::read_dir(folder).ok()?;
            Some(((*folder).to_owned(), entries.count().into()))
        })
        .collect();
    let context: Value = serde_json::from_str(&call.context).unwrap_or(Value::Null);
    answer(json!({
        "input": input.value(),
        "input_text": call.input,
        "tool": call.tool,
        "invocation_id": call.invocation_id,
        "attempt": call.attempt,
        "context": context,
        "context_text": call.context,
        "env": environment,
        "args": std::env::args().collect::<Vec<_>>(),
        "cwd": std::env::current_dir().ok(),
        "preopens": preopened_paths(),
        "readable": readable,
    }))
}

fn counter(_: &Call, _: &Input) -> Outcome {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    answer(json!({ "count": CALLS.fetch_add(1, Ordering::Relaxed) + 1 }))
}

fn invocation(call: &Call, _: &Input) -> Outcome {
    answer(json!({ "invocation_id": call.invocation_id, "attempt": call.attempt }))
}

fn env(_: &Call, input: &Input) -> Outcome {
    let name = input.text("name");
    answer(json!({ "name": name, "value": std::env::var(name).ok() }))
}

fn stdio(_: &Call, input: &Input) -> Outcome {
    let print = |stream: &mut dyn Write, text: &str| match stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush())
    {
        Ok(()) => "written".to_owned(),
        Err(error) => error.to_string(),
    };
    let out = print(&mut std::io::stdout(), input.text("out"));
    let err = print(&mut std::io::stderr(), input.text("err"));
    answer(json!({ "out": out, "err": err }))
}

fn stdin(_: &Call, _: &Input) -> Outcome {
    let mut bytes = Vec::new();
    let error = std::io::stdin().read_to_end(&mut bytes).err();
    answer(json!({
        "bytes": bytes.len(),
        "text": String::from_utf8_lossy(&bytes),
        "error": error.map(|error| error.to_string()),
    }))
}

fn hold(_: &Call, input: &Input) -> Outcome {
    let entered = nanoseconds();
    std::thread::sleep(Duration::from_millis(input.number("ms")));
    answer(json!({ "entered_ns": entered, "left_ns": nanoseconds() }))
}

fn nanoseconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}
