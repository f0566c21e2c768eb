//! This user's own files and folders, created with modes 0600 and 0700, so that no other user could open them at any
//! moment.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use toolcell_spec::{ErrorCode, Refusal};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// For state that its file system or rights make unwritable; `None` for other errors, such as a key that others can
/// read.
pub fn unwritable(path: &Path, error: &io::Error) -> Option<Refusal> {
    let what_to_do = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
        io::ErrorKind::ReadOnlyFilesystem => "make its file system writable",
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_some() => {
            "make its folder writable for you"
        }
        _ => return None,
    };
    let message = format!(
        "toolcell cannot write its own state, {}: {error}; {what_to_do}, or set TOOLCELL_HOME to a folder that can be written",
        path.display()
    );
    Some(Refusal::new(ErrorCode::HomeUnwritable, message))
}

/// State on disk when a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisk {
    /// Perhaps nothing yet: for reproducible content.
    Later,
    /// The name may be lost in a crash of the machine.
    Content,
    /// The content and its name.
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OthersAccess {
    /// They could know or have written the content.
    Nothing,
    /// Only what they could have written matters.
    Read,
}

/// Creates missing folders for this user alone; an existing one keeps its mode.
pub fn create_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(dir)
}

/// As [`create_dir`], but closes an existing `dir` to others. Fails if it belongs to another user.
pub fn close_dir(dir: &Path) -> io::Result<()> {
    create_dir(dir)?;
    close(&File::open(dir)?, FOLDER_MODE)
}

/// Opens for reading and writing, and closes an existing file to others. Fails for a symbolic link or another user's
/// file.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE);
    let file = options.custom_flags(flags()).open(path)?;
    close(&file, FILE_MODE)?;
    Ok(file)
}

/// Creates an empty file, or closes an existing one to others; fails as [`open_or_create`]. Never opens it, because
/// closing a file releases all locks of its process on it (POSIX), even of a database being written.
pub fn create_missing(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Closed before it has its name.
            let empty = draft(path, &[], OnDisk::Later)?.into_temp_path();
            match empty.persist_noclobber(path) {
                Ok(()) => return Ok(()),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    fs::symlink_metadata(path)?
                }
                Err(error) => return Err(error.error),
            }
        }
        found => found?,
    };
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(foreign());
    }
    match found.mode() & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(path, Permissions::from_mode(FILE_MODE)),
    }
}

/// Opens for reading. Fails for a symbolic link, an irregular file, another user's, or one with more access than
/// `others`.
pub fn open(path: &Path, others: OthersAccess) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let (taken, what) = match others {
        OthersAccess::Nothing => (0o077, "read"),
        OthersAccess::Read => (0o022, "changed"),
    };
    if metadata.uid() != rustix::process::geteuid().as_raw() && guard!("private_files") {
        return Err(foreign());
    }
    if metadata.mode() & taken != 0 && guard!("private_files") {
        let mode = metadata.mode() & 0o777;
        return Err(io::Error::other(format!(
            "it can be {what} by others (mode {mode:o}; 600 is expected)"
        )));
    }
    Ok(file)
}

/// A reader sees the old or the new content, never a part.
pub fn write_atomically(path: &Path, parts: &[&[u8]], on_disk: OnDisk) -> io::Result<()> {
    draft(path, parts, on_disk)?.persist(path)?;
    sync_name(path, on_disk)
}

/// As [`write_atomically`], but fails and changes nothing if `path` exists.
pub fn create_atomically(path: &Path, parts: &[&[u8]], on_disk: OnDisk) -> io::Result<()> {
    draft(path, parts, on_disk)?.persist_noclobber(path)?;
    sync_name(path, on_disk)
}

/// A temporary file beside `path`; its name begins with a dot.
fn draft(path: &Path, parts: &[&[u8]], on_disk: OnDisk) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(FILE_MODE))
        .tempfile_in(folder_of(path))?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    match on_disk {
        OnDisk::Later => {}
        OnDisk::Content => file.as_file().sync_data()?,
        OnDisk::Name => file.as_file().sync_all()?,
    }
    Ok(file)
}

