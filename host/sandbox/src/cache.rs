//! Cache of compiled components on disk. Deserializing code is running it, so every entry carries an authentication
//! code, made with a key that only this user can read, over the component's digest, the engine's settings and the
//! entry's content.
//!
//! The least recently used entries are evicted when the cache exceeds its limit. A process that has an evicted entry
//! open can use it until it closes the file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use toolcell_executor::CHECKS_VERSION;
use toolcell_policy::secret::private_file::{self, KEY_BYTES};
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::file_state::FileState;
use toolcell_system::private::{self, OnDisk, OthersAccess};
use zeroize::Zeroizing;

/// Bytes that follow the code and the description in an entry: the description's length, and the authentication code.
/// They come last, so that the code can be mapped as it lies in the file.
const LENGTH: u64 = 8;
const MAC: u64 = 32;
/// Maximum size of a note, in bytes. A component whose description does not fit has none, and is read at each start.
const NOTE_BYTES_MAX: u64 = 256 << 10;
/// Precision of an entry's access time. The time is set this seldom, because a changed time makes the next start
/// authenticate the whole entry again.
const USE_KNOWN_WITHIN: Duration = Duration::from_secs(60 * 60);
/// Maximum number of notes: one for each path at which a component was found.
const NOTES_MAX: usize = 4_096;
/// Maximum size of all notes together, in bytes.
const NOTES_BYTES_MAX: u64 = 64 << 20;
/// Number of notes that a process writes between two looks at these limits.
const NOTES_BETWEEN_TRIMS: u32 = 256;
/// Maximum size of an entry, in bytes. A larger one is not read, because no component that toolcell accepts makes one.
const ENTRY_BYTES_MAX: u64 = 1 << 30;

pub(super) struct CodeCache {
    dir: PathBuf,
    /// Folder of the notes. A note says which component a file held, what the component says of itself, and that its
    /// records were accepted.
    notes: PathBuf,
    /// Notes that this process wrote.
    noted: AtomicU32,
    key: Zeroizing<[u8; KEY_BYTES]>,
    note_key: Zeroizing<[u8; KEY_BYTES]>,
    compatibility: blake3::Hash,
    /// Maximum size of all entries together, in bytes.
    bytes_max: u64,
}

/// Facts about the component in a file, so that neither the file nor the compiled code is read at a start. `D` is the
/// component's description.
#[derive(Serialize, Deserialize)]
pub(super) struct CacheNote<D> {
    /// Hash of the component.
    pub(super) name: [u8; 32],
    /// State of the file that held the component, in which every later change shows.
    pub(super) component: FileState,
    /// State of the cache entry when it was authenticated; `None` if it has to be authenticated again.
    pub(super) entry: Option<FileState>,
    pub(super) description: D,
}

/// An authenticated entry.
pub(super) struct CacheEntry<D> {
    /// Kept open, so that `code_file` leads to it.
    file: File,
    /// State of the file, taken before it was authenticated.
    state: FileState,
    opened: SystemTime,
    code_file: PathBuf,
    /// Size of the code, which is at the start of the file, in bytes.
    code_bytes: u64,
    /// The component's description; `D` depends on whether it is a tool or a hook. `None` if the examination failed.
    description: Option<D>,
}

impl<D> CacheEntry<D> {
    /// Returns a path to the file that was authenticated. Only its owner can write to that file.
    pub(super) fn code_file(&self) -> &Path {
        &self.code_file
    }

    /// Returns the state of the file if a later change would show in it.
    pub(super) fn lasting(&self) -> Option<FileState> {
        self.state.is_settled(self.opened).then_some(self.state)
    }

    /// Returns the component's description the first time that this is called.
    pub(super) fn take_description(&mut self) -> Option<D> {
        self.description.take()
    }

    /// Reads the code.
    pub(super) fn code(&mut self) -> std::io::Result<Vec<u8>> {
        self.file.rewind()?;
        let mut code = Vec::new();
        Read::by_ref(&mut self.file)
            .take(self.code_bytes)
            .read_to_end(&mut code)?;
        Ok(code)
    }
}

/// Returns a path to an open file that stays valid if its folder changes; its own path on systems without such paths.
fn path_of(file: &File, path: PathBuf) -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(file)
        ))
    } else {
        path
    }
}

