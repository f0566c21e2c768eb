//! Where the files of components are unpacked: beside the compiled code, each archive once, in a folder with the name of its
//! content. A folder is there whole or not at all, and is not removed while a call uses it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use toolcell_spec::dialect::wrapping::OwnFilesRoom;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::private;

use super::archive::{FilesArchive, UnpackError, zip};
use super::{FilesSection, OwnFiles, OwnFolder, refused};
use crate::cache::mark_used;
use crate::folder::OpenFolder;
use crate::scratch::{self, ScratchFolder};

/// In the order of the component's sections.
pub(crate) type OpenFolders = Arc<[OpenOwnFolder]>;

/// A folder that stays while this is open.
#[derive(Debug)]
pub(crate) struct OpenOwnFolder {
    guest: String,
    host: PathBuf,
    folder: OpenFolder,
}

impl OpenOwnFolder {
    pub(crate) fn guest(&self) -> &str {
        &self.guest
    }

    /// Canonical.
    pub(crate) fn host(&self) -> &Path {
        &self.host
    }

    /// Leads to the folder even if it is moved, where the system has such paths.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub(crate) struct OwnFileStore {
    /// `None` without a cache: the files are there as long as this is.
    kept: Option<PathBuf>,
    scratch_dir: PathBuf,
    root: OnceLock<StoreRoot>,
}

struct StoreRoot {
    /// Canonical.
    path: PathBuf,
    _temporary: Option<ScratchFolder>,
}

pub(crate) fn folder_beside(cache_dir: &Path) -> PathBuf {
    cache_dir.with_file_name("files")
}

impl OwnFileStore {
    pub(crate) fn new(cache_dir: Option<&Path>, scratch_dir: &Path) -> Self {
        Self {
            kept: cache_dir.map(folder_beside),
            scratch_dir: scratch_dir.to_owned(),
            root: OnceLock::new(),
        }
    }

    pub(super) fn root(&self) -> io::Result<&Path> {
        if let Some(root) = self.root.get() {
            return Ok(&root.path);
        }
        let (path, temporary) = match &self.kept {
            Some(kept) => {
                private::create_dir(kept)?;
                (kept.clone(), None)
            }
            None => {
                let made = ScratchFolder::make(&self.scratch_dir)?;
                (made.path().to_owned(), Some(made))
            }
        };
        let made = StoreRoot {
            path: path.canonicalize()?,
            _temporary: temporary,
        };
        // One that another thread made meanwhile is as good.
        Ok(&self.root.get_or_init(|| made).path)
    }

    /// Unpacks what is not there yet, which takes long.
    pub(crate) fn keep(&self, sections: &[FilesSection]) -> Result<OwnFiles, Refusal> {
        let root = self
            .root()
            .map_err(|error| unwritable(&self.place(), &error))?;
        let mut room = OwnFilesRoom::default();
        let mut folders = Vec::new();
        for section in sections {
            let folder = keep_one(root, section, &mut room).map_err(|error| match error {
                UnpackError::Archive(why) => refused(format!("{}: {why}", section.guest)),
                UnpackError::Disk(error) => unwritable(root, &error),
            })?;
            folders.push(folder);
        }
        let open = self.open(&folders)?.ok_or_else(gone)?;
        Ok(OwnFiles { folders, open })
    }

    /// `None` if one of them is not there.
    pub(crate) fn open(&self, folders: &[OwnFolder]) -> Result<Option<OpenFolders>, Refusal> {
        let open = || -> io::Result<Option<OpenFolders>> {
            let root = self.root()?;
            folders
                .iter()
                .map(|folder| open_one(root, folder))
                .collect()
        };
        open().map_err(|error| unwritable(&self.place(), &error))
    }

    fn place(&self) -> PathBuf {
        self.kept
            .clone()
            .unwrap_or_else(|| self.scratch_dir.clone())
    }
}

/// Another process removed them as soon as they were unpacked.
pub(crate) fn gone() -> Refusal {
    let message = "the component's own files were removed from toolcell's cache while the call began; call again";
    Refusal::new(ErrorCode::ComponentNotLoaded, message)
}

