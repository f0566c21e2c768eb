use serde::{Deserialize, Serialize};

use super::Extra;

/// `tool_external_mapping` (AT-MAP-01..07): native ids of another protocol, told apart by `source`, carried verbatim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternalMapping {
    pub source: String,
    #[serde(flatten)]
    pub fields: Extra,
}
