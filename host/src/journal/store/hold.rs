use std::fs::{File, TryLockError};
use std::path::PathBuf;

use crate::record::InvocationId;

use super::schema::{private_file, private_folder};
use super::{Journal, StoreError};

/// A role in a waiting call. Only one process at a time can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for the answer, and runs the call.
    Runner,
    /// Gives an answer from another process.
    Approver,
}

/// A held role: a file lock, which is released when this is dropped or the process ends.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    // Closing the file releases the lock.
    _file: File,
}

impl Held {
    /// Removes the lock file, because the call has ended and no process takes this role again.
    pub fn retire(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Journal {
    /// Takes `role` for the call `id`; `None` if a living process has it.
    pub fn hold(&self, id: InvocationId, role: Role) -> Result<Option<Held>, StoreError> {
        let folder = self.dir().join("waiting");
        let name = match role {
            Role::Runner => "run",
            Role::Approver => "answer",
        };
        let path = folder.join(format!("{id}.{name}"));
        let unusable = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
        private_folder(&folder).map_err(unusable)?;
        let file = private_file(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Held { path, _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }
}
