//! `wasi:filesystem/types` with denials and quotas: wasmtime-wasi keeps a guest inside its mounts, this keeps it out of
//! the paths that stay closed within them (`--deny-read`, `--deny-write`), and bounds what it writes, makes and opens.
//!
//! Where something is closed, a path is resolved by the host first, and then never trusted again: another call may swap a
//! folder for a link at any moment. What is opened is looked at again before the guest gets it, nothing is truncated
//! before that, and what works on names works on a name in a folder that was opened and looked at, without following
//! it. A call without denials pays one comparison.

mod denial;
mod quota;

use std::path::PathBuf;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, HostDirectoryEntryStream, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use self::denial::{Closed, Denials, real_path, resolve};
use self::quota::{Metered, Quota};
use super::state::State;
use crate::policy::{Capability, Limits};

/// What one call may do in its mounts.
#[derive(Debug)]
pub(super) struct Rules {
    denials: Denials,
    pub(super) quota: Quota,
}

impl Rules {
    pub(super) fn new(capability: &Capability, limits: &Limits) -> Self {
        Self { denials: Denials::new(capability.denials.clone()), quota: Quota::new(limits) }
    }
}

/// Replaces the plain interface in `linker`.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    types::add_to_linker::<State, Guarding>(linker, |state| {
        let rules = Arc::clone(&state.file_rules);
        Guarded { rules, plain: state.filesystem() }
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

struct Guarding;

impl HasData for Guarding {
    type Data<'a> = Guarded<'a>;
}

struct Guarded<'a> {
    rules: Arc<Rules>,
    plain: WasiFilesystemCtxView<'a>,
}

type Fd = Resource<Descriptor>;

/// A name in a folder that was opened and found to be open to the guest.
struct Place {
    folder: Fd,
    name: String,
    host: PathBuf,
}

/// What a path leads to, in a form that nobody can lead elsewhere.
enum Found {
    Place(Place),
    Opened(Fd),
}

/// The same handle again: the interface takes handles by value, and only reads their number.
fn again(fd: &Fd) -> Fd {
    Resource::new_borrow(fd.rep())
}

/// The folder of a path, and the last name in it. `None` for what names the folder itself.
fn folder_and_name(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_end_matches('/');
    let (folder, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(split) => split,
        None => (".", path),
    };
    (!matches!(name, "" | "." | "..")).then_some((folder, name))
}

