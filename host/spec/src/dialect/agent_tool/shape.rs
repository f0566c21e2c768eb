//! Values that a field may have: the types of the records decide, through serde.

use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::findings::{Findings, ToolkitPlace};

const SHOWN_CHARS_MAX: usize = 60;

pub(super) struct ObjectShape {
    pub(super) name: &'static str,
    pub(super) fields: &'static [FieldShape],
    /// `true` if its field names are common words, which mean something only here.
    pub(super) common_names: bool,
}

#[derive(Clone, Copy)]
pub(super) struct FieldShape {
    pub(super) name: &'static str,
    pub(super) shape: ValueShape,
    pub(super) required: bool,
    /// `true` if losing the field would widen the tool.
    pub(super) narrows: bool,
}

pub(super) type FieldCheck = fn(&Value) -> Result<(), String>;

#[derive(Clone, Copy)]
pub(super) enum ValueShape {
    Is(FieldCheck),
    Each(FieldCheck),
    Object(&'static ObjectShape),
    Objects(&'static ObjectShape),
    Look(fn(&mut Findings, &ToolkitPlace<'_>, &Value)),
    Refused(&'static str),
    Hint(&'static str),
    /// Advice for a limit that cannot be honoured: calls are refused.
    Gap(&'static str),
}

impl FieldShape {
    pub(super) const fn new(name: &'static str, shape: ValueShape) -> Self {
        Self {
            name,
            shape,
            required: false,
            narrows: false,
        }
    }

    pub(super) const fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    pub(super) const fn narrows(self) -> Self {
        Self {
            narrows: true,
            ..self
        }
    }
}

pub(super) fn hold(
    findings: &mut Findings,
    place: &ToolkitPlace<'_>,
    field: &FieldShape,
    value: &Value,
    inside: fn(&mut Findings, &ToolkitPlace<'_>, &'static ObjectShape, &Value),
) {
    match field.shape {
        ValueShape::Is(check) => report(findings, place, check(value)),
        ValueShape::Look(look) => look(findings, place, value),
        ValueShape::Object(_) if value.is_null() => {}
        ValueShape::Object(object) => inside(findings, place, object, value),
        ValueShape::Each(_) | ValueShape::Objects(_) => match value {
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    let place = place.item(at);
                    match field.shape {
                        ValueShape::Each(check) => report(findings, &place, check(item)),
                        ValueShape::Objects(object) => inside(findings, &place, object, item),
                        _ => {}
                    }
                }
            }
            _ => findings.error(place, "is not a list"),
        },
        ValueShape::Refused(_) | ValueShape::Hint(_) | ValueShape::Gap(_)
            if says_nothing(value) => {}
        ValueShape::Gap(advice) => findings.gap(place, advice),
        ValueShape::Refused(advice) => {
            findings.error(place, format!("this host does not honour it: {advice}"))
        }
        ValueShape::Hint(instead) => findings.note(
            place,
            format!("a hint that this host does not use; {instead}"),
        ),
    }
}

fn report(findings: &mut Findings, place: &ToolkitPlace<'_>, checked: Result<(), String>) {
    if let Err(problem) = checked {
        findings.error(place, problem);
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

pub(super) fn is<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    T::deserialize(value)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Accepts `null` too.
pub(super) fn word<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    match value {
        Value::Null => Ok(()),
        _ => known_word::<T>(value),
    }
}

pub(super) fn known_word<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    T::deserialize(value)
        .map(drop)
        .map_err(|_| none_of(value, words::<T>()))
}

pub(super) fn none_of(value: &Value, words: &[&str]) -> String {
    format!(
        "{} is not a word that this host knows here; there are: {}",
        shown(value),
        words.join(", ")
    )
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!(
            "{:?}",
            text.chars().take(SHOWN_CHARS_MAX).collect::<String>()
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn words<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut words: &'static [&'static str] = &[];
    // Deserialization always fails, but it passes the variants to the deserializer.
    let _ = T::deserialize(WordList(&mut words));
    words
}

struct WordList<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for WordList<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not an enum"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        Err(Error::custom("there is no value"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
