//! Lists a folder in batches, so that the host keeps only a few names however many the folder has.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use toolcell_system::pool::GUEST_FILES;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
};

use crate::limiter::MemoryCharge;

/// Each batch costs a switch to another thread and back.
const BATCH: usize = 64;
/// The kernel's buffer, and a batch of names of maximum length.
pub(super) const LISTING_BYTES: usize = 72 << 10;

type ListingEntry = Result<DirectoryEntry, ErrorCode>;

pub(super) struct FolderListing {
    /// `None` at the end, and while a batch is read.
    rest: Option<Dir>,
    ready: VecDeque<ListingEntry>,
    _charge: MemoryCharge,
}

impl FolderListing {
    pub(super) async fn open(folder: Arc<File>, charge: MemoryCharge) -> FsResult<Self> {
        let opened = GUEST_FILES
            .run(move || opened(&folder))
            .await
            .map_err(|_| ErrorCode::Busy)?;
        Ok(Self {
            rest: Some(opened?),
            ready: VecDeque::new(),
            _charge: charge,
        })
    }

    pub(super) async fn next(&mut self) -> FsResult<Option<DirectoryEntry>> {
        if self.ready.is_empty()
            && let Some(rest) = self.rest.take()
        {
            (self.rest, self.ready) = GUEST_FILES
                .run(move || batch(rest))
                .await
                .map_err(|_| ErrorCode::Busy)?;
        }
        Ok(self.ready.pop_front().transpose()?)
    }
}

/// The same table entry under the interface's type, because wasmtime-wasi's own cannot be constructed elsewhere.
pub(super) fn shown(listing: &Resource<FolderListing>) -> Resource<DirectoryEntryStream> {
    Resource::new_own(listing.rep())
}

pub(super) fn meant(stream: &Resource<DirectoryEntryStream>) -> Resource<FolderListing> {
    Resource::new_own(stream.rep())
}

/// Gives it a position of its own.
fn opened(folder: &File) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder: OwnedFd = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
    Ok(Dir::new(folder)?)
}

fn batch(mut rest: Dir) -> (Option<Dir>, VecDeque<ListingEntry>) {
    let mut entries = VecDeque::new();
    while entries.len() < BATCH {
        match rest.next() {
            None => return (None, entries),
            Some(Err(error)) => {
                entries.push_back(Err(io::Error::from(error).into()));
                return (None, entries);
            }
            Some(Ok(entry)) => {
                let name = entry.file_name();
                // A name that is not UTF-8 is left out: the interface has no text for it, and no guest could open it.
                let Ok(text) = name.to_str() else { continue };
                if text != "." && text != ".." {
                    entries.push_back(Ok(DirectoryEntry {
                        type_: kind(&rest, &entry),
                        name: text.to_owned(),
                    }));
                }
            }
        }
    }
    (Some(rest), entries)
}

/// Looked up if the file system does not report the type in the listing.
fn kind(folder: &Dir, entry: &rustix::fs::DirEntry) -> DescriptorType {
    let asked = || {
        let stat = rustix::fs::statat(
            folder.fd().ok()?.as_fd(),
            entry.file_name(),
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    };
    let kind = match entry.file_type() {
        FileType::Unknown => asked().unwrap_or(FileType::Unknown),
        known => known,
    };
    match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        _ => DescriptorType::Unknown,
    }
}
