use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, InvocationId, ProgressId, SchemaVersion, Timestamp};

/// `status` of a progress record (AT-PSTAT-01..10). A guest's own updates are `running` or `partial_result`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressStatus {
    Queued,
    Started,
    #[default]
    Running,
    WaitingForPermission,
    WaitingForInput,
    Backgrounded,
    PartialResult,
    Completed,
    Failed,
    Canceled,
}

/// `tool_progress` (AT-PROG-01..17). The guest gives the facts; the host adds identity, order and time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolProgress {
    pub schema_version: SchemaVersion,
    pub progress_id: ProgressId,
    pub invocation_id: InvocationId,
    /// From 1, without gaps.
    pub sequence: u64,
    pub status: ProgressStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u32>,
    pub elapsed_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_read: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_written: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_count: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial_result_refs: Vec<String>,
    /// The blocks of a partial result. An extension of the specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_content: Option<Value>,
    pub timestamp: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}
