use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file that changed less than this ago could change again and show the same time.
const SETTLED: Duration = Duration::from_secs(1);

/// Which file it is, and in which state: whoever writes to it, replaces it or gives it other times makes another state,
/// because the kernel alone sets the time of a change. Taken *before* the file is read, it stands for what was read.
///
/// A write through a mapping of the file changes that time too, but only the first one to a page since that page was
/// written to the disk, and only in file systems that hear of it: see [`FileState::lasting`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileState {
    identity: [u8; 56],
    changed: SystemTime,
}

impl FileState {
    /// Nothing where the file cannot be looked at.
    pub(super) fn of(file: &File) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        let fields = [
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime().cast_unsigned(),
            metadata.mtime_nsec().cast_unsigned(),
            metadata.ctime().cast_unsigned(),
            metadata.ctime_nsec().cast_unsigned(),
        ];
        let mut identity = [0; 56];
        for (bytes, field) in identity.chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        let seconds = u64::try_from(metadata.ctime()).ok()?;
        let nanoseconds = u32::try_from(metadata.ctime_nsec()).ok()?;
        Some(Self { identity, changed: UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))? })
    }

    pub(super) fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// The state of `file`, if every later change shows in it: no page of it is still written to unseen through a mapping,
    /// and its last change is long enough ago. May wait for the disk.
    pub(super) fn lasting(file: &File) -> Option<Self> {
        let began = SystemTime::now();
        if guard!("mapped_writes") {
            if !dates_mapped_writes(file) {
                return None;
            }
            // From here on the first write to each page is one that the kernel dates.
            file.sync_data().ok()?;
        }
        Self::of(file).filter(|state| state.is_settled(began))
    }

    /// Whether a change after `at` cannot be mistaken for this state.
    pub(super) fn is_settled(&self, at: SystemTime) -> bool {
        at.duration_since(self.changed).is_ok_and(|age| age >= SETTLED)
    }
}

/// Whether the file system gives a file another time of change when a page of it is written to through a mapping for the first
/// time since it was on the disk. Those on a disk of this machine do; memory (tmpfs), FUSE and the network may not.
#[cfg(target_os = "linux")]
fn dates_mapped_writes(file: &File) -> bool {
    const EXT4: u64 = 0xEF53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683E;
    const F2FS: u64 = 0xF2F5_2010;
    // It hands pages and times over to the file system of its upper layer, and containers are made of it.
    const OVERLAY: u64 = 0x794C_7630;
    // The type is an `i64` or a `u32`, as the platform has it.
    rustix::fs::fstatfs(file).is_ok_and(|found| [EXT4, XFS, BTRFS, F2FS, OVERLAY].contains(&(found.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
fn dates_mapped_writes(_file: &File) -> bool {
    false
}
