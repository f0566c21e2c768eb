//! `wasi:filesystem/types` with denials: wasmtime-wasi keeps a guest inside its mounts, this keeps it out of the paths
//! that stay closed within them (`--deny-read`, `--deny-write`).
//!
//! A path is resolved by the host before it is used, and what was opened is looked at again: a link that is swapped in
//! between leads to a handle that the guest never gets. A call without denials pays one comparison.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, DescriptorFlags, ErrorCode, HostDescriptor, HostDirectoryEntryStream, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::state::State;
use crate::policy::Denial;

/// Links that lead from one to the next: no more than Linux itself follows.
const LINKS_MAX: u32 = 40;

/// Replaces the plain interface in `linker`.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    types::add_to_linker::<State, Guarding>(linker, |state| {
        let denials = Arc::clone(&state.denials);
        Guarded { denials, plain: state.filesystem() }
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

struct Guarding;

impl HasData for Guarding {
    type Data<'a> = Guarded<'a>;
}

struct Guarded<'a> {
    denials: Arc<[Denial]>,
    plain: WasiFilesystemCtxView<'a>,
}

type Fd = Resource<Descriptor>;

impl Guarded<'_> {
    /// Fails when `path` below `fd` leads to what is closed. `write` also heeds what is closed for writing only.
    fn check(&self, fd: &Fd, path: &str, follow: bool, write: bool) -> FsResult<()> {
        if self.denials.is_empty() {
            return Ok(());
        }
        let Some(host) = self.resolve(fd, path, follow)? else { return Ok(()) };
        if is_denied(&self.denials, &host, write) { Err(ErrorCode::Access.into()) } else { Ok(()) }
    }

    /// Where a name that is about to be moved, or made, leads. Fails when it is closed, and also when something closed
    /// lies below it: moved along, that would be open at its new place, and what takes its place would be taken for it.
    fn check_move(&self, fd: &Fd, path: &str) -> FsResult<Option<PathBuf>> {
        self.check(fd, path, false, true)?;
        if self.denials.is_empty() {
            return Ok(None);
        }
        let Some(host) = self.resolve(fd, path, false)? else { return Ok(None) };
        if self.denials.iter().any(|denial| denial.what.prefix().starts_with(&host)) {
            return Err(ErrorCode::Access.into());
        }
        Ok(Some(host))
    }

    /// Whether `path` is closed itself, but its name is to be seen in a folder that is open.
    fn is_listed(&self, fd: &Fd, path: &str) -> FsResult<bool> {
        if self.denials.is_empty() {
            return Ok(false);
        }
        let Some(host) = self.resolve(fd, path, false)? else { return Ok(false) };
        let is_seen = host.parent().is_some_and(|parent| !is_denied(&self.denials, parent, false));
        Ok(is_seen && is_denied(&self.denials, &host, true))
    }

    /// Where `path` below `fd` leads on the host. `None` where it leads through what is not there: wasmtime-wasi then
    /// says the same as without denials, and tells nothing of what lies outside.
    fn resolve(&self, fd: &Fd, path: &str, follow: bool) -> FsResult<Option<PathBuf>> {
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

    /// Looks at what was really opened: takes it away again if it is closed, and the right to write if only that is.
    fn settle(&mut self, fd: Fd) -> FsResult<Fd> {
        if self.denials.is_empty() {
            return Ok(fd);
        }
        let opened = self.plain.table.get_mut(&fd)?;
        let file = match opened {
            Descriptor::File(file) => &file.file,
            Descriptor::Dir(dir) => &dir.dir,
        };
        let path = real_path(file).ok().filter(|path| !is_denied(&self.denials, path, false));
        let Some(path) = path else {
            self.plain.table.delete(fd)?;
            return Err(ErrorCode::Access.into());
        };
        if is_denied(&self.denials, &path, true) {
            match opened {
                Descriptor::File(file) => file.perms = FsPerms::ReadOnly,
                Descriptor::Dir(dir) => dir.perms = FsPerms::ReadOnly,
            }
        }
        Ok(fd)
    }
}

fn is_denied(denials: &[Denial], host: &Path, write: bool) -> bool {
    denials.iter().any(|denial| (denial.read || write) && denial.what.covers(host))
}

