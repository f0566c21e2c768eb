//! Phase 2: rate_limited, timeout, canceled, where the check takes long. A mismatch is a value, because phase 3 decides
//! which error is the true one.

use std::sync::Arc;

use crate::catalog::{Tool, Unsatisfied};
use crate::record::Refusal;

use super::aside::{self, Against};
use super::journey::Journey;
use super::resolve::Resolved;

pub(super) struct Parsed {
    pub(super) tool: Arc<Tool>,
    /// Why `model_input` does not satisfy the model schema, if it does not.
    pub(super) mismatch: Result<(), Unsatisfied>,
}

/// Reads `model_input`, and holds it against the tool's model schema.
pub(super) async fn parse(journey: &Journey<'_>, resolved: Resolved) -> Result<Parsed, Refusal> {
    let tool = resolved.tool;
    let mismatch = aside::check_input(journey, tool.contract(), &journey.request.input, Against::Model).await?;
    Ok(Parsed { tool, mismatch })
}
