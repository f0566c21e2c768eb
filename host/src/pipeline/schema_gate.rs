//! Phase 3: schema_not_loaded, schema_validation_failed, invalid_arguments.

use serde_json::{Value, json};

use crate::catalog::Unsatisfied;
use crate::record::{ErrorClass, EventType, Lifecycle, Refusal, Status};

use super::journey::{Journey, Prepared};
use super::parse::Parsed;

/// Refuses a tool whose schema the model has not loaded, before a mismatch counts.
pub(super) fn gate(journey: &mut Journey<'_>, parsed: Parsed) -> Result<Prepared, Refusal> {
    let declaration = parsed.tool.declaration();
    if declaration.lifecycle == Lifecycle::Deferred {
        let message = format!("the schema of {} is not loaded; look the tool up first", declaration.tool_id);
        return Err(Refusal::new(ErrorClass::SchemaNotLoaded, "schema_not_loaded", message));
    }
    let input = journey.request.input.clone();
    match parsed.mismatch {
        Ok(()) => {
            journey.advance(Status::ArgumentsReady)?;
            journey.trail.emit(EventType::ArgumentsReady, json!({ "model_input_ref": journey.reference(&input) }));
            Ok(Prepared { tool: parsed.tool, input })
        }
        Err(mismatch) => {
            journey.pass_through(Status::SchemaParseFailed, "model_input does not satisfy the schema");
            journey
                .trail
                .emit(EventType::ValidationFailed, json!({ "which": "schema", "message": mismatch.to_string() }));
            let (class, code) = match input.value() {
                _ if matches!(mismatch, Unsatisfied::Costly(_)) => {
                    (ErrorClass::InvalidArguments, "arguments_too_costly")
                }
                Ok(Value::Object(_)) => (ErrorClass::SchemaValidationFailed, "schema_mismatch"),
                Ok(_) => (ErrorClass::InvalidArguments, "arguments_not_an_object"),
                Err(_) => (ErrorClass::InvalidArguments, "arguments_not_json"),
            };
            Err(Refusal::new(class, code, mismatch.to_string()))
        }
    }
}
