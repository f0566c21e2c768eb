use std::fmt;
use std::sync::{Arc, OnceLock};

use data_encoding::HEXLOWER;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

use super::{JSON_VALUES_MAX, exact, read_json};

/// `sha256:` and the hex digest: the form of every content reference.
pub fn digest(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(71);
    text.push_str("sha256:");
    HEXLOWER.encode_append(&Sha256::digest(bytes), &mut text);
    text
}

/// Returns `kind` and as many hex `digits`, the same for the same `text`.
pub fn short_id(kind: &str, text: &str, digits: usize) -> String {
    let digest = digest(text.as_bytes());
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    format!("{kind}:{hex:.digits$}")
}

/// One of a call's four inputs (AT-INP-01..04): text, value and reference. Immutable and cheap to clone.
///
/// ```
/// use toolcell_spec::Input;
///
/// let input = Input::from_text(r#"{"n": 1.0, "all": true}"#);
/// assert_eq!(input.text(), r#"{"n": 1.0, "all": true}"#);
/// assert!(input.same(&Input::from_text(r#"{"all":true,"n":1.0}"#)));
/// assert!(Input::from_text(r#"{"n": 1, "n": 2}"#).value().is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Input(Arc<InputData>);

#[derive(Debug)]
struct InputData {
    text: String,
    value: Result<Arc<Value>, String>,
    reference: OnceLock<Arc<str>>,
}

impl Input {
    /// Invalid JSON is kept with its error. A duplicate key is an error, because the host would check one value, and
    /// the guest might read the other.
    pub fn from_text(text: impl Into<String>) -> Self {
        let text = text.into();
        let value = read_json(&text, JSON_VALUES_MAX).map(|UniqueValue(value)| Arc::new(value));
        Self(Arc::new(InputData {
            text,
            value,
            reference: OnceLock::new(),
        }))
    }

    pub fn from_value(value: Value) -> Self {
        Self(Arc::new(InputData {
            text: value.to_string(),
            value: Ok(Arc::new(value)),
            reference: OnceLock::new(),
        }))
    }

    /// Numbers stay as written here, where they are still at their places.
    pub fn with_value(&self, value: Value) -> Self {
        let Some(numbers) = exact::numbers(&self.0.text) else {
            return Self::from_value(value);
        };
        let text = exact::write(&value, &numbers);
        Self(Arc::new(InputData {
            text,
            value: Ok(Arc::new(value)),
            reference: OnceLock::new(),
        }))
    }

    /// Byte for byte as sent.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    pub fn value(&self) -> Result<&Value, &str> {
        self.0.value.as_deref().map_err(String::as_str)
    }

    /// The text itself if it is not valid JSON.
    pub fn to_value(&self) -> Value {
        match &self.0.value {
            Ok(value) => Value::clone(value),
            Err(_) => Value::String(self.0.text.clone()),
        }
    }

    pub fn shared_value(&self) -> Arc<Value> {
        match &self.0.value {
            Ok(value) => Arc::clone(value),
            Err(_) => Arc::new(self.to_value()),
        }
    }

    pub fn reference(&self) -> &str {
        self.shared_reference()
    }

    pub fn shared_reference(&self) -> &Arc<str> {
        self.0
            .reference
            .get_or_init(|| digest(self.0.text.as_bytes()).into())
    }

    pub(super) fn is_compact(&self) -> bool {
        let written = self.value().map(serde_json::to_string);
        matches!(written, Ok(Ok(text)) if text == self.0.text)
    }

    /// Compares all digits of numbers, but not the order of fields. Invalid JSON equals nothing.
    pub fn same(&self, other: &Self) -> bool {
        let (Ok(value), Ok(of_other)) = (self.value(), other.value()) else {
            return false;
        };
        if value != of_other || self.0.text == other.0.text {
            return value == of_other;
        }
        // Two numbers that differ only in their last digits can have the same value.
        let written = |input: &Self| {
            exact::numbers(&input.0.text).map(|numbers| exact::write(value, &numbers))
        };
        match (written(self), written(other)) {
            (None, None) => true,
            (one, other) => {
                one.unwrap_or_else(|| value.to_string())
                    == other.unwrap_or_else(|| value.to_string())
            }
        }
    }

    /// Numbers as written; none if the text is not valid JSON.
    pub fn numbers(&self) -> impl Iterator<Item = &str> {
        let mut rest = if self.value().is_ok() {
            self.text()
        } else {
            ""
        };
        std::iter::from_fn(move || {
            loop {
                let from = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
                rest = rest.get(from..)?;
                if let Some(string) = rest.strip_prefix('"') {
                    rest = after_string(string)?;
                    continue;
                }
                let end =
                    rest.find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'));
                let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
                rest = after;
                return Some(number);
            }
        })
    }

    /// `true` for the same object, not merely an equal one.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<Value> for Input {
    fn from(value: Value) -> Self {
        Self::from_value(value)
    }
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self::from_text(text)
    }
}

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from_text)
    }
}

