use serde::{Deserialize, Serialize};

use super::{ExternalMapping, Extra, SchemaVersion};

/// `tool_execution_profile` (AT-EXEC-01..16). A guest may ask; the host writes the flags from what it sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutionProfile {
    pub schema_version: SchemaVersion,
    pub execution_profile_id: String,
    pub execution_kind: String,
    #[serde(default)]
    pub supports_progress: bool,
    #[serde(default)]
    pub supports_cancel: bool,
    #[serde(default)]
    pub supports_resume: bool,
    #[serde(default)]
    pub supports_retries: bool,
    #[serde(default)]
    pub supports_partial_results: bool,
    #[serde(default)]
    pub supports_background: bool,
    #[serde(default)]
    pub supports_artifacts: bool,
    #[serde(default)]
    pub supports_context_modifiers: bool,
    #[serde(default)]
    pub sandboxed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_mappings: Vec<ExternalMapping>,
    #[serde(flatten)]
    pub extra: Extra,
}
