//! What a call may make of the file systems that it can write to, and what it may keep open: WASI knows no such limits.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

use crate::policy::Limits;
use crate::record::{self, FileUsage};
use crate::sandbox::trap::Exceeded;

/// Folders that a guest can be in the middle of listing. Each keeps one of the host's files open.
const LISTINGS_MAX: u64 = 32;

/// A call's last operation on a file takes microseconds on a disk. One on a file system that hangs does not end at all, and
/// must not keep the result back.
const SETTLE_MAX: Duration = Duration::from_secs(1);
const SETTLE_STEP: Duration = Duration::from_millis(1);

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
    /// What the last operation that changes something works on: a folder, or a file.
    changing: Mutex<Weak<File>>,
}

impl Quota {
    pub(in crate::sandbox) fn new(limits: &Limits) -> Self {
        Self {
            bytes: Meter::new(limits.disk_bytes),
            files: Meter::new(limits.files_created),
            listings: Meter::new(LISTINGS_MAX),
            descriptors_max: usize::try_from(limits.descriptors).unwrap_or(usize::MAX),
            open: Mutex::default(),
            changing: Mutex::default(),
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
    pub(super) fn write(&self, file: &File, offset: u64, length: u64) -> Result<(), Exceeded> {
        let grows = |size: u64| offset.saturating_add(length).saturating_sub(size);
        let growth = file.metadata().ok().filter(|metadata| metadata.is_file()).map_or(0, |it| grows(it.len()));
        self.bytes(length.max(growth))
    }

    pub(super) fn bytes(&self, amount: u64) -> Result<(), Exceeded> {
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

    /// An operation begins that changes something in or of `file`. A guest waits for it before it begins another.
    pub(in crate::sandbox) fn changes(&self, file: &Arc<File>) {
        *self.changing.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(file);
    }

    /// Waits, once the store is gone, until no thread works on the call's files any more: what a thread of the pool has
    /// begun goes on when the guest is long stopped. `false` if that takes too long, on a file system that hangs.
    pub(in crate::sandbox) async fn settled(&self) -> bool {
        let began = Instant::now();
        while self.is_busy() && guard!("settle") {
            if began.elapsed() > SETTLE_MAX {
                return false;
            }
            tokio::time::sleep(SETTLE_STEP).await;
        }
        true
    }

    /// Whether anybody holds one of the files. After the store is gone, that is a thread at work.
    fn is_busy(&self) -> bool {
        let held = |file: &Weak<File>| file.strong_count() > 0;
        held(&self.changing.lock().unwrap_or_else(PoisonError::into_inner))
            || self.open.lock().unwrap_or_else(PoisonError::into_inner).iter().any(held)
    }
}
