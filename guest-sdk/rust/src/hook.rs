//! Hooks: what the owner of a host runs around tools. A function with `#[hook(..)]` is all it takes:
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
//! A hook is a component of its own, never part of a tool. It gets copies, and nothing else unless `toolcell.toml` grants
//! it something. A panic or an error is a hook that failed, which the host's owner has a say about.

use serde_json::Value;

pub use toolcell_guest_macros::hook;

use crate::Content;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Before the tool runs, and before anybody decides whether it may.
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

/// One call at one moment.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which moment.
    pub event: Event,
    /// The host's id of the call.
    pub invocation_id: String,
    /// `namespace.name`.
    pub tool_id: String,
    /// The input as it stands.
    pub input: Value,
    /// The permission profile that the tool declares.
    pub permission_profile: Value,
    /// Who calls, if the host knows.
    pub actor_ref: Option<String>,
    /// The `tool_permission_decision`, at [`Event::PermissionDecision`]; null otherwise.
    pub decision: Value,
    /// The `tool_result` as it stands, after the tool; null otherwise.
    pub result: Value,
}

/// What a hook can ask for. What its event has no use for changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// For people: kept in the record of the call.
    Message(String),
    /// What the hook does at the moment, and how far it has come, 0 to 100.
    Progress(String, Option<f64>),
    /// The input that goes on instead. At [`Event::PreToolUse`].
    UpdatedInput(Value),
    /// The call may run, unless somebody says otherwise; with a reason.
    Allow(String),
    /// Somebody should be asked; with a reason. Opinions count at [`Event::PreToolUse`] and [`Event::PermissionRequest`].
    Ask(String),
    /// The call must not run; with a reason.
    Deny(String),
    /// For the model, beside the result.
    AdditionalContext(Value),
    /// Ends the call before the tool; after it, becomes context; keeps a result from being stored.
    Stop(String),
    /// What the tool said, said anew: content blocks, and the structured value. After the tool.
    UpdatedOutput(Vec<Content>, Option<Value>),
}

/// A hook, as `#[hook(..)]` writes it.
pub trait Hook {
    /// What it calls itself.
    const ID: &'static str;
    /// What it wants to hear of.
    const EVENTS: &'static [Event];

    /// Answers one event.
    fn handle(call: Call) -> Result<Vec<Output>, String>;
}

/// What a function with `#[hook(..)]` may return: outputs, one output or none, or a `Result` of them.
pub trait IntoAnswer {
    /// Turns it into what the host gets.
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
