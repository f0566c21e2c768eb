//! Keys and sealed data, which only their owner can read.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};
use zeroize::Zeroizing;

use toolcell_system::private::{self, OnDisk, OthersAccess};

/// In bytes.
pub const KEY_BYTES: usize = 32;

/// `None` if absent. Fails beyond `bytes_max`, and where [`private::open`] does, because other users may know or have
/// written the content.
pub fn read(path: &Path, bytes_max: u64) -> anyhow::Result<Option<Zeroizing<Vec<u8>>>> {
    let shown = path.display();
    let mut file = match private::open(path, OthersAccess::Nothing) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot open {shown}")),
    };
    let length = file
        .metadata()
        .with_context(|| format!("cannot inspect {shown}"))?
        .len();
    if length > bytes_max {
        bail!("{shown} is larger than {bytes_max} bytes");
    }
    // Allocated at full size, because a buffer that grows would leave copies in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1));
    Read::by_ref(&mut file)
        .take(bytes_max)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {shown}"))?;
    Ok(Some(bytes))
}

/// Two processes that create a key at once get the same one.
pub fn read_or_make_key(path: &Path) -> anyhow::Result<Zeroizing<[u8; KEY_BYTES]>> {
    if let Some(key) = read_key(path)? {
        return Ok(key);
    }
    if let Some(parent) = path.parent() {
        private::create_dir(parent)
            .with_context(|| format!("cannot create the folder {}", parent.display()))?;
    }
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut key[..]).context("cannot create a key")?;
    match private::create_atomically(path, &[&key[..]], OnDisk::Name) {
        Ok(()) => Ok(key),
        // Another process may have created it first.
        Err(error) => match read_key(path)? {
            Some(key) => Ok(key),
            None => {
                Err(error).with_context(|| format!("cannot write the key file {}", path.display()))
            }
        },
    }
}

/// `None` if absent.
pub fn read_key(path: &Path) -> anyhow::Result<Option<Zeroizing<[u8; KEY_BYTES]>>> {
    let Some(bytes) = read(path, KEY_BYTES as u64 + 1).context("cannot open the key file")? else {
        return Ok(None);
    };
    match <[u8; KEY_BYTES]>::try_from(bytes.as_slice()) {
        Ok(key) => Ok(Some(Zeroizing::new(key))),
        Err(_) => bail!("the key file {} is damaged", path.display()),
    }
}
