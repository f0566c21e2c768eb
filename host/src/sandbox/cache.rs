//! Compiled components on disk. Deserialising code is running it, so every entry carries an authentication code made
//! with a key that only this user can read, over the digest of the component, the engine's settings and the code.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use zeroize::Zeroizing;

use crate::secret::private_file::{self, KEY_BYTES};

use super::component::Description;

/// What follows the code and the description in an entry: the length of the description, the authentication code. They
/// come last, so that the code can be mapped as it lies in the file.
const LENGTH: u64 = 8;
const MAC: u64 = 32;
/// An entry that is larger is not read: no component that hotcell accepts makes one.
const ENTRY_BYTES_MAX: u64 = 1 << 30;

pub(super) struct Cache {
    dir: PathBuf,
    key: Zeroizing<[u8; KEY_BYTES]>,
    compatibility: blake3::Hash,
}

/// An entry that was authenticated.
pub(super) struct Entry {
    /// Open, so that `code_file` leads to it.
    _file: File,
    code_file: PathBuf,
    description: Description,
}

impl Entry {
    /// A path to the very file that was authenticated. Only its owner can write to that file.
    pub(super) fn code_file(&self) -> &Path {
        &self.code_file
    }

    pub(super) fn into_description(self) -> Description {
        self.description
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
    pub(super) fn open(dir: &Path, key_file: &Path, compatibility: blake3::Hash) -> anyhow::Result<Self> {
        private_file::make_folder(dir)?;
        let key = private_file::read_or_make_key(key_file).context("remove it, and a new one is made")?;
        Ok(Self { dir: dir.to_owned(), key, compatibility })
    }

    /// The entry of the component with this hash, if there is one that hotcell wrote for this engine. Anything else counts
    /// as absent, and is written anew.
    pub(super) fn read(&self, component: &blake3::Hash) -> Option<Entry> {
        let path = self.path(component);
        let mut file = open_private(&path)?;
        let length = file.metadata().ok()?.len();
        let signed = length.checked_sub(MAC).filter(|signed| *signed >= LENGTH && length <= ENTRY_BYTES_MAX)?;
        let mut hasher = self.authenticator(component);
        hasher.update_reader(Read::by_ref(&mut file).take(signed)).ok()?;
        let mut mac = [0; MAC as usize];
        file.read_exact(&mut mac).ok()?;
        // Comparing hashes of blake3 takes the same time wherever they differ.
        if hasher.finalize() != blake3::Hash::from(mac) {
            return None;
        }
        let mut size = [0; LENGTH as usize];
        file.seek(SeekFrom::Start(signed - LENGTH)).ok()?;
        file.read_exact(&mut size).ok()?;
        let size = u64::from_le_bytes(size);
        file.seek(SeekFrom::Start(signed.checked_sub(LENGTH)?.checked_sub(size)?)).ok()?;
        let mut description = vec![0; usize::try_from(size).ok()?];
        file.read_exact(&mut description).ok()?;
        let description = serde_json::from_slice(&description).ok()?;
        Some(Entry { code_file: path_of(&file, path), _file: file, description })
    }

    pub(super) fn write(&self, component: &blake3::Hash, description: &Description, code: &[u8]) -> anyhow::Result<()> {
        let description = serde_json::to_vec(description).context("write a description")?;
        let length = (description.len() as u64).to_le_bytes();
        let mut hasher = self.authenticator(component);
        let mut file =
            tempfile::NamedTempFile::new_in(&self.dir).context("write to the cache of compiled components")?;
        for part in [code, &description, &length] {
            hasher.update(part);
            file.write_all(part).context("write a compiled component")?;
        }
        file.write_all(hasher.finalize().as_bytes()).context("write a compiled component")?;
        file.persist(self.path(component)).context("keep a compiled component")?;
        Ok(())
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

/// Opens a plain file that nobody but this user can write to: what was authenticated stays as it was.
fn open_private(path: &Path) -> Option<File> {
    use std::os::unix::fs::MetadataExt;
    let file = OpenOptions::new().read(true).custom_flags(no_follow()).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    (metadata.is_file() && own && metadata.mode() & 0o022 == 0).then_some(file)
}

#[allow(clippy::cast_possible_wrap, reason = "a small set of flags")]
fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}
