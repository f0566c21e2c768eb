use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, InvocationId, ProgressId, SchemaVersion, Timestamp};

/// AT-PSTAT-01..10. Guests report `running` or `partial_result`.
///
/// ```
/// use toolcell_spec::ProgressStatus;
///
/// assert_eq!(ProgressStatus::default(), ProgressStatus::Running);
/// ```
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

impl ToolProgress {
    /// An update that says nothing yet. The trail of its call gives it its identity, sequence and time.
    pub fn new(status: ProgressStatus) -> Self {
        Self {
            schema_version: SchemaVersion::default(),
            progress_id: ProgressId::new(),
            invocation_id: InvocationId::new(),
            sequence: 0,
            status,
            message: None,
            percent: None,
            current_step: None,
            total_steps: None,
            elapsed_ms: 0,
            bytes_read: None,
            bytes_written: None,
            line_count: None,
            task_id: None,
            partial_result_refs: Vec::new(),
            artifact_refs: Vec::new(),
            partial_content: None,
            timestamp: Timestamp::now(),
            extra: Extra::new(),
        }
    }
}

/// Facts of the guest, with identity, order and time of the host (AT-PROG-01..17).
///
/// ```
/// use toolcell_spec::ToolProgress;
///
/// fn line(progress: &ToolProgress) -> String {
///     let percent = progress.percent.map(|percent| format!("{percent:.0} % ")).unwrap_or_default();
///     format!("{percent}{} after {} ms", progress.message.as_deref().unwrap_or_default(), progress.elapsed_ms)
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolProgress {
    pub schema_version: SchemaVersion,
    pub progress_id: ProgressId,
    pub invocation_id: InvocationId,
    /// From 1, without gaps.
    pub sequence: u64,
    pub status: ProgressStatus,
    pub message: Option<String>,
    pub percent: Option<f64>,
    pub current_step: Option<String>,
    pub total_steps: Option<u32>,
    pub elapsed_ms: u64,
    pub bytes_read: Option<u64>,
    pub bytes_written: Option<u64>,
    pub line_count: Option<u64>,
    /// The call's id, once the call goes on without its caller (AT-PROG-14).
    pub task_id: Option<InvocationId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial_result_refs: Vec<String>,
    /// Artifacts of a partial result, kept if the answer refers to them (AT-PROG-16).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifact_refs: Vec<Value>,
    /// Blocks of a partial result. An extension.
    pub partial_content: Option<Value>,
    pub timestamp: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}
