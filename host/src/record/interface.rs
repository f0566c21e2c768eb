use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, SafetyFacts, SchemaVersion, SubjectKind};

/// `schema_visibility` (AT-IF-03), with the values that this host supports. A component with another one does not load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaVisibility {
    Loaded,
    /// Only together with the lifecycle `deferred`.
    Deferred,
}

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
    /// Whether properties that the schema does not name are refused, like `strict` of the input contract; the stricter
    /// of the two applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_visibility: Option<SchemaVisibility>,
    /// `false` has the same effect as the lifecycle `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_enabled: Option<bool>,
    /// `true`, `false`, or a predicate, which counts as unstated; likewise in the next three fields.
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
    /// The profiles of the tool, if its declaration names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_profile_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_profile_ref: Option<String>,
    /// The arguments that hold permission subjects, by JSON Pointer. An extension of the specification.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub permission_subjects: BTreeMap<String, SubjectKind>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolInterface {
    /// Whether the tool can be selected (AT-IF-04).
    pub fn is_enabled(&self) -> bool {
        self.is_enabled != Some(false)
    }

    /// The claims that are plain booleans; a predicate counts as unstated.
    pub fn facts(&self) -> SafetyFacts {
        let plain = |claim: &Option<Value>| claim.as_ref().and_then(Value::as_bool);
        SafetyFacts {
            is_read_only: plain(&self.is_read_only),
            is_concurrency_safe: plain(&self.is_concurrency_safe),
            is_destructive: plain(&self.is_destructive),
            is_open_world: plain(&self.is_open_world),
        }
    }
}
