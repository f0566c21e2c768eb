use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, InvocationId, PersistenceId, ResultId, SchemaVersion, Timestamp};

/// `strategy` (AT-STRAT-01..06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    Inline,
    PreviewAndPersist,
    RefOnly,
    Redact,
    DropWithReason,
    NeverPersist,
}

/// Reference to the bytes of a payload, by their digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistedRef {
    /// `toolcell:payload/sha256:<hex>`.
    pub uri: String,
    /// `sha256:<hex>`.
    pub digest: String,
    pub media_type: String,
    pub size_bytes: u64,
}

/// `tool_result_persistence` (AT-PERS-01..12).
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persisted_ref: Option<PersistedRef>,
    pub redaction_state: String,
    pub reason: String,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}
