use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

use super::{Behavior, Content, Extra, InvocationId, SchemaVersion, Timestamp};

/// `hook_event` (AT-HEV-01..06).
///
/// ```
/// use toolcell_spec::HookEvent;
///
/// let before: Vec<HookEvent> = HookEvent::ALL.into_iter().filter(|event| event.is_before_the_tool()).collect();
/// assert_eq!(before.first().map(|event| event.as_str()), Some("pre_tool_use"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
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
        self.into()
    }

    /// Returns whether the event comes before the tool runs.
    pub fn is_before_the_tool(self) -> bool {
        matches!(
            self,
            Self::PreToolUse | Self::PermissionRequest | Self::PermissionDecision
        )
    }
}

/// How one run of a hook ended. An extension of the specification.
///
/// ```
/// use toolcell_spec::{CallRecord, HookOutcome};
///
/// /// The hooks that gave no answer.
/// fn unheard(record: &CallRecord) -> Vec<&str> {
///     let hooks = record.hooks.iter().filter(|hook| hook.outcome != HookOutcome::Completed);
///     hooks.map(|hook| hook.hook_id.as_str()).collect()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOutcome {
    /// The hook answered.
    Completed,
    /// The hook reported a failure, crashed, or broke the contract.
    Failed,
    /// The hook did not answer within its time limit.
    TimedOut,
    /// The call was canceled meanwhile.
    Canceled,
    /// The hook is configured but could not be loaded, so it never ran.
    NotLoaded,
}

/// `permission_result` of a hook: its opinion, never the decision.
///
/// ```
/// use toolcell_spec::{Behavior, PermissionResult};
///
/// let denial = PermissionResult { behavior: Behavior::Deny, reason: "release freeze".to_owned() };
/// assert_eq!(serde_json::to_value(denial).unwrap()["behavior"], "deny");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionResult {
    /// Behavior that the hook wants. An `allow` overrules nothing.
    pub behavior: Behavior,
    /// Why, for the approver and the record.
    pub reason: String,
}

/// `tool_hook` (AT-HOOK-01..14): one run of one hook.
///
/// ```
/// use toolcell_spec::ToolHook;
///
/// fn duration_ms(run: &ToolHook) -> u64 {
///     run.ended_at.millis_since(run.started_at)
/// }
/// ```
#[serde_with::skip_serializing_none]
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
    /// The hook's opinion.
    pub permission_result: Option<PermissionResult>,
    /// The input that replaced the call's.
    pub updated_input: Option<Value>,
    /// Context for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_context: Vec<Value>,
    /// Why the hook stopped the call.
    pub stop: Option<Value>,
    /// The output that replaced the tool's.
    pub updated_output: Option<Value>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// How the run ended.
    pub outcome: HookOutcome,
    /// Why the hook failed. For the record only.
    pub error: Option<String>,
    /// Output and logs of the hook, size-limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<Content>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolHook {
    /// Removes what may repeat the arguments: all that the hook said.
    pub fn hide_input(&mut self) {
        (
            self.updated_input,
            self.permission_result,
            self.stop,
            self.error,
        ) = (None, None, None, None);
        self.outputs.clear();
        self.additional_context.clear();
        self.logs.clear();
    }
}
