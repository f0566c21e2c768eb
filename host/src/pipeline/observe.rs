//! Phase 5: rate_limited, timeout, canceled, where redaction takes long. Makes `observable_input`; `model_input` stays
//! as it was sent.

use crate::catalog::Tool;
use crate::record::{Input, InputMutation, MutationSource, Refusal};

use super::journey::{Journey, Prepared};

/// Fills in the defaults of the contract, in a copy, and records that it did.
pub(super) async fn observe(journey: &mut Journey<'_>, prepared: Prepared) -> Result<Prepared, Refusal> {
    let Prepared { tool, input } = prepared;
    let input = fill(journey, &tool, input);
    journey.invocation.observable_input = Some(journey.shown(&input).await?);
    journey.invocation.observable_input_ref = Some(journey.reference(&input));
    Ok(Prepared { tool, input })
}

/// `input` with the defaults that it lacks.
pub(super) fn fill(journey: &mut Journey<'_>, tool: &Tool, input: Input) -> Input {
    let filled = input.value().ok().and_then(|value| tool.contract().with_defaults(value));
    match filled {
        Some(filled) => {
            let filled = input.with_value(filled);
            let id = journey.invocation.invocation_id;
            let reason = "defaults of the input contract";
            let source = (MutationSource::Runtime, "input_contract.defaults");
            journey.mutated(InputMutation::new(id, source.0, source.1, &input, &filled, reason));
            filled
        }
        None => input,
    }
}
