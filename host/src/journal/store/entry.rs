//! The one way of a record into the store, and out of it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::record::InvocationId;
use crate::secret::SealingKey;

use super::StoreError;

/// The text of `record` as it is stored. Everything that is stored passes here.
pub(super) fn write(record: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(record).map_err(|error| StoreError::Unavailable(format!("write a record: {error}")))
}

/// The record in `text`.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(format!("a record cannot be read: {error}")))
}

/// `record` as nobody reads or changes it without the key, bound to its place: for what would run, arguments and all.
pub(super) fn seal(key: &SealingKey, place: &str, record: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let text = Zeroizing::new(write(record)?);
    key.seal(place, text.as_bytes()).map_err(|error| StoreError::Unavailable(format!("{error:#}")))
}

/// The record that was sealed for `place`.
pub(super) fn open<T: DeserializeOwned>(key: &SealingKey, place: &str, sealed: &[u8]) -> Result<T, StoreError> {
    let damaged = |_| StoreError::Damaged("an approval is not what was stored, or its key is another one".to_owned());
    let text = key.open(place, sealed).map_err(damaged)?;
    // Errors of the parser quote what they read.
    serde_json::from_slice(&text).map_err(|_| StoreError::Damaged("an approval cannot be read".to_owned()))
}

/// Where an approval lies: it opens nowhere else.
pub(super) fn question_of(id: InvocationId, binding: &str) -> String {
    format!("toolcell approval {id} {binding}")
}

/// Where the answer to it lies.
pub(super) fn answer_to(id: InvocationId) -> String {
    format!("toolcell answer {id}")
}
