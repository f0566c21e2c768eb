//! Opens paths below a folder, and only regular files and folders: a FIFO blocks until its other end is opened, a
//! device does whatever its driver does, and a thread that blocks in either cannot be stopped.

use std::fs::File;
use std::io;

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::Errno;
use toolcell_system::pseudo_files;
use wasmtime_wasi::filesystem::OpenMode;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, OpenFlags, PathFlags,
};

/// Permissions of a created file, before the process's umask.
const MADE: Mode = Mode::from_raw_mode(0o666);

/// How a guest wants a path opened, in the operating system's flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRequest {
    pub(super) follow: bool,
    pub(super) flags: OFlags,
    pub(super) mode: OpenMode,
}

/// An opened file or folder.
#[derive(Debug)]
pub(super) enum OpenedPath {
    File(File),
    Folder(File),
}

/// Why nothing was opened.
#[derive(Debug)]
pub(super) enum OpenFailure {
    Error(io::Error),
    /// A FIFO, a socket or a device.
    Special,
    /// The kernel has no `openat2` or gave up on it, or a filter forbids it.
    StepByStep,
}

impl OpenRequest {
    /// Converts the flags as wasmtime-wasi does.
    pub(super) fn new(path: PathFlags, open: OpenFlags, flags: DescriptorFlags) -> FsResult<Self> {
        let makes = open.contains(OpenFlags::CREATE);
        let truncates = open.contains(OpenFlags::TRUNCATE);
        let synced = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        if flags.intersects(synced) {
            return Err(ErrorCode::Unsupported.into());
        }
        if open.contains(OpenFlags::DIRECTORY)
            && (makes || truncates || open.contains(OpenFlags::EXCLUSIVE))
        {
            return Err(ErrorCode::Invalid.into());
        }
        let write = makes || truncates || flags.contains(DescriptorFlags::WRITE);
        let read = flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE);
        let mut wanted = match (read, write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        match (makes, open.contains(OpenFlags::EXCLUSIVE)) {
            (true, true) => wanted |= OFlags::CREATE | OFlags::EXCL,
            (true, false) => wanted |= OFlags::CREATE,
            (false, _) => {}
        }
        if truncates && !wanted.contains(OFlags::EXCL) {
            wanted |= OFlags::TRUNC;
        }
        if open.contains(OpenFlags::DIRECTORY) {
            wanted |= OFlags::DIRECTORY;
        }
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, read);
        mode.set(OpenMode::WRITE, write);
        // The open must not block, even if the path was swapped meanwhile.
        let flags = wanted | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(Self {
            follow: path.contains(PathFlags::SYMLINK_FOLLOW),
            flags,
            mode,
        })
    }

    pub(super) fn writes(&self) -> bool {
        self.mode.contains(OpenMode::WRITE)
    }

    fn made(&self) -> Mode {
        if self.flags.contains(OFlags::CREATE) {
            MADE
        } else {
            Mode::empty()
        }
    }
}

/// Opens `path` below `folder` in one step.
pub(super) fn open(
    folder: &File,
    path: &str,
    wish: &OpenRequest,
) -> Result<OpenedPath, OpenFailure> {
    if !guard!("special_files") {
        let flags = wish.flags - OFlags::NONBLOCK;
        return vetted(resolve_beneath(
            folder,
            path,
            &OpenRequest { flags, ..*wish },
        )?);
    }
    // Opening a FIFO unblocks a writer that waits for a reader, and some devices act on an open. `O_PATH` checks the
    // type first, without such effects.
    let look = OpenRequest {
        flags: OFlags::PATH | OFlags::CLOEXEC,
        ..*wish
    };
    match resolve_beneath(folder, path, &look) {
        Ok(file) if is_special(kind(&file)?) => return Err(OpenFailure::Special),
        Ok(file) => of_files(&file)?,
        Err(OpenFailure::Error(_)) => {}
        Err(unopened) => return Err(unopened),
    }
    vetted(resolve_beneath(folder, path, wish)?)
}

/// Opens `name` in `folder`, without following it if it is a link.
pub(super) fn open_name(
    folder: &File,
    name: &str,
    wish: &OpenRequest,
) -> Result<OpenedPath, OpenFailure> {
    match rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there)
            if is_special(FileType::from_raw_mode(there.st_mode)) && guard!("special_files") =>
        {
            return Err(OpenFailure::Special);
        }
        _ => {}
    }
    let opened = rustix::fs::openat(folder, name, wish.flags | OFlags::NOFOLLOW, wish.made());
    vetted(File::from(opened.map_err(failed)?))
}

/// Returns what `name` in `folder` points to, if it is a link.
pub(super) fn link_target(folder: &File, name: &str) -> Option<String> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
    target.into_string().ok()
}

/// Checks the type of what was really opened, because the path may have been swapped since the first check.
fn vetted(file: File) -> Result<OpenedPath, OpenFailure> {
    of_files(&file)?;
    match kind(&file)? {
        FileType::Directory => Ok(OpenedPath::Folder(file)),
        special if is_special(special) && guard!("special_files") => Err(OpenFailure::Special),
        _ => {
            // FUSE file systems see the flag, and some behave differently with it.
            let flags = fcntl_getfl(&file).map_err(failed)?;
            fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(failed)?;
            Ok(OpenedPath::File(file))
        }
    }
}

/// Fails in a file system that holds no files, but the kernel's state.
fn of_files(file: &File) -> Result<(), OpenFailure> {
    pseudo_files::refuse(file).map_err(|_| failed(Errno::ACCESS))
}

fn kind(file: &File) -> Result<FileType, OpenFailure> {
    Ok(FileType::from_raw_mode(
        fstat(file).map_err(failed)?.st_mode,
    ))
}

fn is_special(kind: FileType) -> bool {
    matches!(
        kind,
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice
    )
}

fn failed(error: Errno) -> OpenFailure {
    OpenFailure::Error(error.into())
}

#[cfg(target_os = "linux")]
fn resolve_beneath(folder: &File, path: &str, wish: &OpenRequest) -> Result<File, OpenFailure> {
    use rustix::fs::{ResolveFlags, openat2};
    /// Tries of `openat2` before falling back, because renames anywhere on the machine make the kernel give up.
    const TRIES: u32 = 4;
    let flags = if wish.follow {
        wish.flags
    } else {
        wish.flags | OFlags::NOFOLLOW
    };
    for _ in 0..TRIES {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        return match openat2(folder, path, flags, wish.made(), resolve) {
            Ok(file) => Ok(File::from(file)),
            Err(Errno::AGAIN) => continue,
            // Some seccomp filters answer `EPERM` for every system call that they do not know.
            Err(Errno::NOSYS | Errno::PERM) => break,
            // The path leads out of the folder.
            Err(Errno::XDEV) => Err(failed(Errno::PERM)),
            Err(error) => Err(failed(error)),
        };
    }
    Err(OpenFailure::StepByStep)
}

#[cfg(not(target_os = "linux"))]
fn resolve_beneath(_: &File, _: &str, _: &OpenRequest) -> Result<File, OpenFailure> {
    Err(OpenFailure::StepByStep)
}