impl CodeCache {
    /// Opens the cache in `dir`, and creates what is missing; it keeps at most `bytes_max` bytes. A key that cannot be
    /// read, and a folder that cannot be written, are `setup_required`, because their owner can fix that.
    pub(super) fn open(
        dir: &Path,
        key_file: &Path,
        compatibility: blake3::Hash,
        bytes_max: u64,
    ) -> Result<Self, Refusal> {
        private::create_dir(dir).map_err(|error| {
            private::unwritable(dir, &error).unwrap_or_else(|| {
                let dir = dir.display();
                let message = format!(
                    "compiled components cannot be kept: cannot create the folder {dir}: {error}"
                );
                Refusal::new(ErrorCode::HostFault, message)
            })
        })?;
        let key = private_file::read_or_make_key(key_file).map_err(|error| {
            // Not what is wrong with the key, but that none can be made.
            let cause = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
            if let Some(refusal) = cause.and_then(|cause| private::unwritable(key_file, cause)) {
                return refusal;
            }
            let message = format!(
                "the key of compiled components, {}, cannot be used: {error:#}; make it yours alone (chmod 600), or \
                 remove it, and a new one is made",
                key_file.display()
            );
            Refusal::new(ErrorCode::ComponentKeyUnreadable, message)
        })?;
        let note_key = blake3::derive_key("toolcell 2026-11 notes on component files", &key[..]);
        Ok(Self {
            dir: dir.to_owned(),
            notes: dir.with_extension("notes"),
            noted: AtomicU32::new(0),
            key,
            note_key: Zeroizing::new(note_key),
            compatibility,
            bytes_max,
        })
    }

    /// Returns the note for the file `path`, if toolcell wrote it and the file has not changed since. Anything else counts
    /// as absent.
    pub(super) fn recall<D: DeserializeOwned>(
        &self,
        path: &Path,
        component: &FileState,
    ) -> Option<CacheNote<D>> {
        let mut file = open_private(&self.note_path(path))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file)
            .take(NOTE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        let (mac, body) = bytes.split_first_chunk::<{ MAC as usize }>()?;
        // blake3 compares hashes in constant time.
        if guard!("cache_notes") && self.note_mac(path, body) != blake3::Hash::from(*mac) {
            return None;
        }
        let note: CacheNote<D> = serde_json::from_slice(body).ok()?;
        if note.component != *component {
            return None;
        }
        mark_used(&file);
        Some(note)
    }

    /// Writes a note for the file `path`, if it is small enough. A failed write is ignored, because it only costs another
    /// read.
    pub(super) fn remember<D: Serialize>(&self, path: &Path, note: &CacheNote<D>) {
        let Ok(body) = serde_json::to_vec(note) else {
            return;
        };
        if body.len() as u64 + MAC > NOTE_BYTES_MAX {
            return;
        }
        let mac = self.note_mac(path, &body);
        let _ = private::create_dir(&self.notes).and_then(|()| {
            private::write_atomically(
                &self.note_path(path),
                &[mac.as_bytes(), &body],
                OnDisk::Later,
            )
        });
        if self
            .noted
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(NOTES_BETWEEN_TRIMS)
        {
            self.trim_notes();
        }
    }

    /// Returns the authentication code of a note. It covers the engine's settings, and the version of toolcell and of its
    /// checks, because another version could refuse the component's records.
    fn note_mac(&self, path: &Path, body: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.note_key);
        hasher.update(self.compatibility.as_bytes());
        for part in [
            env!("CARGO_PKG_VERSION").as_bytes(),
            CHECKS_VERSION.as_bytes(),
            path.as_os_str().as_encoded_bytes(),
        ] {
            // The length keeps the end of one part from counting as the beginning of the next.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(body);
        hasher.finalize()
    }

    /// Opens the entry of the component with this hash, if it is in the state in which it was authenticated. This saves
    /// reading all of it.
    pub(super) fn reopen(
        &self,
        component: &blake3::Hash,
        state: &FileState,
    ) -> Option<CacheEntry<IgnoredAny>> {
        let path = self.path(component);
        let file = open_private(&path)?;
        if FileState::from_file(&file)? != *state {
            return None;
        }
        let entry = Self::entry(file, *state, SystemTime::now(), path)?;
        // This comes last, because it changes the state of the entry, so that the next start reads all of it again.
        mark_used(&entry.file);
        Some(entry)
    }

    fn note_path(&self, path: &Path) -> PathBuf {
        self.notes.join(
            blake3::hash(path.as_os_str().as_encoded_bytes())
                .to_hex()
                .as_str(),
        )
    }

    /// Returns the entry of the component with this hash, if toolcell wrote one for this engine. Anything else counts
    /// as absent, and is replaced.
    pub(super) fn read<D: DeserializeOwned>(
        &self,
        component: &blake3::Hash,
    ) -> Option<CacheEntry<D>> {
        let path = self.path(component);
        let mut file = open_private(&path)?;
        let length = file.metadata().ok()?.len();
        mark_used(&file);
        let opened = SystemTime::now();
        let state = FileState::from_file(&file)?;
        let signed = length
            .checked_sub(MAC)
            .filter(|signed| *signed >= LENGTH && length <= ENTRY_BYTES_MAX)?;
        let mut hasher = self.authenticator(component);
        hasher
            .update_reader(Read::by_ref(&mut file).take(signed))
            .ok()?;
        let mut mac = [0; MAC as usize];
        file.read_exact(&mut mac).ok()?;
        // blake3 compares hashes in constant time.
        if guard!("cache_authentication") && hasher.finalize() != blake3::Hash::from(mac) {
            return None;
        }
        Self::entry(file, state, opened, path)
    }

