//! What is kept back of an answer.

use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

use super::concealer::Concealer;
use super::places::{RedactedPlaces, contract_rule, outputs};
use super::{INLINE_BYTES_MAX, Redaction, meter};
use crate::pipeline::map_result::MappedResult;
use crate::pipeline::persist::{modifiers_size, names_size, size};

impl Redaction {
    /// Redacts all output; withheld if there is no time or thread for that.
    pub(in crate::pipeline) async fn redact(&mut self, mapped: &mut MappedResult) {
        if let Some(concealer) = self.concealer() {
            // Boxed, to keep the future of a call small that has nothing to redact.
            Box::pin(self.redact_with(concealer, mapped)).await;
        }
    }

    async fn redact_with(&mut self, mut concealer: Concealer, mapped: &mut MappedResult) {
        if self.everything && !mapped.has_output() {
            // The rest is the host's own text.
            return mapped.hide_names();
        }
        // A name may say in another spelling what is kept back.
        let all = concealer.contract.redacts_everything();
        if all.is_some() || concealer.contract.has_sensitive_fields() {
            mapped.hide_names();
        }
        if let Some(rule) = all.filter(|_| mapped.has_output()) {
            self.everything = true;
            self.places.add_all(&contract_rule(rule), outputs(mapped));
            withhold(
                mapped,
                ErrorCode::RedactedByContract,
                "the tool answered, and its contract keeps all of the answer back",
            );
        }
        let summary = mapped.ui_facing_summary.as_ref().map_or(0, String::len) as u64;
        let bytes = size(mapped) + modifiers_size(mapped) + names_size(mapped) + summary;
        let lost = outputs(mapped);
        let mut taken = std::mem::take(mapped);
        let ran = taken.ran;
        let usage = taken.usage.clone();
        let hidden = (bytes <= INLINE_BYTES_MAX as u64).then(|| concealer.hide_output(&mut taken));
        let is_long = hidden.is_none() || !concealer.is_light();
        let work = move || {
            let mut places = hidden.unwrap_or_else(|| concealer.hide_output(&mut taken));
            concealer.redact_output(&mut taken, &mut places, &mut meter(is_long));
            (taken, places, concealer)
        };
        let what = "redacting the answer";
        // A call that is canceled meanwhile returns no output, because it is not redacted yet.
        match self.checks.run_if(is_long, what, work).await {
            Ok((redacted, places, concealer)) => {
                *mapped = redacted;
                self.redacted(concealer, mapped, places);
            }
            Err(refusal) => {
                self.everything = true;
                self.places.add_all(refusal.code.as_str(), lost);
                (mapped.ran, mapped.usage) = (ran, usage);
                mapped.lose(refusal);
                mapped.hide_names();
            }
        }
    }

    fn redacted(
        &mut self,
        concealer: Concealer,
        mapped: &mut MappedResult,
        places: RedactedPlaces,
    ) {
        mapped.redacted = true;
        self.learn(concealer);
        self.places.extend(places);
        if let Some(why) = self.terms.too_many().filter(|_| mapped.has_output()) {
            self.everything = true;
            let code = ErrorCode::TooManySensitiveValues;
            self.places.add_all(code.as_str(), outputs(mapped));
            let refusal = Refusal::new(code, why).with_class(ErrorClass::ResultRedacted);
            mapped.withhold(refusal);
        }
    }

    /// Removes output and failure words, as the `setting` of the operator or tool says (`redact`).
    pub(in crate::pipeline) fn withhold(&mut self, mapped: &mut MappedResult, setting: &str) {
        self.everything = true;
        self.places.add_all(setting, outputs(mapped));
        if mapped.quotes_tool() && guard!("quiet_results") {
            let message = "the tool failed, and a setting of the operator or of the tool keeps back what it says of that";
            mapped.error = mapped.error.take().map(|error| error.reworded(message));
        }
        let message = "the tool answered, and a setting of the operator or of the tool keeps all of the answer back";
        withhold(mapped, ErrorCode::RedactedBySetting, message);
        mapped.error = mapped
            .error
            .take()
            .map(|error| error.by_policy(format!("setting:{setting}")));
    }
}

/// The result only says that there was output, and why it is missing.
fn withhold(mapped: &mut MappedResult, code: ErrorCode, message: &str) {
    mapped.content.clear();
    mapped.structured_content = None;
    mapped.ui_facing_summary = None;
    mapped.context_modifiers.clear();
    if mapped.error.is_none() {
        mapped.error = Some(Refusal::new(code, message));
    }
}
