//! Secrets that a request brings for its call: they replace stored ones of the same names, for the same origins, and
//! are on no disk.

use serde_json::json;

use toolcell_policy::secret::{RedactionTerm, RedactionTerms, Redactor, SecretStore, Secrets};
use toolcell_spec::{AbortReason, ErrorCode, Refusal, ToolInvocation};

/// In bytes per request: a client chooses the values, and each byte takes some 70 states of the searching automaton.
const BYTES_MAX: usize = 4 << 10;

/// Names the request's secrets that the tool may use; an extension of the specification.
const PROPERTY: &str = "request_secrets";

/// Fails if they cannot be kept out of records and sent. Quotes no value.
pub(super) fn check(brought: &Secrets) -> Result<(), Refusal> {
    let refused = |why: String| {
        let message = format!("cannot use the secrets of the request: {why}");
        Refusal::new(ErrorCode::RequestSecretInvalid, message)
    };
    let bytes: usize = brought.iter().map(|(_, value)| value.expose().len()).sum();
    if bytes > BYTES_MAX {
        return Err(refused(format!(
            "they have {bytes} bytes together, and {BYTES_MAX} is the maximum"
        )));
    }
    let checked = brought
        .iter()
        .try_for_each(|(_, value)| SecretStore::check_value(value));
    checked.map_err(|error| refused(format!("{error:#}")))
}

pub(super) fn terms(brought: &Secrets) -> Vec<RedactionTerm> {
    brought
        .iter()
        .map(|(name, value)| RedactionTerm::secret(name, value))
        .collect()
}

/// For these secrets alone; takes time in proportion to their bytes.
pub(super) fn redactor(brought: &Secrets) -> Redactor {
    let mut all = RedactionTerms::default();
    all.add(terms(brought));
    Redactor::new(&all, &[], false)
}

/// For a call whose request's secret would hide a text of others.
pub(in super::super) fn repeated(place: &str) -> Refusal {
    let message = format!(
        "cannot use the secrets of the request: one of them is {place}, which would not show it; take another value, or leave \
         it out there"
    );
    Refusal::new(ErrorCode::RequestSecretRepeated, message)
}

pub(super) fn note(invocation: &mut ToolInvocation, names: &[String], brought: &Secrets) {
    let used: Vec<&String> = names
        .iter()
        .filter(|name| brought.get(name).is_some())
        .collect();
    if !used.is_empty() {
        invocation.note(PROPERTY, json!(used));
    }
}

/// Returns whether an orphaned call used its request's secrets: without them it would use the operator's.
pub(in super::super) fn is_lost(invocation: &ToolInvocation) -> bool {
    invocation.extra.contains_key(PROPERTY) && guard!("request_secret_resume")
}

pub(in super::super) fn lost() -> Refusal {
    let message = "cannot go on with the call: the secrets of its request were in the memory of a process that has ended, \
                   and on no disk; nothing ran; send the request again";
    Refusal::new(ErrorCode::RequestSecretsLost, message).aborted(AbortReason::RuntimeShutdown)
}

#[cfg(test)]
mod tests {

    use super::{BYTES_MAX, check};
    use toolcell_policy::secret::{SecretValue, Secrets};
    use toolcell_spec::ErrorCode;

    fn secrets(values: &[&str]) -> Secrets {
        let named = values
            .iter()
            .enumerate()
            .map(|(at, value)| (format!("K{at}"), (*value).to_owned()));
        Secrets::new(
            named
                .map(|(name, value)| (name, SecretValue::new(value)))
                .collect(),
        )
    }

    #[test]
    fn values_that_are_too_long_together_or_cannot_be_found_are_refused() {
        let half = "x".repeat(BYTES_MAX / 2);
        check(&secrets(&[])).unwrap();
        check(&secrets(&[&half, &half])).unwrap();
        for (values, why) in [
            (
                vec![half.as_str(), &half, "and more"],
                "4104 bytes together",
            ),
            (vec!["long enough", "seven77"], "shorter than 8 bytes"),
            (vec!["two\nlines"], "line breaks"),
        ] {
            let refusal = check(&secrets(&values)).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::RequestSecretInvalid);
            assert!(refusal.message.contains(why), "{}", refusal.message);
            assert!(
                values.iter().all(|value| !refusal.message.contains(value)),
                "{}",
                refusal.message
            );
        }
    }
}
