use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

/// A change of the caller's context that a tool made (AT-PIPE-13): a claim of the tool, which the host does not apply.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::ContextModifier;
///
/// let modifier = ContextModifier { key: "branch".to_owned(), value: json!("main") };
/// assert_eq!(serde_json::to_value(&modifier)?, json!({ "key": "branch", "value": "main" }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextModifier {
    /// Names what is changed. No other modifier of the result has this key, unless keys were redacted.
    pub key: String,
    /// The new value.
    pub value: Value,
}

/// Handling of the context modifiers of calls made together (AT-SCHED-07, AT-IF-08). The greater of two policies is the
/// stricter one.
///
/// ```
/// use toolcell_spec::ContextModifierPolicy;
///
/// assert_eq!(ContextModifierPolicy::default().as_str(), "allow_serial_only");
/// assert!(ContextModifierPolicy::Forbid > ContextModifierPolicy::DeferUntilBatchComplete);
/// ```
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ContextModifierPolicy {
    /// Calls whose tools support context modifiers do not run beside each other.
    #[default]
    AllowSerialOnly,
    /// They are handed out once every call has ended, in the order of the calls.
    DeferUntilBatchComplete,
    /// A tool that makes one gets an error.
    Forbid,
}

impl ContextModifierPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [
        Self::AllowSerialOnly,
        Self::DeferUntilBatchComplete,
        Self::Forbid,
    ];

    /// Returns the specification's word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
