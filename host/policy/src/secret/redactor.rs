mod terms;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use toolcell_spec::regex_search::{SearchMeter, SearchPattern};
use toolcell_spec::{Input, decoded, plain_name};

use super::scrubber::{ScrubStream, Scrubber};
use super::seen::{RedactionCause, SeenCauses};

use terms::{ALONE_BYTES_MIN, ANYWHERE_BYTES_MIN, TermKind};
pub use terms::{RedactionTerm, RedactionTerms};

/// Replaces a value that the tool's contract marks as sensitive.
pub const REDACTED: &str = "[redacted]";

/// Budget of searches while a guest runs, where other calls wait. Time between two texts does not count.
#[derive(Default)]
pub struct SpokenMeter(Option<SearchMeter>);

impl SpokenMeter {
    fn search<T>(&mut self, search: impl FnOnce(&mut SearchMeter) -> T) -> T {
        let meter = self.0.get_or_insert_with(SearchMeter::inline);
        meter.go_on();
        let done = search(meter);
        meter.pause();
        done
    }
}

/// Redacts terms and patterns. The default redacts nothing, and costs nothing.
#[derive(Clone, Default)]
pub struct Redactor(Option<Arc<RedactorData>>, SeenCauses);

#[derive(Default)]
struct RedactorData {
    scrubber: Option<Arc<Scrubber>>,
    alone: Vec<Zeroizing<String>>,
    /// Sorted, and too short to be told from noise, for outputs only.
    short: Vec<Zeroizing<String>>,
    /// Short numbers, which a tool can write differently.
    numbers: Vec<f64>,
    /// Redacts every `true` and `false` of an output.
    booleans: bool,
    fields: BTreeSet<String>,
    patterns: Vec<SearchPattern>,
    /// Withholds all that a running guest reports.
    silent: bool,
    /// Redacts every text, because there is too much to search for.
    blind: bool,
}

impl Redactor {
    /// `silent` withholds texts of progress. Takes time in proportion to the bytes of the terms.
    pub fn new(terms: &RedactionTerms, patterns: &[SearchPattern], silent: bool) -> Self {
        let mut inner = RedactorData {
            patterns: patterns.to_vec(),
            silent,
            ..RedactorData::default()
        };
        inner.blind = terms.too_many().is_some();
        let needles = if inner.blind {
            Vec::new()
        } else {
            terms.needles()
        };
        if !needles.is_empty() {
            let scrubber = Scrubber::new(needles);
            inner.blind = scrubber.is_err();
            inner.scrubber = scrubber.ok().map(Arc::new);
        }
        let short = |term: &&RedactionTerm| {
            (ALONE_BYTES_MIN..ANYWHERE_BYTES_MIN).contains(&term.value.len())
        };
        inner.alone = terms
            .0
            .iter()
            .filter(short)
            .map(|term| term.value.clone())
            .collect();
        inner
            .alone
            .sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        if guard!("sensitive_short") {
            let tiny = terms
                .0
                .iter()
                .filter(|term| term.kind == TermKind::Short && !term.value.is_empty());
            inner.short = tiny.map(|term| term.value.clone()).collect();
            inner
                .short
                .sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
            inner.booleans = terms.0.iter().any(|term| term.kind == TermKind::Boolean);
            inner.numbers = inner
                .short
                .iter()
                .chain(&inner.alone)
                .filter_map(|text| text.parse().ok())
                .collect();
        }
        if guard!("sensitive_places") {
            inner.fields.clone_from(&terms.1);
        }
        let idle = inner.scrubber.is_none()
            && inner.alone.is_empty()
            && patterns.is_empty()
            && !silent
            && !inner.blind;
        let idle = idle && !inner.looks_into_outputs();
        Self((!idle).then(|| Arc::new(inner)), SeenCauses::default())
    }

    /// For when it is unknown what must not be shown.
    pub fn blind() -> Self {
        let blind = RedactorData {
            blind: true,
            silent: true,
            ..RedactorData::default()
        };
        Self(Some(Arc::new(blind)), SeenCauses::default())
    }

    /// A copy that notes why it redacts, for [`Self::causes`].
    #[must_use]
    pub fn watched(&self) -> Self {
        Self(self.0.clone(), SeenCauses::watched())
    }

    /// Why something was redacted since the last look.
    pub fn causes(&self) -> Vec<RedactionCause> {
        self.1.take()
    }

    fn by_value(&self) {
        self.1.note(RedactionCause::Sensitive);
    }

