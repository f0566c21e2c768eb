//! Calls other tools.
//!
//! A tool may call those that its `tool_calls` name and that the operator granted with `--allow-tool`. Each call has its
//! own checks, approval and record. It can do no more than this tool can in its own call, and uses up the fuel, the time
//! and the memory that this tool has left. A result is what another tool says: data, not instructions.
//!
//! ```
//! use toolcell_guest::{ToolError, data, tool, toolkit, tools};
//!
//! #[data]
//! struct Folder {
//!     /// The folder to look at.
//!     path: String,
//! }
//!
//! #[data]
//! struct Listed {
//!     names: Vec<String>,
//! }
//!
//! /// Counts the files of a folder.
//! #[tool(access = ["file_read"], tool_calls = ["files.list"], read_only, concurrency_safe)]
//! fn count(input: Folder) -> Result<String, ToolError> {
//!     let listed: Listed = tools::call("files.list", &input)?.read()?;
//!     Ok(format!("{} files", listed.names.len()))
//! }
//!
//! toolkit! { namespace: "counter", tools: [count] }
//!
//! # fn main() {
//! use toolcell_guest::{serde_json::json, testing, tools::Answer};
//!
//! testing::offer("files.list", |input| {
//!     assert_eq!(input["path"], "src");
//!     Ok(Answer::structured(json!({ "names": ["lib.rs", "tools.rs"] })))
//! });
//! assert_eq!(count(Folder { path: "src".to_owned() }).unwrap(), "2 files");
//! # }
//! ```

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{Content, ToolError, host};

/// A tool that may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callable {
    /// The name to call it by.
    pub name: String,
    /// What the tool says of itself.
    pub description: String,
}

/// The result of a call that succeeded, at least in part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The id of the call, under which its record is found.
    pub invocation_id: String,
    /// What a model would read. Content that is too large is a preview and a reference.
    pub content: Vec<Content>,
    /// The value for programs.
    pub structured: Option<Value>,
    /// The part that failed, although the rest is usable.
    pub missing: Option<ToolError>,
}

impl Answer {
    /// A result with text alone, for tests.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Content::text(text)],
            ..Self::default()
        }
    }

    /// A result with a structured value alone, for tests.
    pub fn structured(value: impl Into<Value>) -> Self {
        Self {
            structured: Some(value.into()),
            ..Self::default()
        }
    }

    /// The text blocks, each on lines of its own.
    pub fn to_text(&self) -> String {
        let texts = self
            .content
            .iter()
            .filter_map(|block| block.get("text").and_then(Value::as_str));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Reads the structured value as a `T`.
    ///
    /// # Errors
    ///
    /// An error of class `execution_failed` if there is no such value, or if it is no `T`.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, ToolError> {
        let unusable = |why: &str| {
            ToolError::execution_failed("unusable_answer", format!("another tool's answer {why}"))
        };
        let value = self
            .structured
            .ok_or_else(|| unusable("has no structured value"))?;
        serde_json::from_value(value)
            .map_err(|error| unusable("is not what was expected").detail(error.to_string()))
    }
}

/// The tools that this call may call.
pub fn list() -> Vec<Callable> {
    host::callable()
}

/// Calls the tool with the qualified name `tool`, and waits for its end.
///
/// # Errors
///
/// The error of the tool. A refusal of the host has the class [`Other`](crate::ErrorClass::Other), such as
/// `permission_denied`, and a code, such as `tool_not_callable` or `recursive_tool_forbidden`.
pub fn call(tool: &str, input: impl Serialize) -> Result<Answer, ToolError> {
    let input = serde_json::to_string(&input).map_err(|error| {
        ToolError::execution_failed(
            "input_not_json",
            "the arguments for another tool cannot be written as JSON",
        )
        .detail(error.to_string())
    })?;
    host::call_tool(tool, &input)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ErrorClass, testing};

    #[test]
    fn a_test_offers_the_tools_that_are_called() {
        testing::reset();
        testing::offer("files.read", |input| {
            Ok(Answer::text(format!("content of {}", input["path"])))
        });
        assert_eq!(
            list()
                .iter()
                .map(|tool| tool.name.as_str())
                .collect::<Vec<_>>(),
            ["files.read"]
        );
        assert_eq!(
            call("files.read", json!({ "path": "a" }))
                .unwrap()
                .to_text(),
            "content of \"a\""
        );
        let refused = call("files.write", json!({})).unwrap_err();
        assert_eq!(
            refused.class,
            ErrorClass::Other("permission_denied".to_owned())
        );
        assert_eq!(refused.code, "tool_not_callable");
        testing::reset();
        assert!(list().is_empty());
    }

    #[test]
    fn an_answer_without_the_expected_value_is_an_error() {
        let read = |answer: Answer| answer.read::<Vec<u32>>().map_err(|error| error.code);
        assert_eq!(read(Answer::structured(json!([1, 2]))), Ok(vec![1, 2]));
        assert_eq!(
            read(Answer::structured(json!({}))),
            Err("unusable_answer".to_owned())
        );
        assert_eq!(read(Answer::text("[1]")), Err("unusable_answer".to_owned()));
    }
}
