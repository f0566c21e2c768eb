//! Compiled components on disk. Deserialising code is running it, so every entry carries an authentication code made
//! with a key that only this user can read, over the digest of the component, the engine's settings and the code.
//!
//! What was not used for the longest time goes when there is more than the cache may hold. An entry that another process has
//! open stays there for it until it closes the file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::file_state::FileState;
use crate::record::{ErrorClass, Refusal};
use crate::secret::private_file::{self, KEY_BYTES};

/// What follows the code and the description in an entry: the length of the description, the authentication code. They
/// come last, so that the code can be mapped as it lies in the file.
const LENGTH: u64 = 8;
const MAC: u64 = 32;
/// A note is the name of a component and an authentication code.
const NOTE: usize = 64;
/// How exactly the use of an entry is known. Its time of access is set this seldom, because that costs a look at all of it
/// at the next start.
const USE_KNOWN_WITHIN: Duration = Duration::from_secs(60 * 60);
/// Notes that are kept: one for each path at which a component was found.
const NOTES_MAX: usize = 4_096;
/// An entry that is larger is not read: no component that toolcell accepts makes one.
const ENTRY_BYTES_MAX: u64 = 1 << 30;

pub(super) struct Cache {
    dir: PathBuf,
    /// Where notes lie: which component a file held, and that its entry was authenticated.
    notes: PathBuf,
    key: Zeroizing<[u8; KEY_BYTES]>,
    note_key: Zeroizing<[u8; KEY_BYTES]>,
    compatibility: blake3::Hash,
    /// Bytes that all entries together may have.
    bytes_max: u64,
}

/// An entry that was authenticated.
pub(super) struct Entry<D> {
    /// Open, so that `code_file` leads to it.
    file: File,
    /// As it was before it was authenticated.
    state: FileState,
    opened: SystemTime,
    code_file: PathBuf,
    /// Bytes of the code, at the beginning of the file.
    code_bytes: u64,
    /// What was found out about the component: `D` depends on whether it is a tool or a hook. Nothing where that failed.
    description: Option<D>,
}

impl<D> Entry<D> {
    /// A path to the very file that was authenticated. Only its owner can write to that file.
    pub(super) fn code_file(&self) -> &Path {
        &self.code_file
    }

    /// What was found out about the component, the first time that this is called.
    pub(super) fn take_description(&mut self) -> Option<D> {
        self.description.take()
    }

    /// The code itself.
    pub(super) fn code(&mut self) -> std::io::Result<Vec<u8>> {
        self.file.rewind()?;
        let mut code = Vec::new();
        Read::by_ref(&mut self.file).take(self.code_bytes).read_to_end(&mut code)?;
        Ok(code)
    }
}

/// A path to an open file, whatever its folder has come to hold since; its own path where there is no such thing.
fn path_of(file: &File, path: PathBuf) -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file)))
    } else {
        path
    }
}

impl Cache {
    /// Opens the cache in `dir`, and makes what is not there; it keeps `bytes_max` bytes at most. A key that cannot be read is
    /// `setup_required`, because its owner can mend that; a folder that cannot be made is a fault of the host's.
    pub(super) fn open(
        dir: &Path,
        key_file: &Path,
        compatibility: blake3::Hash,
        bytes_max: u64,
    ) -> Result<Self, Refusal> {
        private_file::make_folder(dir).map_err(|error| {
            let message = format!("compiled components cannot be kept: {error:#}");
            Refusal::new(ErrorClass::ExecutionFailed, Refusal::HOST_FAULT, message)
        })?;
        let key = private_file::read_or_make_key(key_file).map_err(|error| {
            let message = format!(
                "the key of compiled components, {}, cannot be used: {error:#}; make it yours alone (chmod 600), or \
                 remove it, and a new one is made",
                key_file.display()
            );
            Refusal::new(ErrorClass::SetupRequired, "component_key_unreadable", message)
        })?;
        let note_key = blake3::derive_key("toolcell 2026-11 notes on component files", &key[..]);
        Ok(Self {
            dir: dir.to_owned(),
            notes: dir.with_extension("notes"),
            key,
            note_key: Zeroizing::new(note_key),
            compatibility,
            bytes_max,
        })
    }