/// The component was loaded from memory.
pub(crate) fn lost() -> Refusal {
    let message =
        "the component's own files were removed from toolcell's cache; load the component again";
    Refusal::new(ErrorCode::ComponentNotLoaded, message)
}

fn unwritable(place: &Path, error: &io::Error) -> Refusal {
    private::unwritable(place, error).unwrap_or_else(|| {
        let place = place.display();
        let message = format!("the component's own files cannot be kept in {place}: {error}");
        Refusal::new(ErrorCode::HostFault, message)
    })
}

fn keep_one(
    root: &Path,
    section: &FilesSection,
    room: &mut OwnFilesRoom,
) -> Result<OwnFolder, UnpackError> {
    let zip = zip(&section.archive).map_err(UnpackError::Archive)?;
    let archive = FilesArchive::read(&zip, room).map_err(UnpackError::Archive)?;
    let folder = OwnFolder {
        guest: section.guest.clone(),
        digest: blake3::hash(&section.archive).to_hex().to_string(),
        files: archive.files(),
        bytes: archive.bytes(),
    };
    if open_one(root, &folder)?.is_none() {
        unpack(root, &archive, &folder.digest)?;
    }
    Ok(folder)
}

/// Under another name first. A crash leaves that folder, which the cache removes later.
fn unpack(root: &Path, archive: &FilesArchive<'_>, name: &str) -> Result<(), UnpackError> {
    // The user may have removed the whole cache.
    private::create_dir(root)?;
    let draft = tempfile::Builder::new().prefix(".new-").tempdir_in(root)?;
    let unpacked = draft.path().join(name);
    archive.unpack(&unpacked)?;
    // No later start looks whether they are whole, so the name must not reach the disk before the content does.
    sync(&File::open(&unpacked)?)?;
    match std::fs::rename(&unpacked, root.join(name)) {
        // Another process was faster.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
            ) =>
        {
            Ok(())
        }
        renamed => Ok(renamed?),
    }
}

/// One by one, thousands of files would take minutes.
fn sync(folder: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        Ok(rustix::fs::syncfs(folder)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        rustix::fs::sync();
        Ok(())
    }
}

/// `None` if it is not there, or is being removed.
fn open_one(root: &Path, wanted: &OwnFolder) -> io::Result<Option<OpenOwnFolder>> {
    let host = root.join(&wanted.digest);
    let folder = match open(&host) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match flock(&folder, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let metadata = folder.metadata()?;
    check(&metadata)?;
    // It may have been removed before it was locked.
    if !is_at(&metadata, &host) {
        return Ok(None);
    }
    mark_used(&folder);
    Ok(Some(OpenOwnFolder {
        guest: wanted.guest.clone(),
        folder: OpenFolder::held(folder.into(), &host),
        host,
    }))
}

fn open(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?.into())
}

/// Whoever could change a component's files could change what it does.
fn check(folder: &Metadata) -> io::Result<()> {
    let is_own = folder.uid() == rustix::process::geteuid().as_raw();
    if (!is_own || folder.mode() & 0o022 != 0) && guard!("private_files") {
        return Err(io::Error::other(
            "another user could change them; remove that folder",
        ));
    }
    Ok(())
}

fn is_at(metadata: &Metadata, path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|there| (there.dev(), there.ino()) == (metadata.dev(), metadata.ino()))
}

