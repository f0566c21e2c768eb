use serde_json::value::RawValue;
use toolcell_core::record::Input;

/// A call as a model wrote it.
#[derive(Clone, Debug)]
pub struct ModelCall {
    /// The id that the API gave the call. Its result repeats it.
    pub id: String,
    /// The name of a tool, which need not exist.
    pub name: String,
    /// The arguments, which need not be JSON: models make mistakes, and the result of the call says so.
    pub arguments: Input,
}

/// Why a text is no message of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub(super) String);

impl Unreadable {
    /// The error of the part `place` of a message: `output[2]`.
    pub(super) fn at(place: &str, error: &serde_json::Error) -> Self {
        Self(format!("cannot read {place}: {error}"))
    }
}

/// The arguments of a call. OpenAI sends them as a string of JSON, which is empty for some tools without parameters; other
/// servers of its API, and Anthropic, send the value itself. Its text is kept as it was written.
pub(super) fn arguments(written: Option<&RawValue>) -> Input {
    let Some(written) = written.map(RawValue::get) else { return Input::from_text("{}") };
    if !written.starts_with('"') {
        return Input::from_text(written);
    }
    match serde_json::from_str::<String>(written) {
        Ok(text) if text.trim().is_empty() => Input::from_text("{}"),
        Ok(text) => Input::from_text(text),
        // An escape that is half of a character: the call is refused for it.
        Err(_) => Input::from_text(written),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::arguments;

    #[test]
    fn arguments_are_a_string_of_json_or_the_value_itself() {
        let read = |text: &str| arguments(Some(serde_json::from_str::<&RawValue>(text).unwrap()));
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
        assert_eq!(arguments(None).text(), "{}");
    }
}
