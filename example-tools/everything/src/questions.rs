//! Tools that ask the user a question during a call.

use toolcell_guest::interaction::{Response, ask, ask_form, remember, remembered};
use toolcell_guest::serde_json::{Value, json};
use toolcell_guest::{ToolError, data, tool};

#[data]
pub struct Asking {
    /// The message to show the user.
    message: String,
}

#[data]
struct Account {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

/// Asks for a name and an address.
#[tool(read_only, concurrency_safe)]
pub fn test_elicitation(input: Asking) -> Result<String, ToolError> {
    let response = ask::<Account>("account", &input.message)?;
    Ok(format!("User response: {}", json!(response)))
}

/// Asks with a form that is filled in already.
#[tool(read_only, concurrency_safe)]
pub fn test_elicitation_sep1034_defaults() -> Result<String, ToolError> {
    let fields = json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    });
    completed(ask_form("defaults", "Is this right?", &form(fields))?)
}

/// Asks with every kind of choice.
#[tool(read_only, concurrency_safe)]
pub fn test_elicitation_sep1330_enums() -> Result<String, ToolError> {
    let titled = |what: &str| {
        let option = |at: &str, nth: &str| json!({ "const": format!("value{at}"), "title": format!("{nth} {what}") });
        json!([
            option("1", "First"),
            option("2", "Second"),
            option("3", "Third")
        ])
    };
    let plain = json!(["option1", "option2", "option3"]);
    let fields = json!({
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    });
    completed(ask_form("choices", "Which ones?", &form(fields))?)
}

#[data]
struct Name {
    name: String,
}

#[data]
struct Color {
    color: String,
}

#[data]
struct Confirmation {
    ok: bool,
}

/// Asks for a name, and greets.
#[tool(read_only, concurrency_safe)]
pub fn test_input_required_result_elicitation() -> Result<String, ToolError> {
    let Name { name } = ask("user_name", "What is your name?")?.accepted()?;
    Ok(format!("Hello, {name}!"))
}

/// Asks, and says whether what it remembered meanwhile came back.
#[tool(read_only, concurrency_safe)]
pub fn test_input_required_result_request_state() -> Result<String, ToolError> {
    remember("asked once");
    let Confirmation { ok } = ask("confirm", "Please confirm")?.accepted()?;
    match remembered().as_slice() {
        b"asked once" => Ok(format!("state-ok, confirmed: {ok}")),
        other => Err(ToolError::execution_failed(
            "state_lost",
            format!("{} bytes came back", other.len()),
        )),
    }
}

/// Asks two questions, one after the other.
#[tool(read_only, concurrency_safe)]
pub fn test_input_required_result_multi_round() -> Result<String, ToolError> {
    let Name { name } = ask("step1", "Step 1: What is your name?")?.accepted()?;
    let Color { color } = ask("step2", "Step 2: What is your favorite color?")?.accepted()?;
    Ok(format!("{name} likes {color}"))
}

/// Asks for a confirmation, which only the client that was asked can give.
#[tool(read_only, concurrency_safe)]
pub fn test_input_required_result_tampered_state() -> Result<String, ToolError> {
    let Confirmation { ok } = ask("confirm", "Please confirm")?.accepted()?;
    Ok(format!("confirmed: {ok}"))
}

/// Asks for a name while its client may be streaming.
#[tool(read_only, concurrency_safe)]
pub fn test_streaming_elicitation() -> Result<String, ToolError> {
    test_input_required_result_elicitation()
}

fn form(fields: Value) -> Value {
    json!({ "type": "object", "properties": fields })
}

fn completed(response: Response) -> Result<String, ToolError> {
    let (action, content) = match response {
        Response::Accept(content) => ("accept", Value::Object(content)),
        Response::Decline => ("decline", Value::Null),
        Response::Cancel => ("cancel", Value::Null),
    };
    Ok(format!(
        "Elicitation completed: action={action}, content={content}"
    ))
}
