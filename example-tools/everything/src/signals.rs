//! Tools that log and report progress while they run.

use std::time::Duration;

use toolcell_guest::{ToolError, cancellation, log, progress, tool};

/// Long enough for a client to receive one message before the tool sends the next.
const PAUSE: Duration = Duration::from_millis(50);

/// Logs a line at its start, one in the middle and one at its end.
#[tool(read_only, concurrency_safe)]
pub fn test_tool_with_logging() -> Result<String, ToolError> {
    log::info("Tool execution started");
    cancellation::sleep(PAUSE)?;
    log::info("Tool processing data");
    cancellation::sleep(PAUSE)?;
    log::info("Tool execution completed");
    Ok("Logged three lines".to_owned())
}

/// Logs one line.
#[tool(read_only, concurrency_safe)]
pub fn test_logging_tool() -> String {
    log::info("A line that is for clients that asked for log lines");
    "Logged one line".to_owned()
}

/// Reports progress at its start, half way, and at its end.
#[tool(read_only, concurrency_safe)]
pub fn test_tool_with_progress() -> Result<String, ToolError> {
    progress::percent(0.0);
    cancellation::sleep(PAUSE)?;
    progress::percent(50.0);
    cancellation::sleep(PAUSE)?;
    progress::percent(100.0);
    Ok("Reported progress three times".to_owned())
}
