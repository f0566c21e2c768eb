//! Opens only regular files and folders below a folder: a thread that blocks in a FIFO or a device cannot be stopped.

use std::fs::File;
use std::io;
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_primitives::fs::{self as capability, OpenOptions, OpenOptionsExt};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use toolcell_system::pseudo_files;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{self, Descriptor, OpenMode};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, OpenFlags, PathFlags,
};

/// To see what a file is before it is opened: opening a FIFO unblocks a writer that waits for a reader, and some devices
/// act on an open. On Linux, this has no such effects.
#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH;
/// Does not wait for a writer.
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = OFlags::NONBLOCK;

#[derive(Clone, Debug)]
pub(super) struct OpenRequest {
    follow: FollowSymlinks,
    is_folder: bool,
    options: OpenOptions,
    mode: OpenMode,
}

impl OpenRequest {
    pub(super) fn new(path: PathFlags, open: OpenFlags, flags: DescriptorFlags) -> FsResult<Self> {
        let makes = open.contains(OpenFlags::CREATE);
        let truncates = open.contains(OpenFlags::TRUNCATE);
        let exclusive = open.contains(OpenFlags::EXCLUSIVE);
        let is_folder = open.contains(OpenFlags::DIRECTORY);
        let synced = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        if flags.intersects(synced) {
            return Err(ErrorCode::Unsupported.into());
        }
        if is_folder && (makes || truncates || exclusive) {
            return Err(ErrorCode::Invalid.into());
        }
        let write = makes || truncates || flags.contains(DescriptorFlags::WRITE);
        let read = flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE);
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, read);
        mode.set(OpenMode::WRITE, write);
        let follow = if path.contains(PathFlags::SYMLINK_FOLLOW) {
            FollowSymlinks::Yes
        } else {
            FollowSymlinks::No
        };
        let mut more = OFlags::NOCTTY;
        // Where there is no `openat2`, a link is opened itself before it is followed, and is not a folder.
        more.set(OFlags::DIRECTORY, is_folder && follow == FollowSymlinks::No);
        // The open must not block, even if the path was swapped meanwhile.
        more.set(OFlags::NONBLOCK, guard!("special_files"));
        let mut options = OpenOptions::new();
        options
            .read(read)
            .write(write)
            .create(makes)
            .create_new(makes && exclusive)
            .truncate(truncates)
            .follow(follow)
            .custom_flags(more.bits().cast_signed());
        Ok(Self {
            follow,
            is_folder,
            options,
            mode,
        })
    }

    pub(super) fn writes(&self) -> bool {
        self.mode.contains(OpenMode::WRITE)
    }

    pub(super) fn open(
        &self,
        folder: &File,
        path: &str,
        perms: FsPerms,
    ) -> Result<Descriptor, ErrorCode> {
        let mut look = OpenOptions::new();
        look.read(true)
            .follow(self.follow)
            .custom_flags(LOOK.bits().cast_signed());
        // The same folder; where there is no `openat2`, a path that ends in `/` would give a handle that can only name it.
        let below;
        let path = if path.ends_with('/') && !self.writes() {
            below = format!("{path}.");
            Path::new(&below)
        } else {
            Path::new(path)
        };
        if guard!("special_files")
            && let Ok(there) = capability::open(folder, path, &look)
        {
            check(&there)?;
        }
        let file = capability::open(folder, path, &self.options)?;
        // Again, because the path may have been swapped since the first check.
        if check(&file)? == FileType::Directory {
            let folder = filesystem::Dir::new(file, perms, self.mode, false);
            return Ok(Descriptor::Dir(folder));
        }
        if self.is_folder {
            return Err(ErrorCode::NotDirectory);
        }
        // FUSE file systems see the flag, and some behave differently with it.
        let flags = fcntl_getfl(&file).map_err(io::Error::from)?;
        fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(io::Error::from)?;
        let file = filesystem::File::new(file, perms, self.mode, false);
        Ok(Descriptor::File(file))
    }
}

/// Fails for a FIFO, a socket or a device, and in a file system that holds the kernel's state.
fn check(file: &File) -> Result<FileType, ErrorCode> {
    let kind = FileType::from_raw_mode(fstat(file).map_err(io::Error::from)?.st_mode);
    let is_special = matches!(
        kind,
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice
    );
    if is_special && guard!("special_files") {
        return Err(ErrorCode::Unsupported);
    }
    pseudo_files::refuse(file).map_err(|_| ErrorCode::Access)?;
    Ok(kind)
}
