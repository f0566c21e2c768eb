//! The state of a file, which shows changes since it was read, without reading it again.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A more recently changed file could change again and show the same time.
const SETTLED: Duration = Duration::from_secs(1);

/// Identity and state of a file: device, inode, size, and the times of the last change of content and of state. Any
/// write, replacement or setting of times changes it, because only the kernel sets the time of a change. A state taken
/// *before* reading stands for what was read.
///
/// A write through a memory mapping changes it only in some file systems, and only as the first to a page since that
/// was written to disk: see [`FileState::lasting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileState([u64; 7]);

impl FileState {
    /// `None` if the metadata cannot be read.
    pub fn from_file(file: &File) -> Option<Self> {
        file.metadata().ok().map(|metadata| Self::from(&metadata))
    }

    /// `None` if a later change might not show: a write through a mapping, or one too soon after the last. May block on
    /// the disk.
    pub fn lasting(file: &File) -> Option<Self> {
        let began = SystemTime::now();
        if guard!("mapped_writes") {
            if !dates_mapped_writes(file) {
                return None;
            }
            // From here on, the first write to each page gets a time from the kernel.
            file.sync_data().ok()?;
        }
        Self::from_file(file).filter(|state| state.is_settled(began))
    }

    /// Returns whether a change after `at` would show.
    pub fn is_settled(&self, at: SystemTime) -> bool {
        let [.., seconds, nanoseconds] = self.0;
        // A time before 1970 is a huge number here, and the addition fails.
        let since = Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanoseconds));
        let changed = since.and_then(|since| UNIX_EPOCH.checked_add(since));
        changed
            .and_then(|changed| at.duration_since(changed).ok())
            .is_some_and(|age| age >= SETTLED)
    }
}

impl From<&Metadata> for FileState {
    fn from(metadata: &Metadata) -> Self {
        Self([
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime().cast_unsigned(),
            metadata.mtime_nsec().cast_unsigned(),
            metadata.ctime().cast_unsigned(),
            metadata.ctime_nsec().cast_unsigned(),
        ])
    }
}

/// Returns whether the first write to a mapped page after a write to disk updates the change time. It does on local
/// disks; tmpfs, FUSE and network file systems may not.
#[cfg(target_os = "linux")]
fn dates_mapped_writes(file: &File) -> bool {
    const EXT4: u64 = 0xEF53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683E;
    const F2FS: u64 = 0xF2F5_2010;
    // It leaves pages and times to the file system of its upper layer, and containers use it.
    const OVERLAY: u64 = 0x794C_7630;
    // The type is `i64` or `u32`, depending on the platform.
    rustix::fs::fstatfs(file)
        .is_ok_and(|found| [EXT4, XFS, BTRFS, F2FS, OVERLAY].contains(&(found.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
fn dates_mapped_writes(_file: &File) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_could_happen_again_at_the_same_time_is_not_settled() {
        let at = |seconds: i64, nanoseconds: u64| {
            FileState([1, 2, 3, 4, 5, seconds.cast_unsigned(), nanoseconds])
        };
        let now = UNIX_EPOCH + Duration::from_secs(100);
        assert!(at(99, 0).is_settled(now) && !at(99, 1).is_settled(now));
        assert!(!at(101, 0).is_settled(now), "it is in the future");
        assert!(!at(-1, 0).is_settled(now) && !at(0, u64::MAX).is_settled(now));
    }
}
