//! Changes the context of the caller, such as of an agent: facts that its later steps should know.
//!
//! The host hands the changes out with the result of a call that succeeds, and the caller decides what it does with them. In
//! a batch, a tool that can change the context runs beside no other that can, unless the batch defers the changes.
//!
//! ```
//! use toolcell_guest::{ToolError, context_modifiers, data, tool, toolkit};
//!
//! #[data]
//! struct Branch {
//!     /// The branch to work on.
//!     name: String,
//! }
//!
//! /// Switches to a branch.
//! #[tool]
//! fn switch(input: Branch) -> Result<String, ToolError> {
//!     context_modifiers::modify("branch", &input.name)?;
//!     Ok(format!("now on {}", input.name))
//! }
//!
//! /// Names the branch. It changes nothing, so it runs beside other calls.
//! #[tool(context_modifier_policy = "forbid")]
//! fn current() -> String {
//!     "main".to_owned()
//! }
//!
//! toolkit! { namespace: "branch", tools: [switch, current] }
//!
//! # fn main() {
//! use toolcell_guest::{serde_json::json, testing};
//!
//! assert_eq!(switch(Branch { name: "fix".to_owned() }).unwrap(), "now on fix");
//! assert_eq!(testing::context_modifiers(), [("branch".to_owned(), json!("fix"))]);
//! # }
//! ```

use std::{error, fmt};

use serde::Serialize;

use crate::{ErrorClass, ToolError, host};

/// Sets `key` to `value`. A later value of the same call replaces an earlier one. A key has 1 to 128 letters, digits, `_`,
/// `-`, `.`, `:` or `/`.
///
/// # Errors
///
/// A call that may not change the context, a key or a value that is not valid, or more than 32 keys or 16 KiB in one call.
pub fn modify(key: &str, value: impl Serialize) -> Result<(), ModifyError> {
    let value = serde_json::to_string(&value).map_err(|error| {
        ModifyError::Invalid(format!(
            "cannot change {key}: its value cannot be written as JSON: {error}"
        ))
    })?;
    host::modify_context(key, &value)
}

/// Why the context cannot be changed, with the host's sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModifyError {
    /// The call may not change the context.
    Forbidden(String),
    /// The key or the value is not valid.
    Invalid(String),
    /// The call may not change more keys, or not with more bytes.
    QuotaExceeded(String),
}

impl fmt::Display for ModifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Forbidden(why) | Self::Invalid(why) | Self::QuotaExceeded(why)) = self;
        f.write_str(why)
    }
}

impl error::Error for ModifyError {}

impl From<ModifyError> for ToolError {
    fn from(error: ModifyError) -> Self {
        let (class, code) = match &error {
            ModifyError::Forbidden(_) => (ErrorClass::CapabilityGap, "context_modifiers_forbidden"),
            ModifyError::Invalid(_) => (ErrorClass::ExecutionFailed, "context_modifier_invalid"),
            ModifyError::QuotaExceeded(_) => (ErrorClass::ResultTooLarge, "context_modifier_quota"),
        };
        Self::new(class, code, error.to_string())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    #[test]
    fn changes_are_recorded_by_key_and_the_last_value_counts() {
        testing::reset();
        for (key, value) in [
            ("b", json!(1)),
            ("a", json!(null)),
            ("b", json!({ "n": [2] })),
        ] {
            modify(key, value).unwrap();
        }
        let expected = [
            ("a".to_owned(), json!(null)),
            ("b".to_owned(), json!({ "n": [2] })),
        ];
        assert_eq!(testing::context_modifiers(), expected);
        testing::reset();
        assert!(testing::context_modifiers().is_empty());
    }

    #[test]
    fn a_call_that_may_change_nothing_gets_the_words_of_the_host() {
        testing::reset();
        testing::forbid_context_modifiers();
        let error = ToolError::from(modify("a", 1).unwrap_err());
        assert_eq!(
            (error.class, error.code.as_str()),
            (ErrorClass::CapabilityGap, "context_modifiers_forbidden")
        );
        assert!(
            error.message.starts_with("cannot change the context"),
            "{}",
            error.message
        );
        assert!(testing::context_modifiers().is_empty());
        testing::reset();
    }
}
