use std::borrow::Cow;
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;
use zeroize::Zeroizing;

use super::SecretValue;
use super::scrubber::{self, Look, Needle, Scrubber};

/// What stands for a value that the tool's contract calls sensitive.
pub const REDACTED: &str = "[redacted]";

/// Values of fewer bytes are taken out at their place only: anywhere else they could not be told from noise.
const ANYWHERE_BYTES_MIN: usize = 8;
/// Values of at least this many bytes are also taken out where a JSON string or number is that value, and no more.
const ALONE_BYTES_MIN: usize = 4;

/// Sensitive values longer than this are looked for as they are, not in encoded forms.
const ENCODED_BYTES_MAX: usize = 4 << 10;
/// Bytes of sensitive values that one call looks for in encoded forms, and bytes of such that it looks for at all. What
/// is beyond is taken out at its place only. Values of secrets are always looked for in all forms.
const ENCODED_BYTES_TOTAL: usize = 32 << 10;
const LOOKED_FOR_BYTES_TOTAL: usize = 512 << 10;

/// Something that must not be shown, and what is shown instead.
#[derive(Clone, PartialEq, Eq)]
pub struct Term {
    value: Zeroizing<String>,
    label: Arc<str>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Secret,
    Sensitive,
}

impl Term {
    /// The value of the secret `name`.
    pub fn secret(name: &str, value: &SecretValue) -> Self {
        Self::new(value.expose(), scrubber::label(name), Kind::Secret)
    }

    /// A value that a contract calls sensitive.
    pub fn sensitive(value: &str) -> Self {
        Self::new(value, REDACTED, Kind::Sensitive)
    }

    fn new(value: &str, label: impl Into<Arc<str>>, kind: Kind) -> Self {
        Self { value: Zeroizing::new(value.to_owned()), label: label.into(), kind }
    }
}

/// Takes terms, and what matches patterns, out of texts and values. The default takes out nothing, and costs nothing.
#[derive(Clone, Default)]
pub struct Redactor(Option<Arc<Inner>>);

#[derive(Default)]
struct Inner {
    scrubber: Option<Scrubber>,
    /// Short values.
    alone: Vec<Zeroizing<String>>,
    patterns: Vec<Regex>,
    /// What a guest says while it runs is not shown at all.
    silent: bool,
    /// There was more to look for than can be looked for: every text is taken out.
    blind: bool,
}

impl Redactor {
    /// A redactor of `terms` and of what matches `patterns`; `silent` withholds the words of progress altogether.
    pub fn new(terms: &[Term], patterns: &[Regex], silent: bool) -> Self {
        let needles = needles(terms);
        let mut inner = Inner { patterns: patterns.to_vec(), silent, ..Inner::default() };
        if !needles.is_empty() {
            let scrubber = Scrubber::new(needles);
            inner.blind = scrubber.is_err();
            inner.scrubber = scrubber.ok();
        }
        let short = |term: &&Term| (ALONE_BYTES_MIN..ANYWHERE_BYTES_MIN).contains(&term.value.len());
        inner.alone = terms.iter().filter(short).map(|term| term.value.clone()).collect();
        let idle = inner.scrubber.is_none() && inner.alone.is_empty() && patterns.is_empty() && !silent && !inner.blind;
        Self((!idle).then(|| Arc::new(inner)))
    }

    /// Whether there is nothing to take out.
    pub fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the words of progress are withheld.
    pub fn is_silent(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.silent)
    }

    /// `text` without what must not be shown; borrowed where nothing was found.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(inner) = &self.0 else { return Cow::Borrowed(text) };
        if inner.blind {
            return Cow::Borrowed(REDACTED);
        }
        let scrubbed = inner.scrubber.as_ref().and_then(|scrubber| scrubber.scrub(text.as_bytes()));
        let mut text = match scrubbed {
            Some(bytes) => Cow::Owned(lossy(bytes)),
            None => Cow::Borrowed(text),
        };
        for pattern in &inner.patterns {
            if let Cow::Owned(replaced) = pattern.replace_all(&text, regex::NoExpand(REDACTED)) {
                text = Cow::Owned(replaced);
            }
        }
        text
    }

    /// Takes out of `text` what must not be shown, and answers whether there was any.
    pub fn redact_text(&self, text: &mut String) -> bool {
        let Some(redacted) = self.changed(text) else { return false };
        *text = redacted;
        true
    }

    /// Takes out of `value`, names of fields included, what must not be shown, and answers whether there was any.
    pub fn redact(&self, value: &mut Value) -> bool {
        if self.is_idle() {
            return false;
        }
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => match self.changed(&number.to_string()) {
                Some(text) => {
                    *value = Value::String(text);
                    true
                }
                None => false,
            },
            Value::String(text) => self.redact_text(text),
            Value::Array(items) => items.iter_mut().fold(false, |found, item| self.redact(item) | found),
            Value::Object(fields) => {
                let mut found = fields.values_mut().fold(false, |found, field| self.redact(field) | found);
                if fields.keys().any(|name| self.changed(name).is_some()) {
                    let renamed = std::mem::take(fields).into_iter();
                    *fields = renamed.map(|(name, field)| (self.changed(&name).unwrap_or(name), field)).collect();
                    found = true;
                }
                found
            }
        }
    }

    /// What `text`, all of a string, a number or a name, becomes; `None` where it stays.
    fn changed(&self, text: &str) -> Option<String> {
        let inner = self.0.as_ref()?;
        if inner.alone.iter().any(|value| **value == *text) {
            return Some(REDACTED.to_owned());
        }
        match self.text(text) {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(same) if std::ptr::eq(same, text) => None,
            Cow::Borrowed(other) => Some(other.to_owned()),
        }
    }
}

/// What is looked for anywhere in a text, and how.
fn needles(terms: &[Term]) -> Vec<Needle<'_>> {
    let (mut encoded_left, mut left) = (ENCODED_BYTES_TOTAL, LOOKED_FOR_BYTES_TOTAL);
    let mut needles = Vec::new();
    for term in terms.iter().filter(|term| term.value.len() >= ANYWHERE_BYTES_MIN) {
        let length = term.value.len();
        let look = match term.kind {
            Kind::Secret => Look::Forms,
            Kind::Sensitive if length > left => continue,
            Kind::Sensitive => {
                left -= length;
                if length <= ENCODED_BYTES_MAX.min(encoded_left) {
                    encoded_left -= length;
                    Look::Forms
                } else {
                    Look::Chunks
                }
            }
        };
        needles.push(Needle { value: term.value.as_bytes(), label: &term.label, look });
    }
    needles
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Redactor, Term};
    use crate::secret::SecretValue;
    use serde_json::json;

    #[test]
    fn terms_are_taken_out_of_texts_names_and_numbers() {
        let secret = SecretValue::new("s3cr3t-value".to_owned());
        let terms = [Term::secret("KEY", &secret), Term::sensitive("12345678"), Term::sensitive("1234")];
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
    fn nothing_to_take_out_costs_nothing() {
        assert!(Redactor::new(&[], &[], false).is_idle());
        assert!(Redactor::new(&[Term::sensitive("abc")], &[], false).is_idle(), "too short to be told from noise");
        assert!(!Redactor::new(&[], &[], true).is_idle());
    }
}
