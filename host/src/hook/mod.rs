//! Hooks: what a host's owner runs around a tool, in this process or as components of the world `hook`.
//!
//! A hook sees copies and answers with [`HookOutput`]s; what they come to is decided and recorded in the pipeline. Which
//! calls a hook hears of, in which order, for how long, and what its failure means is the owner's to say, in a
//! [`Registration`].

mod output;
mod registration;
mod run;

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use crate::record::{Content, HookEvent, InvocationId, PermissionDecision, PermissionProfile, ToolResult};

pub use output::{HookOutput, HookProgress, UpdatedOutput};
pub use registration::{Hooks, Matcher, OnFailure, Registration};
pub use run::{HookFailure, HookRun};

/// One call at one moment, as a hook sees it: copies, all of them.
#[derive(Clone, Debug)]
pub struct HookCall {
    pub event: HookEvent,
    pub invocation_id: InvocationId,
    pub tool_id: String,
    pub actor_ref: Option<String>,
    /// The input as it stands: with defaults, and with the changes of hooks that ran before.
    pub input: Value,
    /// What the tool says it needs.
    pub permission_profile: Option<PermissionProfile>,
    /// At `permission_decision`.
    pub decision: Option<PermissionDecision>,
    /// After the tool: the result as it stands.
    pub result: Option<ToolResult>,
}

/// What a hook says, and what it printed meanwhile.
#[derive(Clone, Debug)]
pub struct HookAnswer {
    /// An error is a hook that failed; its words stay in the record.
    pub outputs: Result<Vec<HookOutput>, String>,
    pub logs: Vec<Content>,
}

impl From<Result<Vec<HookOutput>, String>> for HookAnswer {
    fn from(outputs: Result<Vec<HookOutput>, String>) -> Self {
        Self { outputs, logs: Vec::new() }
    }
}

impl From<Vec<HookOutput>> for HookAnswer {
    fn from(outputs: Vec<HookOutput>) -> Self {
        Ok(outputs).into()
    }
}

/// The future of an answer.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = HookAnswer> + Send + 'a>>;

/// A hook. One in this process runs on a thread of its own, so that one that blocks delays a call by its time limit and
/// no more.
pub trait Hook: Send + Sync {
    /// Names the hook in records.
    fn id(&self) -> &str;

    /// The events that it wants to hear of.
    fn events(&self) -> &[HookEvent];

    /// Answers one event. Called once for each, and for no other than [`Self::events`].
    fn handle<'a>(&'a self, call: &'a HookCall) -> HookFuture<'a>;
}