    pub fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    pub fn is_silent(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.silent)
    }

    /// `None` without terms. Terms redacted only as whole JSON values stay. Fails if bytes in chunks cannot be
    /// redacted: there are patterns, or too many terms.
    pub fn stream(&self) -> Result<Option<ScrubStream>, &'static str> {
        let Some(inner) = self.0.as_ref().filter(|_| guard!("artifact_redaction")) else {
            return Ok(None);
        };
        if inner.blind || !inner.patterns.is_empty() {
            return Err(
                "the call has more sensitive values, or patterns, than can be searched for in a file",
            );
        }
        Ok(inner.scrubber.clone().map(ScrubStream::new))
    }

    /// Redacts the whole text if a pattern search exceeds `meter`.
    fn text<'a>(&self, text: &'a str, meter: &mut SearchMeter) -> Cow<'a, str> {
        let Some(inner) = &self.0 else {
            return Cow::Borrowed(text);
        };
        if inner.blind {
            self.by_value();
            return Cow::Borrowed(REDACTED);
        }
        let note = |label: &str| {
            self.1.note(if label == REDACTED {
                RedactionCause::Sensitive
            } else {
                RedactionCause::Secret
            });
        };
        let scrubbed = inner
            .scrubber
            .as_ref()
            .and_then(|scrubber| scrubber.scrub_noting(text.as_bytes(), note));
        let mut text = match scrubbed {
            Some(bytes) => Cow::Owned(lossy(bytes)),
            None => Cow::Borrowed(text),
        };
        for (at, pattern) in inner.patterns.iter().enumerate() {
            let replaced = pattern.replace(&text, REDACTED, meter);
            if !matches!(replaced, Ok(None)) {
                self.1.note(RedactionCause::Pattern(at));
            }
            match replaced {
                Ok(Some(replaced)) => text = Cow::Owned(replaced),
                Ok(None) => {}
                Err(_) => return Cow::Borrowed(REDACTED),
            }
        }
        text
    }

    /// For small texts; returns whether it changed.
    pub fn redact_text(&self, text: &mut String) -> bool {
        !self.is_idle() && self.redact_text_within(text, &mut SearchMeter::inline())
    }

    /// Like [`Self::redact_output_text`], while a guest runs.
    pub fn redact_spoken_text(&self, text: &mut String, meter: &mut SpokenMeter) -> bool {
        !self.is_idle() && meter.search(|meter| self.redact_output_text(text, meter))
    }

    /// Like [`Self::redact_output`], while a guest runs.
    pub fn redact_spoken(&self, value: &mut Value, meter: &mut SpokenMeter) -> bool {
        !self.is_idle() && meter.search(|meter| self.redact_output(value, meter))
    }

    /// Like [`Self::redact_text`], within `meter`.
    pub fn redact_text_within(&self, text: &mut String, meter: &mut SearchMeter) -> bool {
        let Some(redacted) = self.changed(text, meter) else {
            return false;
        };
        *text = redacted;
        true
    }

    /// For small values, names of fields included; returns whether it changed.
    pub fn redact(&self, value: &mut Value) -> bool {
        !self.is_idle() && self.redact_within(value, &mut SearchMeter::inline())
    }

    /// Like [`Self::redact`], within `meter`.
    pub fn redact_within(&self, value: &mut Value, meter: &mut SearchMeter) -> bool {
        self.redact_value(value, None, meter)
    }

    /// Like [`Self::redact_within`], but also by place, and for short values that are a whole value or a whole word.
    pub fn redact_output(&self, value: &mut Value, meter: &mut SearchMeter) -> bool {
        let inner = self.0.as_ref().filter(|inner| inner.looks_into_outputs());
        self.redact_value(value, inner.map(Arc::as_ref), meter)
    }

    /// Redacts `value`; `outputs`: what else is redacted in it.
    fn redact_value(
        &self,
        value: &mut Value,
        outputs: Option<&RedactorData>,
        meter: &mut SearchMeter,
    ) -> bool {
        match value {
            _ if self.is_idle() => false,
            Value::Bool(_) | Value::Number(_) if outputs.is_some_and(|of| of.is_short(value)) => {
                self.by_value();
                *value = Value::String(REDACTED.to_owned());
                true
            }
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => match self.changed(&number.to_string(), meter) {
                Some(text) => {
                    *value = Value::String(text);
                    true
                }
                None => false,
            },
            Value::String(text) if outputs.is_some() => self.redact_output_text(text, meter),
            Value::String(text) => self.redact_text_within(text, meter),
            Value::Array(items) => items.iter_mut().fold(false, |found, item| {
                self.redact_value(item, outputs, meter) | found
            }),
            Value::Object(fields) => {
                let mut found = false;
                for (name, field) in fields.iter_mut() {
                    found |= if outputs.is_some_and(|of| of.hides_field(name)) {
                        self.by_value();
                        hide_value(field)
                    } else {
                        self.redact_value(field, outputs, meter)
                    };
                }
                found | self.redact_names(fields, meter)
            }
        }
    }

    /// Like [`Self::redact_text_within`], but JSON is redacted as a value.
    pub fn redact_output_text(&self, text: &mut String, meter: &mut SearchMeter) -> bool {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.looks_into_outputs()) else {
            return self.redact_text_within(text, meter);
        };
        if inner.is_short_text(text.trim()) {
            REDACTED.clone_into(text);
            return true;
        }
        let value = decoded(text);
        let is_json = value.is_some();
        let mut found = false;
        if let Some(mut value) = value
            && self.redact_output(&mut value, meter)
        {
            *text = Input::from_text(text.as_str())
                .with_value(value)
                .text()
                .to_owned();
            found = true;
        }
        // Longer values first: a short one can be a word of them. The words of JSON were looked at as its values.
        found |= self.redact_text_within(text, meter);
        match inner.without_short_words(text).filter(|_| !is_json) {
            Some(redacted) => {
                *text = redacted;
                true
            }
            None => found,
        }
    }

    fn redact_names(&self, fields: &mut Map<String, Value>, meter: &mut SearchMeter) -> bool {
        let renamed: Vec<_> = fields
            .keys()
            .map(|name| self.changed(name, meter))
            .collect();
        let found = renamed.iter().any(Option::is_some);
        if found {
            let old = std::mem::take(fields).into_iter().zip(renamed);
            *fields = old
                .map(|((name, field), renamed)| (renamed.unwrap_or(name), field))
                .collect();
        }
        found
    }

    /// `None` if a whole string, number or field name stays.
    fn changed(&self, text: &str, meter: &mut SearchMeter) -> Option<String> {
        let inner = self.0.as_ref().filter(|_| guard!("redaction"))?;
        if inner
            .alone
            .binary_search_by(|value| value.as_str().cmp(text))
            .is_ok()
        {
            self.by_value();
            return Some(REDACTED.to_owned());
        }
        match self.text(text, meter) {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(same) if std::ptr::eq(same, text) => None,
            Cow::Borrowed(other) => Some(other.to_owned()),
        }
    }
}

