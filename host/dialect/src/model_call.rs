use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use toolcell_spec::{ExternalMapping, Extra, Input};

const CHOICE_BYTES_MAX: usize = 1 << 10;

#[derive(Clone, Debug, Deserialize)]
pub struct ModelCall {
    /// From the API; repeated in the result.
    pub id: String,
    /// The tool need not exist.
    pub name: String,
    /// Need not be JSON: models make mistakes, and the result says so. An API without both names has its own type.
    #[serde(
        alias = "input",
        default = "no_arguments",
        deserialize_with = "read_arguments"
    )]
    pub arguments: Input,
}

/// Rules for calls that a message repeats from its request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CallTerms {
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
}

impl CallTerms {
    /// No terms are in a message without them, or in a text that is no JSON object.
    pub fn read(message: &str) -> Self {
        // A list would be read field by field, and arguments of a call would pass for a choice.
        if !message.trim_start().starts_with('{') {
            return Self::default();
        }
        let mut terms: Self = serde_json::from_str(message).unwrap_or_default();
        terms.tool_choice = terms
            .tool_choice
            .filter(|choice| choice.to_string().len() <= CHOICE_BYTES_MAX);
        terms
    }

    pub fn is_serial(&self) -> bool {
        let disabled = self
            .tool_choice
            .as_ref()
            .and_then(|choice| choice.get("disable_parallel_tool_use"));
        self.parallel_tool_calls == Some(false) || disabled == Some(&Value::Bool(true))
    }

    /// The identification of the call by the API `source` (AT-MAP-03); `described` is the model's description.
    pub fn mapping(
        &self,
        source: &str,
        (id, name): (&str, &str),
        described: Option<&Value>,
    ) -> ExternalMapping {
        let is = |field: &str| {
            let function = |described: &Value| {
                described
                    .get("function")
                    .and_then(|function| function.get(field))
                    .cloned()
            };
            described.map(|described| {
                described
                    .get(field)
                    .cloned()
                    .or_else(|| function(described))
                    == Some(true.into())
            })
        };
        let known = [
            ("tool_call_id", Some(id.into())),
            ("function_name", Some(name.into())),
            ("strict", is("strict").map(Value::Bool)),
            ("defer_loading", is("defer_loading").map(Value::Bool)),
            ("tool_choice", self.tool_choice.clone()),
            (
                "parallel_tool_calls",
                self.parallel_tool_calls.map(Value::Bool),
            ),
        ];
        let known = known
            .into_iter()
            .filter_map(|(field, value): (&str, _)| Some((field.to_owned(), value?)));
        ExternalMapping {
            source: source.to_owned(),
            fields: Extra::from_iter(known),
        }
    }
}

/// Why a text is no message of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MessageError(pub(super) String);

impl MessageError {
    pub(super) fn no_object(what: &str) -> Self {
        Self(format!(
            "cannot read a {what}: the text is not a JSON object"
        ))
    }

    /// `place` is a part of a message: `output[2]`.
    pub(super) fn at(place: &str, error: &serde_json::Error) -> Self {
        Self(format!("cannot read {place}: {error}"))
    }
}

#[derive(Deserialize)]
struct ItemKind {
    #[serde(rename = "type")]
    kind: Option<String>,
}

pub(super) fn calls<'a, T: Deserialize<'a> + Into<ModelCall>>(
    place: &str,
    items: Vec<&'a RawValue>,
    kind: Option<&str>,
) -> Result<Vec<ModelCall>, MessageError> {
    let is_call = |item: &RawValue| {
        let read = || serde_json::from_str::<ItemKind>(item.get());
        kind.is_none_or(|kind| read().is_ok_and(|item| item.kind.as_deref() == Some(kind)))
    };
    let calls = items.into_iter().enumerate();
    calls
        .filter(|(_, item)| is_call(item))
        .map(|(at, item)| {
            let call: T = serde_json::from_str(item.get())
                .map_err(|error| MessageError::at(&format!("{place}[{at}]"), &error))?;
            Ok(call.into())
        })
        .collect()
}

pub(super) fn no_arguments() -> Input {
    Input::from_text("{}")
}

/// A string of JSON from OpenAI (empty for some tools without parameters), the value itself from Anthropic and others.
/// Its text is kept as written.
pub(super) fn read_arguments<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Input, D::Error> {
    let Some(written) = Option::<&RawValue>::deserialize(deserializer)?.map(RawValue::get) else {
        return Ok(no_arguments());
    };
    if !written.starts_with('"') {
        return Ok(Input::from_text(written));
    }
    Ok(match serde_json::from_str::<String>(written) {
        Ok(text) if text.trim().is_empty() => no_arguments(),
        Ok(text) => Input::from_text(text),
        // An escape that is half of a character: the call is refused for it.
        Err(_) => Input::from_text(written),
    })
}

#[cfg(test)]
mod tests {
    use super::{CallTerms, no_arguments, read_arguments};

    #[test]
    fn arguments_are_a_string_of_json_or_the_value_itself() {
        let read =
            |text: &str| read_arguments(&mut serde_json::Deserializer::from_str(text)).unwrap();
        for (written, expected) in [
            (r#""{\"n\": 1.0,  \"m\": 2}""#, "{\"n\": 1.0,  \"m\": 2}"),
            (r#"{"n": 1.0,  "m": 2}"#, "{\"n\": 1.0,  \"m\": 2}"),
            (r#""""#, "{}"),
            (r#""{\"n\": ""#, "{\"n\": "),
            (r#""\ud800""#, r#""\ud800""#),
        ] {
            assert_eq!(read(written).text(), expected);
        }
        assert!(read(r#""{\"n\": ""#).value().is_err() && read(r#""\ud800""#).value().is_err());
        assert_eq!((read("null").text(), no_arguments().text()), ("{}", "{}"));
    }

    #[test]
    fn a_list_of_calls_has_no_terms() {
        let read = |message: &str| CallTerms::read(message).tool_choice;
        assert!(read(r#" {"tool_choice": "any"}"#).is_some());
        assert_eq!(
            read(r#"[{"type": "tool_use", "id": "a", "name": "t", "input": {"password": "x"}}]"#),
            None
        );
    }
}
