use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ContextModifierPolicy, Extra, SafetyFacts, SchemaVersion, Strategy, SubjectKind};

/// `schema_visibility` (AT-IF-03), with the values that this host supports. A component with another one does not load.
///
/// ```
/// use toolcell_core::record::SchemaVisibility;
///
/// assert_eq!(serde_json::to_value(SchemaVisibility::Deferred)?, "deferred");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaVisibility {
    /// Listed with the tool.
    Loaded,
    /// Only together with the lifecycle `deferred`.
    Deferred,
}

/// `is_enabled` (AT-IF-04).
///
/// ```
/// use toolcell_core::record::Enabled;
///
/// let gate: Enabled = serde_json::from_str(r#""feature:beta""#)?;
/// assert_eq!(gate.feature(), Some("beta"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Enabled {
    Flag(bool),
    /// `feature:NAME`: enabled where the operator opens the feature gate NAME.
    Gate(String),
}

impl Enabled {
    /// Prefix of a feature gate.
    pub const FEATURE: &'static str = "feature:";

    /// The name of the feature gate, if there is one.
    pub fn feature(&self) -> Option<&str> {
        match self {
            Self::Flag(_) => None,
            Self::Gate(gate) => gate.strip_prefix(Self::FEATURE).filter(|name| !name.is_empty()),
        }
    }
}

/// `tool_interface` (AT-IF-01..10): the guest's claims about one tool. Safety facts can only narrow.
///
/// ```
/// use serde_json::json;
/// use toolcell_core::record::ToolInterface;
///
/// let (predicate, no) = (Some(json!("classifier:shell")), Some(json!(false)));
/// let interface = ToolInterface { is_read_only: predicate, is_open_world: no, ..ToolInterface::default() };
/// assert_eq!(interface.facts().is_read_only, None, "a predicate states nothing");
/// assert_eq!(interface.facts().is_open_world, Some(false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolInterface {
    pub schema_version: SchemaVersion,
    pub interface_id: String,
    pub tool_id: String,
    /// JSON Schema of the arguments, for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_input_schema: Option<Value>,
    /// JSON Schema of the arguments that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_input_schema: Option<Value>,
    /// JSON Schema of the structured output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Whether properties that the schema does not name are refused, like `strict` of the input contract; the stricter
    /// of the two applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_visibility: Option<SchemaVisibility>,
    /// `false` has the same effect as the lifecycle `disabled`, and so has a feature gate that is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_enabled: Option<Enabled>,
    /// `true`, `false`, or a predicate, which counts as unstated; likewise in the next three fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_read_only: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_concurrency_safe: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_destructive: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_open_world: Option<Value>,
    /// `true` defers the tool in every list of tools: its schema is not listed until it is loaded (AT-IF-02).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_defer: Option<bool>,
    /// `true` lists the tool even if the budget of the list is used up (AT-IF-02). Takes precedence over `should_defer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_load: Option<bool>,
    /// Wall time that the tool asks for, in milliseconds; the lowest limit of all counts (AT-IF-08).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What becomes of the context modifiers of the tool (AT-IF-08); the policy of a batch applies too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_modifier_policy: Option<ContextModifierPolicy>,
    /// Maximum length of inline output, in characters (AT-IF-10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inline_chars: Option<u64>,
    /// How the output is kept at most (AT-IF-10); the stricter of this and the output contract's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence_policy_ref: Option<Strategy>,
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
    /// Whether the tool can be selected everywhere (AT-IF-04).
    pub fn is_enabled(&self) -> bool {
        matches!(self.is_enabled, None | Some(Enabled::Flag(true)))
    }

    /// The feature gate on which it depends whether the tool can be selected.
    pub fn feature(&self) -> Option<&str> {
        self.is_enabled.as_ref().and_then(Enabled::feature)
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