/// The path of an open file, from the kernel. Elsewhere than on Linux nobody tells, and so everything is closed.
fn real_path(file: &File) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        Err(ErrorKind::Unsupported.into())
    }
}

/// Follows the links of `path`, the last one only if `follow`; what does not exist yet stays as it is named.
fn resolve(path: &Path, follow: bool) -> io::Result<PathBuf> {
    let (mut path, last) = match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) if !follow => (parent.to_owned(), Some(name)),
        _ => (path.to_owned(), None),
    };
    for _ in 0..=LINKS_MAX {
        let (known, rest) = split(&path)?;
        let mut names = rest.components();
        let link = names.next().and_then(|name| std::fs::read_link(known.join(name)).ok());
        let Some(target) = link else { return Ok(known.iter().chain(rest).chain(last).collect()) };
        // A link to what is not there: a file that is made through it is made where it points.
        path = known.join(target).join(names.as_path());
    }
    Err(io::Error::other("too many links"))
}

/// The part of `path` that exists, with its links followed, and the rest.
fn split(path: &Path) -> io::Result<(PathBuf, &Path)> {
    let mut known = path;
    loop {
        match (std::fs::canonicalize(known), known.parent()) {
            (Ok(found), _) => return Ok((found, path.strip_prefix(known).unwrap_or(Path::new("")))),
            (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound && known.file_name().is_some() => {
                known = parent;
            }
            (Err(error), _) => return Err(error),
        }
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
        let write = flags.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY)
            || open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        self.check(&fd, &path, path_flags.contains(PathFlags::SYMLINK_FOLLOW), write)?;
        let opened = self.plain.open_at(fd, path_flags, path, open, flags).await?;
        self.settle(opened)
    }

    async fn stat_at(&mut self, fd: Fd, path_flags: PathFlags, path: String) -> FsResult<types::DescriptorStat> {
        self.check(&fd, &path, path_flags.contains(PathFlags::SYMLINK_FOLLOW), false)?;
        self.plain.stat_at(fd, path_flags, path).await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        // Whoever lists a folder asks this of every name in it. The hash is of the inode number, and tells nothing.
        if follow || !self.is_listed(&fd, &path)? {
            self.check(&fd, &path, follow, false)?;
        }
        self.plain.metadata_hash_at(fd, path_flags, path).await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        self.check(&fd, &path, path_flags.contains(PathFlags::SYMLINK_FOLLOW), true)?;
        self.plain.set_times_at(fd, path_flags, path, accessed, modified).await
    }

    async fn link_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        old_path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FsResult<()> {
        // A second name would be a way around: what is closed for writing cannot be linked either.
        self.check(&fd, &old_path, true, true)?;
        self.check(&new_fd, &new_path, false, true)?;
        self.plain.link_at(fd, path_flags, old_path, new_fd, new_path).await
    }

    async fn rename_at(&mut self, fd: Fd, old_path: String, new_fd: Fd, new_path: String) -> FsResult<()> {
        let from = self.check_move(&fd, &old_path)?;
        let to = self.check_move(&new_fd, &new_path)?;
        if let (Some(from), Some(to)) = (from, to)
            && self.denials.iter().any(|denial| !denial.what.survives_move(&from, &to))
        {
            return Err(ErrorCode::Access.into());
        }
        self.plain.rename_at(fd, old_path, new_fd, new_path).await
    }

    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        self.check_move(&fd, &path)?;
        self.plain.symlink_at(fd, target, path).await
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        self.check(&fd, &path, false, false)?;
        self.plain.readlink_at(fd, path).await
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.check(&fd, &path, false, true)?;
        self.plain.create_directory_at(fd, path).await
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.check(&fd, &path, false, true)?;
        self.plain.remove_directory_at(fd, path).await
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.check(&fd, &path, false, true)?;
        self.plain.unlink_file_at(fd, path).await
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
        self.plain.write(fd, bytes, offset).await
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<types::DirectoryEntryStream>> {
        self.plain.read_directory(fd).await
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<types::DescriptorStat> {
        self.plain.stat(fd).await
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        self.plain.read_via_stream(fd, offset)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        self.plain.write_via_stream(fd, offset)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        self.plain.append_via_stream(fd)
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
        HostDirectoryEntryStream::drop(&mut self.plain, stream)
    }
}
