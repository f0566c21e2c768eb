use toolcell_policy::secret::private_file::KEY_BYTES;

use super::{CallLog, LogError};

impl CallLog {
    /// A key for the use `context`, made from the key of the log: the same in every process of this user. Fails if that
    /// key cannot be read or created.
    pub fn derived_key(&self, context: &str) -> Result<[u8; KEY_BYTES], LogError> {
        self.key()
            .map(|key| blake3::derive_key(context, key.as_slice()))
    }
}