    /// Parses the entry in an authenticated file.
    fn entry<D: DeserializeOwned>(
        mut file: File,
        state: FileState,
        opened: SystemTime,
        path: PathBuf,
    ) -> Option<CacheEntry<D>> {
        let signed = file.metadata().ok()?.len().checked_sub(MAC)?;
        let mut size = [0; LENGTH as usize];
        file.seek(SeekFrom::Start(signed.checked_sub(LENGTH)?))
            .ok()?;
        file.read_exact(&mut size).ok()?;
        let size = u64::from_le_bytes(size);
        let code_bytes = signed.checked_sub(LENGTH)?.checked_sub(size)?;
        file.seek(SeekFrom::Start(code_bytes)).ok()?;
        let mut description = vec![0; usize::try_from(size).ok()?];
        file.read_exact(&mut description).ok()?;
        let description = serde_json::from_slice(&description).ok()?;
        Some(CacheEntry {
            code_file: path_of(&file, path),
            file,
            state,
            opened,
            code_bytes,
            description,
        })
    }

    /// Stores the code of a component with its description, or `None` if the examination failed, so that the next load
    /// need not compile again. Code that would not fit is not stored.
    pub(super) fn write(
        &self,
        component: &blake3::Hash,
        description: Option<&impl Serialize>,
        code: &[u8],
    ) -> anyhow::Result<()> {
        let description = serde_json::to_vec(&description).context("cannot write a description")?;
        if (code.len() + description.len()) as u64 > self.bytes_max.saturating_sub(LENGTH + MAC) {
            return Ok(());
        }
        let length = (description.len() as u64).to_le_bytes();
        let mut hasher = self.authenticator(component);
        for part in [code, &description, &length] {
            hasher.update(part);
        }
        let mac = hasher.finalize();
        let kept = self.path(component);
        private::write_atomically(
            &kept,
            &[code, &description, &length, mac.as_bytes()],
            OnDisk::Later,
        )
        .context("cannot write to the cache of compiled components")?;
        self.trim(&kept);
        Ok(())
    }

    /// Evicts entries, the least recently used first, until all of them have at most `bytes_max` bytes. It never evicts
    /// `kept`. Only a process that writes an entry pays for this.
    fn trim(&self, kept: &Path) {
        evict(&self.dir, kept, usize::MAX, self.bytes_max);
        self.trim_notes();
    }

    fn trim_notes(&self) {
        evict(&self.notes, Path::new(""), NOTES_MAX, NOTES_BYTES_MAX);
    }

    /// Returns a keyed hash that already covers the component and the engine that an entry is for.
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

/// Evicts files of `dir`, the least recently used first, until they are at most `count_max` and have at most `bytes_max` bytes
/// together. It never evicts `kept`.
fn evict(dir: &Path, kept: &Path, count_max: usize, bytes_max: u64) {
    let mut entries = files(dir);
    // Temporary files of a process that was killed while it wrote.
    entries.retain(|entry| {
        let stale =
            entry.is_temporary && entry.used.elapsed().is_ok_and(|age| age > USE_KNOWN_WITHIN);
        !(stale && std::fs::remove_file(&entry.path).is_ok())
    });
    entries.sort_by_key(|entry| entry.used);
    let mut count = entries.len();
    let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    for entry in entries
        .iter()
        .filter(|entry| entry.path != kept && !entry.is_temporary)
    {
        if count <= count_max && bytes <= bytes_max {
            break;
        }
        // Another process may have removed it already.
        let _ = std::fs::remove_file(&entry.path);
        (count, bytes) = (count - 1, bytes.saturating_sub(entry.bytes));
    }
}

/// Returns the size of all entries in the folder of a cache, in bytes.
pub fn cached_bytes(dir: &Path) -> u64 {
    files(dir).iter().map(|entry| entry.bytes).sum()
}

struct CachedFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
    /// Being written, or left behind by a process that was killed while it wrote.
    is_temporary: bool,
}

fn files(dir: &Path) -> Vec<CachedFile> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let used = metadata
            .accessed()
            .unwrap_or(SystemTime::UNIX_EPOCH)
            .max(metadata.modified().ok()?);
        let is_temporary = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
        Some(CachedFile {
            path: entry.path(),
            bytes: metadata.len(),
            used,
            is_temporary,
        })
    });
    found.collect()
}

/// Sets the access time, unless it is recent enough, because many file systems never update it, or only once a day.
fn mark_used(file: &File) {
    let known = || file.metadata()?.accessed();
    let old = known().is_ok_and(|used| used.elapsed().is_ok_and(|age| age > USE_KNOWN_WITHIN));
    if old {
        // A failure only makes the eviction order less exact: another process set the time, or the file system is
        // read-only.
        let _ = file.set_times(std::fs::FileTimes::new().set_accessed(SystemTime::now()));
    }
}

/// Opens a regular file that only this user can write to, so that authenticated content stays unchanged.
fn open_private(path: &Path) -> Option<File> {
    private::open(path, OthersAccess::Read).ok()
}