    /// The entry of the component in the file `path`, if both files were read and authenticated before and are in the
    /// same state since. It spares a start the reading of both.
    pub(super) fn recall<D: DeserializeOwned>(&self, path: &Path, component: &FileState) -> Option<Entry<D>> {
        let mut note = [0; NOTE];
        let mut file = open_private(&self.note_path(path))?;
        file.read_exact(&mut note).ok()?;
        let (name, mac) = note.split_first_chunk::<32>()?;
        let name = blake3::Hash::from(*name);
        let entry = self.path(&name);
        let file = open_private(&entry)?;
        let state = FileState::of(&file)?;
        let expected = self.note(path, component, &name, &state);
        // Comparing hashes of blake3 takes the same time wherever they differ.
        if expected != blake3::Hash::from_slice(mac).ok()? {
            return None;
        }
        let entry = Self::entry(file, state, SystemTime::now(), entry)?;
        // Last: it changes the state of the entry, which is looked at as a whole once more at the next start.
        mark_used(&entry.file);
        Some(entry)
    }

    /// Notes that `path` in this state, which is a lasting one, held the component of `entry`. What cannot be noted is found
    /// out again.
    pub(super) fn remember<D>(&self, path: &Path, component: &FileState, name: &blake3::Hash, entry: &Entry<D>) {
        if !entry.state.is_settled(entry.opened) {
            return;
        }
        let write = || -> anyhow::Result<()> {
            private_file::make_folder(&self.notes)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.notes)?;
            file.write_all(name.as_bytes())?;
            file.write_all(self.note(path, component, name, &entry.state).as_bytes())?;
            file.persist(self.note_path(path))?;
            Ok(())
        };
        let _ = write();
    }

    /// Authenticates a note. The entry's path holds the engine's settings.
    fn note(&self, path: &Path, component: &FileState, name: &blake3::Hash, entry: &FileState) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.note_key);
        let (component, entry) = (component.bytes(), entry.bytes());
        for part in [&component[..], &entry[..], name.as_bytes(), self.compatibility.as_bytes()] {
            hasher.update(part);
        }
        hasher.update(path.as_os_str().as_encoded_bytes());
        hasher.finalize()
    }

    fn note_path(&self, path: &Path) -> PathBuf {
        self.notes.join(blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex().as_str())
    }

    /// The entry of the component with this hash, if there is one that toolcell wrote for this engine. Anything else counts
    /// as absent, and is written anew.
    pub(super) fn read<D: DeserializeOwned>(&self, component: &blake3::Hash) -> Option<Entry<D>> {
        let path = self.path(component);
        let mut file = open_private(&path)?;
        let length = file.metadata().ok()?.len();
        mark_used(&file);
        let (opened, state) = (SystemTime::now(), FileState::of(&file)?);
        let signed = length.checked_sub(MAC).filter(|signed| *signed >= LENGTH && length <= ENTRY_BYTES_MAX)?;
        let mut hasher = self.authenticator(component);
        hasher.update_reader(Read::by_ref(&mut file).take(signed)).ok()?;
        let mut mac = [0; MAC as usize];
        file.read_exact(&mut mac).ok()?;
        // Comparing hashes of blake3 takes the same time wherever they differ.
        if guard!("cache_authentication") && hasher.finalize() != blake3::Hash::from(mac) {
            return None;
        }
        Self::entry(file, state, opened, path)
    }

    /// An entry in a file that was authenticated.
    fn entry<D: DeserializeOwned>(
        mut file: File,
        state: FileState,
        opened: SystemTime,
        path: PathBuf,
    ) -> Option<Entry<D>> {
        let signed = file.metadata().ok()?.len().checked_sub(MAC)?;
        let mut size = [0; LENGTH as usize];
        file.seek(SeekFrom::Start(signed.checked_sub(LENGTH)?)).ok()?;
        file.read_exact(&mut size).ok()?;
        let size = u64::from_le_bytes(size);
        let code_bytes = signed.checked_sub(LENGTH)?.checked_sub(size)?;
        file.seek(SeekFrom::Start(code_bytes)).ok()?;
        let mut description = vec![0; usize::try_from(size).ok()?];
        file.read_exact(&mut description).ok()?;
        let description = serde_json::from_slice(&description).ok()?;
        Some(Entry { code_file: path_of(&file, path), file, state, opened, code_bytes, description })
    }

    /// Keeps the code of a component, and what was found out about it: nothing where that failed, so that the next try need
    /// not compile again. Code that would not fit is not kept.
    pub(super) fn write(
        &self,
        component: &blake3::Hash,
        description: Option<&impl Serialize>,
        code: &[u8],
    ) -> anyhow::Result<()> {
        let description = serde_json::to_vec(&description).context("write a description")?;
        if (code.len() + description.len()) as u64 > self.bytes_max.saturating_sub(LENGTH + MAC) {
            return Ok(());
        }
        let length = (description.len() as u64).to_le_bytes();
        let mut hasher = self.authenticator(component);
        let mut file =
            tempfile::NamedTempFile::new_in(&self.dir).context("write to the cache of compiled components")?;
        for part in [code, &description, &length] {
            hasher.update(part);
            file.write_all(part).context("write a compiled component")?;
        }
        file.write_all(hasher.finalize().as_bytes()).context("write a compiled component")?;
        let kept = self.path(component);
        file.persist(&kept).context("keep a compiled component")?;
        self.trim(&kept);
        Ok(())
    }

    /// Removes entries until all of them have `bytes_max` bytes at most, first the one that was not used for the longest time;
    /// never `kept`. Only who wrote an entry pays for this.
    fn trim(&self, kept: &Path) {
        let mut entries = files(&self.dir);
        // What a process left that was killed while it wrote.
        entries.retain(|entry| {
            let stale = entry.is_temporary && entry.used.elapsed().is_ok_and(|age| age > USE_KNOWN_WITHIN);
            !(stale && std::fs::remove_file(&entry.path).is_ok())
        });
        entries.sort_by_key(|entry| entry.used);
        let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        for entry in entries.iter().filter(|entry| entry.path != kept && !entry.is_temporary) {
            if bytes <= self.bytes_max || !guard!("cache_bound") {
                break;
            }
            // Another process may have been faster.
            let _ = std::fs::remove_file(&entry.path);
            bytes = bytes.saturating_sub(entry.bytes);
        }
        let mut notes = files(&self.notes);
        notes.sort_by_key(|note| note.used);
        let over = notes.len().saturating_sub(NOTES_MAX);
        notes.iter().take(over).for_each(|note| _ = std::fs::remove_file(&note.path));
    }

    /// A keyed hash that has begun with what an entry is for: this component, this engine.
    fn authenticator(&self, component: &blake3::Hash) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(self.compatibility.as_bytes());
        hasher.update(component.as_bytes());
        hasher
    }

    fn path(&self, component: &blake3::Hash) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(component.as_bytes());
        hasher.update(self.compatibility.as_bytes());
        self.dir.join(hasher.finalize().to_hex().as_str())
    }
}

