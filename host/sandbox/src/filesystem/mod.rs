//! `wasi:filesystem/types` with quotas and denials: wasmtime-wasi keeps a guest inside its mounts; this module keeps it
//! out of the denied paths within them.
//!
//! In a call with denials, a resolved path is never trusted afterwards, because another call may swap a folder for a
//! link at any moment (a TOCTOU race). What is opened is checked again before the guest gets it, and nothing is
//! truncated before that. An operation on a name uses a folder that was opened and checked, and does not follow the
//! name.

mod beneath;
mod concurrent;
mod denial;
mod listing;
mod open;
mod own;
mod path_target;
mod pooled;
mod quota;
mod stream;
mod touched;
#[cfg(feature = "foreign-worlds")]
mod whole_file;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use toolcell_executor::WorkspaceRoom;
use toolcell_policy::{Capability, Limits, WORKSPACE};
use toolcell_spec::TouchList;
use toolcell_system::pseudo_files;
use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, DescriptorFlags, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsResult};

use self::denial::DeniedPaths;
use self::listing::{FolderListing, LISTING_BYTES};
use self::path_target::{AllowedName, PathTarget};
use self::pooled::PooledView;
use self::quota::FileQuota;
use self::stream::{FileSource, MeteredOutput, STREAM_BYTES};
use super::limiter::{MemoryCharge, MemoryMeter};
use super::locked;
use super::own_files::OpenFolders;
use super::state::StoreState;
use super::trap::CallDenial;

#[cfg(feature = "foreign-worlds")]
pub(super) use self::whole_file::read_text;

const OPERATIONS_AT_ONCE: usize = 8;

#[derive(Debug)]
pub(super) struct FileRules {
    denials: DeniedPaths,
    pub(super) quota: FileQuota,
    places: Vec<(PathBuf, String)>,
    /// Of the component. They are not removed while a file operation of the call may go on.
    own: OpenFolders,
    touched: Mutex<TouchList>,
    /// The error of the guest's last operation.
    failed: Mutex<Option<&'static str>>,
    /// Operations that run at the same time, of a guest that begins several.
    turns: Arc<Semaphore>,
}

impl FileRules {
    pub(super) fn new(
        capability: &Capability,
        limits: &Limits,
        room: Option<Arc<WorkspaceRoom>>,
    ) -> Self {
        let kernel =
            pseudo_files::mounted_in(capability.mounts.iter().map(|mount| mount.host.as_path()));
        Self {
            denials: DeniedPaths::new(capability.denials.clone(), kernel),
            quota: FileQuota::new(limits, room),
            places: (capability.mounts.iter())
                .map(|mount| (mount.host.clone(), mount.guest.clone()))
                .collect(),
            own: OpenFolders::default(),
            touched: Mutex::default(),
            failed: Mutex::default(),
            turns: Arc::new(Semaphore::new(OPERATIONS_AT_ONCE)),
        }
    }

    /// The words of `wasi:filesystem`; `None` if something was opened or changed since.
    pub(super) fn failed(&self) -> Option<&'static str> {
        *locked(&self.failed)
    }

    fn is_in_workspace(&self, place: &Path) -> bool {
        let mut places = self.places.iter();
        places
            .any(|(host, guest)| Path::new(guest).starts_with(WORKSPACE) && place.starts_with(host))
    }

    /// A refusal because the host could not determine whether something is denied.
    pub(super) fn denied(&self) -> Option<CallDenial> {
        let message = format!(
            "the sandbox did not open a file that has several names, because one of them could be closed: {}; a denial of a \
             smaller folder can be looked through",
            self.denials.undecided()?
        );
        Some(CallDenial {
            code: toolcell_spec::ErrorCode::NamesNotChecked,
            message,
        })
    }
}

pub(super) use self::concurrent::add_to_linker as add_0_3_to_linker;

pub(super) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    types::add_to_linker::<StoreState, PolicyFs>(linker, guarded)
}

fn guarded(state: &mut StoreState) -> PooledView<'_> {
    let rules = Arc::clone(&state.file_rules);
    let plain = WasiFilesystemCtxView {
        ctx: state.wasi.filesystem(),
        table: &mut state.table,
    };
    PooledView(PolicyFsView {
        rules,
        plain,
        memory: state.limiter.meter(),
    })
}

struct PolicyFs;

