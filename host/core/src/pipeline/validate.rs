//! Phase 4: invalid_arguments, setup_required, and what stops a guest. Runs with an empty capability, before any side
//! effect.

use serde_json::json;

use crate::record::{EventType, Refusal, Status};

use super::journey::{Journey, Prepared, made_here};
use super::schema_gate::Gated;

made_here! {
    /// Values that the tool itself accepts.
    pub(super) Valid(Prepared)
}

/// Calls the tool's own validation of the values and its setup.
pub(super) async fn validate(journey: &mut Journey<'_>, gated: Gated) -> Result<Valid, Refusal> {
    let prepared = gated.open();
    if !prepared.tool.validates() {
        return Ok(Valid(prepared));
    }
    let limits = journey.request.limits.for_checks();
    let check = journey.check(&prepared.tool, &prepared.input, &limits);
    match journey.services.executor.validate(check).await {
        Ok(()) => Ok(Valid(prepared)),
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
