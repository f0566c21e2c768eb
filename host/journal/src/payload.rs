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
use toolcell_system::private::{self, OnDisk};

use super::payload_space::{PAYLOAD_BYTES, PayloadSpace};
use super::{drafts, sparse};

/// Size of the chunks in which a payload is copied, in bytes.
const COPY_BYTES: usize = 256 << 10;
/// Time between two looks for old payloads: each reads the whole folder.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// The bytes of a payload on disk are not those that were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the payload was changed on disk")]
pub struct PayloadChanged;

/// Payloads on disk, each in a file named by the SHA-256 of its bytes.
#[derive(Clone, Debug)]
pub struct PayloadStore {
    dir: PathBuf,
    space: Arc<PayloadSpace>,
    /// The caller to whom a payload that is stored belongs.
    owner: Option<Arc<str>>,
    /// How long a payload that is stored stays; `None` for as long as any.
    lasts: Option<Duration>,
}

impl PayloadStore {
    /// A store in `dir`; the folder is created with the first payload. All payloads together have at most
    /// [`PAYLOAD_BYTES`].
    pub fn new(dir: PathBuf) -> Self {
        Self::bounded(dir, PAYLOAD_BYTES, 1)
    }

    /// The same, with at most `bytes_max` bytes, of which each of `callers` has its [`share`](toolcell_system::pool::share).
    pub fn bounded(dir: PathBuf, bytes_max: u64, callers: usize) -> Self {
        Self {
            space: Arc::new(PayloadSpace::new(dir.clone(), bytes_max, callers)),
            dir,
            owner: None,
            lasts: None,
        }
    }

    /// The same store for the payloads of `owner`.
    #[must_use]
    pub fn for_owner(&self, owner: Option<&str>) -> Self {
        Self {
            owner: owner.map(Arc::from),
            ..self.clone()
        }
    }

    /// The same store for payloads that stay so long (AT-PERM-15).
    #[must_use]
    pub fn lasting(self, lasts: Option<Duration>) -> Self {
        Self { lasts, ..self }
    }

    pub(super) fn space(&self) -> &PayloadSpace {
        &self.space
    }

    pub(super) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores `bytes`, on a thread for the host's own store. Equal bytes share one file.
    pub async fn keep(
        &self,
        bytes: Vec<u8>,
        media_type: &'static str,
    ) -> anyhow::Result<PersistedRef> {
        let store = self.clone();
        STORE.run(move || store.write(&bytes, media_type)).await?
    }

    /// Returns the bytes of the payload `sha256:<hex>`, at most `bytes_max`; reads on a thread for the host's own
    /// store. Fails with [`PayloadChanged`] if the bytes were changed on disk.
    pub async fn fetch(&self, digest: &str, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
        let store = self.clone();
        let digest = digest.to_owned();
        STORE.run(move || store.read(&digest, bytes_max)).await?
    }

    /// Returns at most `bytes_max` bytes of the payload from `offset` on; reads on a thread for the host's own store. A
    /// part cannot be checked against the digest of the whole.
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

    /// Copies the payload to `target`, in chunks, on a thread for the host's own store. Fails with [`PayloadChanged`] if
    /// the bytes were changed on disk; `target` then has them nevertheless.
    pub async fn copy(&self, digest: &str, target: fs::File) -> anyhow::Result<()> {
        let store = self.clone();
        let digest = digest.to_owned();
        let copy = move || {
            let mut source = store.open_file(&digest)?;
            let mut hasher = Sha256::new();
            let mut chunk = vec![0; COPY_BYTES];
            let mut target = target;
            let mut size = 0;
            // A hole is a step ahead, which only a new file takes that is written from its start.
            let appends = fcntl_getfl(&target).is_ok_and(|flags| flags.contains(OFlags::APPEND));
            let is_at_start = !appends && target.stream_position().is_ok_and(|at| at == 0);
            let is_file = is_at_start
                && target
                    .metadata()
                    .is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
            loop {
                let count = source.read(&mut chunk).context("cannot read a payload")?;
                let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else {
                    break;
                };
                hasher.update(bytes);
                size += bytes.len() as u64;
                let written = if is_file {
                    sparse::append(&target, bytes)
                } else {
                    target.write_all(bytes)
                };
                written.context("cannot write the copy of a payload")?;
            }
            if is_file {
                sparse::end(&target, size).context("cannot write the copy of a payload")?;
            }
            let found = HEXLOWER.encode(&hasher.finalize());
            ensure!(
                digest.strip_prefix("sha256:") == Some(found.as_str()),
                PayloadChanged
            );
            anyhow::Ok(())
        };
        STORE.run(copy).await?
    }

