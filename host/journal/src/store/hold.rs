use std::fs::{File, TryLockError};
use std::path::PathBuf;

use toolcell_spec::InvocationId;
use toolcell_system::pool::STORE;
use toolcell_system::private;

use super::{Journal, Role, StoreError};

/// A file lock, released when dropped or when the process ends.
///
/// ```
/// use toolcell_journal::{Journal, Role};
/// use toolcell_spec::InvocationId;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let (journal, id) = (Journal::new(folder.join("journal"), folder.join("key")), InvocationId::new());
/// let held = journal.hold(id, Role::Runner)?;
/// assert!(held.is_some());
/// assert!(journal.hold(id, Role::Runner)?.is_none(), "the role is taken");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RoleLock {
    path: PathBuf,
    // Closing the file releases the lock.
    _file: File,
}

impl RoleLock {
    /// Removes the lock file, because no process takes this role again.
    pub fn retire(self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// [`Self::retire`] on a thread for the host's own store.
    pub async fn retire_async(self) {
        // A lock file that is left over locks nothing.
        let _ = STORE.run(move || self.retire()).await;
    }
}

impl Journal {
    /// Blocks; `None` if a living process has the role.
    pub fn hold(&self, id: InvocationId, role: Role) -> Result<Option<RoleLock>, StoreError> {
        let folder = self.dir().join("waiting");
        let name = match role {
            Role::Runner => "run",
            Role::Approver => "answer",
        };
        let path = folder.join(format!("{id}.{name}"));
        let unusable =
            |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
        private::close_dir(&folder).map_err(unusable)?;
        let file = private::open_or_create(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(RoleLock { path, _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }

    /// [`Self::hold`] on a thread for the host's own store.
    pub async fn hold_async(
        &self,
        id: InvocationId,
        role: Role,
    ) -> Result<Option<RoleLock>, StoreError> {
        let journal = self.clone();
        let held = STORE.run(move || journal.hold(id, role)).await;
        held.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }
}
