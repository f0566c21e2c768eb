//! Runs file operations on the threads for guests' files, because wasmtime-wasi gives its work to the runtime that
//! polls it, whose threads the host needs.

use toolcell_spec::Touch;
use toolcell_system::pool::GUEST_FILES;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue,
    NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::{Fd, PolicyFsView, again};
use crate::locked;

pub(super) struct PooledView<'a>(pub(super) PolicyFsView<'a>);

/// Runs methods that only call wasmtime-wasi or [`PolicyFsView`] in the pool. `changes` first records what changes.
macro_rules! in_pool {
    (
        plain { $($plain:ident($($p:ident: $o:ty),*) -> $q:ty;)* }
        looks { $($look:ident($($a:ident: $t:ty),*) -> $r:ty;)* }
        changes { $($change:ident($($b:ident: $u:ty),*) -> $s:ty;)* }
        touches { $($how:ident: $touch:ident($($c:ident: $v:ty),*);)* }
    ) => {
        $(async fn $plain(&mut self, fd: Fd, $($p: $o),*) -> $q {
            GUEST_FILES.within(self.0.plain.$plain(fd, $($p),*)).await
        })*
        $(async fn $look(&mut self, fd: Fd, $($a: $t),*) -> $r {
            GUEST_FILES.within(self.0.$look(fd, $($a),*)).await
        })*
        $(async fn $change(&mut self, fd: Fd, $($b: $u),*) -> $s {
            self.0.changes(&fd);
            GUEST_FILES.within(self.0.$change(fd, $($b),*)).await
        })*
        // Changes what has the name `path`, and says so.
        $(async fn $touch(&mut self, fd: Fd, $($c: $v,)* path: String) -> FsResult<()> {
            self.0.changes(&fd);
            let folder = again(&fd);
            let named = path.clone();
            GUEST_FILES.within(self.0.$touch(fd, $($c,)* path)).await?;
            self.0.touched(Touch::$how, &folder, &named);
            Ok(())
        })*
    };
}

impl types::Host for PooledView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        let code = self.0.plain.convert_error_code(error)?;
        *locked(&self.0.rules.failed) = Some(code.name());
        Ok(code)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.0.plain.filesystem_error_code(error)
    }
}

impl HostDescriptor for PooledView<'_> {
    in_pool! {
        // They take handles alone, and `open_at` returns no handle to a denied path.
        plain {
        advise(offset: u64, length: u64, advice: Advice) -> FsResult<()>;
        sync_data() -> FsResult<()>;
        sync() -> FsResult<()>;
        get_flags() -> FsResult<DescriptorFlags>;
        get_type() -> FsResult<DescriptorType>;
        read(length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)>;
        stat() -> FsResult<DescriptorStat>;
        is_same_object(other: Fd) -> wasmtime::Result<bool>;
        metadata_hash() -> FsResult<MetadataHashValue>;
        }
        looks {
        stat_at(flags: PathFlags, path: String) -> FsResult<DescriptorStat>;
        readlink_at(path: String) -> FsResult<String>;
        metadata_hash_at(flags: PathFlags, path: String) -> FsResult<MetadataHashValue>;
        }
        changes {
        set_size(size: u64) -> FsResult<()>;
        write(bytes: Vec<u8>, offset: u64) -> FsResult<u64>;
        }
        touches {
        Written: create_directory_at();
        Removed: remove_directory_at();
        Written: symlink_at(target: String);
        Removed: unlink_file_at();
        }
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        at: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        self.0.changes(&fd);
        let folder = again(&fd);
        let named = path.clone();
        let opened = GUEST_FILES
            .within(self.0.open_at(fd, at, path, open, flags))
            .await?;
        self.0.opened(&opened, &folder, &named, open, flags);
        Ok(opened)
    }

    async fn set_times(
        &mut self,
        fd: Fd,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.0.changes(&fd);
        let setting = self.0.plain.set_times(fd, accessed, modified);
        GUEST_FILES.within(setting).await
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        let folder = again(&fd);
        let listing = GUEST_FILES.within(self.0.read_directory(fd)).await?;
        self.0.touched(Touch::Listed, &folder, ".");
        Ok(listing)
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        at: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.0.changes(&fd);
        let folder = again(&fd);
        let named = path.clone();
        GUEST_FILES
            .within(self.0.set_times_at(fd, at, path, accessed, modified))
            .await?;
        self.0.touched(Touch::Written, &folder, &named);
        Ok(())
    }

    async fn link_at(
        &mut self,
        fd: Fd,
        at: PathFlags,
        old: String,
        new_fd: Fd,
        new: String,
    ) -> FsResult<()> {
        self.0.changes(&fd);
        let folder = again(&new_fd);
        let named = new.clone();
        GUEST_FILES
            .within(self.0.link_at(fd, at, old, new_fd, new))
            .await?;
        self.0.touched(Touch::Written, &folder, &named);
        Ok(())
    }

    async fn rename_at(&mut self, fd: Fd, old: String, new_fd: Fd, new: String) -> FsResult<()> {
        self.0.changes(&fd);
        let names = [
            (again(&fd), old.clone(), Touch::Removed),
            (again(&new_fd), new.clone(), Touch::Written),
        ];
        GUEST_FILES
            .within(self.0.rename_at(fd, old, new_fd, new))
            .await?;
        names
            .iter()
            .for_each(|(folder, named, how)| self.0.touched(*how, folder, named));
        Ok(())
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        self.0.read_via_stream(fd, offset)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        self.0.write_via_stream(fd, offset)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        self.0.append_via_stream(fd)
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.0.plain, fd)
    }
}

impl HostDirectoryEntryStream for PooledView<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        self.0.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.0.end_listing(stream)
    }
}
