//! Counts what is unpacked, so that a bomb ends early.

use std::{
    cell::Cell,
    io::{self, Read},
};

use toolcell_guest::{
    ToolError, cancellation,
    progress::{self, Update},
};

/// Unpacked bytes may be this many times those of the archive. Text and logs stay below; zeros reach 1032.
const RATIO_MAX: u64 = 200;
/// Bytes that are unpacked whatever the ratio is, because a small file can be very regular.
const RATIO_FREE_BYTES: u64 = 16 << 20;
/// Bytes between two reports of progress.
const REPORT_EVERY_BYTES: u64 = 8 << 20;

/// The limits of one walk through an archive, and what it has unpacked so far.
pub(crate) struct Meter {
    archive_bytes: u64,
    bytes_max: u64,
    unpacked: Cell<u64>,
}

impl Meter {
    pub(crate) fn new(archive_bytes: u64, bytes_max: u64) -> Self {
        Self {
            archive_bytes,
            bytes_max,
            unpacked: Cell::new(0),
        }
    }

    /// Counts `bytes`.
    ///
    /// # Errors
    ///
    /// result_too_large, code `too_large` or `ratio_too_high`; canceled.
    pub(crate) fn add(&self, bytes: u64) -> Result<(), ToolError> {
        cancellation::check()?;
        let before = self.unpacked.get();
        let unpacked = before.saturating_add(bytes);
        self.unpacked.set(unpacked);
        if unpacked / REPORT_EVERY_BYTES > before / REPORT_EVERY_BYTES {
            let message = format!("{} MiB unpacked", unpacked >> 20);
            progress::report(Update::new().message(message).bytes_read(unpacked));
        }
        if unpacked > self.bytes_max {
            let message = format!(
                "the archive unpacks to more than {} bytes; `max_bytes` raises the limit",
                self.bytes_max
            );
            return Err(ToolError::result_too_large("too_large", message));
        }
        let allowed = self.archive_bytes.saturating_mul(RATIO_MAX);
        if unpacked > allowed.max(RATIO_FREE_BYTES) {
            let message = format!(
                "the archive has {} bytes and unpacks to more than {RATIO_MAX} times as many, as archives do that are \
                 made to fill a disk",
                self.archive_bytes
            );
            return Err(ToolError::result_too_large("ratio_too_high", message));
        }
        Ok(())
    }

    /// A reader that counts what `inner` gives.
    pub(crate) fn reader<R: Read>(&self, inner: R) -> Metered<'_, R> {
        Metered { meter: self, inner }
    }
}

pub(crate) struct Metered<'m, R> {
    meter: &'m Meter,
    inner: R,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.meter.add(read as u64).map_err(io::Error::other)?;
        Ok(read)
    }
}
