use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, InvocationId, PersistenceId, ResultId, SchemaVersion, Timestamp};

/// Limits on keeping a tool's output, set by the operator, the tool and the hooks. What one of them forbids stays
/// forbidden.
///
/// ```
/// use toolcell_spec::{OutputRetention, Strategy};
///
/// let keeping = OutputRetention::by(Strategy::RefOnly).and(OutputRetention::by(Strategy::NeverPersist));
/// assert!(!keeping.inline && !keeping.payload, "neither in the result nor on disk");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRetention {
    /// `true` if any of it may leave the host.
    pub output: bool,
    /// `true` if the result may have it or a preview of it; otherwise the result has a reference.
    pub inline: bool,
    /// `true` if it may be stored as a payload.
    pub payload: bool,
    /// `true` if the call log may have it.
    pub journal: bool,
}

impl Default for OutputRetention {
    /// By size alone.
    fn default() -> Self {
        Self {
            output: true,
            inline: true,
            payload: true,
            journal: true,
        }
    }
}

impl OutputRetention {
    /// Limits of a strategy. `inline` and `preview_and_persist` forbid nothing: the size selects one of them.
    pub fn by(strategy: Strategy) -> Self {
        let all = Self::default();
        match strategy {
            Strategy::Inline | Strategy::PreviewAndPersist => all,
            Strategy::RefOnly => Self {
                inline: false,
                ..all
            },
            Strategy::Redact => Self {
                output: false,
                ..all
            },
            Strategy::DropWithReason => Self {
                payload: false,
                ..all
            },
            Strategy::NeverPersist => Self {
                payload: false,
                journal: false,
                ..all
            },
        }
    }

    /// Intersection.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            output: self.output && other.output,
            inline: self.inline && other.inline,
            payload: self.payload && other.payload,
            journal: self.journal && other.journal,
        }
    }

    /// Returns whether an output can become a payload.
    pub fn can_persist(self) -> bool {
        self.output && self.payload
    }
}

/// `strategy` (AT-STRAT-01..06).
///
/// ```
/// use toolcell_spec::Strategy;
///
/// assert_eq!(serde_json::to_value(Strategy::PreviewAndPersist)?, "preview_and_persist");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// All of the output is in the result (AT-STRAT-01).
    Inline,
    /// The result has a preview, and a payload has all of it (AT-STRAT-02).
    PreviewAndPersist,
    /// The result has only a reference to the payload (AT-STRAT-03).
    RefOnly,
    /// A hook redacted the output, and what is left is in the result; or all of it is withheld (AT-STRAT-04).
    Redact,
    /// The output does not fit into the result and may not be stored, and is gone (AT-STRAT-05).
    DropWithReason,
    /// The output is in the result, and on no disk (AT-STRAT-06).
    NeverPersist,
}

/// Reference to the bytes of a payload, by their digest.
///
/// ```
/// use toolcell_spec::{CallRecord, PersistedRef};
///
/// /// The payload of the call, which `Host::payload` returns by its digest.
/// fn payload(record: &CallRecord) -> Option<&PersistedRef> {
///     record.persistence.iter().find_map(|stored| stored.persisted_ref.as_ref())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistedRef {
    /// `toolcell:payload/sha256:<hex>`.
    pub uri: String,
    /// `sha256:<hex>`.
    pub digest: String,
    /// Media type of the payload.
    pub media_type: String,
    /// Size of the payload, in bytes.
    pub size_bytes: u64,
}

/// `tool_result_persistence` (AT-PERS-01..12).
///
/// ```
/// use toolcell_spec::{ResultPersistence, Strategy};
///
/// /// Bytes that the model does not see.
/// fn left_out(stored: &ResultPersistence) -> u64 {
///     match stored.strategy {
///         Strategy::Inline => 0,
///         _ => stored.original_size_bytes.saturating_sub(stored.preview_size_bytes),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultPersistence {
    pub schema_version: SchemaVersion,
    pub decision_id: PersistenceId,
    pub invocation_id: InvocationId,
    pub result_id: ResultId,
    /// Stored form.
    pub strategy: Strategy,
    pub threshold: Value,
    /// Size of the whole output, in bytes.
    pub original_size_bytes: u64,
    /// Size of what stayed in the result, in bytes.
    pub preview_size_bytes: u64,
    /// The payload, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persisted_ref: Option<PersistedRef>,
    pub redaction_state: String,
    /// Why this strategy was chosen.
    pub reason: String,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}
