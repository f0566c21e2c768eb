use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Content, ErrorClass, Extra, InputMutation, InvocationId, PersistenceId, ResultId, ResultProvenance, SchemaVersion,
    Timestamp, ToolError, Usage,
};

/// `tool_result.status` (AT-RST-01..11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    Succeeded,
    PartialSucceeded,
    Failed,
    Denied,
    Rejected,
    Redacted,
    TooLarge,
    Canceled,
    TimedOut,
    SyntheticError,
    Discarded,
}

/// `tool_result` (AT-RES-01..20): the one envelope in which every call ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub schema_version: SchemaVersion,
    pub result_id: ResultId,
    pub invocation_id: InvocationId,
    pub status: ResultStatus,
    pub is_error: bool,
    pub content: Vec<Content>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether the call succeeded without output, as opposed to an output that is missing (requirements 1.15.4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_result: bool,
    pub model_facing_content: Vec<Content>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui_facing_summary: Option<String>,
    #[serde(default)]
    pub resource_refs: Vec<Value>,
    #[serde(default)]
    pub artifact_refs: Vec<Value>,
    #[serde(default)]
    pub policy_refs: Vec<String>,
    #[serde(default)]
    pub persistence_refs: Vec<PersistenceId>,
    pub redaction_state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The origin of the result, as the host observed it.
    pub provenance: ResultProvenance,
    /// The changes of the input between the caller and the tool (AT-N-11).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_mutations: Vec<InputMutation>,
    /// Context that hooks add for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_context: Vec<Value>,
    /// Absent if no guest ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolResult {
    /// The class of the error, if the call ended in one.
    pub fn error_class(&self) -> Option<ErrorClass> {
        self.error.as_ref().map(|error| error.error_class)
    }
}
