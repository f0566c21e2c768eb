//! Phase 2: rate_limited, timeout, canceled, where the check takes long. A mismatch is a value, because phase 3 decides
//! which error to report.

use std::sync::Arc;

use crate::catalog::{CheckFailure, Tool};
use toolcell_spec::{Input, Refusal};

use super::aside::{self, InputSchema};
use super::call_state::{CallState, phase_token};
use super::observe;
use super::resolve::Resolved;

/// In bytes: larger arguments are searched for nulls on a thread for checks.
const LARGE_BYTES: usize = 64 << 10;

phase_token! {
    /// A tool; `model_input` without omitted nulls; and its mismatch with the model schema.
    pub(super) Parsed((Arc<Tool>, Input, Result<(), CheckFailure>))
}

pub(super) async fn parse(journey: &CallState<'_>, resolved: Resolved) -> Result<Parsed, Refusal> {
    let tool = resolved.open();
    let sent = journey.request.input.clone();
    if journey.resumed.is_some() {
        return Ok(Parsed((tool, sent, Ok(()))));
    }
    let checked = aside::check_input(journey, tool.contract(), &sent, InputSchema::Model).await?;
    if !matches!(checked, Err(CheckFailure::Mismatch(_))) {
        return Ok(Parsed((tool, sent, checked)));
    }
    let is_long = sent.text().len() > LARGE_BYTES;
    let full = (Arc::clone(&tool), sent.clone());
    let work = move || observe::without_nulls(&full.0, &full.1);
    let checks = &journey.checks;
    match checks.run_if(is_long, "leaving nulls out", work).await? {
        Some(input) => {
            let checked =
                aside::check_input(journey, tool.contract(), &input, InputSchema::Model).await?;
            Ok(Parsed((tool, input, checked)))
        }
        None => Ok(Parsed((tool, sent, checked))),
    }
}
