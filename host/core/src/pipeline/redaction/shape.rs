use super::super::journey::Journey;

/// Puts the redacted input into the record of the call, whose arguments have the shape of their contract, so that what is
/// sensitive in them was found. Without that, the record has the reference of the input alone.
pub(in super::super) fn show_input(journey: &mut Journey<'_>) {
    if let Some((shown, text)) = journey.redaction.unproven.take() {
        (journey.invocation.model_input, journey.invocation.model_input_text) = (shown, text);
    }
}
