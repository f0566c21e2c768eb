//! Phase 5: rate_limited, timeout, canceled, where redaction takes long. Makes `observable_input`; `model_input` stays
//! as it was sent.

use crate::catalog::Tool;
use crate::record::{Input, InputMutation, MutationSource, Refusal};

use super::journey::{Journey, Prepared, made_here};
use super::validate::Valid;

made_here! {
    /// The input with its defaults.
    pub(super) Observed(Prepared)
}

/// Fills in the defaults of the contract, in a copy, and records that it did.
pub(super) async fn observe(journey: &mut Journey<'_>, valid: Valid) -> Result<Observed, Refusal> {
    let Prepared { tool, input } = valid.open();
    let input = fill(journey, &tool, input);
    journey.invocation.observable_input = Some(journey.redaction.recorded(&input).await?);
    journey.invocation.observable_input_ref = Some(journey.redaction.reference(&input));
    Ok(Observed(Prepared { tool, input }))
}

/// `input` with the defaults that it lacks, recorded as a change.
pub(super) fn fill(journey: &mut Journey<'_>, tool: &Tool, input: Input) -> Input {
    let Some(filled) = with_defaults(tool, &input) else { return input };
    let id = journey.invocation.invocation_id;
    let reason = "defaults of the input contract";
    let source = (MutationSource::Runtime, "input_contract.defaults");
    journey.mutated(InputMutation::new(id, source.0, source.1, &input, &filled, reason));
    filled
}

/// `input` with the defaults that it lacks; `None` if it lacks none.
pub(super) fn with_defaults(tool: &Tool, input: &Input) -> Option<Input> {
    let filled = input.value().ok().and_then(|value| tool.contract().with_defaults(value))?;
    Some(input.with_value(filled))
}