impl RedactorData {
    fn looks_into_outputs(&self) -> bool {
        !(self.short.is_empty() && self.alone.is_empty() && self.fields.is_empty()) || self.booleans
    }

    /// Takes out short values that are whole words; `None` if there are none. Takes linear time: at each word few ends
    /// are compared.
    fn without_short_words(&self, text: &str) -> Option<String> {
        if self.short.is_empty() && self.alone.is_empty() && !self.booleans {
            return None;
        }
        let mut redacted = String::new();
        let (mut at, mut kept, mut before) = (0, 0, None);
        while let Some(first) = text.get(at..).and_then(|rest| rest.chars().next()) {
            let is_within = is_in_word(before) && is_in_word(Some(first));
            let word = (!is_within).then(|| self.short_word(text, at, before));
            match word.flatten() {
                Some(word) => {
                    redacted.push_str(text.get(kept..at).unwrap_or_default());
                    redacted.push_str(REDACTED);
                    at += word.len();
                    kept = at;
                    before = word.chars().next_back();
                }
                None => {
                    at += first.len_utf8();
                    before = Some(first);
                }
            }
        }
        (kept > 0).then(|| redacted + text.get(kept..).unwrap_or_default())
    }

    /// The longest short value at `at` that ends as a word does; one without letters and digits must stand alone.
    fn short_word<'t>(&self, text: &'t str, at: usize, before: Option<char>) -> Option<&'t str> {
        (1..ANYWHERE_BYTES_MIN).rev().find_map(|length| {
            let (word, rest) = text.get(at..)?.split_at_checked(length)?;
            let after = rest.chars().next();
            let is_within = is_in_word(word.chars().next_back()) && is_in_word(after);
            let is_sign = !word.chars().any(|c| is_in_word(Some(c)));
            let is_joined = is_sign && (is_in_word(before) || is_in_word(after));
            let is_whole = !(is_within || is_joined || word.trim().is_empty());
            (is_whole && self.is_short_text(word)).then_some(word)
        })
    }

    fn is_short_text(&self, text: &str) -> bool {
        let is_in = |sorted: &[Zeroizing<String>]| {
            sorted
                .binary_search_by(|value| value.as_str().cmp(text))
                .is_ok()
        };
        is_in(&self.short)
            || is_in(&self.alone)
            || (self.booleans && matches!(text, "true" | "false"))
    }

    fn is_short(&self, value: &Value) -> bool {
        match value {
            Value::Bool(_) => self.booleans,
            Value::Number(number) => {
                self.is_short_text(&number.to_string())
                    || number
                        .as_f64()
                        .is_some_and(|number| self.numbers.contains(&number))
            }
            _ => false,
        }
    }

    fn hides_field(&self, name: &str) -> bool {
        !self.fields.is_empty() && self.fields.contains(&plain_name(name).collect::<String>())
    }
}

