//! What machines are tested with: a tool with an effect, one that waits, one with large output.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use toolcell_guest::progress::{self, Update};
use toolcell_guest::{ToolError, data, tool, toolkit};

#[data]
struct Line {
    path: String,
    text: String,
    /// Before and after the line is written.
    wait_ms: u64,
}

/// Appends a line to a file
#[tool(
    access = ["file_write"],
    write_effects = ["local_persistent"],
    paths = ["path"],
    read_only = false,
    concurrency_safe
)]
fn append(input: Line) -> Result<String, ToolError> {
    let path = Path::new(&input.path);
    let failed = |error| ToolError::at_path(path, &error);
    std::thread::sleep(Duration::from_millis(input.wait_ms));
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(failed)?;
    file.write_all(format!("{}\n", input.text).as_bytes())
        .map_err(failed)?;
    std::thread::sleep(Duration::from_millis(input.wait_ms));
    Ok(input.text)
}

#[data]
struct Wait {
    ms: u64,
}

/// Waits
#[tool(read_only, concurrency_safe)]
fn wait(input: Wait) -> String {
    progress::report(Update::new().message("waiting"));
    std::thread::sleep(Duration::from_millis(input.ms));
    "done".to_owned()
}

#[data]
struct Text {
    text: String,
    /// How often it is repeated.
    times: usize,
}

/// Repeats a text
#[tool(read_only, concurrency_safe)]
fn repeat(input: Text) -> String {
    input.text.repeat(input.times)
}

toolkit! { namespace: "ledger", tools: [append, wait, repeat] }