impl HasData for PolicyFs {
    type Data<'a> = PooledView<'a>;
}

struct PolicyFsView<'a> {
    rules: Arc<FileRules>,
    plain: WasiFilesystemCtxView<'a>,
    memory: Arc<MemoryMeter>,
}

type Fd = Resource<Descriptor>;

/// The interface takes handles by value, and only reads their number.
fn again(fd: &Fd) -> Fd {
    Resource::new_borrow(fd.rep())
}

impl PolicyFsView<'_> {
    fn denials(&self) -> &DeniedPaths {
        &self.rules.denials
    }

    fn handle(&self, fd: &Fd) -> FsResult<&Arc<std::fs::File>> {
        Ok(match self.plain.table.get(fd)? {
            Descriptor::File(file) => &file.file,
            Descriptor::Dir(dir) => &dir.dir,
        })
    }

    /// Recorded before, so that the end of the call can wait for it.
    fn changes(&self, fd: &Fd) {
        if let Ok(file) = self.handle(fd) {
            self.rules.quota.changes(file);
        }
    }

    /// Fails for a folder.
    fn file(&self, fd: &Fd) -> FsResult<Arc<std::fs::File>> {
        match self.plain.table.get(fd)? {
            Descriptor::File(file) => Ok(Arc::clone(&file.file)),
            Descriptor::Dir(_) => Err(ErrorCode::IsDirectory.into()),
        }
    }

    fn metered(
        &mut self,
        stream: Resource<DynOutputStream>,
        file: Arc<std::fs::File>,
        position: Option<u64>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let inner = self.plain.table.delete(stream)?;
        let rules = Arc::clone(&self.rules);
        let _charge = self.charge(STREAM_BYTES)?;
        let metered: DynOutputStream = Box::new(MeteredOutput {
            inner,
            file,
            position,
            rules,
            _charge,
        });
        Ok(self.plain.table.push(metered)?)
    }

    async fn list(
        &mut self,
        folder: Arc<std::fs::File>,
    ) -> FsResult<Resource<types::DirectoryEntryStream>> {
        let charge = self.charge(LISTING_BYTES)?;
        let listing = FolderListing::open(folder, charge).await?;
        Ok(listing::shown(&self.plain.table.push(listing)?))
    }

    async fn at<T>(
        &mut self,
        place: AllowedName,
        work: impl AsyncFnOnce(&mut WasiFilesystemCtxView<'_>, Fd, String) -> FsResult<T>,
    ) -> FsResult<T> {
        let AllowedName { folder, name, .. } = place;
        let done = work(&mut self.plain, again(&folder), name).await;
        self.plain.table.delete(folder)?;
        done
    }

    async fn with<T>(
        &mut self,
        opened: Fd,
        work: impl AsyncFnOnce(&mut WasiFilesystemCtxView<'_>, Fd) -> FsResult<T>,
    ) -> FsResult<T> {
        let done = work(&mut self.plain, again(&opened)).await;
        self.plain.table.delete(opened)?;
        done
    }

    fn charge(&mut self, bytes: usize) -> FsResult<MemoryCharge> {
        Ok(self
            .memory
            .charge(bytes)
            .ok_or(ErrorCode::InsufficientMemory)?)
    }
}

impl PolicyFsView<'_> {
    async fn open_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        self.rules.quota.room_to_open()?;
        let cut = self.size_before_cut(&fd, path_flags, &path, open).await;
        let opened = if self.is_free(&fd)? {
            if open.contains(OpenFlags::CREATE) {
                self.count_new(&fd, path_flags, &path).await?;
            }
            self.open_only_files(fd, path_flags, path, open, flags)
                .await?
        } else {
            self.open_among_denials(fd, path_flags, path, open, flags)
                .await?
        };
        self.shrank(&opened, cut);
        self.rules.quota.opened(self.handle(&opened)?);
        Ok(opened)
    }

    async fn stat_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<types::DescriptorStat> {
        if self.is_free(&fd)? {
            return self.plain.stat_at(fd, path_flags, path).await;
        }
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        self.check(&fd, &path, follow, false).await?;
        match self.find(&fd, &path, follow, false).await? {
            PathTarget::Place(place) => {
                if self.denials().cover(&place.host, false) {
                    self.leave(place)?;
                    return Err(ErrorCode::Access.into());
                }
                let flags = PathFlags::empty();
                self.at(place, async |plain, folder, name| {
                    plain.stat_at(folder, flags, name).await
                })
                .await
            }
            PathTarget::Opened(opened) => {
                self.with(opened, async |plain, opened| plain.stat(opened).await)
                    .await
            }
        }
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        if self.is_free(&fd)? {
            return self.plain.metadata_hash_at(fd, path_flags, path).await;
        }
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        // A guest that lists a folder requests this for every name in it. The hash is of the inode number, and reveals
        // nothing.
        let listed = !follow
            && self
                .is_resolved_to(&fd, &path, false, |denials, resolved| {
                    denials.show(&resolved.end)
                })
                .await?;
        if !listed {
            self.check(&fd, &path, follow, false).await?;
        }
        match self.find(&fd, &path, follow, false).await? {
            PathTarget::Place(place) => {
                let flags = PathFlags::empty();
                self.at(place, async |plain, folder, name| {
                    plain.metadata_hash_at(folder, flags, name).await
                })
                .await
            }
            PathTarget::Opened(opened) => {
                self.with(opened, async |plain, opened| {
                    plain.metadata_hash(opened).await
                })
                .await
            }
        }
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        if self.is_free(&fd)? && !follow {
            return self
                .plain
                .set_times_at(fd, path_flags, path, accessed, modified)
                .await;
        }
        if self.is_free(&fd)? {
            // wasmtime-wasi would open the file for that, and block until the other end of a FIFO is opened.
            let opened = self.open_to_change(fd, path).await?;
            return self
                .with(opened, async |plain, opened| {
                    plain.set_times(opened, accessed, modified).await
                })
                .await;
        }
        self.check(&fd, &path, follow, true).await?;
        match self.find(&fd, &path, follow, true).await? {
            PathTarget::Place(place) => {
                let flags = PathFlags::empty();
                self.at(place, async |plain, folder, name| {
                    plain
                        .set_times_at(folder, flags, name, accessed, modified)
                        .await
                })
                .await
            }
            PathTarget::Opened(opened) => {
                self.with(opened, async |plain, opened| {
                    plain.set_times(opened, accessed, modified).await
                })
                .await
            }
        }
    }

    async fn link_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        old_path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FsResult<()> {
        self.rules.quota.file()?;
        if self.is_free(&fd)? {
            return self
                .plain
                .link_at(fd, path_flags, old_path, new_fd, new_path)
                .await;
        }
        // A hard link would bypass the denial, so a file that is denied for writing cannot be linked either.
        self.check(&fd, &old_path, true, true).await?;
        let (old, new) = self
            .places_to_change((&fd, &old_path), (&new_fd, &new_path))
            .await?;
        let to = again(&new.folder);
        let name = new.name.clone();
        let linked = self.at(old, async |plain, from, old| {
            plain.link_at(from, path_flags, old, to, name).await
        });
        let linked = linked.await;
        self.leave(new)?;
        linked
    }

    async fn rename_at(
        &mut self,
        fd: Fd,
        old_path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FsResult<()> {
        if self.is_free(&fd)? {
            return self.plain.rename_at(fd, old_path, new_fd, new_path).await;
        }
        let (old, new) = self
            .places_to_change((&fd, &old_path), (&new_fd, &new_path))
            .await?;
        if self.denials().opened_by_move(&old.host, &new.host) {
            self.leave(old)?;
            self.leave(new)?;
            return Err(ErrorCode::Access.into());
        }
        let to = again(&new.folder);
        let name = new.name.clone();
        let renamed = self.at(old, async |plain, from, old| {
            plain.rename_at(from, old, to, name).await
        });
        let renamed = renamed.await;
        self.leave(new)?;
        renamed
    }

    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        self.rules.quota.file()?;
        if self.is_free(&fd)? {
            return self.plain.symlink_at(fd, target, path).await;
        }
        let place = self.place_to_change(&fd, &path).await?;
        self.at(place, async |plain, folder, name| {
            plain.symlink_at(folder, target, name).await
        })
        .await
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        if self.is_free(&fd)? {
            return self.plain.readlink_at(fd, path).await;
        }
        self.check(&fd, &path, false, false).await?;
        let place = self.place(&fd, &path).await?;
        if self.denials().cover(&place.host, false) {
            self.leave(place)?;
            return Err(ErrorCode::Access.into());
        }
        self.at(place, async |plain, folder, name| {
            plain.readlink_at(folder, name).await
        })
        .await
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.rules.quota.file()?;
        if self.is_free(&fd)? {
            return self.plain.create_directory_at(fd, path).await;
        }
        self.check(&fd, &path, false, true).await?;
        let place = self.place(&fd, &path).await?;
        // A parent of a denied path may be created, because that replaces nothing.
        if guard!("denial_races") && self.denials().cover(&place.host, true) {
            self.leave(place)?;
            return Err(ErrorCode::Access.into());
        }
        self.at(place, async |plain, folder, name| {
            plain.create_directory_at(folder, name).await
        })
        .await
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        if self.is_free(&fd)? {
            // A slash at the end names the same folder, and wasmtime-wasi refuses it.
            let name = Some(path.trim_end_matches('/')).filter(|name| !name.is_empty());
            let path = name.map(str::to_owned).unwrap_or(path);
            return self.plain.remove_directory_at(fd, path).await;
        }
        let place = self.place_to_change(&fd, &path).await?;
        self.at(place, async |plain, folder, name| {
            plain.remove_directory_at(folder, name).await
        })
        .await
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        if self.is_free(&fd)? {
            return self.plain.unlink_file_at(fd, path).await;
        }
        let place = self.place_to_change(&fd, &path).await?;
        self.at(place, async |plain, folder, name| {
            plain.unlink_file_at(folder, name).await
        })
        .await
    }

    async fn set_size(&mut self, fd: Fd, size: u64) -> FsResult<()> {
        let file = self.file(&fd)?;
        self.rules.quota.write_at(&file, size, 0)?;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        self.plain.set_size(again(&fd), size).await?;
        self.shrank(&fd, length.saturating_sub(size));
        Ok(())
    }

    /// What opening the file will cut off, where that counts.
    async fn size_before_cut(
        &mut self,
        fd: &Fd,
        path_flags: PathFlags,
        path: &str,
        open: OpenFlags,
    ) -> u64 {
        if !open.contains(OpenFlags::TRUNCATE) || !self.rules.quota.has_room() {
            return 0;
        }
        let found = self.plain.stat_at(again(fd), path_flags, path.to_owned());
        found.await.map_or(0, |stat| stat.size)
    }

    /// Counts `bytes` that a file gave up, if it is one of the workspace.
    fn shrank(&self, fd: &Fd, bytes: u64) {
        if bytes > 0
            && self.rules.quota.has_room()
            && let Ok(file) = self.handle(fd)
            && denial::real_path(file).is_ok_and(|place| self.rules.is_in_workspace(&place))
        {
            self.rules.quota.shrink(bytes);
        }
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        self.rules
            .quota
            .write_at(&*self.file(&fd)?, offset, bytes.len() as u64)?;
        self.plain.write(fd, bytes, offset).await
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<types::DirectoryEntryStream>> {
        let folder = match self.plain.table.get(&fd)? {
            Descriptor::Dir(dir) => Arc::clone(&dir.dir),
            Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
        };
        self.rules.quota.listing()?;
        match self.list(folder).await {
            Ok(listing) => Ok(listing),
            Err(error) => {
                self.rules.quota.listed();
                Err(error)
            }
        }
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        let stream = self.plain.read_via_stream(fd, offset)?;
        let inner = self.plain.table.delete(stream)?;
        let source: DynInputStream = Box::new(FileSource {
            inner,
            _charge: self.charge(STREAM_BYTES)?,
        });
        Ok(self.plain.table.push(source)?)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        let file = self.file(&fd)?;
        let stream = self.plain.write_via_stream(fd, offset)?;
        self.metered(stream, file, Some(offset))
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        let file = self.file(&fd)?;
        let stream = self.plain.append_via_stream(fd)?;
        self.metered(stream, file, None)
    }

    async fn read_directory_entry(
        &mut self,
        stream: Resource<types::DirectoryEntryStream>,
    ) -> FsResult<Option<types::DirectoryEntry>> {
        self.plain
            .table
            .get_mut(&listing::meant(&stream))?
            .next()
            .await
    }

    fn end_listing(
        &mut self,
        stream: Resource<types::DirectoryEntryStream>,
    ) -> wasmtime::Result<()> {
        self.rules.quota.listed();
        self.plain.table.delete(listing::meant(&stream))?;
        Ok(())
    }
}
