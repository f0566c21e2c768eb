//! Hooks: components that the operator of a host runs around tools. A function with `#[hook(..)]` is all it takes:
//!
//! ```
//! use toolcell_guest::hook::{Call, Output, hook};
//!
//! #[hook(permission_request)]
//! fn no_dotfiles(call: Call) -> Option<Output> {
//!     let path = call.input["path"].as_str()?;
//!     let is_hidden = |name: &str| name.starts_with('.') && name != "." && name != "..";
//!     path.split('/').any(is_hidden).then(|| Output::Stop("dotfiles are private".to_owned()))
//! }
//! # fn main() {}
//! ```
//!
//! A hook is a component of its own, never part of a tool. It gets copies, and no access unless `toolcell.toml` grants
//! it. A panic or an error is a failure of the hook; the operator configures what it means for the call.

use serde_json::Value;

pub use toolcell_guest_macros::hook;

use crate::Content;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Before the tool runs, and before the decision whether it may.
    PreToolUse,
    /// Before the decision, on exactly the input that would run.
    PermissionRequest,
    /// After the decision.
    PermissionDecision,
    /// After the tool answered.
    PostToolUse,
    /// After the tool ran and failed.
    PostToolUseFailure,
    /// Before a result is stored.
    ResultPersistence,
}

/// One call at one event.
#[derive(Clone, Debug)]
pub struct Call {
    /// The event.
    pub event: Event,
    /// The host's id of the call.
    pub invocation_id: String,
    /// `namespace.name`.
    pub tool_id: String,
    /// The current input.
    pub input: Value,
    /// The permission profile that the tool declares.
    pub permission_profile: Value,
    /// The caller, if the host knows it.
    pub actor_ref: Option<String>,
    /// The `tool_permission_decision`, at [`Event::PermissionDecision`]; null otherwise.
    pub decision: Value,
    /// The current `tool_result`, after the tool; null otherwise.
    pub result: Value,
}

/// What a hook can return. An output that does not apply to its event has no effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A message for people, kept in the record of the call.
    Message(String),
    /// What the hook is doing, and the part done, in percent, 0 to 100.
    Progress(String, Option<f64>),
    /// The input that replaces the current one. At [`Event::PreToolUse`].
    UpdatedInput(Value),
    /// The call may run, unless another decision forbids it; with a reason.
    Allow(String),
    /// An approval should be requested; with a reason. `Allow`, `Ask` and `Deny` count at [`Event::PreToolUse`] and
    /// [`Event::PermissionRequest`].
    Ask(String),
    /// The call must not run; with a reason.
    Deny(String),
    /// Context for the model, beside the result.
    AdditionalContext(Value),
    /// Before the tool, ends the call; after it, becomes context; at [`Event::ResultPersistence`], keeps the result
    /// from being stored.
    Stop(String),
    /// The output that replaces the tool's own: content blocks, and the structured value. After the tool.
    UpdatedOutput(Vec<Content>, Option<Value>),
}

/// A hook. `#[hook(..)]` generates the implementation.
pub trait Hook {
    /// The name of the hook.
    const ID: &'static str;
    /// The events that it handles.
    const EVENTS: &'static [Event];

    /// Handles one event.
    fn handle(call: Call) -> Result<Vec<Output>, String>;
}

/// What a function with `#[hook(..)]` may return: outputs, one output or none, or a `Result` of them.
pub trait IntoAnswer {
    /// Converts the value into the outputs that the host gets.
    fn into_answer(self) -> Result<Vec<Output>, String>;
}

impl IntoAnswer for () {
    fn into_answer(self) -> Result<Vec<Output>, String> {
        Ok(Vec::new())
    }
}

impl IntoAnswer for Output {
    fn into_answer(self) -> Result<Vec<Output>, String> {
        Ok(vec![self])
    }
}

impl IntoAnswer for Option<Output> {
    fn into_answer(self) -> Result<Vec<Output>, String> {
        Ok(self.into_iter().collect())
    }
}

impl IntoAnswer for Vec<Output> {
    fn into_answer(self) -> Result<Vec<Output>, String> {
        Ok(self)
    }
}

impl<T: IntoAnswer, E: ToString> IntoAnswer for Result<T, E> {
    fn into_answer(self) -> Result<Vec<Output>, String> {
        self.map_err(|error| error.to_string())?.into_answer()
    }
}
