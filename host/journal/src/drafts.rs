//! Folders of artifacts until their call has ended. The kernel releases the lock of a folder with its process, so that
//! the next host can remove what a killed one left behind.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use toolcell_system::private;

/// In the folder of payloads: a draft becomes a payload by a rename.
pub(super) const DRAFTS: &str = "drafts";
/// Another process may remove a folder before it is locked.
const ATTEMPTS: usize = 8;

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    pub(super) fn make(payloads: &Path) -> io::Result<Self> {
        let parent = payloads.join(DRAFTS);
        private::create_dir(&parent)?;
        for _ in 0..ATTEMPTS {
            let closed = Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new()
                .prefix("call-")
                .rand_bytes(16)
                .permissions(closed)
                .tempdir_in(&parent)?;
            // Until it is locked, a host that starts takes it for abandoned.
            let Ok(lock) = File::open(folder.path()) else {
                continue;
            };
            if lock.try_lock().is_ok() && folder.path().is_dir() {
                return Ok(Self {
                    path: folder.keep(),
                    _lock: lock,
                });
            }
        }
        Err(io::Error::other("other processes keep removing the folder"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(super) fn sweep(payloads: &Path) {
    let Ok(entries) = fs::read_dir(payloads.join(DRAFTS)) else {
        return;
    };
    let folders = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for folder in folders.map(|entry| entry.path()) {
        let Ok(lock) = File::open(&folder) else {
            continue;
        };
        if lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_removes_what_a_killed_process_left_and_nothing_that_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let abandoned = dir.path().join(DRAFTS).join("call-abandoned");
        fs::create_dir_all(&abandoned).unwrap();
        fs::write(abandoned.join("draft"), "x").unwrap();
        let used = Folder::make(dir.path()).unwrap();
        fs::write(used.path().join("draft"), "x").unwrap();
        assert_eq!(
            fs::metadata(used.path()).unwrap().permissions().mode() & 0o777,
            0o700
        );
        sweep(dir.path());
        assert!(!abandoned.exists() && used.path().join("draft").is_file());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
