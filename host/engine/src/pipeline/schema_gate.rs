//! Phase 3: schema_not_loaded, schema_validation_failed, invalid_arguments.

use serde_json::{Value, json};

use crate::catalog::CheckFailure;
use crate::find::SELECT;
use toolcell_spec::{ErrorCode, EventType, Input, Refusal, Status};

use super::call_state::{CallState, PreparedCall, phase_token};
use super::parse::Parsed;
use super::redaction;

phase_token! {
    pub Gated(PreparedCall)
}

/// The next step to load the tool: each protocol has its own way.
fn first(journey: &CallState<'_>) -> String {
    let name = journey.request.tool.name();
    let protocol = journey.request.mapping.as_ref();
    match protocol.map(|mapping| mapping.source.as_str()) {
        Some("mcp") => format!(
            "call load_tool with the name `{name}`, then call the tool again (search_tools finds it with \
             `{SELECT}{name}`)"
        ),
        Some("http" | "open-tool-calling") => format!(
            "GET /v1/tools/{name} loads it, then call the tool again (GET /v1/search?q={SELECT}{name} finds it)"
        ),
        // The program, because the API of the model has no search.
        Some(_) => format!(
            "it was not in the list that the model was given; call a tool of that list (`toolcell search {SELECT}{name}` \
             finds it, and `toolcell call` loads and calls FILE#{SELECT}{name})"
        ),
        None => {
            format!(
                "load it first (`{SELECT}{name}`); on the command line, FILE#{SELECT}{name} does so and calls it"
            )
        }
    }
}

/// An unloaded schema comes before a mismatch (A-01, AT-DEF-17, AT-DEF-19).
pub(super) fn gate(journey: &mut CallState<'_>, parsed: Parsed) -> Result<Gated, Refusal> {
    let (tool, input, checked) = parsed.open();
    if journey.resumed.is_some() {
        return Ok(Gated(PreparedCall { tool, input }));
    }
    let called = &journey.request.tool;
    if !called.is_loaded(&tool) {
        let id = &tool.declaration().tool_id;
        let message = format!("{id} is not loaded yet: {}", first(journey));
        return Err(Refusal::new(ErrorCode::SchemaNotLoaded, message));
    }
    match checked {
        Ok(()) => {
            redaction::show_input(journey);
            journey.advance(Status::ArgumentsReady)?;
            let reference = journey.redaction.reference(&journey.request.input);
            let ready = json!({ "model_input_ref": reference });
            journey.trail.emit(EventType::ArgumentsReady, ready);
            Ok(Gated(PreparedCall { tool, input }))
        }
        Err(mismatch) => {
            journey.pass_through(
                Status::SchemaParseFailed,
                "model_input does not satisfy the schema",
            );
            let message = mismatch.to_string();
            tell(journey, &journey.request.input, &message, &mismatch);
            let code = match input.value() {
                _ if matches!(mismatch, CheckFailure::Costly(_)) => ErrorCode::ArgumentsTooCostly,
                Ok(Value::Object(_)) => ErrorCode::SchemaMismatch,
                Ok(_) => ErrorCode::ArgumentsNotAnObject,
                Err(_) => ErrorCode::ArgumentsNotJson,
            };
            Err(Refusal::new(code, message))
        }
    }
}

/// Announces that `input` does not satisfy the contract (AT-EV-09); callers can read `message`.
pub(super) fn tell(journey: &CallState<'_>, input: &Input, message: &str, mismatch: &CheckFailure) {
    let data = json!({
        "which": "schema",
        "input_ref": journey.redaction.reference(input),
        "message": message,
        "pointers": mismatch.pointers(),
    });
    journey.trail.emit(EventType::ValidationFailed, data);
}
