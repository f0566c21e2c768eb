//! How the log of calls is kept, and why it fails.

use std::path::PathBuf;
use std::time::Duration;

use toolcell_spec::{ErrorCode, Refusal};

use crate::PAYLOAD_BYTES;

/// Default maximum size of the log, in bytes. A call takes about 5 kB.
pub const LOG_BYTES: u64 = 1 << 30;

/// Default time after which calls are removed from the log.
pub const LOG_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Which calls stay on record.
///
/// ```
/// use toolcell_journal::{Keep, LogSettings};
///
/// let settings = LogSettings { keep: Keep::Failures, ..LogSettings::default() };
/// assert_ne!(settings, LogSettings::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    #[default]
    All,
    /// Of a call that succeeded, only that it ran.
    Failures,
    /// Nothing is written.
    None,
}

/// How the log of calls is kept.
///
/// ```
/// use std::time::Duration;
///
/// use toolcell_journal::LogSettings;
///
/// let week = LogSettings { age_max: Duration::from_secs(7 * 24 * 3_600), ..LogSettings::default() };
/// assert!(!week.flush);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    pub keep: Keep,
    /// Wait until the disk has each start and each end. Default: `false`.
    pub flush: bool,
    /// Maximum size of all payloads, in bytes; each caller of a server has a share of it, and loses its own oldest ones first.
    /// Default: [`PAYLOAD_BYTES`].
    pub payload_bytes_max: u64,
    /// Maximum size of the log, in bytes; whole segments are removed, the oldest first. Default: [`LOG_BYTES`].
    pub bytes_max: u64,
    /// Segments without a newer call are removed. Default: [`LOG_AGE`].
    pub age_max: Duration,
    /// If `true`, records hold the seed of a call's random numbers and its clock readings, for a replay.
    /// Default: `true`.
    pub replay: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            keep: Keep::All,
            flush: false,
            payload_bytes_max: PAYLOAD_BYTES,
            bytes_max: LOG_BYTES,
            age_max: LOG_AGE,
            replay: true,
        }
    }
}

/// Why an operation of the log failed.
///
/// ```
/// use toolcell_journal::LogError;
///
/// /// For a reader who must not learn where the log is.
/// fn told(error: &LogError) -> String {
///     format!("calls cannot be put on record: {}", error.reason())
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log cannot be read or written.
    #[error("cannot {what} the log of calls in {}: {why}", dir.display())]
    Failed {
        what: &'static str,
        dir: PathBuf,
        why: String,
    },
    /// The end of an id fits several calls: their ids.
    #[error("several calls have an id that ends so; give more of it: {}", .0.join(", "))]
    Ambiguous(Vec<String>),
}

impl LogError {
    /// Why, without the place of the log.
    pub fn reason(&self) -> &str {
        match self {
            Self::Failed { why, .. } => why,
            Self::Ambiguous(_) => "several calls have an id that ends so",
        }
    }
}

impl From<LogError> for Refusal {
    /// Fails closed: a call whose start is not on record does not run.
    fn from(error: LogError) -> Self {
        let message = "the log of calls cannot be written, and so nothing runs; free some space, or turn it down: \
                       [log] keep = \"none\" in toolcell.toml";
        Self::new(ErrorCode::JournalUnavailable, message).detail(error.to_string())
    }
}
