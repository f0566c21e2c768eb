//! Opening and making files: nothing is made or truncated before it is known where, and what is made is counted.

use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use super::place::Place;
use super::{Fd, Guarded, again};

impl Guarded<'_> {
    /// Counts a file that opening `path` will make, if it is not there yet.
    pub(super) async fn count_new(&mut self, fd: &Fd, follow: PathFlags, path: &str) -> FsResult<()> {
        match self.plain.stat_at(again(fd), follow, path.to_owned()).await {
            Ok(_) => Ok(()),
            Err(_) => self.rules.quota.file(),
        }
    }

    /// Opens a path where something is closed: nothing is made or truncated before it is known where.
    pub(super) async fn open_among_denials(
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
}