impl Guarded<'_> {
    fn denials(&self) -> &Denials {
        &self.rules.denials
    }

    /// Fails when `path` below `fd` leads to what is closed, whether that exists or not. `write` also heeds what is closed
    /// for writing only.
    fn check(&self, fd: &Fd, path: &str, follow: bool, write: bool) -> FsResult<()> {
        let Some(host) = self.resolve(fd, path, follow)? else { return Ok(()) };
        if self.denials().cover(&host, write) { Err(ErrorCode::Access.into()) } else { Ok(()) }
    }

    /// Fails also when something closed lies below `path`: moved along, it would be open at its new place, and what
    /// takes its place would be taken for it.
    fn check_move(&self, fd: &Fd, path: &str) -> FsResult<()> {
        let Some(host) = self.resolve(fd, path, false)? else { return Ok(()) };
        if self.denials().hold_in_place(&host) { Err(ErrorCode::Access.into()) } else { Ok(()) }
    }

    /// Where `path` below `fd` leads on the host. `None` where it leads through what is not there: wasmtime-wasi then
    /// says the same as without denials, and tells nothing of what lies outside.
    fn resolve(&self, fd: &Fd, path: &str, follow: bool) -> FsResult<Option<PathBuf>> {
        use std::io::ErrorKind;
        let Descriptor::Dir(dir) = self.plain.table.get(fd)? else {
            return Err(ErrorCode::NotDirectory.into());
        };
        let full = real_path(&dir.dir).map_err(|_| ErrorCode::Access)?.join(path);
        // A slash at the end follows a link, whoever says otherwise.
        match resolve(&full, follow || path.ends_with('/')) {
            Ok(path) => Ok(Some(path)),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => Ok(None),
                _ => Err(ErrorCode::Access.into()),
            },
        }
    }

    /// Opens the folder of `path` and looks where it really is. What is then done to the name in it stays there.
    async fn place(&mut self, fd: &Fd, path: &str) -> FsResult<Place> {
        let (folder, name) = folder_and_name(path).ok_or(ErrorCode::Access)?;
        let follow = PathFlags::SYMLINK_FOLLOW;
        let flags = DescriptorFlags::READ;
        let folder = self.plain.open_at(again(fd), follow, folder.to_owned(), OpenFlags::DIRECTORY, flags).await?;
        let host = match self.plain.table.get(&folder)? {
            Descriptor::Dir(dir) => real_path(&dir.dir).ok(),
            Descriptor::File(_) => None,
        };
        match host.filter(|host| !self.denials().cover(host, false) || !guard!("denial_races")) {
            Some(host) => Ok(Place { folder, host: host.join(name), name: name.to_owned() }),
            None => {
                self.plain.table.delete(folder)?;
                Err(ErrorCode::Access.into())
            }
        }
    }

    /// A place that may be changed: neither closed itself, nor around something closed.
    async fn place_to_change(&mut self, fd: &Fd, path: &str) -> FsResult<Place> {
        self.check_move(fd, path)?;
        let place = self.place(fd, path).await?;
        if guard!("denial_races") && self.denials().hold_in_place(&place.host) {
            self.leave(place)?;
            return Err(ErrorCode::Access.into());
        }
        Ok(place)
    }

    fn leave(&mut self, place: Place) -> FsResult<()> {
        self.plain.table.delete(place.folder)?;
        Ok(())
    }

    /// Finds what `path` leads to, for whoever asks about it or sets its times.
    async fn find(&mut self, fd: &Fd, path: &str, follow: bool, write: bool) -> FsResult<Found> {
        if folder_and_name(path).is_none() || path.ends_with('/') {
            return self.open_to_look(fd, path, OpenFlags::DIRECTORY, write).await;
        }
        let place = self.place(fd, path).await?;
        if self.denials().cover(&place.host, write) && !(self.denials().show(&place.host) && !write && !follow) {
            self.leave(place)?;
            return Err(ErrorCode::Access.into());
        }
        if !follow {
            return Ok(Found::Place(place));
        }
        let there = self.plain.stat_at(again(&place.folder), PathFlags::empty(), place.name.clone()).await;
        match there {
            Ok(stat) if stat.type_ != DescriptorType::SymbolicLink => Ok(Found::Place(place)),
            Ok(_) => {
                self.leave(place)?;
                self.open_to_look(fd, path, OpenFlags::empty(), write).await
            }
            Err(error) => {
                self.leave(place)?;
                Err(error)
            }
        }
    }

    async fn open_to_look(&mut self, fd: &Fd, path: &str, open: OpenFlags, write: bool) -> FsResult<Found> {
        let follow = PathFlags::SYMLINK_FOLLOW;
        let opened = self.plain.open_at(again(fd), follow, path.to_owned(), open, DescriptorFlags::READ).await?;
        let opened = self.settle(opened).await?;
        if write && self.is_narrowed(&opened)? {
            self.plain.table.delete(opened)?;
            return Err(ErrorCode::Access.into());
        }
        Ok(Found::Opened(opened))
    }

    /// Whether `settle` took the right to write away.
    fn is_narrowed(&self, fd: &Fd) -> FsResult<bool> {
        Ok(match self.plain.table.get(fd)? {
            Descriptor::File(file) => file.perms.write_not_permitted(),
            Descriptor::Dir(dir) => dir.perms.write_not_permitted(),
        })
    }

    /// Looks at what was really opened: takes it away again if it is closed, and the right to write if only that is.
    async fn settle(&mut self, fd: Fd) -> FsResult<Fd> {
        let rules = Arc::clone(&self.rules);
        let file = match self.plain.table.get(&fd)? {
            Descriptor::File(file) => Arc::clone(&file.file),
            Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        };
        let closed = match (real_path(&file), file.metadata()) {
            (Ok(path), Ok(metadata)) if guard!("denial_races") => {
                let by_name = if rules.denials.cover(&path, false) {
                    Some(Closed::Entirely)
                } else {
                    rules.denials.cover(&path, true).then_some(Closed::ForWriting)
                };
                match by_name {
                    None | Some(Closed::ForWriting) => rules.denials.of_other_names(&metadata).await.max(by_name),
                    entirely => entirely,
                }
            }
            (Ok(_), Ok(metadata)) => rules.denials.of_other_names(&metadata).await,
            _ => Some(Closed::Entirely),
        };
        match (closed, self.plain.table.get_mut(&fd)?) {
            (None, _) => {}
            (Some(Closed::Entirely), _) => {
                self.plain.table.delete(fd)?;
                return Err(ErrorCode::Access.into());
            }
            (Some(Closed::ForWriting), Descriptor::File(file)) => file.perms = FsPerms::ReadOnly,
            (Some(Closed::ForWriting), Descriptor::Dir(dir)) => dir.perms = FsPerms::ReadOnly,
        }
        Ok(fd)
    }

    /// Counts a file that opening `path` will make, if it is not there yet.
    async fn count_new(&mut self, fd: &Fd, follow: PathFlags, path: &str) -> FsResult<()> {
        match self.plain.stat_at(again(fd), follow, path.to_owned()).await {
            Ok(_) => Ok(()),
            Err(_) => self.rules.quota.file(),
        }
    }

    /// Opens a path where something is closed: nothing is made or truncated before it is known where.
    async fn open_among_denials(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let makes = open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        let write = makes || flags.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY);
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        self.check(&fd, &path, follow, write)?;
        if !makes {
            let opened = self.plain.open_at(fd, path_flags, path, open, flags).await?;
            return self.settle(opened).await;
        }
        let place = self.place(&fd, &path).await?;
        let opened = self.make(&place, follow, open, flags).await;
        self.leave(place)?;
        let opened = match opened? {
            Some(opened) => opened,
            // A link to a file that is there. One to what is not there makes nothing.
            None => {
                self.plain.open_at(fd, path_flags, path, OpenFlags::empty(), flags | DescriptorFlags::WRITE).await?
            }
        };
        let opened = self.settle(opened).await?;
        if open.contains(OpenFlags::TRUNCATE) {
            self.plain.set_size(again(&opened), 0).await?;
        }
        Ok(opened)
    }

    /// Opens or makes the file at `place` itself, and truncates nothing; `None` where a link has to be followed.
    async fn make(
        &mut self,
        place: &Place,
        follow: bool,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Option<Fd>> {
        if guard!("denial_races") && self.denials().cover(&place.host, true) {
            return Err(ErrorCode::Access.into());
        }
        let there = self.plain.stat_at(again(&place.folder), PathFlags::empty(), place.name.clone()).await;
        match there {
            Ok(stat)
                if follow && !open.contains(OpenFlags::EXCLUSIVE) && stat.type_ == DescriptorType::SymbolicLink =>
            {
                return Ok(None);
            }
            Ok(_) => {}
            Err(_) if open.contains(OpenFlags::CREATE) => self.rules.quota.file()?,
            Err(_) => {}
        }
        let open = open & (OpenFlags::CREATE | OpenFlags::EXCLUSIVE);
        let flags = flags | DescriptorFlags::WRITE;
        self.plain.open_at(again(&place.folder), PathFlags::empty(), place.name.clone(), open, flags).await.map(Some)
    }

    /// The file behind a descriptor that can be written to.
    fn file(&self, fd: &Fd) -> FsResult<Arc<std::fs::File>> {
        match self.plain.table.get(fd)? {
            Descriptor::File(file) => Ok(Arc::clone(&file.file)),
            Descriptor::Dir(_) => Err(ErrorCode::IsDirectory.into()),
        }
    }

    /// Puts a meter before a stream into `file`.
    fn metered(
        &mut self,
        stream: Resource<DynOutputStream>,
        file: Arc<std::fs::File>,
        position: Option<u64>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let inner = self.plain.table.delete(stream)?;
        let metered: DynOutputStream = Box::new(Metered { inner, file, position, rules: Arc::clone(&self.rules) });
        Ok(self.plain.table.push(metered)?)
    }
}

