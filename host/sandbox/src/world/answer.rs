//! Answers of components of other worlds, as outcomes of calls.

use serde_json::json;

use super::Outcome;
use crate::bindings::tool::exports::toolcell::tool::guest::Output;
use crate::bindings::tool::toolcell::tool::types::{ErrorClass, ToolError};

/// A text is content, because it is for reading; any other value is structured output. The pipeline refuses what is not
/// JSON.
pub(super) fn success(json: String) -> Outcome {
    let text = if json.trim_start().starts_with('"') {
        serde_json::from_str::<String>(&json).ok()
    } else {
        None
    };
    match text {
        Some(text) => Outcome::Success(Output {
            content: json!([{ "type": "text", "text": text }]).to_string(),
            ..nothing()
        }),
        None => structured(Some(json)),
    }
}

pub(super) fn structured(json: Option<String>) -> Outcome {
    Outcome::Success(Output {
        structured: json,
        ..nothing()
    })
}

pub(super) fn nothing() -> Output {
    Output {
        content: "[]".to_owned(),
        structured: None,
        ui_summary: None,
    }
}

/// The host cuts the component's own words.
pub(super) fn error(class: ErrorClass, code: impl Into<String>, message: String) -> ToolError {
    ToolError {
        class,
        code: code.into(),
        message,
        detail: None,
        retry_after_ms: None,
    }
}

pub(super) fn failure(class: ErrorClass, code: impl Into<String>, message: String) -> Outcome {
    Outcome::Failure(error(class, code, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(json: &str) -> (String, Option<String>) {
        match success(json.to_owned()) {
            Outcome::Success(output) => (output.content, output.structured),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_is_content_and_every_other_value_is_structured_as_it_was_written() {
        let text = (r#"[{"type":"text","text":"a \"b\""}]"#.to_owned(), None);
        assert_eq!(output(r#" "a \"b\"" "#), text);
        for json in [
            "{\"n\":1.10}",
            "[1]",
            "null",
            "18446744073709551616",
            "no JSON",
            "\"half",
            "",
        ] {
            assert_eq!(
                output(json),
                ("[]".to_owned(), Some(json.to_owned())),
                "{json}"
            );
        }
    }
}
