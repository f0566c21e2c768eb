//! Files that only their owner can read: keys, and sealed data.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use zeroize::Zeroizing;

/// Size of a key, in bytes.
pub const KEY_BYTES: usize = 32;

/// Creates a folder that only its owner can enter, if it does not exist.
pub fn make_folder(dir: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot create the folder {}", dir.display()))
}

/// Reads `path`; `None` if it does not exist. Fails for a symbolic link, a file of more than `bytes_max`, a file of
/// another user, and one that other users can read or write, because they may know or have written its content.
pub fn read(path: &Path, bytes_max: u64) -> anyhow::Result<Option<Zeroizing<Vec<u8>>>> {
    let shown = path.display();
    let mut file = match OpenOptions::new().read(true).custom_flags(no_follow()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot open {shown}")),
    };
    let metadata = file.metadata().with_context(|| format!("cannot inspect {shown}"))?;
    if !metadata.is_file() {
        bail!("{shown} is not a plain file");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        bail!("{shown} belongs to another user");
    }
    if metadata.mode() & 0o077 != 0 {
        bail!("{shown} can be read by others (mode {:o}; 600 is expected)", metadata.mode() & 0o777);
    }
    if metadata.len() > bytes_max {
        bail!("{shown} is larger than {bytes_max} bytes");
    }
    // Allocated at full size, because a buffer that grows would leave copies in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1));
    Read::by_ref(&mut file).take(bytes_max).read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    Ok(Some(bytes))
}

/// Replaces `path` with `bytes`, whole or not at all.
pub fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = temporary(path)?;
    file.write_all(bytes)
        .and_then(|()| file.as_file().sync_all())
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.persist(path).with_context(|| format!("cannot write {}", path.display()))?;
    sync_folder(path)
}

/// Reads the key in `path`, or creates it. Two processes that create it at once get the same key.
pub fn read_or_make_key(path: &Path) -> anyhow::Result<Zeroizing<[u8; KEY_BYTES]>> {
    if let Some(key) = read_key(path)? {
        return Ok(key);
    }
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty()).context("cannot create a key")?;
    let mut file = temporary(path)?;
    file.write_all(&key[..]).and_then(|()| file.as_file().sync_all()).context("cannot write a key file")?;
    match file.persist_noclobber(path) {
        Ok(_) => sync_folder(path).map(|()| key),
        Err(_) => read_key(path)?.with_context(|| format!("cannot read the key file {}", path.display())),
    }
}

/// Reads the key in `path`; `None` if it does not exist.
pub fn read_key(path: &Path) -> anyhow::Result<Option<Zeroizing<[u8; KEY_BYTES]>>> {
    let Some(bytes) = read(path, KEY_BYTES as u64 + 1).context("cannot open the key file")? else { return Ok(None) };
    match <[u8; KEY_BYTES]>::try_from(bytes.as_slice()) {
        Ok(key) => Ok(Some(Zeroizing::new(key))),
        Err(_) => bail!("the key file {} is damaged", path.display()),
    }
}

/// A temporary file beside `path`, created so that only its owner can read it.
fn temporary(path: &Path) -> anyhow::Result<tempfile::NamedTempFile> {
    let parent = path.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(parent)
        .with_context(|| format!("cannot create a file in {}", parent.display()))
}

/// Syncs the folder of `path`, so that the new name is on disk too.
fn sync_folder(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("cannot write the folder {}", parent.display()))
}

#[allow(clippy::cast_possible_wrap, reason = "a small set of flags")]
fn no_follow() -> i32 {
    (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32
}
