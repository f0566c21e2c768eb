//! Opens and creates files: nothing is created or truncated before its real place is known, and what is created is
//! counted.

use std::fs::File;
use std::sync::Arc;

use toolcell_system::pool::GUEST_FILES;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use super::beneath::OpenRequest;
use super::path_target::AllowedName;
use super::{Fd, PolicyFsView, again};

impl PolicyFsView<'_> {
    /// Refuses anything but a regular file or a folder, and blocks no thread.
    pub(super) async fn open_only_files(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let wish = OpenRequest::new(path_flags, open, flags)?;
        let (folder, perms) = self.folder(&fd)?;
        if perms.write_not_permitted() && wish.writes() {
            return Err(ErrorCode::NotPermitted.into());
        }
        let opened = GUEST_FILES
            .run(move || wish.open(&folder, &path, perms))
            .await;
        let opened = self
            .plain
            .table
            .push(opened.map_err(|_| ErrorCode::Busy)??)?;
        // With denials, the host itself works with this handle first, and the guest may never get it.
        self.changes(&opened);
        Ok(opened)
    }

    /// The change needs no access to the content; the file is opened to read if permitted, or else to write.
    pub(super) async fn open_to_change(&mut self, fd: Fd, path: String) -> FsResult<Fd> {
        let follow = PathFlags::SYMLINK_FOLLOW;
        let open = OpenFlags::empty();
        let read = self
            .open_only_files(
                again(&fd),
                follow,
                path.clone(),
                open,
                DescriptorFlags::READ,
            )
            .await;
        match read {
            Err(error) if error.downcast_ref() == Some(&ErrorCode::Access) => {
                self.open_only_files(fd, follow, path, open, DescriptorFlags::WRITE)
                    .await
            }
            read => read,
        }
    }

    pub(super) fn folder(&self, fd: &Fd) -> FsResult<(Arc<File>, FsPerms)> {
        match self.plain.table.get(fd)? {
            Descriptor::Dir(dir) => Ok((Arc::clone(&dir.dir), dir.perms)),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    pub(super) async fn count_new(
        &mut self,
        fd: &Fd,
        follow: PathFlags,
        path: &str,
    ) -> FsResult<()> {
        match self.plain.stat_at(again(fd), follow, path.to_owned()).await {
            Ok(_) => Ok(()),
            Err(_) => self.rules.quota.file(),
        }
    }

    /// Creates and truncates nothing before its real place is known.
    pub(super) async fn open_among_denials(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let makes = open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        let write =
            makes || flags.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY);
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        self.check(&fd, &path, follow, write).await?;
        if !makes {
            let opened = self
                .open_only_files(fd, path_flags, path, open, flags)
                .await?;
            return self.settle(opened).await;
        }
        let place = self.place(&fd, &path).await?;
        let opened = self.make(&place, follow, open, flags).await;
        self.leave(place)?;
        let opened = match opened? {
            Some(opened) => opened,
            // A link to an existing file. A dangling link creates nothing.
            None => {
                self.open_only_files(
                    fd,
                    path_flags,
                    path,
                    OpenFlags::empty(),
                    flags | DescriptorFlags::WRITE,
                )
                .await?
            }
        };
        let opened = self.settle(opened).await?;
        if open.contains(OpenFlags::TRUNCATE) {
            self.plain.set_size(again(&opened), 0).await?;
        }
        Ok(opened)
    }

    /// Truncates nothing; `None` if a link must be followed.
    async fn make(
        &mut self,
        place: &AllowedName,
        follow: bool,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Option<Fd>> {
        if guard!("denial_races") && self.denials().cover(&place.host, true) {
            return Err(ErrorCode::Access.into());
        }
        let there = self
            .plain
            .stat_at(again(&place.folder), PathFlags::empty(), place.name.clone())
            .await;
        match there {
            Ok(stat)
                if follow
                    && !open.contains(OpenFlags::EXCLUSIVE)
                    && stat.type_ == DescriptorType::SymbolicLink =>
            {
                return Ok(None);
            }
            Ok(_) => {}
            Err(_) if open.contains(OpenFlags::CREATE) => self.rules.quota.file()?,
            Err(_) => {}
        }
        let open = open & (OpenFlags::CREATE | OpenFlags::EXCLUSIVE);
        let flags = flags | DescriptorFlags::WRITE;
        self.open_only_files(
            again(&place.folder),
            PathFlags::empty(),
            place.name.clone(),
            open,
            flags,
        )
        .await
        .map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::FileRules;
    use crate::limiter::Limiter;
    use toolcell_policy::{Capability, Limits};
    use wasmtime::component::ResourceTable;
    use wasmtime_wasi::WasiCtxBuilder;
    use wasmtime_wasi::filesystem::{self, OpenMode, WasiFilesystemCtxView};

    #[tokio::test]
    async fn a_call_is_not_over_while_a_thread_works_in_a_folder_that_the_host_opened_for_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let limits = Limits::default();
        let rules = Arc::new(FileRules::new(&Capability::default(), &limits, None));
        let at_work = {
            let mut wasi = WasiCtxBuilder::new().build();
            let mut table = ResourceTable::new();
            let root = File::open(dir.path()).unwrap();
            let root = filesystem::Dir::new(root, FsPerms::ReadWrite, OpenMode::READ, false);
            let root = table.push(Descriptor::Dir(root)).unwrap();
            let plain = WasiFilesystemCtxView {
                ctx: wasi.filesystem(),
                table: &mut table,
            };
            let limiter = Limiter::new(&limits);
            let mut guarded = PolicyFsView {
                rules: Arc::clone(&rules),
                plain,
                memory: limiter.meter(),
            };
            // The handle that a thread holds while it creates `new`.
            let place = guarded.place(&root, "sub/new").await.unwrap();
            Arc::clone(guarded.handle(&place.folder).unwrap())
        };
        assert!(!rules.quota.settled().await, "the thread is still at work");
        drop(at_work);
        assert!(rules.quota.settled().await);
    }
}