fn is_in_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Leaves values that say nothing or were redacted before; returns whether it changed.
fn hide_value(value: &mut Value) -> bool {
    let is_hidden = value.is_null() || value.as_str() == Some(REDACTED);
    if !is_hidden {
        *value = Value::String(REDACTED.to_owned());
    }
    !is_hidden
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{REDACTED, RedactionTerm, RedactionTerms, Redactor, SpokenMeter};
    use crate::secret::SecretValue;
    use serde_json::json;
    use toolcell_spec::regex_search::SearchPattern;

    fn terms(of: impl IntoIterator<Item = RedactionTerm>) -> RedactionTerms {
        let mut terms = RedactionTerms::default();
        terms.add(of.into_iter().collect());
        terms
    }

    #[test]
    fn terms_are_taken_out_of_texts_names_and_numbers() {
        let secret = SecretValue::new("s3cr3t-value".to_owned());
        let terms = terms([
            RedactionTerm::secret("KEY", &secret),
            RedactionTerm::sensitive("12345678"),
            RedactionTerm::sensitive("1234"),
        ]);
        let redactor = Redactor::new(&terms, &[], false);
        let mut value = json!({
            "s3cr3t-value": [12345678, 1234, "1234", "no 1234 alone", 12, true],
            "b": "is s3cr3t-value",
        });
        assert!(redactor.redact(&mut value));
        let expected = json!({
            "[secret KEY]": ["[redacted]", "[redacted]", "[redacted]", "no 1234 alone", 12, true],
            "b": "is [secret KEY]",
        });
        assert_eq!(value, expected);
        assert!(!redactor.redact(&mut json!({"a": ["b", 1]})));
    }

    #[test]
    fn outputs_are_redacted_by_place_and_where_they_repeat_a_short_argument() {
        let mut terms = terms([
            RedactionTerm::argument("7"),
            RedactionTerm::argument("abc"),
            RedactionTerm::argument("1.50"),
            RedactionTerm::boolean(),
        ]);
        terms.hide_fields(&["api_key".to_owned()]);
        let redactor = Redactor::new(&terms, &[], false);
        let mut value = json!({
            "n": [7, 7.0, 1.5, 70, "7", " abc\n", "abc 7"], "yes": true, "apiKey": {"x": 1}, "API-KEY": null, "7": 1,
            "text": "{\"large\": 12345678901234567890123, \"n\": [7, 8]}",
            "said": "no abc: 7, 70, abcd, _7, true. (7)", "7.5": "7\u{e9}",
        });
        assert!(redactor.redact_output(
            &mut value,
            &mut toolcell_spec::regex_search::SearchMeter::inline()
        ));
        let r = REDACTED;
        let expected = json!({
            "n": [r, r, r, 70, r, r, "[redacted] [redacted]"], "yes": r, "apiKey": r, "API-KEY": null, "7": 1,
            "text": "{\"large\":12345678901234567890123,\"n\":[\"[redacted]\",8]}",
            "said": "no [redacted]: [redacted], 70, abcd, _7, [redacted]. ([redacted])", "7.5": "7\u{e9}",
        });
        assert_eq!(value, expected);
        // Words of the records stay.
        assert!(!redactor.redact(&mut json!({"attempt": 7, "cached": true, "api_key": "x"})));
    }

    #[test]
    fn all_that_a_guest_says_has_one_budget() {
        // Each `a` matches, and each search reads to the end of the text first.
        let pattern = SearchPattern::compile(".*z|a").unwrap();
        let redactor = Redactor::new(&RedactionTerms::default(), &[pattern], false);
        let mut meter = SpokenMeter::default();
        let mut said = ["soon".to_owned(), "a".repeat(4 << 20), "late".to_owned()];
        for text in &mut said {
            redactor.redact_spoken_text(text, &mut meter);
        }
        assert_eq!(said, ["soon", REDACTED, REDACTED]);
        let mut fields = json!(["too late"]);
        assert!(redactor.redact_spoken(&mut fields, &mut meter));
        assert_eq!(fields, json!([REDACTED]));
    }

    #[test]
    fn nothing_to_take_out_costs_nothing() {
        assert!(Redactor::new(&RedactionTerms::default(), &[], false).is_idle());
        assert!(
            Redactor::new(&terms([RedactionTerm::sensitive("abc")]), &[], false).is_idle(),
            "too short to be told from noise"
        );
        assert!(!Redactor::new(&RedactionTerms::default(), &[], true).is_idle());
    }
}
