//! The answer of a command that prints JSON.

use serde::Deserialize;
use serde_json::{Map, Value};
use toolcell_spec::ErrorCode;

use super::Outcome;
use super::command_files::CommandFiles;
use super::output::{exited, with_files};
use crate::bindings::tool::toolcell::tool::types::{ErrorClass, ToolError};
use crate::world::answer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrintedAnswer {
    #[serde(default)]
    structured: Map<String, Value>,
    #[serde(default)]
    content: Vec<Value>,
    error: Option<PrintedError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrintedError {
    code: String,
    message: String,
    #[serde(default)]
    kind: PrintedErrorKind,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PrintedErrorKind {
    InvalidArguments,
    #[default]
    ExecutionFailed,
}

/// A status other than 0 is a failure, whatever was printed.
pub(super) fn outcome(
    status: i32,
    (stdout, stderr): (Vec<u8>, Vec<u8>),
    made: CommandFiles,
) -> Outcome {
    let failed = (status != 0).then(|| exited(status, &stderr));
    let (printed, failed) = match (serde_json::from_slice::<PrintedAnswer>(&stdout), failed) {
        (Ok(printed), failed) => (printed, failed),
        (Err(_), Some(failed)) => return Outcome::Failure(failed),
        (Err(error), None) => {
            let message = format!("the command did not print the JSON of an answer: {error}");
            let code = ErrorCode::ContentInvalid.as_str();
            return answer::failure(ErrorClass::ExecutionFailed, code, message);
        }
    };
    let failed = failed.or(printed.error.map(PrintedError::into_error));
    with_files(printed.content, printed.structured.into(), failed, made)
}

impl PrintedError {
    fn into_error(self) -> ToolError {
        let class = match self.kind {
            PrintedErrorKind::InvalidArguments => ErrorClass::InvalidArguments,
            PrintedErrorKind::ExecutionFailed => ErrorClass::ExecutionFailed,
        };
        answer::error(class, self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(status: i32, text: &str) -> Outcome {
        let streams = (text.as_bytes().to_vec(), b"why".to_vec());
        outcome(status, streams, CommandFiles::default())
    }

    #[test]
    fn what_a_command_prints_is_its_answer() {
        let Outcome::Success(output) = printed(
            0,
            r#"{"structured": {"n": 1}, "content": [{"type": "text", "text": "a"}]}"#,
        ) else {
            panic!()
        };
        assert_eq!(output.structured.unwrap(), r#"{"n":1,"files":[]}"#);
        assert_eq!(output.content, r#"[{"type":"text","text":"a"}]"#);
        let text = r#"{"structured": {}, "error": {"code": "a_b", "message": "c", "kind": "invalid_arguments"}}"#;
        let Outcome::Partial(partial) = printed(0, text) else {
            panic!()
        };
        assert_eq!(
            (partial.error.code.as_str(), partial.error.message.as_str()),
            ("a_b", "c")
        );
    }

    #[test]
    fn a_command_that_fails_or_prints_something_else_is_a_failure() {
        let Outcome::Partial(partial) = printed(3, r#"{"structured": {"n": 1}}"#) else {
            panic!()
        };
        assert_eq!(partial.error.code, "exit_3");
        assert!(partial.output.structured.unwrap().contains(r#""n":1"#));
        let Outcome::Failure(error) = printed(1, "text") else {
            panic!()
        };
        assert!(error.message.ends_with(": why"), "{}", error.message);
        for text in ["", "text", "[]", r#"{"other": 1}"#, r#"{"structured": 1}"#] {
            assert!(matches!(printed(0, text), Outcome::Failure(_)), "{text}");
        }
    }
}
