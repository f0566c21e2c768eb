//! The size of the folders in which cargo compiles. Each toolchain has one, which only grows, because cargo never
//! removes what it compiled of an earlier version.

use std::ffi::OsStr;
use std::fs::{DirEntry, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// All folders together, in bytes; one with all of the example tools takes a tenth.
pub(super) const BYTES_MAX: u64 = 5 << 30;

/// Prefix of the names of these folders, and of one that is being removed.
pub(super) const BUILD: &str = "build-";
const REMOVED: &str = "removed-";

/// Notes that `folder` was used. Without the note it is removed earlier, which costs time alone.
pub(super) fn touch(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.set_modified(SystemTime::now()));
}

/// Removes the least recently used folders of `parent`. The caller holds the lock of all builds below it, so that none
/// of them is in use.
pub(super) fn prune(parent: &Path, bytes_max: u64) {
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        match folder_name(&entry) {
            Some(name) if name.starts_with(REMOVED) => remove(&entry.path()),
            Some(name) if name.starts_with(BUILD) => {
                let modified = entry.metadata().and_then(|metadata| metadata.modified());
                kept.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), entry.path()));
            }
            _ => {}
        }
    }
    kept.sort();
    let mut bytes = 0_u64;
    // The latest first.
    for (_, folder) in kept.into_iter().rev() {
        bytes = bytes.saturating_add(size(&folder));
        if bytes > bytes_max {
            discard(&folder);
        }
    }
}

fn folder_name(entry: &DirEntry) -> Option<String> {
    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
    is_folder.then(|| entry.file_name().to_string_lossy().into_owned())
}

/// Renames `folder` first: if the program is killed meanwhile, cargo must not find a part of it.
fn discard(folder: &Path) {
    let name = folder
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    let removed = folder.with_file_name(format!("{REMOVED}{name}"));
    if std::fs::rename(folder, &removed).is_ok() {
        remove(&removed);
    }
}

/// A part that cannot be removed now is removed after a later build.
fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}

/// In bytes. Links are not followed, and a file with several names counts once if all of them are in `folder`.
fn size(folder: &Path) -> u64 {
    let mut bytes = 0_u64;
    let mut waiting: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                waiting.push(entry.path());
            } else {
                bytes = bytes.saturating_add(metadata.len() / metadata.nlink().max(1));
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FILE: usize = 1 << 20;

    /// Folders with a file each: `build-0`, used first, to `build-2`, used last.
    fn parent() -> tempfile::TempDir {
        let parent = tempfile::tempdir().unwrap();
        for at in 0..3 {
            let folder = parent.path().join(format!("build-{at}"));
            std::fs::create_dir_all(folder.join("release/deps")).unwrap();
            std::fs::write(folder.join("release/deps/a"), vec![1; FILE]).unwrap();
            std::fs::hard_link(folder.join("release/deps/a"), folder.join("release/a")).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + at);
            File::open(&folder).unwrap().set_modified(time).unwrap();
        }
        std::fs::write(parent.path().join("lock"), "").unwrap();
        parent
    }

    fn left(parent: &tempfile::TempDir) -> Vec<String> {
        let mut left: Vec<String> = std::fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        left
    }

    #[test]
    fn the_least_recently_used_folders_go_first() {
        let parent = parent();
        prune(parent.path(), 4 * FILE as u64);
        assert_eq!(left(&parent), ["build-0", "build-1", "build-2", "lock"]);
        touch(&parent.path().join("build-0"));
        prune(parent.path(), 5 * FILE as u64 / 2);
        assert_eq!(left(&parent), ["build-0", "build-2", "lock"]);
        prune(parent.path(), 0);
        assert_eq!(left(&parent), ["lock"]);
    }

    #[test]
    fn a_removal_that_was_interrupted_is_completed_and_links_are_not_followed() {
        let parent = parent();
        std::fs::rename(
            parent.path().join("build-0"),
            parent.path().join("removed-build-0"),
        )
        .unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("mine"), vec![1; 8 * FILE]).unwrap();
        std::os::unix::fs::symlink(outside.path(), parent.path().join("build-1/link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), parent.path().join("build-link")).unwrap();
        prune(parent.path(), 4 * FILE as u64);
        assert_eq!(left(&parent), ["build-1", "build-2", "build-link", "lock"]);
        prune(parent.path(), 0);
        assert!(outside.path().join("mine").is_file());
    }
}
