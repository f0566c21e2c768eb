use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

use super::{
    ContextModifierPolicy, ExternalMapping, Extra, SafetyFacts, SchemaVersion, Strategy,
    SubjectKind,
};

/// `schema_visibility` (AT-IF-03).
///
/// ```
/// use toolcell_spec::SchemaVisibility;
///
/// assert_eq!(serde_json::to_value(SchemaVisibility::Deferred)?, "deferred");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaVisibility {
    Loaded,
    /// A caller loads the tool first, as with the lifecycle `deferred`.
    Deferred,
    /// No list has the tool; only other tools can call it.
    Internal,
    /// Like `loaded`: of schemas, only the one in the tool's records counts here.
    NativeRef,
}

/// `interrupt_behavior` (AT-IF-08): what happens to a call that is canceled, or to the running calls of a batch that its user
/// interrupts (AT-SCHED-05).
///
/// ```
/// use toolcell_spec::InterruptBehavior;
///
/// assert_eq!(serde_json::to_value(InterruptBehavior::Cancel)?, "cancel");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum InterruptBehavior {
    Cancel,
    /// It goes on. A tool's own wish counts not: this host stops every call that is canceled, and says so when the tool is
    /// loaded.
    #[default]
    Block,
}

impl InterruptBehavior {
    /// Every behavior.
    pub const ALL: [Self; 2] = [Self::Cancel, Self::Block];

    /// Returns the specification's word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Use of a named resource.
///
/// ```
/// use toolcell_spec::LockMode;
///
/// assert_eq!(LockMode::default(), LockMode::Exclusive);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockMode {
    Shared,
    #[default]
    Exclusive,
}

/// A resource that calls in one host use (AT-SCHED-10).
///
/// ```
/// use toolcell_spec::{LockMode, ResourceLock};
///
/// let lock: ResourceLock = serde_json::from_str(r#"{"resource": "printer"}"#)?;
/// assert_eq!((lock.resource.as_str(), lock.mode), ("printer", LockMode::Exclusive));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceLock {
    /// Shared by the tools of all components.
    pub resource: String,
    /// Default: `exclusive`.
    #[serde(default)]
    pub mode: LockMode,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The default of `classifier_input` (AT-IF-06): all arguments, as a decision sees them.
pub const PERMISSION_INPUT: &str = "permission_input";

/// `empty_result_policy` (AT-IF-10).
///
/// ```
/// use toolcell_spec::EmptyResultPolicy;
///
/// assert_eq!(serde_json::to_value(EmptyResultPolicy::default())?, "marker");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyResultPolicy {
    /// A success without output: `empty_result` is true, and a model reads that there was none.
    #[default]
    Marker,
    /// The call fails: the tool promises an output.
    Error,
}

pub(crate) const SAME_AS: &str = "same_as:";

/// `is_enabled` (AT-IF-04).
///
/// ```
/// use toolcell_spec::EnabledState;
///
/// let gate: EnabledState = serde_json::from_str(r#""feature:beta""#)?;
/// assert_eq!(gate.feature(), Some("beta"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EnabledState {
    Flag(bool),
    /// `feature:NAME`: enabled where the operator opens this feature gate. `same_as:FACT`: enabled if the interface
    /// states that safety fact as `true`. Any other predicate disables the tool.
    Gate(String),
}

impl EnabledState {
    pub const FEATURE: &'static str = "feature:";

    pub fn feature(&self) -> Option<&str> {
        match self {
            Self::Flag(_) => None,
            Self::Gate(gate) => gate
                .strip_prefix(Self::FEATURE)
                .filter(|name| !name.is_empty()),
        }
    }
}

