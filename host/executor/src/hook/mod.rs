//! Hooks that the operator runs around a tool, in this process or as components of the world `hook`.
//!
//! A hook sees copies and answers with [`HookOutput`]s; the pipeline decides on their effect, and records it. A
//! [`Registration`] sets calls, order, time limit and the meaning of a failure.

mod output;
mod registration;
mod run;

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use toolcell_spec::{
    Content, HookEvent, InvocationId, PermissionDecision, PermissionProfile, ToolResult,
};

pub use output::{HookOutput, HookProgress, UpdatedOutput};
pub use registration::{HookList, Matcher, OnFailure, Registration};
pub use run::{HookFailure, HookRun};

/// A copy of one call at one event, for a hook.
///
/// ```
/// use toolcell_executor::hook::HookCall;
///
/// fn line(call: &HookCall) -> String {
///     format!("{} {} of {}", call.invocation_id, call.event.as_str(), call.tool_id)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct HookCall {
    pub event: HookEvent,
    pub invocation_id: InvocationId,
    pub tool_id: String,
    pub actor_ref: Option<String>,
    /// The current input, with defaults and the changes of earlier hooks.
    pub input: Value,
    /// Declared by the tool.
    pub permission_profile: Option<PermissionProfile>,
    /// `Some` at `permission_decision`.
    pub decision: Option<PermissionDecision>,
    /// `Some` after the tool.
    pub result: Option<ToolResult>,
}

/// A hook's answer, and its printed output.
///
/// ```
/// use toolcell_executor::hook::{HookAnswer, HookOutput};
///
/// let outputs = vec![HookOutput::Message("checked".to_owned())];
/// assert!(HookAnswer::from(outputs).logs.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct HookAnswer {
    /// `Err` if the hook failed; its message stays in the record.
    pub outputs: Result<Vec<HookOutput>, String>,
    /// For the record.
    pub logs: Vec<Content>,
}

impl From<Result<Vec<HookOutput>, String>> for HookAnswer {
    fn from(outputs: Result<Vec<HookOutput>, String>) -> Self {
        Self {
            outputs,
            logs: Vec::new(),
        }
    }
}

impl From<Vec<HookOutput>> for HookAnswer {
    fn from(outputs: Vec<HookOutput>) -> Self {
        Ok(outputs).into()
    }
}

/// The future of an answer.
///
/// ```
/// use toolcell_executor::hook::{HookAnswer, HookFuture, HookOutput};
///
/// fn no_opinion<'a>() -> HookFuture<'a> {
///     Box::pin(async { HookAnswer::from(Vec::<HookOutput>::new()) })
/// }
/// ```
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = HookAnswer> + Send + 'a>>;

/// A hook. It runs on its own thread, so that blocking delays a call by no more than its time limit.
///
/// ```
/// use toolcell_executor::hook::{Hook, HookAnswer, HookCall, HookFuture, HookOutput};
/// use toolcell_spec::HookEvent;
///
/// /// Stops calls whose argument `path` is a dotfile.
/// struct NoDotfiles;
///
/// impl Hook for NoDotfiles {
///     fn id(&self) -> &str {
///         "no-dotfiles"
///     }
///
///     fn events(&self) -> &[HookEvent] {
///         &[HookEvent::PermissionRequest]
///     }
///
///     fn handle<'a>(&'a self, call: &'a HookCall) -> HookFuture<'a> {
///         let hidden = call.input["path"].as_str().is_some_and(|path| path.starts_with('.'));
///         let stop = || HookOutput::Stop { reason: "dotfiles are private".to_owned() };
///         let outputs: Vec<HookOutput> = hidden.then(stop).into_iter().collect();
///         Box::pin(async move { HookAnswer::from(outputs) })
///     }
/// }
/// ```
pub trait Hook: Send + Sync {
    /// Names the hook in records.
    fn id(&self) -> &str;

    fn events(&self) -> &[HookEvent];

    /// Called once for each event in [`Self::events`].
    fn handle<'a>(&'a self, call: &'a HookCall) -> HookFuture<'a>;
}
