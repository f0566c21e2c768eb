use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use toolcell_spec::Timestamp;
use toolcell_system::private::{self, OnDisk};

use super::{SealingKey, SecretValue, private_file};

/// A later format gets another purpose.
const PURPOSE: &str = "toolcell secrets store 1";
const STORE_BYTES_MAX: u64 = 16 << 20;
const NAME_CHARS_MAX: usize = 64;
/// Shorter values could not be told from ordinary text, and so not be kept out of records.
const VALUE_BYTES_MIN: usize = 8;
pub const VALUE_BYTES_MAX: usize = 16 << 10;

/// One sealed file, with its key in another folder.
#[derive(Clone, Debug)]
pub struct SecretStore {
    file: PathBuf,
    key_file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecretEntry {
    pub name: String,
    pub set_at: Timestamp,
}

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
    /// Both files are created when the first secret is set.
    pub fn new(file: PathBuf, key_file: PathBuf) -> Self {
        Self { file, key_file }
    }

    /// Permits letters, digits, `_`, `-` and `.`: the name appears in grants, error messages and `[secret NAME]`.
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

    /// The error does not quote the value.
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

    pub fn remove(&self, name: &str) -> anyhow::Result<bool> {
        Self::check_name(name)?;
        if !self.file.exists() {
            return Ok(false);
        }
        self.change(|content| content.secrets.remove(name).is_some())
    }

    /// Sorted by name, without values.
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

    /// In the order of `names`; `None` for one that is not set.
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

    /// Locks a file, so that concurrent processes lose no update.
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
    /// An upper bound, as JSON: a buffer that grows would leave copies in memory.
    fn size(&self) -> usize {
        let of = |(name, kept): (&String, &StoredSecret)| name.len() + kept.value.len() * 6 + 128;
        self.secrets.iter().map(of).sum::<usize>() + 64
    }
}
