use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use data_encoding::HEXLOWER;
use rustix::fs::{OFlags, fcntl_getfl};
use sha2::{Digest, Sha256};

use toolcell_spec::{PersistedRef, digest};
use toolcell_system::pool::STORE;
use toolcell_system::private::{self, OnDisk, OthersAccess};

#[cfg(not(feature = "sqlite"))]
use super::memory::PayloadList;
#[cfg(feature = "sqlite")]
use super::payload_list::PayloadList;
use super::payload_space::{NoPayloadRoom, PAYLOAD_BYTES, PayloadSpace};
use super::{drafts, sparse};

const COPY_BYTES: usize = 256 << 10;
/// Each look reads the whole folder.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// The bytes of a payload on disk are not those that were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the payload was changed on disk")]
pub struct PayloadChanged;

/// A payload as it is on disk.
#[derive(Debug)]
pub enum StoredPayload {
    /// Its bytes match the digest.
    Whole(fs::File, u64),
    /// Its bytes were changed.
    Changed,
    Missing,
}

/// Files named by the SHA-256 of their bytes.
#[derive(Clone, Debug)]
pub struct PayloadStore {
    pub(super) dir: PathBuf,
    pub(super) space: Arc<PayloadSpace>,
    /// The caller to whom a payload that is stored belongs.
    pub(super) owner: Option<Arc<str>>,
    /// How long a payload that is stored stays; `None` for as long as any.
    pub(super) lasts: Option<Duration>,
}

impl PayloadStore {
    /// Created with the first payload; at most [`PAYLOAD_BYTES`] in all.
    pub fn new(dir: PathBuf) -> Self {
        Self::bounded(dir, PAYLOAD_BYTES, 1)
    }

    /// At most `bytes_max`, with a [`share`](toolcell_system::pool::share) for each of `callers`.
    pub fn bounded(dir: PathBuf, bytes_max: u64, callers: usize) -> Self {
        Self {
            space: Arc::new(PayloadSpace::new(
                PayloadList::new(dir.clone()),
                bytes_max,
                callers,
            )),
            dir,
            owner: None,
            lasts: None,
        }
    }

    #[must_use]
    pub fn for_owner(&self, owner: Option<&str>) -> Self {
        Self {
            owner: owner.map(Arc::from),
            ..self.clone()
        }
    }

    /// Limits the time of payloads (AT-PERM-15).
    #[must_use]
    pub fn lasting(self, lasts: Option<Duration>) -> Self {
        Self { lasts, ..self }
    }

    pub(super) fn draft(&self, bytes: u64) -> Result<(), NoPayloadRoom> {
        self.space.draft(self.owner.as_deref(), bytes)
    }

    /// Reverses [`Self::draft`].
    pub(super) fn undraft(&self, bytes: u64) {
        self.space.undraft(self.owner.as_deref(), bytes);
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// On a thread for the host's own store. Equal bytes share one file.
    pub async fn keep(
        &self,
        bytes: Vec<u8>,
        media_type: &'static str,
    ) -> anyhow::Result<PersistedRef> {
        let store = self.clone();
        STORE.run(move || store.write(&bytes, media_type)).await?
    }

    /// On a thread for the host's own store. Fails beyond `bytes_max`, and with [`PayloadChanged`] if bytes were
    /// changed on disk.
    pub async fn fetch(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        let store = self.clone();
        let digest = digest.to_owned();
        STORE.run(move || store.read(&digest, bytes_max)).await?
    }

    /// On a thread for the host's own store. A part cannot be checked against the whole's digest.
    pub async fn fetch_part(
        &self,
        digest: &str,
        offset: u64,
        bytes_max: u64,
    ) -> anyhow::Result<Vec<u8>> {
        let store = self.clone();
        let digest = digest.to_owned();
        let read = move || {
            let mut file = store.open_file(&digest)?;
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(offset))
                .context("cannot read a payload")?;
            file.take(bytes_max)
                .read_to_end(&mut bytes)
                .context("cannot read a payload")?;
            anyhow::Ok(bytes)
        };
        STORE.run(read).await?
    }

