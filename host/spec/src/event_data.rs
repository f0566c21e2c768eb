use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use ulid::Ulid;

use super::{Behavior, ErrorClass, ResultStatus, RuleSource, Status};

/// `data` of an event: a JSON object. Each call reports a dozen events, and most are never read: the object is made when it
/// is asked for.
///
/// ```
/// use toolcell_spec::EventData;
/// use serde_json::json;
///
/// let data = EventData::from([("attempt", 1_u64.into()), ("via", "name".into())]);
/// assert_eq!(data["attempt"], 1);
/// assert_eq!(data, json!({ "attempt": 1, "via": "name" }));
/// ```
#[derive(Clone, Default)]
pub struct EventData {
    /// The fields, unless `value` has them.
    said: Vec<(&'static str, EventField)>,
    value: OnceLock<Box<Value>>,
}

/// One field of an event, as the host has it.
#[derive(Clone)]
pub enum EventField {
    Null,
    Bool(bool),
    Number(u64),
    Word(&'static str),
    Text(String),
    Shared(Arc<str>),
    Texts(Vec<String>),
    Id(Ulid),
    Behavior(Behavior),
    Outcome(ResultStatus),
    Value(Box<Value>),
}

impl EventField {
    fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is) => Value::Bool(*is),
            Self::Number(number) => Value::from(*number),
            Self::Word(word) => Value::from(*word),
            Self::Text(text) => Value::from(text.as_str()),
            Self::Shared(text) => Value::from(&**text),
            Self::Texts(texts) => Value::from(texts.as_slice()),
            Self::Id(id) => Value::from(id.to_string()),
            Self::Behavior(behavior) => json!(behavior),
            Self::Outcome(status) => json!(status),
            Self::Value(value) => (**value).clone(),
        }
    }
}

impl Serialize for EventField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(is) => serializer.serialize_bool(*is),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Word(word) => serializer.serialize_str(word),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Shared(text) => serializer.serialize_str(text),
            Self::Texts(texts) => texts.serialize(serializer),
            Self::Id(id) => id.serialize(serializer),
            Self::Behavior(behavior) => behavior.serialize(serializer),
            Self::Outcome(status) => status.serialize(serializer),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}

macro_rules! said_from {
    ($($from:ty, $said:ident => $made:expr;)*) => {$(
        impl From<$from> for EventField {
            fn from($said: $from) -> Self {
                $made
            }
        }
    )*};
}

said_from! {
    bool, said => Self::Bool(said);
    u32, said => Self::Number(said.into());
    u64, said => Self::Number(said);
    &'static str, said => Self::Word(said);
    String, said => Self::Text(said);
    Arc<str>, said => Self::Shared(said);
    Vec<String>, said => Self::Texts(said);
    Ulid, said => Self::Id(said);
    Behavior, said => Self::Behavior(said);
    ResultStatus, said => Self::Outcome(said);
    Status, said => Self::Word(said.as_str());
    RuleSource, said => Self::Word(said.as_str());
    ErrorClass, said => json!(said).into();
    Value, said => Self::Value(Box::new(said));
}

impl<T: Into<EventField>> From<Option<T>> for EventField {
    fn from(said: Option<T>) -> Self {
        said.map_or(Self::Null, Into::into)
    }
}

impl<const N: usize> From<[(&'static str, EventField); N]> for EventData {
    fn from(fields: [(&'static str, EventField); N]) -> Self {
        Self {
            said: fields.into(),
            value: OnceLock::new(),
        }
    }
}

impl From<Value> for EventData {
    fn from(value: Value) -> Self {
        Self {
            said: Vec::new(),
            value: Box::new(value).into(),
        }
    }
}

impl Deref for EventData {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value.get_or_init(|| {
            let fields = self
                .said
                .iter()
                .map(|(name, said)| ((*name).to_owned(), said.to_value()));
            Box::new(Value::Object(fields.collect::<Map<_, _>>()))
        })
    }
}

impl EventData {
    /// The fields, to change them; `None` if it is no object.
    pub fn as_object_mut(&mut self) -> Option<&mut Map<String, Value>> {
        let _ = &**self;
        // The object counts from now on.
        self.said = Vec::new();
        self.value.get_mut()?.as_object_mut()
    }
}

impl PartialEq for EventData {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Value> for EventData {
    fn eq(&self, other: &Value) -> bool {
        **self == *other
    }
}

impl fmt::Debug for EventData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for EventData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value.get() {
            Some(value) => value.serialize(serializer),
            None => serializer.collect_map(self.said.iter().map(|(name, said)| (name, said))),
        }
    }
}

impl<'de> Deserialize<'de> for EventData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_the_same_object_whether_it_was_read_or_not() {
        let made = || {
            EventData::from([
                ("none", None::<bool>.into()),
                ("is", true.into()),
                ("count", 7_u64.into()),
                ("word", "w\n".into()),
                ("text", "t".to_owned().into()),
                ("shared", Arc::<str>::from("s").into()),
                ("id", Ulid::nil().into()),
                ("list", json!([1]).into()),
                ("texts", vec!["x".to_owned()].into()),
                ("behavior", Behavior::Allow.into()),
                ("outcome", ResultStatus::PartialSucceeded.into()),
            ])
        };
        let value = json!({
            "none": null, "is": true, "count": 7, "word": "w\n", "text": "t", "shared": "s",
            "id": Ulid::nil().to_string(), "list": [1],
            "texts": ["x"], "behavior": "allow", "outcome": "partial_succeeded",
        });
        let text = value.to_string();
        let read = made();
        assert_eq!(
            (serde_json::to_string(&made()).unwrap(), &*read),
            (text.clone(), &value)
        );
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(serde_json::from_str::<EventData>(&text).unwrap(), read);
        assert_eq!(serde_json::to_string(&EventData::default()).unwrap(), "{}");
    }

    #[test]
    fn what_is_changed_in_it_counts() {
        let mut data = EventData::from([("a", 1_u64.into())]);
        data.as_object_mut()
            .unwrap()
            .insert("b".to_owned(), json!(2));
        assert_eq!(
            serde_json::to_value(&data).unwrap(),
            json!({ "a": 1, "b": 2 })
        );
        assert_eq!(data, json!({ "a": 1, "b": 2 }));
    }
}
