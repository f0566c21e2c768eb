//! The part of the crate filetime that gix uses, which the crate itself leaves out for WASI.

use std::{
    fs::Metadata,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileTime {
    seconds: i64,
    nanoseconds: u32,
}

impl FileTime {
    pub fn now() -> Self {
        Self::from_system_time(SystemTime::now())
    }

    /// 1970 if the file has no time.
    pub fn from_last_modification_time(metadata: &Metadata) -> Self {
        Self::from_system_time(metadata.modified().unwrap_or(UNIX_EPOCH))
    }

    pub fn from_system_time(time: SystemTime) -> Self {
        // WASI has no time before 1970.
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::from_unix_time(since.as_secs() as i64, since.subsec_nanos())
    }

    pub const fn from_unix_time(seconds: i64, nanoseconds: u32) -> Self {
        Self {
            seconds,
            nanoseconds,
        }
    }

    pub const fn unix_seconds(&self) -> i64 {
        self.seconds
    }

    pub const fn nanoseconds(&self) -> u32 {
        self.nanoseconds
    }
}
