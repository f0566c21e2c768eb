//! The answer of a command.

use data_encoding::BASE64;
use serde_json::{Value, json};
use toolcell_spec::{ARTIFACT, ErrorCode};

use super::Outcome;
use super::command_files::CommandFiles;
use crate::bindings::tool::exports::toolcell::tool::guest::{Output, PartialOutput};
use crate::bindings::tool::toolcell::tool::types::{ErrorClass, ToolError};
use crate::world::answer;

const TAIL_BYTES: usize = 2_000;

/// Its files could not be given to the command.
pub(super) fn not_started(why: String) -> Outcome {
    let code = ErrorCode::FilesNotWritten.as_str();
    answer::failure(ErrorClass::InvalidArguments, code, why)
}

/// A failed command is partial, because what it printed and made may say why.
pub(super) fn outcome(
    status: i32,
    (stdout, stderr): (Vec<u8>, Vec<u8>),
    made: CommandFiles,
) -> Outcome {
    let failed = (status != 0).then(|| exited(status, &stderr));
    let fields = json!({ "exit_code": status, "stdout": data(stdout), "stderr": data(stderr) });
    with_files(Vec::new(), fields, failed, made)
}

pub(super) fn exited(status: i32, stderr: &[u8]) -> ToolError {
    let end = tail(stderr);
    let colon = if end.is_empty() { "" } else { ": " };
    let message = format!("the command exited with status {status}{colon}{end}");
    answer::error(
        ErrorClass::ExecutionFailed,
        format!("exit_{status}"),
        message,
    )
}

/// Adds the files that the command made to its content, and to the fields of its output.
pub(super) fn with_files(
    mut content: Vec<Value>,
    mut structured: Value,
    failed: Option<ToolError>,
    made: CommandFiles,
) -> Outcome {
    let code = ErrorCode::FilesNotKept.as_str();
    let lost = made
        .problem
        .map(|why| answer::error(ErrorClass::PartialFailure, code, why));
    let block = |(_, reference): &(_, String)| json!({ "type": ARTIFACT, "reference": reference });
    content.extend(made.kept.iter().map(block));
    let files: Vec<Value> = made
        .kept
        .iter()
        .map(|(path, reference)| json!({ "path": path, "reference": reference }))
        .collect();
    if let Some(fields) = structured.as_object_mut() {
        fields.insert("files".to_owned(), files.into());
        if made.left_out > 0 {
            fields.insert("files_left_out".to_owned(), made.left_out.into());
        }
    }
    let output = Output {
        content: Value::from(content).to_string(),
        structured: Some(structured.to_string()),
        ui_summary: None,
    };
    match (failed, lost) {
        (None, None) => Outcome::Success(output),
        (Some(mut failed), Some(lost)) => {
            failed.message = format!("{}; {}", lost.message, failed.message);
            Outcome::Partial(PartialOutput {
                output,
                error: failed,
            })
        }
        (Some(error), None) | (None, Some(error)) => {
            Outcome::Partial(PartialOutput { output, error })
        }
    }
}

/// Base64 of what is not UTF-8.
fn data(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => Value::String(text),
        Err(error) => json!({ "base64": BASE64.encode(error.as_bytes()) }),
    }
}

fn tail(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(TAIL_BYTES);
    String::from_utf8_lossy(bytes.get(start..).unwrap_or_default())
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use crate::bindings::tool::exports::toolcell::tool::guest::PartialOutput;
    use serde_json::{Value, json};

    use super::{CommandFiles, Outcome, outcome};

    fn printed(stdout: &[u8], stderr: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (stdout.to_vec(), stderr.to_vec())
    }

    fn made(problem: Option<&str>) -> CommandFiles {
        let kept = vec![("out/a.png".to_owned(), "toolcell:artifact/1".to_owned())];
        CommandFiles {
            kept,
            left_out: 0,
            problem: problem.map(str::to_owned),
        }
    }

    #[test]
    fn what_a_command_printed_and_made_is_its_output() {
        let Outcome::Success(output) = outcome(0, printed(b"a\n", &[0xff]), made(None)) else {
            panic!()
        };
        let structured: Value = serde_json::from_str(&output.structured.unwrap()).unwrap();
        let files = json!([{ "path": "out/a.png", "reference": "toolcell:artifact/1" }]);
        let all = json!({ "exit_code": 0, "stdout": "a\n", "stderr": { "base64": "/w==" }, "files": files });
        assert_eq!(structured, all);
        let content: Value = serde_json::from_str(&output.content).unwrap();
        assert_eq!(
            content,
            json!([{ "type": "artifact_ref", "reference": "toolcell:artifact/1" }])
        );
    }

    #[test]
    fn a_command_that_fails_keeps_its_output_and_the_end_of_its_errors() {
        let long = [b"x".repeat(5_000), b" no such file \n".to_vec()].concat();
        let Outcome::Partial(PartialOutput { output, error }) =
            outcome(3, printed(b"half", &long), made(None))
        else {
            panic!()
        };
        assert!(output.structured.unwrap().contains("half"));
        assert_eq!(error.code, "exit_3");
        assert!(
            error
                .message
                .starts_with("the command exited with status 3: x"),
            "{}",
            error.message
        );
        assert!(error.message.ends_with("no such file") && error.message.len() < 2_100);
        let Outcome::Partial(PartialOutput { error, .. }) =
            outcome(1, printed(b"", b""), made(Some("too many")))
        else {
            panic!()
        };
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("exit_1", "too many; the command exited with status 1",)
        );
    }

    #[test]
    fn a_file_that_is_not_kept_makes_the_answer_partial() {
        let Outcome::Partial(PartialOutput { error, .. }) =
            outcome(0, printed(b"", b""), made(Some("too many")))
        else {
            panic!()
        };
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("files_not_kept", "too many")
        );
    }
}
