//! Cache of compiled components on disk. Deserializing code is running it, so every entry carries an authentication
//! code over component, engine settings and content, made with a key that only this user can read.

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

use super::engine::Meter;
use super::own_files;

/// Last in an entry, so that the code can be mapped as it lies in the file.
const LENGTH: u64 = 8;
const MAC: u64 = 32;
/// A component with a larger description has none, and is read at each start.
const NOTE_BYTES_MAX: u64 = 256 << 10;
/// A changed access time makes the next start authenticate the whole entry again.
const USE_KNOWN_WITHIN: Duration = Duration::from_secs(60 * 60);
/// One for each path at which a component was found.
const NOTES_MAX: usize = 4_096;
const NOTES_BYTES_MAX: u64 = 64 << 20;
const NOTES_BETWEEN_TRIMS: u32 = 256;
/// No component that toolcell accepts makes a larger one.
const ENTRY_BYTES_MAX: u64 = 1 << 30;

pub(super) struct CodeCache {
    dir: PathBuf,
    /// The unpacked files of components share the limit of their code.
    own_files: PathBuf,
    /// A note says which component a file held, and that its records were accepted.
    notes: PathBuf,
    noted: AtomicU32,
    key: Zeroizing<[u8; KEY_BYTES]>,
    note_key: Zeroizing<[u8; KEY_BYTES]>,
    compatibility: blake3::Hash,
    bytes_max: u64,
}

/// Facts that save reading the file and the compiled code at a start.
#[derive(Serialize, Deserialize)]
pub(super) struct CacheNote<D> {
    pub(super) name: [u8; 32],
    /// Every later change of the file shows in it.
    pub(super) component: FileState,
    /// `None` if the entry has to be authenticated again.
    pub(super) entry: Option<FileState>,
    pub(super) description: D,
}

pub(super) struct CacheEntry<D> {
    /// Kept open, so that `code_file` leads to it.
    file: File,
    state: FileState,
    opened: SystemTime,
    code_file: PathBuf,
    code_bytes: u64,
    /// `None` if the examination failed.
    description: Option<D>,
}

impl<D> CacheEntry<D> {
    /// Only its owner can write to that file.
    pub(super) fn code_file(&self) -> &Path {
        &self.code_file
    }

    /// `None` if a later change would not show in it.
    pub(super) fn lasting(&self) -> Option<FileState> {
        self.state.is_settled(self.opened).then_some(self.state)
    }

    pub(super) fn take_description(&mut self) -> Option<D> {
        self.description.take()
    }

    pub(super) fn code(&mut self) -> std::io::Result<Vec<u8>> {
        self.file.rewind()?;
        let mut code = Vec::new();
        Read::by_ref(&mut self.file)
            .take(self.code_bytes)
            .read_to_end(&mut code)?;
        Ok(code)
    }
}

