//! The store of components: one file for each digest, for all projects. A file appears in it whole or not at all,
//! whenever a process is killed.

use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::component_size::component_bytes_max;
use toolcell_system::private::{self, OthersAccess};

use crate::digest::{Digest, DigestHasher};
use crate::lock_location;

const FOLDER: &str = "store";
const COMPONENTS: &str = "components";
const DRAFTS: &str = "drafts";
const LOCK: &str = "lock";
const ENDING: &str = ".wasm";
/// No program of the user changes a component by mistake.
const READ_ONLY: u32 = 0o400;

/// Opened for changes. Processes hold it together, so that the drafts of one are not removed by another.
pub struct ComponentStore {
    folder: PathBuf,
    /// Shared, or for a moment by one process alone.
    lock: File,
}

/// Removed on drop, or by the next process that opens the store.
pub struct ComponentDraft(NamedTempFile);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    pub file: PathBuf,
    pub why: String,
}

/// `home` is the folder of all state. The file may not exist.
pub fn file(home: &Path, digest: &Digest) -> PathBuf {
    home.join(FOLDER)
        .join(COMPONENTS)
        .join(format!("{}{ENDING}", digest.hex()))
}

/// Checks the digest. Fails if the component is not in the store, or was changed.
pub fn read(home: &Path, digest: &Digest) -> Result<Vec<u8>, Refusal> {
    let path = file(home, digest);
    let bytes = match bytes_of(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing(digest)),
        Err(error) => return Err(changed(&path, &error.to_string())),
    };
    if Digest::of(&bytes) == *digest || !guard!("store_digests") {
        Ok(bytes)
    } else {
        Err(changed(&path, "its bytes have another digest"))
    }
}

pub fn missing(digest: &Digest) -> Refusal {
    let message =
        format!("{digest} is locked, and not in the store of this user: run `toolcell install`");
    Refusal::new(ErrorCode::NotInStore, message)
}

/// The component is not what it was when it was installed.
pub fn changed(path: &Path, why: &str) -> Refusal {
    let message = format!(
        "{} was changed since it was installed ({why}), so it is not used: run `toolcell store verify`, then `toolcell \
         install`, which puts it back",
        path.display()
    );
    Refusal::new(ErrorCode::StoreChanged, message)
}

fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    private::open(path, OthersAccess::Nothing)?
        .take(component_bytes_max() + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl ComponentStore {
    /// Closes the folder to other users. If no other process has it open, what killed processes left is removed. Fails
    /// if the folder belongs to another user.
    pub fn open(home: &Path) -> Result<Self, Refusal> {
        let folder = home.join(FOLDER);
        let open = || -> io::Result<Self> {
            private::close_dir(&folder)?;
            [COMPONENTS, DRAFTS]
                .iter()
                .try_for_each(|part| private::close_dir(&folder.join(part)))?;
            let lock = private::open_or_create(&folder.join(LOCK))?;
            let store = Self {
                folder: folder.clone(),
                lock,
            };
            match store.lock.try_lock() {
                Ok(()) => {
                    store.sweep(home)?;
                    store.lock.unlock()?;
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            store.lock.lock_shared()?;
            Ok(store)
        };
        open().map_err(|error| unusable(&folder, &error))
    }

    /// Called while no other process can have drafts: of components, and of what was confirmed.
    fn sweep(&self, home: &Path) -> io::Result<()> {
        for draft in std::fs::read_dir(self.folder.join(DRAFTS))? {
            std::fs::remove_file(draft?.path())?;
        }
        let Ok(confirmed) = std::fs::read_dir(home.join(lock_location::FOLDER)) else {
            return Ok(());
        };
        for file in confirmed {
            let file = file?;
            if file.file_name().as_encoded_bytes().starts_with(b".") {
                std::fs::remove_file(file.path())?;
            }
        }
        Ok(())
    }

    pub fn draft(&self) -> Result<ComponentDraft, Refusal> {
        let folder = self.folder.join(DRAFTS);
        let draft = tempfile::Builder::new()
            .prefix("draft-")
            .suffix(ENDING)
            .tempfile_in(&folder);
        draft
            .map(ComponentDraft)
            .map_err(|error| unusable(&folder, &error))
    }

    /// When this returns, the disk has the bytes. A file that was changed meanwhile is replaced.
    pub fn keep(&self, draft: ComponentDraft, digest: &Digest) -> Result<(), Refusal> {
        let components = self.folder.join(COMPONENTS);
        let keep = || -> io::Result<()> {
            draft
                .0
                .as_file()
                .set_permissions(Permissions::from_mode(READ_ONLY))?;
            draft.0.as_file().sync_all()?;
            draft
                .0
                .persist(components.join(format!("{}{ENDING}", digest.hex())))?;
            File::open(&components)?.sync_all()
        };
        keep().map_err(|error| unusable(&components, &error))
    }

    /// Sorted, with sizes in bytes.
    pub fn components(&self) -> Result<Vec<(Digest, u64)>, Refusal> {
        let mut found: Vec<(Digest, u64)> = Vec::new();
        for (path, digest) in self.files()? {
            if let (Some(digest), Ok(metadata)) = (digest, path.symlink_metadata()) {
                found.push((digest, metadata.len()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Reads every component. An empty answer means that each has the digest of its name.
    pub fn verify(&self) -> Result<Vec<DamagedFile>, Refusal> {
        let mut damages = Vec::new();
        for (file, digest) in self.files()? {
            let why = match digest {
                None => Some("its name is not the name of a component".to_owned()),
                Some(digest) => damage(&file, &digest),
            };
            damages.extend(why.map(|why| DamagedFile { file, why }));
        }
        damages.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(damages)
    }

    /// Keeps what `is_used` names. Returns number and size in bytes; `None` if another process is installing, which may
    /// need a component.
    pub fn prune(
        self,
        is_used: impl FnOnce() -> Result<Vec<Digest>, Refusal>,
    ) -> Result<Option<(usize, u64)>, Refusal> {
        let failed = |error: &io::Error| unusable(&self.folder, error);
        self.lock.unlock().map_err(|error| failed(&error))?;
        match self.lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        // Read while no process installs, so that what is installed meanwhile is not removed.
        let used = is_used()?;
        let mut count = 0;
        let mut bytes = 0;
        for (digest, size) in self.components()? {
            if !used.contains(&digest) {
                let file = self
                    .folder
                    .join(COMPONENTS)
                    .join(format!("{}{ENDING}", digest.hex()));
                std::fs::remove_file(file).map_err(|error| failed(&error))?;
                (count, bytes) = (count + 1, bytes + size);
            }
        }
        Ok(Some((count, bytes)))
    }

    fn files(&self) -> Result<Vec<(PathBuf, Option<Digest>)>, Refusal> {
        let folder = self.folder.join(COMPONENTS);
        let read = || -> io::Result<Vec<(PathBuf, Option<Digest>)>> {
            std::fs::read_dir(&folder)?
                .map(|entry| {
                    let name = entry?.file_name();
                    let hex = name.to_str().and_then(|name| name.strip_suffix(ENDING));
                    Ok((
                        folder.join(&name),
                        hex.and_then(|hex| format!("sha256:{hex}").parse().ok()),
                    ))
                })
                .collect()
        };
        read().map_err(|error| unusable(&folder, &error))
    }
}

impl ComponentDraft {
    pub fn target(&mut self) -> &mut (dyn Write + Send) {
        self.0.as_file_mut()
    }

    pub fn bytes(&self) -> Result<Vec<u8>, Refusal> {
        bytes_of(self.0.path()).map_err(|error| unusable(self.0.path(), &error))
    }
}

fn damage(file: &Path, digest: &Digest) -> Option<String> {
    // In pieces, because the file can have become one of any size.
    let hash = || -> io::Result<Digest> {
        let mut open = private::open(file, OthersAccess::Nothing)?;
        let mut hasher = DigestHasher::default();
        let mut piece = vec![0; 1 << 16];
        loop {
            match open.read(&mut piece)? {
                0 => return Ok(hasher.finish()),
                count => hasher.update(piece.get(..count).unwrap_or_default()),
            }
        }
    };
    match hash() {
        Ok(found) if found == *digest => None,
        Ok(found) => Some(format!("its bytes have the digest {found}")),
        Err(error) => Some(error.to_string()),
    }
}

fn unusable(place: &Path, error: &io::Error) -> Refusal {
    let message = format!(
        "the store of tools cannot be used: {}: {error}; check the folder and its disk",
        place.display()
    );
    Refusal::new(ErrorCode::StoreUnusable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &ComponentStore, bytes: &[u8]) -> Digest {
        let mut draft = store.draft().unwrap();
        draft.target().write_all(bytes).unwrap();
        assert_eq!(draft.bytes().unwrap(), bytes);
        store.keep(draft, &Digest::of(bytes)).unwrap();
        Digest::of(bytes)
    }

    #[test]
    fn what_is_kept_is_read_and_what_was_changed_is_not() {
        let home = tempfile::tempdir().unwrap();
        let store = ComponentStore::open(home.path()).unwrap();
        let digest = put(&store, b"component");
        assert_eq!(read(home.path(), &digest).unwrap(), b"component");
        assert_eq!(store.verify().unwrap(), []);
        assert_eq!(
            read(home.path(), &Digest::of(b"other")).unwrap_err().code,
            ErrorCode::NotInStore
        );
        let path = file(home.path(), &digest);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "changed").unwrap();
        assert_eq!(
            read(home.path(), &digest).unwrap_err().code,
            ErrorCode::StoreChanged
        );
        assert_eq!(store.verify().unwrap().len(), 1);
        put(&store, b"component");
        assert_eq!(
            (store.verify().unwrap(), read(home.path(), &digest).is_ok()),
            (Vec::new(), true)
        );
    }

    #[test]
    fn drafts_of_ended_processes_are_removed_and_those_of_others_are_not() {
        let home = tempfile::tempdir().unwrap();
        let drafts = home.path().join("store/drafts");
        let count = || std::fs::read_dir(&drafts).unwrap().count();
        let first = ComponentStore::open(home.path()).unwrap();
        let draft = first.draft().unwrap();
        let second = ComponentStore::open(home.path()).unwrap();
        assert_eq!(count(), 1);
        // As after a kill: the file stays, and the lock does not.
        draft.0.keep().unwrap();
        drop((first, second));
        assert_eq!(count(), 1);
        ComponentStore::open(home.path()).unwrap();
        assert_eq!(count(), 0);
    }

    #[test]
    fn what_no_lock_names_is_pruned_unless_another_process_installs() {
        let home = tempfile::tempdir().unwrap();
        let store = ComponentStore::open(home.path()).unwrap();
        let used = put(&store, b"used");
        let _ = put(&store, b"unused");
        let other = ComponentStore::open(home.path()).unwrap();
        assert_eq!(store.prune(|| Ok(Vec::new())).unwrap(), None);
        assert_eq!(other.prune(|| Ok(vec![used])).unwrap(), Some((1, 6)));
        let store = ComponentStore::open(home.path()).unwrap();
        assert_eq!(store.components().unwrap(), [(used, 4)]);
    }

    #[test]
    fn the_folders_are_closed_to_other_users() {
        let home = tempfile::tempdir().unwrap();
        drop(ComponentStore::open(home.path()).unwrap());
        let folders =
            ["store", "store/components", "store/drafts"].map(|folder| home.path().join(folder));
        folders.iter().for_each(|folder| {
            std::fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap()
        });
        drop(ComponentStore::open(home.path()).unwrap());
        for folder in folders {
            assert_eq!(
                folder.metadata().unwrap().permissions().mode() & 0o777,
                0o700,
                "{}",
                folder.display()
            );
        }
    }
}
