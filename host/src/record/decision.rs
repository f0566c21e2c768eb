use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Content, DecisionId, Extra, InvocationId, SchemaVersion, Timestamp};

/// `behavior` (AT-BEH-01..04).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    Allow,
    Ask,
    Deny,
    Passthrough,
}

/// `mode` of the host when it decided (AT-DEC-04).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[default]
    Default,
    Plan,
    NonInteractive,
}

/// `source`: the origin of the rule that decided (AT-DEC-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleSource {
    UserSettings,
    ProjectSettings,
    LocalSettings,
    FlagSettings,
    PolicySettings,
    CliArg,
    Command,
    Session,
}

/// `reason.type` (AT-DEC-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonType {
    Rule,
    Mode,
    Policy,
    Hook,
    Classifier,
    WorkingDir,
    SandboxOverride,
    SafetyCheck,
    PermissionPromptTool,
    AsyncAgent,
    SubcommandResults,
    Other,
}

/// `reason`: an object, so that a program can read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    #[serde(rename = "type")]
    pub kind: ReasonType,
    pub message: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `tool_permission_decision` (AT-DEC-01..19).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionDecision {
    pub schema_version: SchemaVersion,
    pub decision_id: DecisionId,
    pub invocation_id: InvocationId,
    pub behavior: Behavior,
    pub mode: Mode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<RuleSource>,
    pub reason: Reason,
    #[serde(default)]
    pub rule_refs: Vec<String>,
    #[serde(default)]
    pub policy_refs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    #[serde(default)]
    pub user_modified: bool,
    #[serde(default)]
    pub suggested_updates: Vec<Value>,
    /// The canonical path that a denial matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_path: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content_blocks: Vec<Content>,
    /// The approver's feedback (AT-DEC-16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_feedback: Option<String>,
    pub decided_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}
