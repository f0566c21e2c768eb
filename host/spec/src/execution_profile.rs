use serde::{Deserialize, Serialize};

use super::{ExternalMapping, Extra, SchemaVersion};

/// Claims of the tool, and flags that the host observed (AT-EXEC-01..16).
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
    /// `embedded_runtime`, set by the host (AT-EXEC-03).
    pub execution_kind: String,
    pub supports_progress: Option<bool>,
    pub supports_cancel: Option<bool>,
    pub supports_resume: Option<bool>,
    pub supports_retries: Option<bool>,
    pub supports_partial_results: Option<bool>,
    pub supports_background: Option<bool>,
    /// `true` if callers must ask for the result later. An extension.
    pub requires_background: Option<bool>,
    pub supports_artifacts: Option<bool>,
    pub supports_context_modifiers: Option<bool>,
    /// Always `true`, set by the host (AT-EXEC-12).
    pub sandboxed: Option<bool>,
    pub sandbox_profile: Option<String>,
    /// Wall time in milliseconds; the lowest limit of all counts (AT-EXEC-14).
    pub timeout_ms: Option<u64>,
    pub external_mappings: Option<Vec<ExternalMapping>>,
    #[serde(flatten)]
    pub extra: Extra,
}
