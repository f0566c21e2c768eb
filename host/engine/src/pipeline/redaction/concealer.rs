//! Takes sensitive values out of one input or output. It borrows nothing from the call, so that it can run on another
//! thread.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Number, Value};

use crate::catalog::ToolContract;
use toolcell_policy::secret::{REDACTED, RedactionCause, RedactionTerm, RedactionTerms, Redactor};
use toolcell_spec::regex_search::SearchMeter;
use toolcell_spec::{Content, Input, TouchedThing, decoded};

use super::super::map_result::MappedResult;
use super::places::{RedactedPlaces, SECRET, contract_rule};
use super::records;

/// More are built on a thread for checks, because each byte takes some 70 states of the automaton.
const VALUE_BYTES_INLINE_MAX: usize = 256;

#[derive(Clone)]
pub(super) struct Concealer {
    pub(super) contract: Arc<ToolContract>,
    pub(super) terms: Arc<RedactionTerms>,
    pub(super) redactor: Redactor,
    pub(super) whole: bool,
    pub(super) inputs: bool,
    /// The redactor lacks some `terms`.
    pub(super) stale: bool,
    pub(super) renewed: bool,
}

/// Numbers as written, by what the parsed value prints, if that differs.
type NumberSpellings<'a> = HashMap<String, Vec<&'a str>>;

fn written(input: &Input) -> NumberSpellings<'_> {
    let mut found = NumberSpellings::new();
    for number in input.numbers() {
        let held = number
            .parse::<Number>()
            .map(|held| held.to_string())
            .unwrap_or_default();
        if held != number {
            found.entry(held).or_default().push(number);
        }
    }
    found
}

impl Concealer {
    pub(super) fn hide_input(&mut self, input: &Input) -> Value {
        let mut value = input.to_value();
        if self.inputs {
            let contract = Arc::clone(&self.contract);
            let mut gathered = HiddenValues {
                written: written(input),
                terms: Vec::new(),
                input_of: Some(&contract),
            };
            let all = value
                .as_object()
                .filter(|_| self.whole)
                .into_iter()
                .flat_map(|fields| fields.keys());
            let names =
                Arc::make_mut(&mut self.terms).hide_fields(all.chain(contract.sensitive_names()));
            self.stale |= names;
            let mut hide = |_: &str, place: &mut Value| gathered.hide(place);
            match &mut value {
                // The input is not an object, so the sensitive fields in it cannot be located.
                value if !value.is_object() => hide("", value),
                Value::Object(fields) if self.whole => {
                    fields.values_mut().for_each(|field| hide("", field))
                }
                value => contract.each_sensitive(value, &mut hide),
            }
            let terms = gathered.terms;
            self.keep_back(terms);
        }
        value
    }

    /// Removes what the contract redacts, adds its values to the terms, and returns the places.
    pub(super) fn hide_output(&mut self, mapped: &mut MappedResult) -> RedactedPlaces {
        let mut places = RedactedPlaces::default();
        let mut gathered = HiddenValues::default();
        if let Some(structured) = &mut mapped.structured_content {
            self.contract
                .each_redacted(structured, &mut |rule, at, place| {
                    places.add(&contract_rule(rule), format!("/structured_content{at}"));
                    gathered.hide(place);
                });
        }
        if self.contract.redacts_output() {
            for (at, block) in mapped.content.iter_mut().enumerate() {
                for rule in self.hide_in_text(block, &mut gathered) {
                    places.add(&contract_rule(rule), format!("/content/{at}"));
                }
            }
        }
        for (at, modifier) in mapped.context_modifiers.iter_mut().enumerate() {
            // By its number, because a place must not name a key that may be redacted.
            let mut hide = |rule: usize, _: &str, place: &mut Value| {
                places.add(&contract_rule(rule), format!("/context_modifiers/{at}"));
                gathered.hide(place);
            };
            // The rules name fields of the output, and a tool can repeat such a field here, or the whole output.
            let mut field = Value::from_iter([(modifier.key.as_str(), modifier.value.take())]);
            self.contract.each_redacted(&mut field, &mut hide);
            modifier.value = field
                .get_mut(&modifier.key)
                .map(Value::take)
                .unwrap_or_default();
            self.contract.each_redacted(&mut modifier.value, &mut hide);
        }
        self.keep_back(gathered.terms);
        places
    }

    fn hide_in_text(&self, block: &mut Content, gathered: &mut HiddenValues<'_>) -> Vec<usize> {
        let Some(Value::String(text)) = block.fields.get_mut("text") else {
            return Vec::new();
        };
        let Some(mut value) = decoded(text) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        self.contract
            .each_redacted(&mut value, &mut |rule, _, place| {
                found.push(rule);
                gathered.hide(place);
            });
        if !found.is_empty() {
            *text = Input::from_text(text.as_str())
                .with_value(value)
                .text()
                .to_owned();
        }
        found
    }

