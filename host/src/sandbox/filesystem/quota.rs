//! What a call may make of the file systems that it can write to, and what it may keep open: WASI knows no such limits.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{DynOutputStream, FsError, FsResult, OutputStream, Pollable, StreamError, StreamResult};

use super::Rules;
use crate::policy::Limits;
use crate::record::{self, FileUsage};
use crate::sandbox::trap::Exceeded;

/// Folders that a guest can be in the middle of listing. The host keeps every name of each: with all the files that a call
/// may make, with names as long as they get, that is 3 MB.
const LISTINGS_MAX: u64 = 32;

/// Counts up to a limit.
#[derive(Debug)]
struct Meter {
    used: AtomicU64,
    limit: u64,
}

impl Meter {
    fn new(limit: u64) -> Self {
        Self { used: AtomicU64::new(0), limit }
    }

    /// Counts `amount`; `None`, and nothing is counted, where that is over the limit.
    fn take(&self, amount: u64) -> Option<()> {
        let more = |used: u64| used.checked_add(amount).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| ())
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// What one call has written, made and opened.
#[derive(Debug)]
pub(in crate::sandbox) struct Quota {
    bytes: Meter,
    files: Meter,
    listings: Meter,
    descriptors_max: usize,
    /// Open files of the host. A stream keeps its file open when the guest has long dropped the descriptor, so what counts
    /// is who still holds the file.
    open: Mutex<Vec<Weak<File>>>,
}

impl Quota {
    pub(in crate::sandbox) fn new(limits: &Limits) -> Self {
        Self {
            bytes: Meter::new(limits.disk_bytes),
            files: Meter::new(limits.files_created),
            listings: Meter::new(LISTINGS_MAX),
            descriptors_max: usize::try_from(limits.descriptors).unwrap_or(usize::MAX),
            open: Mutex::default(),
        }
    }

    /// What was used: bytes that were written, or that files grew by, whichever was more at each step; files, folders and
    /// links that were made. Nothing if nothing was.
    pub(in crate::sandbox) fn usage(&self, limits: &Limits) -> Option<FileUsage> {
        let disk_bytes = record::Metered { used: self.bytes.used(), limit: limits.disk_bytes };
        let files_created = record::Metered { used: self.files.used(), limit: limits.files_created };
        (disk_bytes.used > 0 || files_created.used > 0).then_some(FileUsage { disk_bytes, files_created })
    }

    /// Counts a write of `length` bytes to `file`. A write beyond the end counts as far as the file grows: a hole takes no
    /// space today, and all of it once it is copied.
    fn write(&self, file: &File, offset: u64, length: u64) -> Result<(), Exceeded> {
        let grows = |size: u64| offset.saturating_add(length).saturating_sub(size);
        let growth = file.metadata().ok().filter(|metadata| metadata.is_file()).map_or(0, |it| grows(it.len()));
        self.bytes(length.max(growth))
    }

    fn bytes(&self, amount: u64) -> Result<(), Exceeded> {
        if guard!("disk_bytes") { self.bytes.take(amount).ok_or(Exceeded::DiskBytes) } else { Ok(()) }
    }

    /// Counts a write that is about to be made; a length of nothing stands for the file growing to `offset`.
    pub(super) fn write_at(&self, file: &File, offset: u64, length: u64) -> FsResult<()> {
        self.write(file, offset, length).map_err(FsError::trap)
    }

    /// Counts something that is about to be made.
    pub(super) fn file(&self) -> FsResult<()> {
        if guard!("files_created") {
            self.files.take(1).ok_or_else(|| FsError::trap(Exceeded::FilesCreated))
        } else {
            Ok(())
        }
    }

    /// Fails when the call already keeps as many files open as it may.
    pub(super) fn room_to_open(&self) -> FsResult<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= self.descriptors_max {
            open.retain(|file| file.strong_count() > 0);
        }
        if open.len() < self.descriptors_max || !guard!("descriptors") {
            Ok(())
        } else {
            Err(FsError::trap(Exceeded::Descriptors))
        }
    }

    /// Counts a list of a folder's entries that the guest begins to read.
    pub(super) fn listing(&self) -> FsResult<()> {
        Ok(self.listings.take(1).ok_or(ErrorCode::InsufficientMemory)?)
    }

    /// The guest dropped such a list.
    pub(super) fn listed(&self) {
        self.listings.used.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn opened(&self, file: &Arc<File>) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(file));
    }
}

/// A stream into a file that counts what goes through it.
pub(super) struct Metered {
    pub(super) inner: DynOutputStream,
    pub(super) file: Arc<File>,
    /// Where the next byte goes; `None` where that is the end of the file, wherever it is.
    pub(super) position: Option<u64>,
    pub(super) rules: Arc<Rules>,
}

impl Metered {
    fn count(&mut self, bytes: &Bytes) -> StreamResult<()> {
        let length = bytes.len() as u64;
        let counted = match &mut self.position {
            Some(position) => {
                let offset = std::mem::replace(position, position.saturating_add(length));
                self.rules.quota.write(&self.file, offset, length)
            }
            None => self.rules.quota.bytes(length),
        };
        counted.map_err(|exceeded| StreamError::Trap(exceeded.into()))
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Metered {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.count(&bytes)?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.count(&bytes)?;
        self.inner.blocking_write_and_flush(bytes).await
    }

    async fn write_ready(&mut self) -> StreamResult<usize> {
        self.inner.write_ready().await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Metered {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}
