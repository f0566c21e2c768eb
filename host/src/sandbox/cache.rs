//! Compiled components on disk. Deserialising code is running it, so every entry carries an authentication code made
//! with a key that only this user can read, over the digest of the component, the engine's settings and the code.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::component::Description;

/// Bytes of the authentication code, then of the length of the description.
const MAC: usize = 32;
const HEADER: usize = MAC + 8;
/// An entry that is larger is not read: no component that hotcell accepts makes one.
const ENTRY_BYTES_MAX: u64 = 1 << 30;

pub(super) struct Cache {
    dir: PathBuf,
    key: [u8; 32],
    compatibility: blake3::Hash,
}

/// An entry that was authenticated.
pub(super) struct Entry {
    bytes: Vec<u8>,
    code_start: usize,
    description: Description,
}

impl Entry {
    pub(super) fn code(&self) -> &[u8] {
        self.bytes.get(self.code_start..).unwrap_or_default()
    }

    pub(super) fn into_description(self) -> Description {
        self.description
    }
}

impl Cache {
    pub(super) fn open(dir: &Path, key_file: &Path, compatibility: blake3::Hash) -> anyhow::Result<Self> {
        private_folder(dir)?;
        let key = read_or_make_key(key_file)?;
        Ok(Self { dir: dir.to_owned(), key, compatibility })
    }

    /// The entry of the component `digest`, if there is one that hotcell wrote for this engine. Anything else counts
    /// as absent, and is written anew.
    pub(super) fn read(&self, digest: &str) -> Option<Entry> {
        let mut file = fs::File::open(self.path(digest)).ok()?;
        let length = file.metadata().ok()?.len();
        if length > ENTRY_BYTES_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).ok()?);
        file.read_to_end(&mut bytes).ok()?;
        let (mac, signed) = bytes.split_at_checked(MAC)?;
        let mac: [u8; MAC] = mac.try_into().ok()?;
        // Comparing hashes of blake3 takes the same time wherever they differ.
        if self.authenticate(digest, signed) != blake3::Hash::from(mac) {
            return None;
        }
        let (length, rest) = signed.split_at_checked(HEADER - MAC)?;
        let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let description: Description = serde_json::from_slice(rest.get(..length)?).ok()?;
        Some(Entry { code_start: HEADER + length, description, bytes })
    }

    pub(super) fn write(&self, digest: &str, description: &Description, code: &[u8]) -> anyhow::Result<()> {
        let description = serde_json::to_vec(description).context("write a description")?;
        let mut signed = Vec::with_capacity(8 + description.len() + code.len());
        signed.extend_from_slice(&(description.len() as u64).to_le_bytes());
        signed.extend_from_slice(&description);
        signed.extend_from_slice(code);
        let mac = self.authenticate(digest, &signed);
        let mut file =
            tempfile::NamedTempFile::new_in(&self.dir).context("write to the cache of compiled components")?;
        file.write_all(mac.as_bytes()).and_then(|()| file.write_all(&signed)).context("write a compiled component")?;
        file.persist(self.path(digest)).context("keep a compiled component")?;
        Ok(())
    }

    fn authenticate(&self, digest: &str, signed: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(self.compatibility.as_bytes());
        hasher.update(&(digest.len() as u64).to_le_bytes());
        hasher.update(digest.as_bytes());
        hasher.update(signed);
        hasher.finalize()
    }

    fn path(&self, digest: &str) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(digest.as_bytes());
        hasher.update(self.compatibility.as_bytes());
        self.dir.join(hasher.finalize().to_hex().as_str())
    }
}

/// A folder that only its owner can enter.
fn private_folder(dir: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("make the folder {}", dir.display()))
}

fn read_or_make_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    if let Some(key) = read_key(path)? {
        return Ok(key);
    }
    if let Some(parent) = path.parent() {
        private_folder(parent)?;
    }
    let mut key = [0; 32];
    rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty()).context("make a key")?;
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().permissions(private()).tempfile_in(parent).context("make a key file")?;
    file.write_all(&key).context("write a key file")?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(key),
        // Another process was first: its key is the one.
        Err(_) => read_key(path)?.with_context(|| format!("read the key file {}", path.display())),
    }
}

fn private() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o600)
}

fn read_key(path: &Path) -> anyhow::Result<Option<[u8; 32]>> {
    use std::os::unix::fs::MetadataExt;
    let mut file =
        match OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("open the key file {}", path.display())),
        };
    let metadata = file.metadata().context("look at the key file")?;
    if metadata.mode() & 0o077 != 0 {
        bail!("the key file {} can be read by others; remove it, a new one is made", path.display());
    }
    let mut key = Vec::with_capacity(32);
    Read::by_ref(&mut file).take(33).read_to_end(&mut key).context("read the key file")?;
    match <[u8; 32]>::try_from(key) {
        Ok(key) => Ok(Some(key)),
        Err(_) => bail!("the key file {} is damaged; remove it, a new one is made", path.display()),
    }
}
