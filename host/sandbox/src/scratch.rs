//! Scratch folders, which live as long as one call.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat,
};
use rustix::io::Errno;
use toolcell_system::private;

/// Removed on drop, or by the next host if its own was killed.
pub(super) struct ScratchFolder {
    folder: PathBuf,
    /// Tells other hosts that the folder is in use; the kernel releases it when the process ends.
    lock: OwnedFd,
}

/// Another host would have to remove each in the moment before it is locked.
const ATTEMPTS: usize = 100;

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = remove(&self.folder, &self.lock);
    }
}

impl ScratchFolder {
    /// Only this user can enter the folder; its name is unguessable.
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        private::create_dir(parent)?;
        remove_abandoned(parent);
        for _ in 0..ATTEMPTS {
            let closed = std::fs::Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new()
                .prefix("call-")
                .rand_bytes(16)
                .permissions(closed)
                .tempdir_in(parent)?;
            if let Some(lock) = take(folder.path())? {
                return Ok(Self {
                    folder: folder.keep(),
                    lock,
                });
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Canonical if its parent's path is.
    pub(super) fn path(&self) -> &Path {
        &self.folder
    }
}

/// Read-only, for a guest that may enter a folder and see nothing in it.
pub(super) fn empty(parent: &Path) -> io::Result<PathBuf> {
    private::create_dir(parent)?;
    let folder = parent.join("empty");
    match std::fs::DirBuilder::new().mode(0o500).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(folder),
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

fn open(folder: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(folder, FOLDER, Mode::empty())?)
}

/// `None` if another host took the folder for abandoned before it was locked.
fn take(folder: &Path) -> io::Result<Option<OwnedFd>> {
    let lock = match open(folder) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    // It may have been locked, removed and unlocked meanwhile.
    Ok(folder.exists().then_some(lock))
}

/// A folder that cannot be removed is left to the next call.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    let calls = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("call-"));
    for path in calls.map(|entry| entry.path()) {
        let Ok(lock) = open(&path) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = remove(&path, &lock);
        }
    }
}

/// Keeps two files open at a time, however deep a guest nested its folders, because one for each level could be too
/// many.
pub(super) fn remove(folder: &Path, root: &OwnedFd) -> io::Result<()> {
    empty_out(root)?;
    std::fs::remove_dir(folder)
}

/// Descends to a folder without subfolders, and goes up from there through `..`.
fn empty_out(root: &OwnedFd) -> io::Result<()> {
    let mut current = openat(root, c".", FOLDER, Mode::empty())?;
    // The folders on the way down: the name of each, and the identity of its parent.
    let mut above: Vec<(CString, (u64, u64))> = Vec::new();
    loop {
        if let Some(name) = remove_files(&current)? {
            above.push((name.clone(), identity(&current)?));
            current = openat(&current, &name, FOLDER, Mode::empty())?;
            continue;
        }
        let Some((name, parent)) = above.pop() else {
            return Ok(());
        };
        current = openat(&current, c"..", FOLDER, Mode::empty())?;
        if identity(&current)? != parent {
            // Another process of this user moved a folder, so that `..` may be any folder now.
            return Err(io::ErrorKind::NotFound.into());
        }
        unlinkat(&current, &name, AtFlags::REMOVEDIR)?;
    }
}

/// Stops at a subfolder, whose name it returns.
fn remove_files(folder: &OwnedFd) -> io::Result<Option<CString>> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            return Ok(Some(name.to_owned()));
        }
        match unlinkat(folder, name, AtFlags::empty()) {
            // The file system does not report the types of entries.
            Err(Errno::ISDIR | Errno::PERM) if entry.file_type() == FileType::Unknown => {
                return Ok(Some(name.to_owned()));
            }
            Err(Errno::NOENT) => {}
            removed => removed?,
        }
    }
    Ok(None)
}

fn identity(folder: impl AsFd) -> io::Result<(u64, u64)> {
    let stat = fstat(folder)?;
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    Ok((stat.st_dev as u64, stat.st_ino as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_is_private_and_gone_with_its_call_and_a_dead_hosts_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let abandoned = parent.path().join("call-abandoned");
        std::fs::create_dir_all(abandoned.join("inner")).unwrap();
        let first = ScratchFolder::make(parent.path()).unwrap();
        let second = ScratchFolder::make(parent.path()).unwrap();
        assert!(!abandoned.exists());
        assert!(
            first.path().is_dir() && second.path().is_dir(),
            "one in use is left alone"
        );
        let mode = std::fs::metadata(first.path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = first.path().to_owned();
        std::fs::write(path.join("draft"), "x").unwrap();
        drop(first);
        assert!(!path.exists() && second.path().is_dir());
    }

    #[test]
    fn a_new_folder_that_another_host_takes_for_abandoned_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    remove_abandoned(parent.path());
                }
            });
            let made: Vec<_> = (0..3_000)
                .map(|_| ScratchFolder::make(parent.path()).map(|made| made.path().is_dir()))
                .collect();
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            let wrong: Vec<_> = made
                .iter()
                .filter(|made| !matches!(made, Ok(true)))
                .collect();
            assert!(
                wrong.is_empty(),
                "{} of {}: {:?}",
                wrong.len(),
                made.len(),
                wrong.first()
            );
        });
    }

    #[test]
    fn folders_are_removed_however_wide_and_deep_they_are_nested_and_links_are_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let kept = parent.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        let scratch = ScratchFolder::make(parent.path()).unwrap();
        for wide in 0..20 {
            let folder = scratch.path().join(format!("{wide}/a/b"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("file"), "x").unwrap();
            std::os::unix::fs::symlink(&kept, folder.join("link")).unwrap();
        }
        let mut deep = open(scratch.path()).unwrap();
        // Longer than any path, and deeper than a process may have files open.
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&deep, "deep", Mode::RWXU).unwrap();
            deep = openat(&deep, "deep", FOLDER, Mode::empty()).unwrap();
        }
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
        assert!(kept.join("file").exists());
    }
}
