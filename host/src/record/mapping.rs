use serde::{Deserialize, Serialize};

use super::Extra;

/// `tool_external_mapping` (AT-MAP-01..07): native ids of another protocol, identified by `source` and stored verbatim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternalMapping {
    pub source: String,
    #[serde(flatten)]
    pub fields: Extra,
}

/// How often an output was mapped into a result: once for the tool's output, and once more for each hook that owns an
/// update of it (AT-PIPE-10).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResultMappings {
    /// 1 if a tool's output was mapped, 0 if there was none.
    pub tool: u32,
    /// The hooks whose output was mapped, in order.
    pub hooks: Vec<String>,
}
