use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file that changed less than this ago could change again and show the same time.
const SETTLED: Duration = Duration::from_secs(1);

/// Which file it is, and in which state: whoever writes to it, replaces it or gives it other times makes another state,
/// because the kernel alone sets the time of a change. Taken *before* the file is read, it stands for what was read.
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

    /// Whether a change from now on cannot be mistaken for this state.
    pub(super) fn is_settled(&self) -> bool {
        SystemTime::now().duration_since(self.changed).is_ok_and(|age| age >= SETTLED)
    }
}
