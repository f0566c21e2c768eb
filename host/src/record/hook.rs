use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Behavior, Content, Extra, InvocationId, SchemaVersion, Timestamp};

/// `hook_event` (AT-HEV-01..06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// Before the tool runs, and before the decision whether it may.
    PreToolUse,
    /// Before the decision, on exactly the input that would run.
    PermissionRequest,
    /// After the decision, whatever it is.
    PermissionDecision,
    /// After the tool answered.
    PostToolUse,
    /// After the tool ran and failed.
    PostToolUseFailure,
    /// Before the result of a tool that ran is stored.
    ResultPersistence,
}

impl HookEvent {
    /// All events, in the order in which one call passes them.
    pub const ALL: [Self; 6] = [
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PermissionDecision,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::ResultPersistence,
    ];

    /// The specification's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreToolUse => "pre_tool_use",
            Self::PermissionRequest => "permission_request",
            Self::PermissionDecision => "permission_decision",
            Self::PostToolUse => "post_tool_use",
            Self::PostToolUseFailure => "post_tool_use_failure",
            Self::ResultPersistence => "result_persistence",
        }
    }

    /// Whether the event comes before the tool runs.
    pub fn is_before_the_tool(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PermissionRequest | Self::PermissionDecision)
    }
}

/// How one run of a hook ended. An extension of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOutcome {
    Completed,
    /// The hook reported a failure, crashed, or broke the contract.
    Failed,
    TimedOut,
    /// The call was canceled meanwhile.
    Canceled,
    /// The hook is configured but could not be loaded, so it never ran.
    NotLoaded,
}

/// `permission_result` of a hook: its opinion, never the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionResult {
    pub behavior: Behavior,
    pub reason: String,
}

/// `tool_hook` (AT-HOOK-01..14): one run of one hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolHook {
    pub schema_version: SchemaVersion,
    pub hook_id: String,
    pub hook_event: HookEvent,
    pub invocation_id: InvocationId,
    pub tool_id: String,
    /// Which calls the hook is configured for; empty means all.
    pub matcher: Value,
    /// The hook's answers, in order, each with a `type`. Inputs and outputs have fields of their own below; an answer
    /// that its event has no use for is marked `ignored`.
    pub outputs: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_result: Option<PermissionResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_context: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_output: Option<Value>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub outcome: HookOutcome,
    /// Why the hook failed. For the record only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the hook printed and logged, bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<Content>,
    #[serde(flatten)]
    pub extra: Extra,
}