/// Bytes of all entries in the folder of a cache.
pub fn cached_bytes(dir: &Path) -> u64 {
    files(dir).iter().map(|entry| entry.bytes).sum()
}

struct Found {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
    /// Being written, or left behind by a process that was writing it.
    is_temporary: bool,
}

fn files(dir: &Path) -> Vec<Found> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let used = metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH).max(metadata.modified().ok()?);
        let is_temporary = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
        Some(Found { path: entry.path(), bytes: metadata.len(), used, is_temporary })
    });
    found.collect()
}

/// Sets the time of access, unless it is known well enough: many file systems do not, or once a day.
fn mark_used(file: &File) {
    let known = || file.metadata()?.accessed();
    let old = known().is_ok_and(|used| used.elapsed().is_ok_and(|age| age > USE_KNOWN_WITHIN));
    if old {
        // Another process that set it, or a read-only file system, makes the order a little less exact.
        let _ = file.set_times(std::fs::FileTimes::new().set_accessed(SystemTime::now()));
    }
}

/// Opens a plain file that nobody but this user can write to: what was authenticated stays as it was.
fn open_private(path: &Path) -> Option<File> {
    use std::os::unix::fs::MetadataExt;
    let file = OpenOptions::new().read(true).custom_flags(no_follow()).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    let private = own && metadata.mode() & 0o022 == 0;
    (metadata.is_file() && (private || !guard!("cache_owner"))).then_some(file)
}

#[allow(clippy::cast_possible_wrap, reason = "a small set of flags")]
fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}