fn sync_name(path: &Path, on_disk: OnDisk) -> io::Result<()> {
    match on_disk {
        OnDisk::Later | OnDisk::Content => Ok(()),
        OnDisk::Name => File::open(folder_of(path))?.sync_all(),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Removes other users' rights. Fails if one of them owns the file, who could change that again.
fn close(file: &File, mode: u32) -> io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(foreign());
    }
    match metadata.mode() & 0o077 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(mode)),
    }
}

fn foreign() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "it belongs to another user",
    )
}

/// Without NONBLOCK, a named pipe would block the reader.
fn flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folders_are_closed_from_the_start_and_again_where_that_is_wanted() {
        let root = tempfile::tempdir().unwrap();
        let (outer, inner) = (root.path().join("outer"), root.path().join("outer/inner"));
        create_dir(&inner).unwrap();
        assert_eq!((mode(&outer), mode(&inner)), (0o700, 0o700));
        set_mode(&inner, 0o755);
        create_dir(&inner).unwrap();
        assert_eq!(mode(&inner), 0o755);
        close_dir(&inner).unwrap();
        assert_eq!(mode(&inner), 0o700);
    }

    #[test]
    fn a_file_that_is_missing_is_created_and_one_that_is_there_keeps_the_locks_of_this_process() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let link = root.path().join("link");
        create_missing(&path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        (&file).write_all(b"content").unwrap();
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .unwrap();
        let is_locked = || {
            let locks = fs::read_to_string("/proc/locks").unwrap();
            let place = format!(":{} ", file.metadata().unwrap().ino());
            locks
                .lines()
                .any(|line| line.contains("POSIX") && line.contains(&place))
        };
        assert!(is_locked());
        set_mode(&path, 0o644);
        create_missing(&path).unwrap();
        assert!(
            is_locked(),
            "the lock of a database that another thread writes"
        );
        assert_eq!(
            (mode(&path), fs::read(&path).unwrap()),
            (0o600, b"content".to_vec())
        );
        symlink(&path, &link).unwrap();
        assert!(create_missing(&link).is_err());
    }

    #[test]
    fn a_file_is_created_and_opened_for_its_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        let link = root.path().join("link");
        for opened in [None, Some(0o644)] {
            if let Some(mode) = opened {
                set_mode(&file, mode);
            }
            open_or_create(&file).unwrap();
            assert_eq!(mode(&file), 0o600);
        }
        symlink(&file, &link).unwrap();
        assert!(open_or_create(&link).is_err() && open(&link, OthersAccess::Read).is_err());
        assert!(open(root.path(), OthersAccess::Read).is_err(), "a folder");
    }

    #[test]
    fn a_file_that_others_can_read_or_change_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        write_atomically(&file, &[b"a", b"b"], OnDisk::Later).unwrap();
        for (mode, nothing, read) in [
            (0o600, true, true),
            (0o640, false, true),
            (0o604, false, true),
            (0o620, false, false),
            (0o602, false, false),
        ] {
            set_mode(&file, mode);
            assert_eq!(
                open(&file, OthersAccess::Nothing).is_ok(),
                nothing,
                "{mode:o}"
            );
            assert_eq!(open(&file, OthersAccess::Read).is_ok(), read, "{mode:o}");
        }
    }

    #[test]
    fn a_write_replaces_the_whole_file_and_leaves_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        for (at, on_disk) in [OnDisk::Later, OnDisk::Content, OnDisk::Name]
            .into_iter()
            .enumerate()
        {
            let content = format!("content {at}");
            write_atomically(&file, &[b"content ", at.to_string().as_bytes()], on_disk).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
            assert!(create_atomically(&file, &[b"other"], on_disk).is_err());
            assert_eq!(
                (fs::read_to_string(&file).unwrap(), mode(&file)),
                (content, 0o600)
            );
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        }
    }
}
