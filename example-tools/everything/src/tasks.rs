//! Tools that take long, or ask after a while: an MCP client can get a task instead of a response.

use std::time::Duration;

use toolcell_guest::interaction::{Question, Response, ask, ask_forms};
use toolcell_guest::serde_json::json;
use toolcell_guest::{ToolError, cancellation, data, tool};

/// Longer than toolcell waits before a call becomes a task.
const LONG: Duration = Duration::from_secs(1);

#[data]
pub struct Greeted {
    /// Who is greeted.
    name: String,
}

/// Greets, at once.
#[tool(read_only, concurrency_safe)]
pub fn greet(input: Greeted) -> String {
    format!("Hello, {}!", input.name)
}

#[data]
pub struct Computation {
    /// How long it takes.
    seconds: u64,
    /// What it is called.
    label: String,
}

/// Takes as long as it is told.
#[tool(read_only, concurrency_safe)]
pub fn slow_compute(input: Computation) -> Result<String, ToolError> {
    cancellation::sleep(Duration::from_secs(input.seconds))?;
    Ok(format!("{} took {} s", input.label, input.seconds))
}

/// Fails after a while, always. Only a client that asks for results later can call it.
#[tool(read_only, concurrency_safe, requires_background)]
pub fn failing_job() -> Result<String, ToolError> {
    cancellation::sleep(LONG)?;
    Err(ToolError::execution_failed(
        "intentional",
        "This job intentionally fails for testing",
    ))
}

/// Crashes after a while, always.
#[tool(read_only, concurrency_safe)]
pub fn protocol_error_job() -> Result<String, ToolError> {
    cancellation::sleep(LONG)?;
    std::process::abort()
}

#[data]
pub struct Deletion {
    /// The file that would be deleted.
    filename: String,
}

#[data]
struct Confirmation {
    confirm: bool,
}

/// Asks for a confirmation after a while, and deletes nothing.
#[tool(read_only, concurrency_safe)]
pub fn confirm_delete(input: Deletion) -> Result<String, ToolError> {
    cancellation::sleep(LONG)?;
    let Confirmation { confirm } =
        ask("confirm", &format!("Delete {}?", input.filename))?.accepted()?;
    Ok(format!("{}: confirmed: {confirm}", input.filename))
}

/// Asks two questions at once after a while.
#[tool(read_only, concurrency_safe)]
pub fn multi_input() -> Result<String, ToolError> {
    cancellation::sleep(LONG)?;
    let fields = json!({ "name": { "type": "string" }, "confirm": { "type": "boolean" } });
    let schema = json!({ "type": "object", "properties": fields });
    let question = |key| Question {
        key,
        message: "Please answer",
        schema: &schema,
    };
    let answers = ask_forms(&[question("first"), question("second")])?;
    let accepted = answers
        .iter()
        .filter(|answer| matches!(answer, Response::Accept(_)))
        .count();
    Ok(format!("{accepted} of 2 answers"))
}

#[data]
struct Name {
    name: String,
}

/// Asks for a name at once, and greets after a while.
#[tool(read_only, concurrency_safe, requires_background)]
pub fn test_tool_with_task() -> Result<String, ToolError> {
    let Name { name } = ask("user_name", "What is your name?")?.accepted()?;
    cancellation::sleep(LONG)?;
    Ok(format!("Hello, {name}!"))
}