    /// Removes the drafts of artifacts that a killed process left behind, and once a day the payloads that no call of the
    /// last `age_max` had.
    pub fn sweep(&self, age_max: Duration) {
        drafts::sweep(&self.dir);
        self.remove_ended();
        if self.is_due() {
            self.remove_older(age_max);
            self.space.forget_older(age_max);
        }
    }

    /// `true` if it is time to look for old payloads; then the next look is a day later.
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

    /// The file of the payload `sha256:<hex>`.
    fn path(&self, digest: &str) -> anyhow::Result<PathBuf> {
        let name = digest.strip_prefix("sha256:").filter(|hex| is_name(hex));
        Ok(self.dir.join(name.context("not a digest of a payload")?))
    }

    fn write(&self, bytes: &[u8], media_type: &str) -> anyhow::Result<PersistedRef> {
        let digest = digest(bytes);
        let name = digest.trim_start_matches("sha256:");
        self.space.admit(self.owner(), name, bytes.len() as u64)?;
        self.place(name, bytes)
            .inspect_err(|_| self.space.forget(self.owner(), name))?;
        Ok(reference(digest, bytes, media_type))
    }

    /// Puts the payload `name` where readers look for it.
    fn place(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.dir.join(name);
        // It stays as long as the last call that has it.
        let renewed = || {
            fs::File::open(&path)
                .and_then(|file| file.set_modified(SystemTime::now()))
                .is_ok()
        };
        let _stays = self.set_end(name)?;
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

/// When payloads end: each that ends has an empty file of its name in a folder beside theirs, last changed at that time.
impl PayloadStore {
    fn ends(&self) -> PathBuf {
        self.dir.with_extension("ends")
    }

    /// Keeps every process from removing a payload whose time is over, until the file is dropped.
    fn lock_ends(&self) -> anyhow::Result<fs::File> {
        let lock = || {
            private::create_dir(&self.ends())?;
            let file = private::open_or_create(&self.ends().join(".lock"))?;
            file.lock()?;
            Ok::<_, io::Error>(file)
        };
        lock().context("cannot lock the ends of payloads")
    }

    /// Notes when the payload `name` ends, which is about to be stored: at the latest time that any call wants. It does not
    /// end as long as the result is held.
    pub(super) fn set_end(&self, name: &str) -> anyhow::Result<Option<fs::File>> {
        if self.lasts.is_none() && !self.ends().is_dir() {
            return Ok(None);
        }
        let lock = self.lock_ends()?;
        let file = self.ends().join(name);
        let Some(lasts) = self.lasts else {
            return match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(error).context("cannot keep a payload")
                }
                _ => Ok(Some(lock)),
            };
        };
        let known = fs::metadata(&file).and_then(|metadata| metadata.modified());
        if known.is_err() && self.dir.join(name).exists() {
            // Another call wants it for as long as any.
            return Ok(Some(lock));
        }
        let end = SystemTime::now()
            .checked_add(lasts)
            .context("cannot keep a payload for so long")?;
        let noted = private::open_or_create(&file)
            .and_then(|file| file.set_modified(known.map_or(end, |at| at.max(end))));
        noted.context("cannot note when a payload ends")?;
        Ok(Some(lock))
    }

    /// Removes the payload `name` if its time is over.
    pub(super) fn end(&self, name: &str) {
        let file = self.ends().join(name);
        let is_over = || {
            let at = fs::metadata(&file).and_then(|metadata| metadata.modified());
            at.is_ok_and(|at| at <= SystemTime::now())
        };
        if !is_over() || !guard!("retention") {
            return;
        }
        // A call may have stored it again, or does so now.
        let Ok(_lock) = self.lock_ends() else { return };
        if is_over() {
            let _ = fs::remove_file(self.dir.join(name));
            let _ = fs::remove_file(file);
            self.space.forget_all(name);
        }
    }

    fn remove_ended(&self) {
        for entry in fs::read_dir(self.ends()).into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str().filter(|name| is_name(name)) {
                self.end(name);
            }
        }
    }

    fn open_file(&self, digest: &str) -> anyhow::Result<fs::File> {
        let path = self.path(digest)?;
        self.end(digest.trim_start_matches("sha256:"));
        fs::File::open(path).context("cannot open a payload")
    }
}

/// `true` if `name` can name a payload: the SHA-256 of its bytes.
pub(super) fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `true` if the age since `at` is such. A time in the future has no age: the clock was set back since.
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
