//! Every record enters and leaves the store here.

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use toolcell_policy::secret::SealingKey;
use toolcell_spec::{InvocationId, Timestamp};

use super::StoreError;

pub(super) fn write(record: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(record)
        .map_err(|error| StoreError::Unavailable(format!("write a record: {error}")))
}

pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::Damaged(format!("a record cannot be read: {error}")))
}

/// Encrypts and authenticates, for `place` alone: for what would run, arguments included.
pub(super) fn seal(
    key: &SealingKey,
    place: &str,
    record: &impl Serialize,
) -> Result<Vec<u8>, StoreError> {
    let text = Zeroizing::new(write(record)?);
    key.seal(place, text.as_bytes())
        .map_err(|error| StoreError::Unavailable(format!("{error:#}")))
}

pub(super) fn open<T: DeserializeOwned>(
    key: &SealingKey,
    place: &str,
    sealed: &[u8],
) -> Result<T, StoreError> {
    let damaged = |_| {
        StoreError::Damaged(
            "a stored call is not what was stored, or its key is another one".to_owned(),
        )
    };
    let text = key.open(place, sealed).map_err(damaged)?;
    // The errors of the parser would quote arguments.
    serde_json::from_slice(&text)
        .map_err(|_| StoreError::Damaged("a stored call cannot be read".to_owned()))
}

pub(super) fn question_of(id: InvocationId, binding: &str) -> String {
    format!("toolcell approval {id} {binding}")
}

pub(super) fn answer_to(id: InvocationId) -> String {
    format!("toolcell answer {id}")
}

/// Each round of questions has a time of its own.
pub(super) fn suspension_of(id: InvocationId, expires_at: Timestamp) -> String {
    format!("toolcell suspended call {id} {}", expires_at.unix_millis())
}

pub(super) fn scope_of(reference: &str) -> String {
    format!("toolcell scope {reference}")
}
