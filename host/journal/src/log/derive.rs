use toolcell_policy::secret::private_file::KEY_BYTES;

use super::{CallLog, LogError};

impl CallLog {
    /// Returns a key for the use that `context` names, made from the key of the log: the same one in every process of
    /// this user.
    ///
    /// # Errors
    ///
    /// The key of the log cannot be read or created.
    pub fn derived_key(&self, context: &str) -> Result<[u8; KEY_BYTES], LogError> {
        self.key()
            .map(|key| blake3::derive_key(context, key.as_slice()))
    }
}
