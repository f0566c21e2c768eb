use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, SchemaVersion};

/// `tool_interface` (AT-IF-01..10): the guest's claims about one tool. Safety facts can only narrow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolInterface {
    pub schema_version: SchemaVersion,
    pub interface_id: String,
    pub tool_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_input_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_input_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// `true`, `false`, or a predicate; a predicate that the host does not know counts as unstated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_enabled: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_read_only: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_concurrency_safe: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_destructive: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_open_world: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inline_chars: Option<u64>,
    #[serde(flatten)]
    pub extra: Extra,
}
