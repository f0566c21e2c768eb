use serde_json::Value;

use super::super::call_state::CallState;

/// Records the redacted input if its arguments have the contract's shape, so that everything sensitive was found;
/// otherwise its reference alone.
pub(in super::super) fn show_input(journey: &mut CallState<'_>) {
    if let Some((shown, text)) = journey.redaction.unproven.take() {
        (
            journey.invocation.model_input,
            journey.invocation.model_input_text,
        ) = (shown, text);
    }
}

/// Puts values of `original` back where the edited copy of `shown` is unedited.
pub(in super::super) fn restored(updated: Value, shown: &Value, original: &Value) -> Value {
    if updated == *shown {
        return original.clone();
    }
    match (updated, shown, original) {
        (Value::Object(updated), Value::Object(shown), Value::Object(original)) => {
            let restore =
                |(name, value): (String, Value)| match (shown.get(&name), original.get(&name)) {
                    (Some(shown), Some(original)) => {
                        let value = restored(value, shown, original);
                        (name, value)
                    }
                    _ => (name, value),
                };
            Value::Object(updated.into_iter().map(restore).collect())
        }
        (Value::Array(updated), Value::Array(shown), Value::Array(original))
            if updated.len() == shown.len() =>
        {
            let pairs = updated.into_iter().zip(shown.iter().zip(original));
            Value::Array(
                pairs
                    .map(|(value, (shown, original))| restored(value, shown, original))
                    .collect(),
            )
        }
        (updated, ..) => updated,
    }
}
