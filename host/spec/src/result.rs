use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AbortReason, Content, ContextModifier, ErrorClass, Extra, InputMutation, InvocationId,
    PersistenceId, ResultId, ResultProvenance, SchemaVersion, Timestamp, ToolError, Usage,
};

/// `tool_result.status` (AT-RST-01..11).
///
/// ```
/// use toolcell_spec::ResultStatus;
///
/// assert_eq!(serde_json::to_value(ResultStatus::TooLarge)?, "too_large");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    Succeeded,
    /// `error` says what is missing.
    PartialSucceeded,
    Failed,
    Denied,
    Rejected,
    Redacted,
    TooLarge,
    Canceled,
    /// Wall time or fuel is used up.
    TimedOut,
    /// The host ended the call because of another one.
    SyntheticError,
    Discarded,
}

/// The one envelope in which every call ends (AT-RES-01..20).
///
/// ```
/// use toolcell_spec::ToolResult;
///
/// /// The text for the model.
/// fn answer(result: &ToolResult) -> String {
///     match &result.error {
///         Some(error) if result.is_error => format!("{} [{}]", error.message, error.error_code),
///         _ => result.text(),
///     }
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub schema_version: SchemaVersion,
    pub result_id: ResultId,
    pub invocation_id: InvocationId,
    pub status: ResultStatus,
    /// `true` if a model should read it as an error.
    pub is_error: bool,
    pub content: Vec<Content>,
    /// Checked against the output contract.
    pub structured_content: Option<Value>,
    /// `true` if the call succeeded without output (requirements 1.15.4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_result: bool,
    /// Without logs, and with previews of what is too large.
    pub model_facing_content: Vec<Content>,
    pub ui_facing_summary: Option<String>,
    /// A replacement for a dropped or redacted output (AT-RES-16, AT-OUT-09).
    pub summary: Option<String>,
    #[serde(default)]
    pub resource_refs: Vec<Value>,
    #[serde(default)]
    pub artifact_refs: Vec<Value>,
    /// The call's record and payloads in the journal (AT-RES-12).
    #[serde(default)]
    pub evidence_refs: Vec<String>,
    /// From the invocation (AT-RES-13).
    #[serde(default)]
    pub policy_refs: Vec<String>,
    /// The call's span (AT-RES-14). Empty without a trace.
    #[serde(default)]
    pub telemetry_refs: Vec<Value>,
    /// Storage decisions (AT-RES-15).
    #[serde(default)]
    pub persistence_refs: Vec<PersistenceId>,
    /// `none`, `partial` or `full`.
    pub redaction_state: String,
    /// Set if a request to stop ended the call (AT-CAN-03).
    pub abort_reason: Option<AbortReason>,
    pub error: Option<ToolError>,
    pub provenance: ResultProvenance,
    /// Changes between caller and tool (AT-N-11).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_mutations: Vec<InputMutation>,
    /// Context that hooks add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_context: Vec<Value>,
    /// Sorted by key. Empty for a failed call, and if the batch hands them out later. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_modifiers: Vec<ContextModifier>,
    /// Absent if no guest ran.
    pub usage: Option<Usage>,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolResult {
    /// A model's text blocks, each on lines of its own.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .model_facing_content
            .iter()
            .filter_map(Content::as_text)
            .collect();
        texts.join("\n")
    }

    pub fn failed(
        invocation_id: InvocationId,
        error: ToolError,
        provenance: ResultProvenance,
    ) -> Self {
        Self {
            schema_version: SchemaVersion::default(),
            result_id: ResultId::new(),
            invocation_id,
            status: error.error_class.result_status(),
            is_error: true,
            content: Vec::new(),
            structured_content: None,
            empty_result: false,
            model_facing_content: vec![Content::text(&error.message)],
            ui_facing_summary: None,
            summary: None,
            resource_refs: Vec::new(),
            artifact_refs: Vec::new(),
            evidence_refs: Vec::new(),
            policy_refs: Vec::new(),
            telemetry_refs: Vec::new(),
            persistence_refs: Vec::new(),
            redaction_state: "none".to_owned(),
            abort_reason: error.abort_reason,
            error: Some(error),
            provenance,
            input_mutations: Vec::new(),
            additional_context: Vec::new(),
            context_modifiers: Vec::new(),
            usage: None,
            created_at: Timestamp::now(),
            extra: Extra::new(),
        }
    }

    pub fn error_class(&self) -> Option<ErrorClass> {
        self.error.as_ref().map(|error| error.error_class)
    }
}