/// The guest's claims about one tool (AT-IF-01..10). Safety facts can only narrow.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::ToolInterface;
///
/// let (predicate, no) = (Some(json!("classifier:shell")), Some(json!(false)));
/// let interface = ToolInterface { is_read_only: predicate, is_open_world: no, ..ToolInterface::default() };
/// assert_eq!(interface.facts().is_read_only, None, "a predicate states nothing");
/// assert_eq!(interface.facts().is_open_world, Some(false));
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolInterface {
    pub schema_version: SchemaVersion,
    pub interface_id: String,
    pub tool_id: String,
    pub model_input_schema: Option<Value>,
    pub runtime_input_schema: Option<Value>,
    pub output_schema: Option<Value>,
    /// Like `strict` of the input contract; the stricter one applies.
    pub strict: Option<bool>,
    pub schema_visibility: Option<SchemaVisibility>,
    /// `false`, or a closed gate, has the effect of the lifecycle `disabled`.
    pub is_enabled: Option<EnabledState>,
    /// `true`, `false`, or a predicate; likewise in the next three fields. `same_as:FACT` is that fact; any other
    /// predicate counts as unstated.
    pub is_read_only: Option<Value>,
    pub is_concurrency_safe: Option<Value>,
    pub is_destructive: Option<Value>,
    pub is_open_world: Option<Value>,
    /// `true` leaves the schema out of every list until it is loaded (AT-IF-02).
    pub should_defer: Option<bool>,
    /// `true` lists the tool despite a used up budget, and despite `should_defer` (AT-IF-02).
    pub always_load: Option<bool>,
    /// Wall time in milliseconds; the lowest limit of all counts (AT-IF-08).
    pub timeout_ms: Option<u64>,
    /// A batch's policy applies too (AT-IF-08).
    pub context_modifier_policy: Option<ContextModifierPolicy>,
    /// Maximum inline output, in characters (AT-IF-10).
    pub max_inline_chars: Option<u64>,
    /// The stricter of this and the output contract's counts (AT-IF-10).
    pub persistence_policy_ref: Option<Strategy>,
    /// Applies if the declaration names none.
    pub execution_profile_ref: Option<String>,
    pub permission_profile_ref: Option<String>,
    /// By JSON Pointer. An extension.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub permission_subjects: BTreeMap<String, SubjectKind>,
    /// A subject kind, or `tool`. With another word, each call needs an approval, unless a rule allows the tool.
    pub permission_matcher: Option<String>,
    /// `true` if a user takes part in each call: it needs an approval.
    pub requires_user_interaction: Option<bool>,
    /// Applies if the permission profile names none; the host writes the applied one.
    pub sandbox_profile: Option<String>,
    /// `true` if no other call of the component, and in a batch no other call at all, runs beside a call.
    pub requires_exclusive_context: Option<bool>,
    /// Resources that the host does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_locks: Vec<ResourceLock>,
    /// A preference only: the host stops canceled calls.
    pub interrupt_behavior: Option<InterruptBehavior>,
    pub external_mappings: Option<Vec<ExternalMapping>>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolInterface {
    /// `true` if the tool can be selected everywhere (AT-IF-04).
    pub fn is_enabled(&self) -> bool {
        match &self.is_enabled {
            None => true,
            Some(EnabledState::Flag(is_enabled)) => *is_enabled,
            Some(EnabledState::Gate(predicate)) => {
                let fact = predicate
                    .strip_prefix(SAME_AS)
                    .and_then(|fact| self.fact(fact));
                fact.and_then(Value::as_bool) == Some(true)
            }
        }
    }

    /// `granted` is the host's word for what was declared and granted, and asks for none.
    pub fn asked_sandbox(&self) -> Option<&str> {
        self.sandbox_profile
            .as_deref()
            .filter(|asked| !asked.is_empty() && *asked != "granted")
    }

    /// `true` if rules are compared with `permission_matcher` (AT-IF-07). `has_native_ids`: `external_mappings` name
    /// operations of other protocols.
    pub fn is_matched(&self, has_native_ids: bool) -> bool {
        let matcher = self
            .permission_matcher
            .as_deref()
            .filter(|matcher| !matcher.is_empty());
        matcher.is_none_or(|matcher| is_subject(matcher, &self.permission_subjects, has_native_ids))
    }

    pub fn feature(&self) -> Option<&str> {
        self.is_enabled.as_ref().and_then(EnabledState::feature)
    }

    /// The arguments that the component classifies, by name or JSON Pointer; `None` for all (AT-IF-06).
    pub fn classifier_input(&self) -> Option<Vec<String>> {
        Vec::deserialize(self.extra.get("classifier_input")?).ok()
    }

    /// An unknown word counts as the default.
    pub fn empty_result_policy(&self) -> EmptyResultPolicy {
        let word = self.extra.get("empty_result_policy");
        word.and_then(|word| EmptyResultPolicy::deserialize(word).ok())
            .unwrap_or_default()
    }

    fn fact(&self, name: &str) -> Option<&Value> {
        let claim = match name {
            "is_read_only" => &self.is_read_only,
            "is_concurrency_safe" => &self.is_concurrency_safe,
            "is_destructive" => &self.is_destructive,
            "is_open_world" => &self.is_open_world,
            _ => return None,
        };
        claim.as_ref()
    }

    /// Plain booleans, or `same_as:FACT` of one; any other predicate counts as unstated.
    pub fn facts(&self) -> SafetyFacts {
        let plain = |claim: &Option<Value>| match claim.as_ref()? {
            Value::String(predicate) => self.fact(predicate.strip_prefix(SAME_AS)?)?.as_bool(),
            claim => claim.as_bool(),
        };
        SafetyFacts {
            is_read_only: plain(&self.is_read_only),
            is_concurrency_safe: plain(&self.is_concurrency_safe),
            is_destructive: plain(&self.is_destructive),
            is_open_world: plain(&self.is_open_world),
        }
    }
}

pub fn is_subject(
    word: &str,
    subjects: &BTreeMap<String, SubjectKind>,
    has_native_ids: bool,
) -> bool {
    let has = |kind| subjects.values().any(|known| *known == kind);
    match word {
        "tool" | "tool_name" => true,
        "path" => has(SubjectKind::Path),
        "url" => has(SubjectKind::Url),
        "resource" | "resource_id" => has(SubjectKind::Resource),
        "command" => has(SubjectKind::Command),
        "native_operation_id" => has(SubjectKind::NativeOperationId) || has_native_ids,
        _ => false,
    }
}