    /// On a thread for the host's own store. Fails with [`PayloadChanged`] if bytes were changed on disk; `target` then
    /// has them nevertheless.
    pub async fn copy(&self, digest: &str, target: fs::File) -> anyhow::Result<()> {
        let store = self.clone();
        let digest = digest.to_owned();
        let copy = move || {
            let mut source = store.open_file(&digest)?;
            let mut target = target;
            // A hole is a step ahead, which only a new file takes that is written from its start.
            let appends = fcntl_getfl(&target).is_ok_and(|flags| flags.contains(OFlags::APPEND));
            let is_at_start = !appends && target.stream_position().is_ok_and(|at| at == 0);
            let is_file = is_at_start
                && target
                    .metadata()
                    .is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
            let copied = each_chunk(&mut source, |bytes| {
                if is_file {
                    sparse::append(&target, bytes)
                } else {
                    target.write_all(bytes)
                }
            });
            let (found, size) = copied.context("cannot copy a payload")?;
            if is_file {
                sparse::end(&target, size).context("cannot write the copy of a payload")?;
            }
            ensure!(
                digest.strip_prefix("sha256:") == Some(found.as_str()),
                PayloadChanged
            );
            anyhow::Ok(())
        };
        STORE.run(copy).await?
    }

    /// Removes drafts of killed processes, and once a day payloads without a call in the last `age_max`.
    pub fn sweep(&self, age_max: Duration) {
        drafts::sweep(&self.dir);
        self.space.list.end(None);
        if self.is_due() {
            self.remove_older(age_max);
            self.space.list.forget_older(age_max);
        }
    }

    fn is_due(&self) -> bool {
        if !self.dir.is_dir() {
            return false;
        }
        // Beside the folder, which has payloads only.
        let looked = self.dir.with_extension("swept");
        let at = fs::metadata(&looked).and_then(|metadata| metadata.modified());
        if at.is_ok_and(|at| is_age(at, |age| age < SWEEP_EVERY)) {
            return false;
        }
        private::open_or_create(&looked)
            .and_then(|file| file.set_modified(SystemTime::now()))
            .is_ok()
    }

    fn remove_older(&self, age_max: Duration) {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            // A killed process leaves the beginning of a payload, under a name with a dot.
            let is_ours = name
                .to_str()
                .is_some_and(|name| is_name(name) || name.starts_with(".tmp"));
            let is_old = |at: SystemTime| is_age(at, |age| age > age_max);
            let file = entry.metadata().ok().filter(fs::Metadata::is_file);
            if is_ours && file.is_some_and(|file| file.modified().is_ok_and(is_old)) {
                // A reader that has it open keeps it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, digest: &str) -> anyhow::Result<PathBuf> {
        let name = digest.strip_prefix("sha256:").filter(|hex| is_name(hex));
        Ok(self.dir.join(name.context("not a digest of a payload")?))
    }

    fn write(&self, bytes: &[u8], media_type: &str) -> anyhow::Result<PersistedRef> {
        let digest = digest(bytes);
        let name = digest.trim_start_matches("sha256:");
        self.admit(name, bytes.len() as u64, || self.place(name, bytes))?;
        Ok(reference(digest, bytes, media_type))
    }

    fn place(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.dir.join(name);
        // It stays as long as the last call that has it.
        let renewed = || {
            fs::File::open(&path)
                .and_then(|file| file.set_modified(SystemTime::now()))
                .is_ok()
        };
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == bytes.len() as u64)
            && renewed()
        {
            return Ok(());
        }
        private::create_dir(&self.dir)
            .with_context(|| format!("cannot create the folder {}", self.dir.display()))?;
        private::write_atomically(&path, &[bytes], OnDisk::Content)
            .context("cannot write a payload")
    }

    fn read(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(digest)?
            .take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)
            .context("cannot read a payload")?;
        ensure!(
            bytes.len() as u64 <= bytes_max,
            "the payload is larger than {bytes_max} bytes"
        );
        ensure!(self::digest(&bytes) == digest, PayloadChanged);
        Ok(bytes)
    }
}

