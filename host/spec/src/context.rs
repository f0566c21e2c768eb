use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

/// A tool's claim (AT-PIPE-13), which the host does not apply.
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
    /// Unique in a result, unless redacted.
    pub key: String,
    pub value: Value,
}

/// Ordered by strictness (AT-SCHED-07, AT-IF-08).
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
    /// Calls whose tools support modifiers run one by one.
    #[default]
    AllowSerialOnly,
    /// Handed out after the last call, in the order of the calls.
    DeferUntilBatchComplete,
    /// A modifier is an error.
    Forbid,
}

impl ContextModifierPolicy {
    pub const ALL: [Self; 3] = [
        Self::AllowSerialOnly,
        Self::DeferUntilBatchComplete,
        Self::Forbid,
    ];

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
