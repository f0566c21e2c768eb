//! Phase 2: no refusal of its own. A mismatch is a value, because phase 3 decides which error is the true one.

use std::sync::Arc;

use crate::catalog::Tool;

use super::journey::Journey;
use super::resolve::Resolved;

pub(super) struct Parsed {
    pub(super) tool: Arc<Tool>,
    /// Why `model_input` does not satisfy the model schema, if it does not.
    pub(super) mismatch: Result<(), String>,
}

/// Reads `model_input`, and holds it against the tool's model schema.
pub(super) fn parse(journey: &Journey<'_>, resolved: Resolved) -> Parsed {
    let mismatch = match journey.request.input.value() {
        Ok(value) => resolved.tool.contract().check_model_input(value),
        Err(error) => Err(format!("arguments cannot be read as JSON: {error}")),
    };
    Parsed { tool: resolved.tool, mismatch }
}
