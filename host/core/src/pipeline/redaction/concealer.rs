//! Takes sensitive values out of one input or one output. It borrows nothing from the call, so that it can run on another
//! thread.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Number, Value};

use crate::catalog::Contract;
use crate::record::{Input, object};
use crate::search::Meter;
use crate::secret::{REDACTED, Redactor, Term, Terms};

use super::super::map_result::Mapped;
use super::records;

/// Maximum bytes of values for which a redactor is built inline, because each takes some 70 states of its automaton.
/// For more it is built on a thread for checks.
const VALUE_BYTES_INLINE_MAX: usize = 256;
/// Maximum number of places of a result that are recorded as redacted.
const PLACES_MAX: usize = 256;

/// Redacts an input, or a result.
#[derive(Clone)]
pub(super) struct Concealer {
    pub(super) contract: Arc<Contract>,
    pub(super) terms: Arc<Terms>,
    pub(super) redactor: Redactor,
    pub(super) whole: bool,
    /// Whether inputs have sensitive fields.
    pub(super) inputs: bool,
    /// The redactor does not contain all `terms` yet.
    pub(super) stale: bool,
    /// The redactor was rebuilt.
    pub(super) renewed: bool,
}

/// Numbers of an input as written, where a parsed value prints them differently, keyed by what the value prints.
type Written<'a> = HashMap<String, Vec<&'a str>>;

fn written(input: &Input) -> Written<'_> {
    let mut found = Written::new();
    for number in input.numbers() {
        let held = number.parse::<Number>().map(|held| held.to_string()).unwrap_or_default();
        if held != number {
            found.entry(held).or_default().push(number);
        }
    }
    found
}

impl Concealer {
    /// Returns `input` without its sensitive fields, and adds their values to the terms.
    pub(super) fn hide_input(&mut self, input: &Input) -> Value {
        let mut value = input.to_value();
        if self.inputs {
            let (mut terms, mut written) = (Vec::new(), written(input));
            let mut hide = |_: &str, place: &mut Value| hide(place, &mut written, &mut terms);
            match &mut value {
                // The input is not JSON, so the sensitive fields in it cannot be located.
                value if input.value().is_err() => hide("", value),
                Value::Object(fields) if self.whole => fields.values_mut().for_each(|field| hide("", field)),
                value => self.contract.each_sensitive(value, &mut hide),
            }
            self.keep_back(terms);
        }
        value
    }

    /// Removes what the contract redacts from `mapped`, adds its values to the terms, and returns the places.
    pub(super) fn hide_output(&mut self, mapped: &mut Mapped) -> BTreeSet<String> {
        let (mut places, mut terms) = (BTreeSet::new(), Vec::new());
        if let Some(structured) = &mut mapped.structured_content {
            self.contract.each_redacted(structured, &mut |at, place| {
                name(&mut places, format!("/structured_content{at}"));
                hide(place, &mut Written::new(), &mut terms);
            });
        }
        for (at, modifier) in mapped.context_modifiers.iter_mut().enumerate() {
            // By its number, because a place must not name a key that may be redacted.
            let mut hide = |_: &str, place: &mut Value| {
                name(&mut places, format!("/context_modifiers/{at}"));
                hide(place, &mut Written::new(), &mut terms);
            };
            // The rules name fields of the output, and a tool can repeat such a field here, or the whole output.
            let mut field = object([(modifier.key.as_str(), modifier.value.take())]);
            self.contract.each_redacted(&mut field, &mut hide);
            modifier.value = field.get_mut(&modifier.key).map(Value::take).unwrap_or_default();
            self.contract.each_redacted(&mut modifier.value, &mut hide);
        }
        self.keep_back(terms);
        places
    }

    /// Removes every term from `mapped`, and adds the places where it found one.
    pub(super) fn redact_output(&mut self, mapped: &mut Mapped, places: &mut BTreeSet<String>, meter: &mut Meter) {
        self.renew();
        let redactor = &self.redactor;
        let mut found = |place: &str, found: bool| {
            if found {
                name(places, place.to_owned());
            }
        };
        for (at, block) in mapped.content.iter_mut().enumerate() {
            found(&format!("/content/{at}"), records::block(redactor, block, meter));
        }
        if let Some(structured) = &mut mapped.structured_content {
            found("/structured_content", redactor.redact_within(structured, meter));
        }
        if let Some(summary) = &mut mapped.ui_facing_summary {
            found("/ui_facing_summary", redactor.redact_text_within(summary, meter));
        }
        for (at, modifier) in mapped.context_modifiers.iter_mut().enumerate() {
            let in_key = redactor.redact_text_within(&mut modifier.key, meter);
            let in_value = redactor.redact_within(&mut modifier.value, meter);
            // By its number, because a place must not name a key that was redacted.
            found(&format!("/context_modifiers/{at}"), in_key | in_value);
        }
        if let Some(error) = &mut mapped.error {
            found("/error", records::error(redactor, error, meter));
        }
    }

    /// Removes every term from `value`.
    pub(super) fn redact(&mut self, value: &mut Value, meter: &mut Meter) {
        self.renew();
        self.redactor.redact_within(value, meter);
    }

    /// Adds `terms` to what is redacted.
    fn keep_back(&mut self, terms: Vec<Term>) {
        if !terms.is_empty() {
            self.stale |= Arc::make_mut(&mut self.terms).add(terms);
        }
    }

    /// Whether the redactor is ready, or quick to build.
    pub(super) fn is_light(&self) -> bool {
        !self.stale || self.terms.bytes() <= VALUE_BYTES_INLINE_MAX || !guard!("redactor_aside")
    }

    fn renew(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.redactor = Redactor::new(&self.terms, self.contract.redacted_patterns(), self.whole);
            self.renewed = true;
        }
    }
}

fn name(places: &mut BTreeSet<String>, place: String) {
    if places.len() < PLACES_MAX {
        places.insert(place);
    }
}

/// Replaces a value with [`REDACTED`], and adds everything in it to `terms`, numbers also as written.
fn hide(place: &mut Value, written: &mut Written<'_>, terms: &mut Vec<Term>) {
    gather(place, written, terms);
    if !place.is_null() {
        *place = Value::String(REDACTED.to_owned());
    }
}

fn gather(value: &Value, written: &mut Written<'_>, terms: &mut Vec<Term>) {
    match value {
        // Text that was redacted before is not a value.
        Value::String(text) if text != REDACTED => terms.push(Term::sensitive(text)),
        Value::Number(number) => {
            let held = number.to_string();
            terms.extend(written.remove(&held).unwrap_or_default().into_iter().map(Term::sensitive));
            terms.push(Term::sensitive(&held));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, written, terms)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, written, terms)),
        Value::String(_) | Value::Null | Value::Bool(_) => {}
    }
}
