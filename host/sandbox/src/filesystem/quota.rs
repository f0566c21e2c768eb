//! Limits on what a call writes, creates and keeps open in its mounts.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use toolcell_executor::WorkspaceRoom;
use toolcell_policy::Limits;
use toolcell_spec as record;
use toolcell_spec::FileUsage;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

use crate::locked;
use crate::trap::ExceededLimit;

const LISTINGS_MAX: u64 = 32;
/// Files that are noted before those without a holder are forgotten.
const CHANGING_MAX: usize = 64;

/// A file operation never ends on a file system that hangs, and must not hold back the result.
const SETTLE_MAX: Duration = Duration::from_secs(1);
const SETTLE_STEP: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct UsageMeter {
    used: AtomicU64,
    limit: u64,
}

impl UsageMeter {
    fn new(limit: u64) -> Self {
        Self {
            used: AtomicU64::new(0),
            limit,
        }
    }

    /// `None`, with nothing counted, if that exceeds the limit.
    fn take(&self, amount: u64) -> Option<()> {
        let more = |used: u64| used.checked_add(amount).filter(|used| *used <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_| ())
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct FileQuota {
    bytes: UsageMeter,
    files: UsageMeter,
    listings: UsageMeter,
    descriptors_max: usize,
    /// What the call may add to its workspace. All growth counts, wherever a file is: it could be moved there.
    room: Option<Arc<WorkspaceRoom>>,
    /// Counted by their holders, because a stream keeps its file open after the guest dropped the descriptor.
    open: Mutex<Vec<Weak<File>>>,
    /// Operations that change something work on them; each holds its file for as long.
    changing: Mutex<Vec<Weak<File>>>,
}

impl FileQuota {
    pub(crate) fn new(limits: &Limits, room: Option<Arc<WorkspaceRoom>>) -> Self {
        Self {
            bytes: UsageMeter::new(limits.disk_bytes),
            files: UsageMeter::new(limits.files_created),
            listings: UsageMeter::new(LISTINGS_MAX),
            descriptors_max: usize::try_from(limits.descriptors).unwrap_or(usize::MAX),
            room,
            open: Mutex::default(),
            changing: Mutex::default(),
        }
    }

    /// Bytes written, or that files grew by, whichever was more at each step; files, folders and links created. `None`
    /// if both are zero.
    pub(crate) fn usage(&self, limits: &Limits) -> Option<FileUsage> {
        let disk_bytes = record::MeteredUsage {
            used: self.bytes.used(),
            limit: limits.disk_bytes,
        };
        let files_created = record::MeteredUsage {
            used: self.files.used(),
            limit: limits.files_created,
        };
        (disk_bytes.used > 0 || files_created.used > 0).then_some(FileUsage {
            disk_bytes,
            files_created,
        })
    }

    /// Counts what a call that the guest made consumed.
    pub(crate) fn charge(&self, below: &FileUsage) {
        self.bytes
            .used
            .fetch_add(below.disk_bytes.used, Ordering::Relaxed);
        self.files
            .used
            .fetch_add(below.files_created.used, Ordering::Relaxed);
    }

    /// Beyond the end, counts as far as the file grows, because a hole takes space once the file is copied.
    pub(super) fn write(&self, file: &File, offset: u64, length: u64) -> Result<(), ExceededLimit> {
        let grows = |size: u64| offset.saturating_add(length).saturating_sub(size);
        let growth = file
            .metadata()
            .ok()
            .filter(|metadata| metadata.is_file())
            .map_or(0, |it| grows(it.len()));
        self.grow(growth)?;
        self.bytes(length.max(growth))
    }

    /// As [`Self::write`], at the end of the file.
    pub(super) fn append(&self, length: u64) -> Result<(), ExceededLimit> {
        self.grow(length)?;
        self.bytes(length)
    }

    fn grow(&self, bytes: u64) -> Result<(), ExceededLimit> {
        let has_room = |room: &Arc<WorkspaceRoom>| room.take_bytes(bytes);
        if self.room.as_ref().is_none_or(has_room) || !guard!("workspace_quota") {
            Ok(())
        } else {
            Err(ExceededLimit::Workspace)
        }
    }

    fn bytes(&self, amount: u64) -> Result<(), ExceededLimit> {
        if guard!("disk_bytes") {
            self.bytes.take(amount).ok_or(ExceededLimit::DiskBytes)
        } else {
            Ok(())
        }
    }

    /// What a file of the workspace gave up is room again: tools overwrite files by cutting them first.
    pub(super) fn shrink(&self, bytes: u64) {
        if let Some(room) = &self.room {
            room.give_bytes(bytes);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.room.is_some()
    }

    /// Counted before the write; a `length` of 0 means that the file grows to `offset`.
    pub(super) fn write_at(&self, file: &File, offset: u64, length: u64) -> FsResult<()> {
        self.write(file, offset, length).map_err(FsError::trap)
    }

    /// Counts a file, folder or link before it is created.
    pub(super) fn file(&self) -> FsResult<()> {
        self.files(1).map_err(FsError::trap)
    }

    fn files(&self, count: u64) -> Result<(), ExceededLimit> {
        let has_room = |room: &Arc<WorkspaceRoom>| room.take_files(count);
        if !self.room.as_ref().is_none_or(has_room) && guard!("workspace_quota") {
            return Err(ExceededLimit::Workspace);
        }
        if guard!("files_created") {
            self.files.take(count).ok_or(ExceededLimit::FilesCreated)
        } else {
            Ok(())
        }
    }

    /// `entries`: the file, and folders that hold it.
    pub(crate) fn given(&self, bytes: u64, entries: u64) -> Result<(), ExceededLimit> {
        self.bytes(bytes)?;
        self.files(entries)
    }

    pub(super) fn room_to_open(&self) -> FsResult<()> {
        let mut open = locked(&self.open);
        if open.len() >= self.descriptors_max {
            open.retain(|file| file.strong_count() > 0);
        }
        if open.len() < self.descriptors_max || !guard!("descriptors") {
            Ok(())
        } else {
            Err(FsError::trap(ExceededLimit::Descriptors))
        }
    }

    pub(super) fn listing(&self) -> FsResult<()> {
        Ok(self.listings.take(1).ok_or(ErrorCode::InsufficientMemory)?)
    }

    pub(super) fn listed(&self) {
        self.listings.used.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn opened(&self, file: &Arc<File>) {
        locked(&self.open).push(Arc::downgrade(file));
    }

    pub(crate) fn changes(&self, file: &Arc<File>) {
        let mut changing = locked(&self.changing);
        let is_known = |known: &Weak<File>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(file));
        if changing.iter().any(is_known) {
            return;
        }
        if changing.len() >= CHANGING_MAX {
            changing.retain(|file| file.strong_count() > 0);
        }
        changing.push(Arc::downgrade(file));
    }

    /// Runs after the store is dropped. `false` after [`SETTLE_MAX`], on a file system that hangs.
    pub(crate) async fn settled(&self) -> bool {
        // Most calls have nothing to wait for, and read no clock.
        let mut began = None;
        while self.is_busy() && guard!("settle") {
            if began.get_or_insert_with(Instant::now).elapsed() > SETTLE_MAX {
                return false;
            }
            tokio::time::sleep(SETTLE_STEP).await;
        }
        true
    }

    fn is_busy(&self) -> bool {
        let held = |file: &Weak<File>| file.strong_count() > 0;
        locked(&self.changing).iter().any(held) || locked(&self.open).iter().any(held)
    }
}