/// Returns a path to an open file that stays valid if its folder changes, where the system has such paths.
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
    /// A key or folder that cannot be used is `setup_required`, because its owner can fix that.
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
            own_files: own_files::folder_beside(dir),
            notes: dir.with_extension("notes"),
            noted: AtomicU32::new(0),
            key,
            note_key: Zeroizing::new(note_key),
            compatibility,
            bytes_max,
        })
    }

    /// `None` unless toolcell wrote the note and the file has not changed since.
    pub(super) fn recall<D: DeserializeOwned>(
        &self,
        path: &Path,
        component: &FileState,
        meter: Meter,
    ) -> Option<CacheNote<D>> {
        let mut file = open_private(&self.note_path(path, meter))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file)
            .take(NOTE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        let (mac, body) = bytes.split_first_chunk::<{ MAC as usize }>()?;
        // blake3 compares hashes in constant time.
        if guard!("cache_notes") && self.note_mac((path, meter), body) != blake3::Hash::from(*mac) {
            return None;
        }
        let note: CacheNote<D> = serde_json::from_slice(body).ok()?;
        if note.component != *component {
            return None;
        }
        mark_used(&file);
        Some(note)
    }

    /// A failed write is ignored, because it only costs another read.
    pub(super) fn remember<D: Serialize>(&self, path: &Path, meter: Meter, note: &CacheNote<D>) {
        let Ok(body) = serde_json::to_vec(note) else {
            return;
        };
        if body.len() as u64 + MAC > NOTE_BYTES_MAX {
            return;
        }
        let mac = self.note_mac((path, meter), &body);
        let _ = private::create_dir(&self.notes).and_then(|()| {
            private::write_atomically(
                &self.note_path(path, meter),
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

    /// Covers the engine's settings, and the version of toolcell and its checks, because another version could refuse
    /// the component's records.
    fn note_mac(&self, (path, meter): (&Path, Meter), body: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.note_key);
        hasher.update(self.compatibility.as_bytes());
        for part in [
            env!("CARGO_PKG_VERSION").as_bytes(),
            CHECKS_VERSION.as_bytes(),
            <&str>::from(meter).as_bytes(),
            path.as_os_str().as_encoded_bytes(),
        ] {
            // The length keeps the end of one part from counting as the beginning of the next.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(body);
        hasher.finalize()
    }

    /// Opens the entry without reading all of it.
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

    fn note_path(&self, path: &Path, meter: Meter) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(path.as_os_str().as_encoded_bytes());
        if meter == Meter::Time {
            // No path has it.
            hasher.update(b"\0time");
        }
        self.notes.join(hasher.finalize().to_hex().as_str())
    }

    /// `None` unless toolcell wrote the entry for this engine.
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

    /// A failed examination has no description, and spares the next load the compilation.
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

    /// Only a process that writes an entry pays for the eviction.
    fn trim(&self, kept: &Path) {
        self.trim_for(kept);
        self.trim_notes();
    }

    /// After files of a component were unpacked: what is in use stays.
    pub(super) fn trim_for_files(&self) {
        self.trim_for(Path::new(""));
    }

    fn trim_for(&self, kept: &Path) {
        let mut entries = files(&self.dir);
        entries.extend(folders(&self.own_files));
        evict(entries, kept, usize::MAX, self.bytes_max);
    }

    fn trim_notes(&self) {
        let notes = files(&self.notes);
        evict(notes, Path::new(""), NOTES_MAX, NOTES_BYTES_MAX);
    }

    /// The hash already covers the component and the engine that an entry is for.
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

fn evict(mut entries: Vec<CachedFile>, kept: &Path, count_max: usize, bytes_max: u64) {
    // Temporary files of a process that was killed while it wrote.
    entries.retain(|entry| {
        let stale =
            entry.is_temporary && entry.used.elapsed().is_ok_and(|age| age > USE_KNOWN_WITHIN);
        !(stale && entry.remove())
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
        // Another process may have removed it already, so a file counts as removed; a folder that stays is in use.
        if entry.remove() || !entry.is_folder {
            (count, bytes) = (count - 1, bytes.saturating_sub(entry.bytes));
        }
    }
}

/// Of compiled code in `dir`, and of the files of components beside it.
pub fn cached_bytes(dir: &Path) -> u64 {
    let mut entries = files(dir);
    entries.extend(folders(&own_files::folder_beside(dir)));
    entries.iter().map(|entry| entry.bytes).sum()
}

struct CachedFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
    is_temporary: bool,
    is_folder: bool,
}

impl CachedFile {
    fn remove(&self) -> bool {
        if self.is_folder {
            own_files::remove(&self.path)
        } else {
            std::fs::remove_file(&self.path).is_ok()
        }
    }
}

fn files(dir: &Path) -> Vec<CachedFile> {
    cached(dir, false)
}

fn folders(dir: &Path) -> Vec<CachedFile> {
    cached(dir, true)
}

fn cached(dir: &Path, is_folder: bool) -> Vec<CachedFile> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        let bytes = match is_folder {
            true if metadata.is_dir() => own_files::tree_bytes(&entry.path()),
            false if metadata.is_file() => metadata.len(),
            _ => return None,
        };
        let used = metadata
            .accessed()
            .unwrap_or(SystemTime::UNIX_EPOCH)
            .max(metadata.modified().ok()?);
        let is_temporary = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
        Some(CachedFile {
            path: entry.path(),
            bytes,
            used,
            is_temporary,
            is_folder,
        })
    });
    found.collect()
}

/// Many file systems never update the access time, or only once a day.
pub(super) fn mark_used(file: &File) {
    let known = || file.metadata()?.accessed();
    let old = known().is_ok_and(|used| used.elapsed().is_ok_and(|age| age > USE_KNOWN_WITHIN));
    if old {
        // A failure only makes the eviction order less exact: another process set the time, or the file system is
        // read-only.
        let _ = file.set_times(std::fs::FileTimes::new().set_accessed(SystemTime::now()));
    }
}

/// Only this user can write to the file, so that authenticated content stays unchanged.
fn open_private(path: &Path) -> Option<File> {
    private::open(path, OthersAccess::Read).ok()
}
