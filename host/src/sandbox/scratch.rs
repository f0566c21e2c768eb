//! Folders that live as long as one call: drafts go there, and nobody keeps them.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tempfile::TempDir;

/// The folder of one call. It is removed with this value, on every way out of a call; what a host that was killed leaves
/// behind is removed by the next one that makes such a folder.
pub(super) struct Scratch {
    folder: TempDir,
    /// Says to other hosts that the folder is in use; the kernel takes it back with the process.
    _lock: OwnedFd,
}

impl Scratch {
    /// Makes a folder in `parent` that only this user can enter, with a name that nobody can guess.
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        private_folder(parent)?;
        remove_abandoned(parent);
        let private = std::fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("call-").rand_bytes(16).permissions(private).tempdir_in(parent)?;
        let lock = open(folder.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { folder, _lock: lock })
    }

    /// Where it is; canonical if its parent is.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// An empty folder in `parent` that nobody changes: what a guest sees where it may enter and see nothing.
pub(super) fn empty(parent: &Path) -> io::Result<PathBuf> {
    private_folder(parent)?;
    let folder = parent.join("empty");
    match std::fs::DirBuilder::new().mode(0o500).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(folder),
    }
}

fn private_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Removes the folders that nobody holds. One that cannot be removed is left to the next call.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let calls = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("call-"));
    for path in calls.map(|entry| entry.path()) {
        let Ok(lock) = open(&path) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_is_private_and_gone_with_its_call_and_a_dead_hosts_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let abandoned = parent.path().join("call-abandoned");
        std::fs::create_dir_all(abandoned.join("inner")).unwrap();
        let first = Scratch::make(parent.path()).unwrap();
        let second = Scratch::make(parent.path()).unwrap();
        assert!(!abandoned.exists());
        assert!(first.path().is_dir() && second.path().is_dir(), "one in use is left alone");
        let mode = std::fs::metadata(first.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = first.path().to_owned();
        std::fs::write(path.join("draft"), "x").unwrap();
        drop(first);
        assert!(!path.exists() && second.path().is_dir());
    }
}
