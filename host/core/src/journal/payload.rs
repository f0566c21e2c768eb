use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::pool::STORE;
use crate::private::{self, OnDisk};
use crate::record::{PersistedRef, digest};

use super::drafts;

/// Size of the chunks in which a payload is copied, in bytes.
const COPY_BYTES: usize = 256 << 10;

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

    /// Returns at most `bytes_max` bytes of the payload from `offset` on; reads on a thread for the host's own store. A
    /// part cannot be checked against the digest of the whole.
    pub async fn fetch_part(&self, digest: &str, offset: u64, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        let path = self.path(digest)?;
        let read = move || {
            let (mut file, mut bytes) = (open(&path)?, Vec::new());
            file.seek(SeekFrom::Start(offset)).context("cannot read a payload")?;
            file.take(bytes_max).read_to_end(&mut bytes).context("cannot read a payload")?;
            anyhow::Ok(bytes)
        };
        STORE.run(read).await?
    }

    /// Copies the payload to `target`, in chunks, on a thread for the host's own store. Fails if the bytes were changed
    /// on disk; `target` then has them nevertheless.
    pub async fn copy(&self, digest: &str, mut target: fs::File) -> anyhow::Result<()> {
        let (path, digest) = (self.path(digest)?, digest.to_owned());
        let copy = move || {
            let (mut source, mut hasher, mut chunk) = (open(&path)?, Sha256::new(), vec![0; COPY_BYTES]);
            loop {
                let count = source.read(&mut chunk).context("cannot read a payload")?;
                let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
                hasher.update(bytes);
                target.write_all(bytes).context("cannot write the copy of a payload")?;
            }
            let found = HEXLOWER.encode(&hasher.finalize());
            ensure!(digest.strip_prefix("sha256:") == Some(found.as_str()), "the payload was changed on disk");
            anyhow::Ok(())
        };
        STORE.run(copy).await?
    }

    /// Removes the drafts of artifacts that a killed process left behind.
    pub fn sweep(&self) {
        drafts::sweep(&self.dir);
    }

    /// The file of the payload `sha256:<hex>`.
    fn path(&self, digest: &str) -> anyhow::Result<PathBuf> {
        let name =
            digest.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        Ok(self.dir.join(name.context("not a digest of a payload")?))
    }

    fn write(&self, bytes: &[u8], media_type: &str) -> anyhow::Result<PersistedRef> {
        let digest = digest(bytes);
        let path = self.dir.join(digest.trim_start_matches("sha256:"));
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == bytes.len() as u64) {
            return Ok(reference(digest, bytes, media_type));
        }
        private::create_dir(&self.dir).with_context(|| format!("cannot create the folder {}", self.dir.display()))?;
        private::write_atomically(&path, &[bytes], OnDisk::Content).context("cannot write a payload")?;
        Ok(reference(digest, bytes, media_type))
    }

    fn read(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        open(&self.path(digest)?)?.take(bytes_max + 1).read_to_end(&mut bytes).context("cannot read a payload")?;
        ensure!(bytes.len() as u64 <= bytes_max, "the payload is larger than {bytes_max} bytes");
        ensure!(self::digest(&bytes) == digest, "the payload was changed on disk");
        Ok(bytes)
    }
}

fn open(path: &Path) -> anyhow::Result<fs::File> {
    fs::File::open(path).context("cannot open a payload")
}

fn reference(digest: String, bytes: &[u8], media_type: &str) -> PersistedRef {
    PersistedRef {
        uri: format!("toolcell:payload/{digest}"),
        digest,
        media_type: media_type.to_owned(),
        size_bytes: bytes.len() as u64,
    }
}