fn after_string(text: &str) -> Option<&str> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    text.get(end + 1..)
}

pub(super) struct UniqueValue(pub(super) Value);

impl<'de> Deserialize<'de> for UniqueValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueValue(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((name, UniqueValue(value))) = fields.next_entry::<String, UniqueValue>()? {
            match values.entry(name) {
                Entry::Occupied(entry) if guard!("unique_names") => {
                    return Err(A::Error::custom(format_args!(
                        "duplicate key {:?} in one object",
                        entry.key()
                    )));
                }
                Entry::Occupied(mut entry) => _ = entry.insert(value),
                Entry::Vacant(entry) => _ = entry.insert(value),
            }
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::Input;

    #[test]
    fn the_records_of_an_input_share_its_value() {
        let input = Input::from_text(r#"{"a":[1]}"#);
        assert!(Arc::ptr_eq(
            &input.shared_value(),
            &input.clone().shared_value()
        ));
        assert_eq!(
            (input.to_value(), &*input.shared_value()),
            (json!({"a": [1]}), &json!({"a": [1]}))
        );
        assert_eq!(*Input::from_text("[1").shared_value(), json!("[1"));
    }

    #[test]
    fn inputs_are_the_same_only_if_their_numbers_are() {
        let same = |one: &str, other: &str| Input::from_text(one).same(&Input::from_text(other));
        assert!(same(r#"{"a":1, "b":[]}"#, r#"{"b":[],"a":1}"#));
        assert!(same(
            "[12345678901234567890123]",
            "[ 12345678901234567890123 ]"
        ));
        assert!(!same(
            "[12345678901234567890123]",
            "[12345678901234567890124]"
        ));
        assert!(!same("[1]", "[2]") && !same("[", "["));
    }

    #[test]
    fn a_text_is_compact_if_its_value_is_written_the_same_way() {
        for (text, expected) in [
            (r#"{"b":[1,-2.5,null],"a":"\"\né"}"#, true),
            (r#"{"a": 1}"#, false),
            (r#"{"a":1} "#, false),
            (r#"{"a":1.50}"#, false),
            (r#"{"a":12345678901234567890123}"#, false),
            (r#"{"a":"\u00e9"}"#, false),
            (r#""a""#, true),
            (r#"{"a":1"#, false),
            ("", false),
        ] {
            assert_eq!(Input::from_text(text).is_compact(), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_given_as_they_are_written() {
        let input = Input::from_text(
            r#"{"a-1\"2": [-1.50, 12345678901234567890123,1e2], "\\": "7", "b":true,"c":3}"#,
        );
        assert_eq!(
            input.numbers().collect::<Vec<_>>(),
            ["-1.50", "12345678901234567890123", "1e2", "3"]
        );
        assert_eq!(Input::from_text("[1").numbers().count(), 0);
    }

    #[test]
    fn an_object_names_each_field_once() {
        assert!(
            Input::from_text(r#"{"a": [1, -2, 1.5, true, null, "x"], "b": {"a": 1}}"#)
                .value()
                .is_ok()
        );
        let twice = Input::from_text(r#"{"b": {"a": 1, "a": 2}}"#);
        assert!(twice.value().unwrap_err().contains("duplicate key"));
    }
}