impl PayloadStore {
    pub(super) fn admit(
        &self,
        name: &str,
        bytes: u64,
        place: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let owner = self.owner.as_deref();
        self.space.admit(owner, name, bytes, self.lasts)?;
        place().inspect_err(|_| self.space.forget(owner, name))
    }

    /// Checks the bytes without holding them in memory. Fails if the file cannot be read, or others could have changed
    /// it.
    pub fn open(&self, digest: &str) -> io::Result<StoredPayload> {
        let Some(name) = digest.strip_prefix("sha256:").filter(|hex| is_name(hex)) else {
            return Ok(StoredPayload::Missing);
        };
        self.space.list.end(Some(name));
        let mut file = match private::open(&self.dir.join(name), OthersAccess::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(StoredPayload::Missing),
            Err(error) => return Err(error),
        };
        let (found, size) = each_chunk(&mut file, |_| Ok(()))?;
        if found != name {
            return Ok(StoredPayload::Changed);
        }
        file.seek(SeekFrom::Start(0))?;
        Ok(StoredPayload::Whole(file, size))
    }

    fn open_file(&self, digest: &str) -> anyhow::Result<fs::File> {
        let path = self.path(digest)?;
        self.space
            .list
            .end(Some(digest.trim_start_matches("sha256:")));
        fs::File::open(path).context("cannot open a payload")
    }
}

fn each_chunk(
    file: &mut fs::File,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(String, u64)> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; COPY_BYTES];
    let mut size = 0;
    loop {
        let count = file.read(&mut chunk)?;
        let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok((HEXLOWER.encode(&hasher.finalize()), size));
        };
        hasher.update(bytes);
        size += bytes.len() as u64;
        take(bytes)?;
    }
}

pub(super) fn is_name(name: &str) -> bool {
    name.len() == 64
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A time in the future has no age: the clock was set back since.
fn is_age(at: SystemTime, is_such: impl FnOnce(Duration) -> bool) -> bool {
    SystemTime::now().duration_since(at).is_ok_and(is_such)
}

fn reference(digest: String, bytes: &[u8], media_type: &str) -> PersistedRef {
    PersistedRef {
        uri: format!("toolcell:payload/{digest}"),
        digest,
        media_type: media_type.to_owned(),
        size_bytes: bytes.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

    fn written(path: &Path, ago: Duration) {
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(SystemTime::now() - ago)
            .unwrap();
    }

    #[test]
    fn a_payload_stays_as_long_as_the_last_call_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = PayloadStore::new(folder.path().join("payloads"));
        store.sweep(AGE);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing was written"
        );
        let [old, young, renewed] = ["old", "young", "renewed"].map(|text| {
            let reference = store.write(text.as_bytes(), "text/plain").unwrap();
            store.path(&reference.digest).unwrap()
        });
        let begun = store.dir().join(".tmpabc");
        let other = store.dir().join("other");
        for path in [&begun, &other] {
            fs::write(path, "x").unwrap();
        }
        for path in [&old, &renewed, &begun, &other] {
            written(path, AGE + SWEEP_EVERY);
        }
        written(&young, AGE - SWEEP_EVERY);
        store.write(b"renewed", "text/plain").unwrap();
        store.sweep(AGE);
        let are_there = || [&old, &young, &renewed, &begun, &other].map(|path| path.exists());
        assert_eq!(are_there(), [false, true, true, false, true]);
        // The next look is a day later, whatever the clock does.
        written(&young, AGE + SWEEP_EVERY);
        store.sweep(AGE);
        assert!(young.exists());
        let future = SystemTime::now() + SWEEP_EVERY;
        let looked = fs::File::options()
            .write(true)
            .open(folder.path().join("payloads.swept"))
            .unwrap();
        looked.set_modified(future).unwrap();
        store.sweep(AGE);
        assert_eq!(are_there(), [false, false, true, false, true]);
    }
}
