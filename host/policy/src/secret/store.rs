use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use toolcell_spec::Timestamp;
use toolcell_system::private::{self, OnDisk};

use super::{SealingKey, SecretValue, private_file};

/// The purpose that the store is sealed for; a later format gets another one.
const PURPOSE: &str = "toolcell secrets store 1";
/// Maximum size of the file on disk, in bytes.
const STORE_BYTES_MAX: u64 = 16 << 20;
/// Maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Minimum size of a value, in bytes: a shorter one could not be told from ordinary text, and so not be kept out of
/// records.
const VALUE_BYTES_MIN: usize = 8;
/// Maximum size of a value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 10;

/// The secrets of this user: one sealed file, with its key in another folder. Creating it touches no file.
#[derive(Clone, Debug)]
pub struct SecretStore {
    file: PathBuf,
    key_file: PathBuf,
}

/// Public part of a secret: everything but its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecretEntry {
    pub name: String,
    pub set_at: Timestamp,
}

/// The unsealed content of the file.
#[derive(Default, Serialize, Deserialize)]
struct StoreContent {
    secrets: BTreeMap<String, StoredSecret>,
}

#[derive(Serialize, Deserialize)]
struct StoredSecret {
    value: String,
    set_at: Timestamp,
}

impl Drop for StoredSecret {
    fn drop(&mut self) {
        self.value.zeroize();
    }
}

impl SecretStore {
    /// A store in `file` with its key in `key_file`; both are created when the first secret is set.
    pub fn new(file: PathBuf, key_file: PathBuf) -> Self {
        Self { file, key_file }
    }

    /// Checks that `name` is valid: letters, digits, `_`, `-` and `.`, because a name appears in grants, error messages
    /// and `[secret NAME]`.
    pub fn check_name(name: &str) -> anyhow::Result<()> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        ensure!(
            !name.is_empty()
                && name.len() <= NAME_CHARS_MAX
                && name.chars().all(allowed)
                && !name.starts_with(['-', '.']),
            "{name:?} is not a name for a secret: 1 to {NAME_CHARS_MAX} letters, digits, `_`, `-` and `.`, not beginning with `-` or `.`"
        );
        Ok(())
    }

    /// Checks that `value` can be a secret. The error does not quote it.
    pub fn check_value(value: &SecretValue) -> anyhow::Result<()> {
        let value = value.expose();
        ensure!(
            value.len() >= VALUE_BYTES_MIN,
            "the value is shorter than {VALUE_BYTES_MIN} bytes: it could not be told from ordinary text, and so not be kept out of records"
        );
        ensure!(
            value.len() <= VALUE_BYTES_MAX,
            "the value is longer than {VALUE_BYTES_MAX} bytes"
        );
        ensure!(
            !value.chars().any(char::is_control),
            "the value has line breaks or other control characters, which fit into no header"
        );
        Ok(())
    }

    /// Sets `name`; returns whether it was set before.
    pub fn set(&self, name: &str, value: &SecretValue) -> anyhow::Result<bool> {
        Self::check_name(name)?;
        Self::check_value(value)?;
        self.change(|content| {
            let kept = StoredSecret {
                value: value.expose().to_owned(),
                set_at: Timestamp::now(),
            };
            content.secrets.insert(name.to_owned(), kept).is_some()
        })
    }

    /// Removes `name`; returns whether it was set.
    pub fn remove(&self, name: &str) -> anyhow::Result<bool> {
        Self::check_name(name)?;
        if !self.file.exists() {
            return Ok(false);
        }
        self.change(|content| content.secrets.remove(name).is_some())
    }

    /// Lists the secrets by name, without their values.
    pub fn list(&self) -> anyhow::Result<Vec<SecretEntry>> {
        let content = self.read()?;
        Ok(content
            .secrets
            .iter()
            .map(|(name, kept)| SecretEntry {
                name: name.clone(),
                set_at: kept.set_at,
            })
            .collect())
    }

    /// Returns the values of `names`, in their order; `None` for one that is not set.
    pub fn values(&self, names: &[&str]) -> anyhow::Result<Vec<Option<SecretValue>>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let content = self.read()?;
        let value = |name: &&str| {
            content
                .secrets
                .get(*name)
                .map(|kept| SecretValue::new(kept.value.clone()))
        };
        Ok(names.iter().map(value).collect())
    }

    fn read(&self) -> anyhow::Result<StoreContent> {
        let Some(sealed) =
            private_file::read(&self.file, STORE_BYTES_MAX).context("the secret store")?
        else {
            return Ok(StoreContent::default());
        };
        let fix = || format!("remove {} and set its secrets again", self.file.display());
        // Creates no key, because a new one could not open the store.
        let Some(key) = SealingKey::read(&self.key_file)? else {
            bail!(
                "the key {} of the secret store is missing; {}",
                self.key_file.display(),
                fix()
            );
        };
        let plain = key
            .open(PURPOSE, &sealed)
            .with_context(|| format!("the secret store cannot be opened; {}", fix()))?;
        // The errors of the parser would quote secrets.
        let content = serde_json::from_slice(&plain).ok();
        content.with_context(|| format!("the secret store is of another version; {}", fix()))
    }

    /// Changes the content under a file lock, so that concurrent processes lose no update.
    fn change<T>(&self, change: impl FnOnce(&mut StoreContent) -> T) -> anyhow::Result<T> {
        let folder = self
            .file
            .parent()
            .context("the secret store has no folder")?;
        private::create_dir(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let lock = self.file.with_extension("lock");
        let lock = private::open_or_create(&lock)
            .with_context(|| format!("cannot open {}", lock.display()))?;
        lock.lock().context("cannot lock the secret store")?;
        let mut content = self.read()?;
        let changed = change(&mut content);
        let key = SealingKey::read_or_make(&self.key_file)?;
        let mut plain = Zeroizing::new(Vec::with_capacity(content.size()));
        serde_json::to_writer(&mut *plain, &content).context("cannot write the secret store")?;
        let sealed = key.seal(PURPOSE, &plain)?;
        ensure!(
            sealed.len() as u64 <= STORE_BYTES_MAX,
            "the secret store would be larger than {STORE_BYTES_MAX} bytes"
        );
        private::write_atomically(&self.file, &[&sealed], OnDisk::Name)
            .with_context(|| format!("cannot write {}", self.file.display()))?;
        Ok(changed)
    }
}

impl StoreContent {
    /// An upper bound of its size as JSON, in bytes: a buffer that grows would leave copies in memory.
    fn size(&self) -> usize {
        let of = |(name, kept): (&String, &StoredSecret)| name.len() + kept.value.len() * 6 + 128;
        self.secrets.iter().map(of).sum::<usize>() + 64
    }
}
