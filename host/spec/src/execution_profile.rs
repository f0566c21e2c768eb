use serde::{Deserialize, Serialize};

use super::{ExternalMapping, Extra, SchemaVersion};

/// `tool_execution_profile` (AT-EXEC-01..16). A tool's values are claims; the host writes the flags from what it
/// observes.
///
/// ```
/// use toolcell_spec::ExecutionProfile;
///
/// let profile = ExecutionProfile { timeout_ms: Some(5_000), ..ExecutionProfile::default() };
/// assert_eq!(serde_json::to_value(&profile)?["timeout_ms"], 5_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutionProfile {
    pub schema_version: SchemaVersion,
    pub execution_profile_id: String,
    /// Set by the host: `embedded_runtime` (AT-EXEC-03).
    pub execution_kind: String,
    pub supports_progress: Option<bool>,
    pub supports_cancel: Option<bool>,
    pub supports_resume: Option<bool>,
    pub supports_retries: Option<bool>,
    pub supports_partial_results: Option<bool>,
    pub supports_background: Option<bool>,
    /// `true` if the tool takes so long that a caller must ask for its result later. An extension of the specification.
    pub requires_background: Option<bool>,
    pub supports_artifacts: Option<bool>,
    pub supports_context_modifiers: Option<bool>,
    /// Set by the host: always `true` (AT-EXEC-12).
    pub sandboxed: Option<bool>,
    pub sandbox_profile: Option<String>,
    /// Wall time that the tool asks for, in milliseconds; the lowest limit of all counts (AT-EXEC-14).
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_mappings: Vec<ExternalMapping>,
    #[serde(flatten)]
    pub extra: Extra,
}
