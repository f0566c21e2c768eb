use serde::{Deserialize, Serialize};

use super::{ExternalMapping, Extra, SchemaVersion};

/// `tool_execution_profile` (AT-EXEC-01..16). A tool's values are claims; the host writes the flags from what it
/// observes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutionProfile {
    pub schema_version: SchemaVersion,
    pub execution_profile_id: String,
    pub execution_kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_progress: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_cancel: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_resume: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_retries: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_partial_results: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_background: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_artifacts: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_context_modifiers: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandboxed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_mappings: Vec<ExternalMapping>,
    #[serde(flatten)]
    pub extra: Extra,
}