impl types::Host for Guarded<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.plain.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.plain.filesystem_error_code(error)
    }
}

impl HostDescriptor for Guarded<'_> {
    async fn open_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        self.rules.quota.room_to_open()?;
        let opened = if self.denials().is_empty() {
            if open.contains(OpenFlags::CREATE) {
                self.count_new(&fd, path_flags, &path).await?;
            }
            self.plain.open_at(fd, path_flags, path, open, flags).await?
        } else {
            self.open_among_denials(fd, path_flags, path, open, flags).await?
        };
        let file = match self.plain.table.get(&opened)? {
            Descriptor::File(file) => &file.file,
            Descriptor::Dir(dir) => &dir.dir,
        };
        self.rules.quota.opened(file);
        Ok(opened)
    }

    async fn stat_at(&mut self, fd: Fd, path_flags: PathFlags, path: String) -> FsResult<types::DescriptorStat> {
        if self.denials().is_empty() {
            return self.plain.stat_at(fd, path_flags, path).await;
        }
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        self.check(&fd, &path, follow, false)?;
        match self.find(&fd, &path, follow, false).await? {
            Found::Place(place) => {
                if self.denials().cover(&place.host, false) {
                    self.leave(place)?;
                    return Err(ErrorCode::Access.into());
                }
                let stat = self.plain.stat_at(again(&place.folder), PathFlags::empty(), place.name.clone()).await;
                self.leave(place)?;
                stat
            }
            Found::Opened(opened) => {
                let stat = self.plain.stat(again(&opened)).await;
                self.plain.table.delete(opened)?;
                stat
            }
        }
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        if self.denials().is_empty() {
            return self.plain.metadata_hash_at(fd, path_flags, path).await;
        }
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        // Whoever lists a folder asks this of every name in it. The hash is of the inode number, and tells nothing.
        let listed = !follow && self.resolve(&fd, &path, false)?.is_some_and(|host| self.denials().show(&host));
        if !listed {
            self.check(&fd, &path, follow, false)?;
        }
        match self.find(&fd, &path, follow, false).await? {
            Found::Place(place) => {
                let flags = PathFlags::empty();
                let hash = self.plain.metadata_hash_at(again(&place.folder), flags, place.name.clone()).await;
                self.leave(place)?;
                hash
            }
            Found::Opened(opened) => {
                let hash = self.plain.metadata_hash(again(&opened)).await;
                self.plain.table.delete(opened)?;
                hash
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
        if self.denials().is_empty() {
            return self.plain.set_times_at(fd, path_flags, path, accessed, modified).await;
        }
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        self.check(&fd, &path, follow, true)?;
        match self.find(&fd, &path, follow, true).await? {
            Found::Place(place) => {
                let (folder, flags) = (again(&place.folder), PathFlags::empty());
                let set = self.plain.set_times_at(folder, flags, place.name.clone(), accessed, modified).await;
                self.leave(place)?;
                set
            }
            Found::Opened(opened) => {
                let set = self.plain.set_times(again(&opened), accessed, modified).await;
                self.plain.table.delete(opened)?;
                set
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
        if self.denials().is_empty() {
            return self.plain.link_at(fd, path_flags, old_path, new_fd, new_path).await;
        }
        // A second name would be a way around: what is closed for writing cannot be linked either.
        self.check(&fd, &old_path, true, true)?;
        let old = self.place_to_change(&fd, &old_path).await?;
        let new = match self.place_to_change(&new_fd, &new_path).await {
            Ok(new) => new,
            Err(error) => {
                self.leave(old)?;
                return Err(error);
            }
        };
        let (from, to) = (again(&old.folder), again(&new.folder));
        let linked = self.plain.link_at(from, path_flags, old.name.clone(), to, new.name.clone()).await;
        self.leave(old)?;
        self.leave(new)?;
        linked
    }

    async fn rename_at(&mut self, fd: Fd, old_path: String, new_fd: Fd, new_path: String) -> FsResult<()> {
        if self.denials().is_empty() {
            return self.plain.rename_at(fd, old_path, new_fd, new_path).await;
        }
        let old = self.place_to_change(&fd, &old_path).await?;
        let new = match self.place_to_change(&new_fd, &new_path).await {
            Ok(new) => new,
            Err(error) => {
                self.leave(old)?;
                return Err(error);
            }
        };
        let renamed = if self.denials().opened_by_move(&old.host, &new.host) {
            Err(ErrorCode::Access.into())
        } else {
            let (from, to) = (again(&old.folder), again(&new.folder));
            self.plain.rename_at(from, old.name.clone(), to, new.name.clone()).await
        };
        self.leave(old)?;
        self.leave(new)?;
        renamed
    }

    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        self.rules.quota.file()?;
        if self.denials().is_empty() {
            return self.plain.symlink_at(fd, target, path).await;
        }
        let place = self.place_to_change(&fd, &path).await?;
        let linked = self.plain.symlink_at(again(&place.folder), target, place.name.clone()).await;
        self.leave(place)?;
        linked
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        if self.denials().is_empty() {
            return self.plain.readlink_at(fd, path).await;
        }
        self.check(&fd, &path, false, false)?;
        let place = self.place(&fd, &path).await?;
        let target = match self.denials().cover(&place.host, false) {
            true => Err(ErrorCode::Access.into()),
            false => self.plain.readlink_at(again(&place.folder), place.name.clone()).await,
        };
        self.leave(place)?;
        target
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.rules.quota.file()?;
        if self.denials().is_empty() {
            return self.plain.create_directory_at(fd, path).await;
        }
        self.check(&fd, &path, false, true)?;
        let place = self.place(&fd, &path).await?;
        // A folder around what is closed may be made: nothing takes the place of anything.
        let made = match guard!("denial_races") && self.denials().cover(&place.host, true) {
            true => Err(ErrorCode::Access.into()),
            false => self.plain.create_directory_at(again(&place.folder), place.name.clone()).await,
        };
        self.leave(place)?;
        made
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        if self.denials().is_empty() {
            return self.plain.remove_directory_at(fd, path).await;
        }
        let place = self.place_to_change(&fd, &path).await?;
        let removed = self.plain.remove_directory_at(again(&place.folder), place.name.clone()).await;
        self.leave(place)?;
        removed
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        if self.denials().is_empty() {
            return self.plain.unlink_file_at(fd, path).await;
        }
        let place = self.place_to_change(&fd, &path).await?;
        let removed = self.plain.unlink_file_at(again(&place.folder), place.name.clone()).await;
        self.leave(place)?;
        removed
    }

    // What follows works on handles, and `open_at` let no handle through that is closed.

    async fn advise(&mut self, fd: Fd, offset: u64, length: u64, advice: types::Advice) -> FsResult<()> {
        self.plain.advise(fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        self.plain.sync_data(fd).await
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        self.plain.sync(fd).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        self.plain.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<types::DescriptorType> {
        self.plain.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Fd, size: u64) -> FsResult<()> {
        self.rules.quota.write_at(&*self.file(&fd)?, size, 0)?;
        self.plain.set_size(fd, size).await
    }

    async fn set_times(
        &mut self,
        fd: Fd,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        self.plain.set_times(fd, accessed, modified).await
    }

    async fn read(&mut self, fd: Fd, length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        self.plain.read(fd, length, offset).await
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        self.rules.quota.write_at(&*self.file(&fd)?, offset, bytes.len() as u64)?;
        self.plain.write(fd, bytes, offset).await
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<types::DirectoryEntryStream>> {
        self.rules.quota.listing()?;
        let listing = self.plain.read_directory(fd).await;
        if listing.is_err() {
            self.rules.quota.listed();
        }
        listing
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<types::DescriptorStat> {
        self.plain.stat(fd).await
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        self.plain.read_via_stream(fd, offset)
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

    async fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        self.plain.is_same_object(a, b).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<types::MetadataHashValue> {
        self.plain.metadata_hash(fd).await
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.plain, fd)
    }
}

impl HostDirectoryEntryStream for Guarded<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<types::DirectoryEntryStream>,
    ) -> FsResult<Option<types::DirectoryEntry>> {
        self.plain.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<types::DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.rules.quota.listed();
        HostDirectoryEntryStream::drop(&mut self.plain, stream)
    }
}
