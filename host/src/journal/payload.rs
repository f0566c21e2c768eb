use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::pool::STORE;
use crate::record::{PersistedRef, digest};
use crate::secret::private_file;

/// Payloads on disk, each in a file named by the SHA-256 of its bytes.
#[derive(Clone, Debug)]
pub struct PayloadStore {
    dir: PathBuf,
}

impl PayloadStore {
    /// A store in `dir`; the folder is created with the first payload.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores `bytes`, on a thread for the host's own store. Equal bytes share one file.
    pub async fn keep(&self, bytes: Vec<u8>, media_type: &'static str) -> anyhow::Result<PersistedRef> {
        let store = self.clone();
        STORE.run(move || store.write(&bytes, media_type)).await?
    }

    /// Returns the bytes of the payload `sha256:<hex>`, at most `bytes_max`; reads on a thread for the host's own
    /// store. Fails if the bytes were changed on disk.
    pub async fn fetch(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        let (store, digest) = (self.clone(), digest.to_owned());
        STORE.run(move || store.read(&digest, bytes_max)).await?
    }

    fn write(&self, bytes: &[u8], media_type: &str) -> anyhow::Result<PersistedRef> {
        let digest = digest(bytes);
        let path = self.dir.join(digest.trim_start_matches("sha256:"));
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == bytes.len() as u64) {
            return Ok(reference(digest, bytes, media_type));
        }
        private_file::make_folder(&self.dir)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).context("cannot create a payload file")?;
        file.write_all(bytes).and_then(|()| file.as_file().sync_data()).context("cannot write a payload")?;
        file.persist(&path).context("cannot keep a payload")?;
        Ok(reference(digest, bytes, media_type))
    }

    fn read(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        let name =
            digest.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let path = self.dir.join(name.context("not a digest of a payload")?);
        let mut bytes = Vec::new();
        let file = fs::File::open(path).context("cannot open a payload")?;
        file.take(bytes_max + 1).read_to_end(&mut bytes).context("cannot read a payload")?;
        ensure!(bytes.len() as u64 <= bytes_max, "the payload is larger than {bytes_max} bytes");
        ensure!(self::digest(&bytes) == digest, "the payload was changed on disk");
        Ok(bytes)
    }
}

fn reference(digest: String, bytes: &[u8], media_type: &str) -> PersistedRef {
    PersistedRef {
        uri: format!("toolcell:payload/{digest}"),
        digest,
        media_type: media_type.to_owned(),
        size_bytes: bytes.len() as u64,
    }
}
