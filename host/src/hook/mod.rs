//! Hooks: what a host's owner runs before and after a tool. A hook sees copies; what it changes is recorded.

use std::future::Future;
use std::pin::Pin;

use serde_json::{Value, json};

use crate::record::{InvocationId, ToolResult};

/// One call, as a hook sees it.
#[derive(Clone, Debug)]
pub struct HookCall {
    pub invocation_id: InvocationId,
    pub tool_id: String,
    /// A copy of the observable input, with the changes of hooks that ran before.
    pub input: Value,
}

/// What a hook can ask for (AT-HO-01..07).
#[derive(Clone, Debug, PartialEq)]
pub enum HookOutput {
    /// For people, in the event trail.
    Message(String),
    /// For the model, beside the result.
    AdditionalContext(Value),
    /// The input that the tool gets instead. Before the tool only.
    UpdatedInput(Value),
    /// Ends the call before the tool runs; after it, only adds its reason as context.
    Stop { reason: String },
    /// The structured output that the caller gets instead. After the tool only.
    UpdatedOutput(Value),
}

/// What a hook answers; an error is a hook that failed.
pub type HookAnswer = Result<Vec<HookOutput>, String>;

/// The future of an answer.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = HookAnswer> + Send + 'a>>;

/// What the event trail says of an answer: never the inputs and outputs themselves.
pub fn summary(hook: &dyn Hook, answer: &HookAnswer) -> Value {
    let outputs = answer.as_deref().unwrap_or_default();
    let messages: Vec<&str> = outputs
        .iter()
        .filter_map(|output| match output {
            HookOutput::Message(message) => Some(message.as_str()),
            _ => None,
        })
        .collect();
    json!({ "hook_id": hook.id(), "outputs": outputs.len(), "messages": messages, "error": answer.as_ref().err() })
}

/// A hook in this process. A failing hook before a tool blocks the call; after a tool it leaves a note.
pub trait Hook: Send + Sync {
    /// Names the hook in records.
    fn id(&self) -> &str;

    /// Before the tool runs, and before anybody decides whether it may.
    fn pre_tool_use<'a>(&'a self, _call: &'a HookCall) -> HookFuture<'a> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// After the tool answered.
    fn post_tool_use<'a>(&'a self, _call: &'a HookCall, _result: &'a ToolResult) -> HookFuture<'a> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// After the tool ran and failed.
    fn post_tool_use_failure<'a>(&'a self, _call: &'a HookCall, _result: &'a ToolResult) -> HookFuture<'a> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
