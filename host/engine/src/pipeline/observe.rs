//! Phase 5: rate_limited, timeout, canceled, where redaction takes long. Makes `observable_input`; `model_input` stays
//! as sent.

use std::sync::Arc;

use crate::catalog::Tool;
use toolcell_policy as policy;
use toolcell_spec::{Input, MutationSource, Refusal};

use super::call_state::{CallState, PreparedCall, phase_token};
use super::validate::Valid;

phase_token! {
    pub(super) Observed(PreparedCall)
}

const NULLS: &str = "input_contract.nulls";

pub(super) async fn observe(
    journey: &mut CallState<'_>,
    valid: Valid,
) -> Result<Observed, Refusal> {
    let PreparedCall { tool, input } = valid.open();
    if journey.resumed.is_some() {
        let input = again(journey, &tool, input);
        return Ok(Observed(PreparedCall { tool, input }));
    }
    if !input.is(&journey.request.input) {
        let reason = "null of an optional argument of another type: the argument is left out";
        let sent = journey.request.input.clone();
        // APIs of models demand every argument, and send null for those that are left out. Their calls have a mapping.
        let source = match journey.request.mapping {
            Some(_) => MutationSource::Adapter,
            None => MutationSource::Runtime,
        };
        journey.mutated((source, NULLS), [&sent, &input], reason);
    }
    let input = fill(journey, &tool, input).await?;
    let seen = with_whole_paths(journey, &tool, &input).await?;
    journey.invocation.observable_input = Some(journey.redaction.recorded(&seen).await?);
    journey.invocation.observable_input_ref = Some(journey.redaction.reference(&seen));
    Ok(Observed(PreparedCall { tool, input }))
}

/// Paths as the guest would get them, and canonical, for display (AT-INP-02).
async fn with_whole_paths(
    journey: &CallState<'_>,
    tool: &Arc<Tool>,
    input: &Input,
) -> Result<Input, Refusal> {
    if !policy::names_paths(tool.subjects()) {
        return Ok(input.clone());
    }
    let tool = Arc::clone(tool);
    let grants = Arc::clone(&journey.request.grants);
    let input = input.clone();
    let names_much = policy::names_much(tool.subjects(), &input);
    let read = move || {
        policy::with_whole_paths(tool.permission_profile(), tool.subjects(), &grants, &input)
            .unwrap_or(input)
    };
    let what = "reading the paths among the arguments";
    journey.checks.run_if(names_much, what, read).await
}

pub(super) async fn fill(
    journey: &mut CallState<'_>,
    tool: &Tool,
    input: Input,
) -> Result<Input, Refusal> {
    let Some(filled) = with_defaults(tool, &input) else {
        return Ok(input);
    };
    let source = (MutationSource::Runtime, "input_contract.defaults");
    let change = [&input, &filled];
    journey
        .replaced(source, change, "defaults of the input contract")
        .await?;
    Ok(filled)
}

/// `None` if no null stands for an omission.
pub(super) fn without_nulls(tool: &Tool, input: &Input) -> Option<Input> {
    let shorter = input
        .value()
        .ok()
        .and_then(|value| tool.contract().without_nulls(value))?;
    Some(input.with_value(shorter))
}

fn again(journey: &CallState<'_>, tool: &Tool, sent: Input) -> Input {
    let had_nulls = journey
        .mutations
        .iter()
        .any(|mutation| mutation.source_ref == NULLS);
    let input = without_nulls(tool, &sent)
        .filter(|_| had_nulls)
        .unwrap_or(sent);
    with_defaults(tool, &input).unwrap_or(input)
}

/// `None` if no default is missing.
pub(super) fn with_defaults(tool: &Tool, input: &Input) -> Option<Input> {
    let filled = input
        .value()
        .ok()
        .and_then(|value| tool.contract().with_defaults(value))?;
    Some(input.with_value(filled))
}