/// `false` if a call uses it, or it cannot be removed.
pub(crate) fn remove(folder: &Path) -> bool {
    let removed = || -> io::Result<()> {
        let (Some(root), Some(name)) = (folder.parent(), folder.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let lock = open(folder)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        // A crash must not leave a part of it under its name.
        let aside = tempfile::Builder::new().prefix(".old-").tempdir_in(root)?;
        let moved = aside.path().join(name);
        std::fs::rename(folder, &moved)?;
        scratch::remove(&moved, &lock.into())
    };
    removed().is_ok()
}

/// In bytes; folders that cannot be read have none.
pub(crate) fn tree_bytes(folder: &Path) -> u64 {
    let mut waiting = vec![folder.to_owned()];
    let mut bytes = 0_u64;
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => waiting.push(entry.path()),
                Ok(found) => bytes = bytes.saturating_add(found.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::archive::tests::{Packed, file, zip_of};
    use super::*;

    fn section(guest: &str, entries: &[Packed]) -> FilesSection {
        FilesSection {
            guest: guest.to_owned(),
            archive: zip_of(entries),
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn an_archive_is_unpacked_once_for_all_and_again_if_it_was_removed() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("components");
        let store = || OwnFileStore::new(Some(&cache), home.path());
        let sections = [
            section("/a", &[file("f", b"x")]),
            section("/b", &[file("f", b"x")]),
        ];
        let kept = store().keep(&sections).unwrap();
        let root = home.path().join("files");
        assert_eq!(names(&root), [kept.folders[0].digest.clone()]);
        let places: Vec<_> = kept
            .open
            .iter()
            .map(|open| (open.guest(), open.host()))
            .collect();
        let host = root.canonicalize().unwrap().join(&kept.folders[0].digest);
        assert_eq!(places, [("/a", &*host), ("/b", &*host)]);
        assert_eq!((kept.folders[1].files, kept.folders[1].bytes), (1, 1));
        assert!(!remove(&host), "it is in use");
        assert!(host.join("f").is_file());
        // Found, and not unpacked: what was put there stays.
        std::fs::write(host.join("mark"), "").unwrap();
        drop(store().keep(&sections).unwrap());
        assert!(host.join("mark").is_file());
        let folders = kept.folders.clone();
        drop(kept);
        assert!(remove(&host) && names(&root).is_empty());
        assert!(store().open(&folders).unwrap().is_none());
        std::fs::remove_dir(&root).unwrap();
        let open = store();
        assert!(open.open(&folders).unwrap().is_none());
        std::fs::remove_dir(&root).unwrap();
        open.keep(&sections).unwrap();
        assert!(host.join("f").is_file() && !host.join("mark").exists());
    }

    #[test]
    fn an_archive_that_is_refused_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let store = OwnFileStore::new(Some(&home.path().join("components")), home.path());
        let wrong = Packed {
            crc: 1,
            ..file("b", b"x")
        };
        let refusal = store.keep(&[section("/lib", &[file("a", b"x"), wrong])]);
        let refusal = refusal.map(|_| ()).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::ComponentInvalid);
        assert!(
            refusal
                .message
                .contains("/lib: the entry `b` cannot be read"),
            "{refusal}"
        );
        assert!(names(&home.path().join("files")).is_empty());
    }

    #[test]
    fn processes_that_unpack_at_once_all_succeed() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("components");
        let files: Vec<Packed> = (0..200).map(|at| file(&format!("{at}/f"), b"x")).collect();
        let sections = [section("/lib", &files)];
        std::thread::scope(|scope| {
            let unpack = || {
                let store = OwnFileStore::new(Some(&cache), home.path());
                store.keep(&sections).unwrap().open.len()
            };
            let all: Vec<_> = (0..4).map(|_| scope.spawn(unpack)).collect();
            assert!(all.into_iter().all(|one| one.join().unwrap() == 1));
        });
        assert_eq!(
            names(&home.path().join("files")).len(),
            1,
            "no draft is left"
        );
    }

    #[test]
    fn without_a_cache_they_are_there_as_long_as_the_store() {
        let scratch = tempfile::tempdir().unwrap();
        let store = OwnFileStore::new(None, scratch.path());
        let kept = store.keep(&[section("/lib", &[file("f", b"x")])]).unwrap();
        assert!(kept.open[0].host().join("f").is_file());
        drop((kept, store));
        assert!(names(scratch.path()).is_empty());
    }

    #[test]
    fn a_folder_that_others_could_change_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let store = OwnFileStore::new(Some(&home.path().join("components")), home.path());
        let sections = [section("/lib", &[file("f", b"x")])];
        let kept = store.keep(&sections).unwrap();
        let open = std::fs::Permissions::from_mode(0o770);
        std::fs::set_permissions(kept.open[0].host(), open).unwrap();
        let refusal = store.open(&kept.folders).map(|_| ()).unwrap_err();
        assert!(
            refusal.message.contains("another user could change them"),
            "{refusal}"
        );
    }
}
