//! The one way of a record into the store, and out of it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::record::digest;

use super::StoreError;

/// The text of `record` as it is stored. Everything that is stored passes here.
pub(super) fn write(record: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(record).map_err(|error| StoreError::Unavailable(format!("write a record: {error}")))
}

/// The record in `text`.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(format!("a record cannot be read: {error}")))
}

/// Shows when something that an approval rests on was changed behind the store's back. It is no defence against its
/// owner, who could write a new one.
pub(super) fn seal(parts: &[&str]) -> String {
    digest(parts.join("\n").as_bytes())
}

/// Holds `parts` against the seal that was stored with them.
pub(super) fn check_seal(seal_text: &str, parts: &[&str]) -> Result<(), StoreError> {
    match seal(parts) == seal_text {
        true => Ok(()),
        false => Err(StoreError::Damaged("an approval is not what was stored".to_owned())),
    }
}
