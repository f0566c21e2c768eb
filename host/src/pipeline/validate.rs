//! Phase 4: invalid_arguments, setup_required, and what stops a guest. Runs with an empty capability, before any side
//! effect.

use serde_json::json;

use crate::record::{EventType, Refusal, Status};

use super::journey::{Journey, Prepared};

/// Calls the tool's own validation of the values and its setup.
pub(super) async fn validate(journey: &mut Journey<'_>, prepared: Prepared) -> Result<Prepared, Refusal> {
    let limits = journey.request.limits.for_checks();
    let check = journey.check(&prepared.tool, &prepared.input, &limits);
    match journey.services.executor.validate(check).await {
        Ok(()) => Ok(prepared),
        // A canceled check says nothing about the values.
        Err(refusal) if journey.request.cancellation.requested().is_some() => Err(refusal),
        Err(refusal) => {
            journey.pass_through(Status::ValidationFailed, "the tool refused the values");
            let which = json!({ "which": "value", "error_class": refusal.class, "message": refusal.message });
            journey.trail.emit(EventType::ValidationFailed, which);
            Err(refusal)
        }
    }
}
