use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, InvocationId, PersistenceId, ResultId, SchemaVersion, Timestamp};

/// Limits of operator, tool and hooks on keeping output. Anything that one forbids stays forbidden.
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
    /// `true` if the result may have it or a preview; otherwise, a reference.
    pub inline: bool,
    /// `true` if it may be a payload.
    pub payload: bool,
    /// `true` if it may be in the call log.
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
    /// `inline` and `preview_and_persist` forbid nothing: the size selects one.
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

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            output: self.output && other.output,
            inline: self.inline && other.inline,
            payload: self.payload && other.payload,
            journal: self.journal && other.journal,
        }
    }

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
    /// All output in the result (AT-STRAT-01).
    Inline,
    /// A preview in the result, all in a payload (AT-STRAT-02).
    PreviewAndPersist,
    /// A payload alone (AT-STRAT-03).
    RefOnly,
    /// A hook redacted the output, or all of it is withheld (AT-STRAT-04).
    Redact,
    /// The output is gone: too large for the result, and not to be stored (AT-STRAT-05).
    DropWithReason,
    /// The output is in the result, and on no disk (AT-STRAT-06).
    NeverPersist,
}

/// Names a payload by its digest.
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
    pub media_type: String,
    /// In bytes.
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
    pub strategy: Strategy,
    pub threshold: Value,
    pub original_size_bytes: u64,
    pub preview_size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persisted_ref: Option<PersistedRef>,
    pub redaction_state: String,
    pub reason: String,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}
