use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use toolcell_spec::{LoadingState, SurfaceReason};
use utoipa::ToSchema;

/// The status of a tool for one caller.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolStatusDocument {
    /// The fully qualified name of the tool.
    pub id: String,
    /// `true` if the caller can call the tool now, as far as the tool decides it.
    pub available: bool,
    /// `loaded`, `deferred`, `discoverable` or `unavailable`.
    #[schema(value_type = String)]
    pub loading_state: LoadingState,
    /// Why the tool is not loaded, as in a `tool_surface`.
    #[schema(value_type = Option<String>)]
    pub reason: Option<SurfaceReason>,
    /// The caller's own latest calls of the tool, at most 100, counted by status. Absent if the server keeps no log of calls.
    pub recent_calls: Option<BTreeMap<String, u32>>,
}

/// How a tool fared, as an agent reports it.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ToolReport {
    pub status: ReportedStatus,
    /// What happened: at most 1 KiB.
    #[schema(max_length = 1024)]
    pub message: Option<String>,
}

/// The word of an agent for how a tool fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ReportedStatus {
    Success,
    Failure,
}

/// The answer to a report.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolReportReceipt {
    /// The fully qualified name of the tool.
    pub id: String,
    /// `acknowledged`.
    pub status: &'static str,
}
