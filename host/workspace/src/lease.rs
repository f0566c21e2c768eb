use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::pool::GUEST_FILES;
use toolcell_system::private;

use super::{Workspace, failed, swap};

/// Between two attempts to lock a file that another process has.
const RETRY: Duration = Duration::from_millis(20);
pub(crate) const LOCK: &str = "lock";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Beside other readers.
    Read,
    /// Alone.
    Write,
}

/// The right to read or change the files of a workspace, until it is dropped. The kernel releases it with the process.
#[derive(Debug)]
pub struct Lease {
    access: Access,
    lock: File,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = note_use(&self.lock);
    }
}

/// See [`Workspace::used_at`].
fn note_use(lock: &File) -> io::Result<()> {
    lock.set_modified(SystemTime::now())
}

impl Lease {
    pub fn is_writer(&self) -> bool {
        self.access == Access::Write
    }
}

impl Workspace {
    /// `None` while others use the workspace. What a killed process left behind is put in order first.
    ///
    /// # Errors
    ///
    /// `unknown_workspace` if it was removed meanwhile, and failures of the file system.
    pub fn try_lock(&self, access: Access) -> Result<Option<Lease>, Refusal> {
        let path = self.folder().join(LOCK);
        let is_broken = access == Access::Read && swap::is_interrupted(self.folder());
        let wanted = if is_broken { Access::Write } else { access };
        match locked(&path, wanted) {
            Ok(Some(lock)) => {
                if wanted == Access::Write {
                    swap::recover(self.folder()).map_err(|error| failed(self.folder(), &error))?;
                }
                if is_broken {
                    drop(lock);
                    return self.try_lock(access);
                }
                note_use(&lock).map_err(|error| failed(&path, &error))?;
                Ok(Some(Lease { access, lock }))
            }
            Ok(None) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.unknown()),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    /// Waits for at most `patience`.
    ///
    /// # Errors
    ///
    /// `workspace_busy` if others still use it then; as [`Self::try_lock`].
    pub fn lock(&self, access: Access, patience: Duration) -> Result<Lease, Refusal> {
        let began = Instant::now();
        loop {
            if let Some(lease) = self.try_lock(access)? {
                return Ok(lease);
            }
            if began.elapsed() >= patience {
                return Err(self.busy());
            }
            std::thread::sleep(RETRY);
        }
    }

    /// As [`Self::lock`], without a thread that waits.
    ///
    /// # Errors
    ///
    /// As [`Self::lock`].
    pub async fn lease(
        self: Arc<Self>,
        access: Access,
        patience: Duration,
    ) -> Result<Lease, Refusal> {
        let began = Instant::now();
        loop {
            let wanted = Arc::clone(&self);
            let taken = GUEST_FILES.run(move || wanted.try_lock(access)).await;
            let taken = taken.map_err(|error| Refusal::host_fault(error.to_string()))?;
            if let Some(lease) = taken? {
                return Ok(lease);
            }
            if began.elapsed() >= patience {
                return Err(self.busy());
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The refusal for a workspace that others use for too long.
    fn busy(&self) -> Refusal {
        let message = format!(
            "the workspace {} is used by another call; try again later",
            self.name()
        );
        Refusal::new(ErrorCode::WorkspaceBusy, message)
    }
}

/// Fails if the folder was removed.
pub(crate) fn locked(path: &Path, access: Access) -> io::Result<Option<File>> {
    let file = private::open_or_create(path)?;
    let taken = match access {
        Access::Read => file.try_lock_shared(),
        Access::Write => file.try_lock(),
    };
    match taken {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // It may have been removed, and made again under the same name, before it was locked.
    let there = std::fs::symlink_metadata(path)?;
    let mine = file.metadata()?;
    let is_same = (there.dev(), there.ino()) == (mine.dev(), mine.ino());
    Ok(is_same.then_some(file))
}