    pub(super) fn redact_output(
        &mut self,
        mapped: &mut MappedResult,
        places: &mut RedactedPlaces,
        meter: &mut SearchMeter,
    ) {
        self.renew();
        let redactor = &self.redactor.watched();
        let by_field = places.rules();
        let mut found = |place: &str, found: bool| {
            if found {
                let rules = self.rules_of(&redactor.causes(), &by_field);
                rules.iter().for_each(|rule| places.add(rule, place));
            }
        };
        for (at, block) in mapped.content.iter_mut().enumerate() {
            found(
                &format!("/content/{at}"),
                records::block(redactor, block, meter),
            );
        }
        if let Some(structured) = &mut mapped.structured_content {
            found(
                "/structured_content",
                redactor.redact_output(structured, meter),
            );
        }
        if let Some(summary) = &mut mapped.ui_facing_summary {
            found(
                "/ui_facing_summary",
                redactor.redact_output_text(summary, meter),
            );
        }
        for (at, modifier) in mapped.context_modifiers.iter_mut().enumerate() {
            let mut field = Value::from_iter([(modifier.key.as_str(), modifier.value.take())]);
            let in_value = redactor.redact_output(&mut field, meter);
            if let Value::Object(field) = field {
                modifier.value = field
                    .into_iter()
                    .next()
                    .map(|(_, value)| value)
                    .unwrap_or_default();
            }
            let in_key = redactor.redact_text_within(&mut modifier.key, meter);
            // By its number, because a place must not name a key that was redacted.
            found(&format!("/context_modifiers/{at}"), in_key | in_value);
        }
        for touched in mapped
            .usage
            .iter_mut()
            .filter_map(|usage| usage.touched.as_mut())
        {
            let mut hide = |hidden: bool, thing: &mut TouchedThing| {
                redactor.redact_output_text(&mut thing.what, meter) | hidden
            };
            found(
                "/usage/touched",
                touched.listed.iter_mut().fold(false, &mut hide),
            );
        }
        if let Some(error) = &mut mapped.error {
            found("/error", records::error(redactor, error, meter));
        }
    }

    /// `by_field` are rules whose values are redacted wherever they are repeated. A value that could be one of theirs
    /// or an argument is told for all of them.
    fn rules_of(&self, causes: &[RedactionCause], by_field: &[String]) -> Vec<String> {
        let mut rules = Vec::new();
        let mut by_value = causes.is_empty();
        for cause in causes {
            match cause {
                RedactionCause::Secret => rules.push(SECRET.to_owned()),
                RedactionCause::Sensitive => by_value = true,
                RedactionCause::Pattern(at) => {
                    rules.extend(self.contract.rule_of_pattern(*at).map(contract_rule));
                }
            }
        }
        if by_value {
            let arguments = self.inputs.then(|| self.argument_rule().to_owned());
            rules.extend(arguments);
            rules.extend(by_field.iter().cloned());
            // A short one has no label of its own.
            if rules.is_empty() {
                rules.push(SECRET.to_owned());
            }
        }
        rules
    }

    /// Why arguments are sensitive.
    pub(super) fn argument_rule(&self) -> &'static str {
        if self.whole && !self.contract.has_sensitive_fields() {
            "permission_profile"
        } else {
            "sensitive_fields"
        }
    }

    pub(super) fn redact(&mut self, value: &mut Value, meter: &mut SearchMeter) {
        self.renew();
        self.redactor.redact_within(value, meter);
    }

    fn keep_back(&mut self, terms: Vec<RedactionTerm>) {
        if !terms.is_empty() {
            self.stale |= Arc::make_mut(&mut self.terms).add(terms);
        }
    }

    pub(super) fn is_light(&self) -> bool {
        !self.stale || self.terms.bytes() <= VALUE_BYTES_INLINE_MAX
    }

    fn renew(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.redactor =
                Redactor::new(&self.terms, self.contract.redacted_patterns(), self.whole);
            self.renewed = true;
        }
    }
}

#[derive(Default)]
struct HiddenValues<'a> {
    written: NumberSpellings<'a>,
    terms: Vec<RedactionTerm>,
    /// The contract for arguments: of them, short values and names that are values count too.
    input_of: Option<&'a ToolContract>,
}

impl HiddenValues<'_> {
    /// Replaces a value with [`REDACTED`] and gathers its content, numbers also as written.
    fn hide(&mut self, place: &mut Value) {
        self.gather(place);
        if !place.is_null() {
            *place = Value::String(REDACTED.to_owned());
        }
    }

    fn gather(&mut self, value: &Value) {
        match value {
            // Text that was redacted before is not a value.
            Value::String(text) if text != REDACTED => {
                self.add(text);
                if let Some(inner) = decoded(text) {
                    self.gather(&inner);
                }
            }
            Value::Number(number) => {
                let held = number.to_string();
                for written in self.written.remove(&held).unwrap_or_default() {
                    self.add(written);
                }
                self.add(&held);
            }
            Value::Bool(_) if self.input_of.is_some() => self.terms.push(RedactionTerm::boolean()),
            Value::Array(items) => items.iter().for_each(|item| self.gather(item)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.gather(field);
                    // A name can be a value too, and nobody knows which is.
                    if self.input_of.is_some_and(|contract| !contract.names(name)) {
                        self.add(name);
                    }
                }
            }
            Value::String(_) | Value::Null | Value::Bool(_) => {}
        }
    }

    fn add(&mut self, text: &str) {
        self.terms.push(if self.input_of.is_some() {
            RedactionTerm::argument(text)
        } else {
            RedactionTerm::sensitive(text)
        });
    }
}
