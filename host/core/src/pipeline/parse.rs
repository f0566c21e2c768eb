//! Phase 2: rate_limited, timeout, canceled, where the check takes long. A mismatch is returned as a value, because
//! phase 3 decides which error to report.

use std::sync::Arc;

use crate::catalog::{Tool, Unsatisfied};
use crate::record::Refusal;

use super::aside::{self, Against};
use super::journey::{Journey, made_here};
use super::resolve::Resolved;

made_here! {
    /// A tool, and why `model_input` does not satisfy its model schema, if it does not.
    pub(super) Parsed((Arc<Tool>, Result<(), Unsatisfied>))
}

/// Checks `model_input` against the tool's model schema.
pub(super) async fn parse(journey: &Journey<'_>, resolved: Resolved) -> Result<Parsed, Refusal> {
    let tool = resolved.open();
    let mismatch = aside::check_input(journey, tool.contract(), &journey.request.input, Against::Model).await?;
    Ok(Parsed((tool, mismatch)))
}
