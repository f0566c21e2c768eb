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
    /// Before the decision whether the tool runs.
    PreToolUse,
    /// Before the decision, on exactly the input that would run.
    PermissionRequest,
    /// After any decision.
    PermissionDecision,
    PostToolUse,
    PostToolUseFailure,
    /// Before the result of a tool that ran is stored.
    ResultPersistence,
}

impl HookEvent {
    /// In the order in which a call passes them.
    pub const ALL: [Self; 6] = [
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PermissionDecision,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::ResultPersistence,
    ];

    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn is_before_the_tool(self) -> bool {
        matches!(
            self,
            Self::PreToolUse | Self::PermissionRequest | Self::PermissionDecision
        )
    }
}

/// End of a hook's run. An extension.
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
    Completed,
    /// Includes crashes and broken contracts.
    Failed,
    TimedOut,
    Canceled,
    /// A configured hook that never ran.
    NotLoaded,
}

/// Never the decision.
///
/// ```
/// use toolcell_spec::{Behavior, PermissionResult};
///
/// let denial = PermissionResult { behavior: Behavior::Deny, reason: "release freeze".to_owned() };
/// assert_eq!(serde_json::to_value(denial).unwrap()["behavior"], "deny");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionResult {
    /// An `allow` overrules nothing.
    pub behavior: Behavior,
    pub reason: String,
}

/// One run of one hook (AT-HOOK-01..14).
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
    /// Configured calls; empty means all.
    pub matcher: Value,
    /// Answers in order, each with a `type`; `ignored` marks those without a use for the event.
    pub outputs: Vec<Value>,
    pub permission_result: Option<PermissionResult>,
    pub updated_input: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_context: Vec<Value>,
    pub stop: Option<Value>,
    pub updated_output: Option<Value>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub outcome: HookOutcome,
    /// For the record only.
    pub error: Option<String>,
    /// Output and logs, size-limited.
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
