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
    /// The tool succeeded.
    Succeeded,
    /// The output is usable but not complete; `error` says what is missing.
    PartialSucceeded,
    /// The call failed.
    Failed,
    /// The call was not permitted.
    Denied,
    /// The approver denied the call.
    Rejected,
    /// The whole output is withheld.
    Redacted,
    /// The output exceeds a limit.
    TooLarge,
    /// The call was canceled.
    Canceled,
    /// The wall time or the fuel is used up.
    TimedOut,
    /// The host ended the call because of another one.
    SyntheticError,
    /// Another attempt replaced this one.
    Discarded,
}

/// `tool_result` (AT-RES-01..20): the one envelope in which every call ends.
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
    /// How the call ended.
    pub status: ResultStatus,
    /// `true` if a model should read the result as an error.
    pub is_error: bool,
    /// All content blocks, including logs.
    pub content: Vec<Content>,
    /// The structured output, checked against the output contract.
    pub structured_content: Option<Value>,
    /// `true` if the call succeeded without output, as opposed to a missing output (requirements 1.15.4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_result: bool,
    /// The blocks for a model: without logs, and with previews of what is too large.
    pub model_facing_content: Vec<Content>,
    /// A summary for people, never for a model.
    pub ui_facing_summary: Option<String>,
    /// The author's replacement for an output that was dropped or redacted (AT-RES-16, AT-OUT-09).
    pub summary: Option<String>,
    #[serde(default)]
    pub resource_refs: Vec<Value>,
    #[serde(default)]
    pub artifact_refs: Vec<Value>,
    /// Evidence of the result in the journal (AT-RES-12): the record of the call, and the payloads with its output.
    #[serde(default)]
    pub evidence_refs: Vec<String>,
    /// Names of what decided, from the invocation (AT-RES-13).
    #[serde(default)]
    pub policy_refs: Vec<String>,
    /// The span of the call, from the invocation (AT-RES-14). Empty without a trace.
    #[serde(default)]
    pub telemetry_refs: Vec<Value>,
    /// The decisions on what was stored of the result (AT-RES-15).
    #[serde(default)]
    pub persistence_refs: Vec<PersistenceId>,
    /// `none`, `partial` or `full`: whether parts of the result were removed.
    pub redaction_state: String,
    /// Why the call was asked to stop, if that ended it (AT-CAN-03).
    pub abort_reason: Option<AbortReason>,
    /// The error, if the call ended in one.
    pub error: Option<ToolError>,
    /// The origin of the result, as the host observed it.
    pub provenance: ResultProvenance,
    /// The changes of the input between the caller and the tool (AT-N-11).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_mutations: Vec<InputMutation>,
    /// Context that hooks add for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_context: Vec<Value>,
    /// Changes to its caller's context that the tool wants, sorted by key. Empty for a call that failed, and for one
    /// whose batch hands them out later. An extension of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_modifiers: Vec<ContextModifier>,
    /// Absent if no guest ran.
    pub usage: Option<Usage>,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolResult {
    /// The text that a model sees: its text blocks, each on lines of its own. Empty if there is none.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .model_facing_content
            .iter()
            .filter_map(Content::as_text)
            .collect();
        texts.join("\n")
    }

    /// A result without output, of a call that ended in `error` before its tool answered.
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

    /// The class of the error, if the call ended in one.
    pub fn error_class(&self) -> Option<ErrorClass> {
        self.error.as_ref().map(|error| error.error_class)
    }
}
