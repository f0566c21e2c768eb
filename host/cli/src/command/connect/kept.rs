//! What is known of the files that toolcell changed, so that it can be undone: in toolcell's own folder, because the
//! content of such a file is private.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolcell::Home;
use toolcell_system::named_file;
use toolcell_system::private::{self, OnDisk};

use super::super::exit::BadRequest;
use super::edit::{Fault, Format, Slot};

const FOLDER: &str = "connections";
/// In bytes: a file of a client, as JSON.
const BYTES_MAX: u64 = 64 << 20;

/// One changed file. The backup is beside it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) file: PathBuf,
    pub(super) section: Vec<String>,
    pub(super) name: String,
    pub(super) is_list: bool,
    /// The section came with the entry.
    pub(super) is_made: bool,
    /// What stood in the place of the entry.
    pub(super) source: Option<String>,
    /// `false` if there was no file.
    pub(super) existed: bool,
    /// The folders that came with the file, from the inner one.
    pub(super) folders: Vec<PathBuf>,
    /// Of the text that was written.
    pub(super) digest: String,
    /// The part of the text that was written, and what it replaced.
    pub(super) inserted: String,
    pub(super) removed: String,
}

/// Where the change of a file is kept.
pub(super) struct ChangeStore {
    change: PathBuf,
    pub(super) backup: PathBuf,
}

impl ChangeStore {
    pub(super) fn of(home: &Home, file: &Path, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(file.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(name);
        let stem = HEXLOWER.encode(&hash.finalize());
        let folder = home.folder().join(FOLDER);
        Self {
            change: folder.join(format!("{stem}.json")),
            backup: folder.join(format!("{stem}.backup")),
        }
    }

    /// The change, and the text before it.
    pub(super) fn read(&self) -> anyhow::Result<Option<(Change, String)>> {
        let read = |path: &Path| match named_file::read_text(path, BYTES_MAX) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let (Some(change), Some(backup)) = (read(&self.change)?, read(&self.backup)?) else {
            return Ok(None);
        };
        let change = serde_json::from_str(&change)
            .with_context(|| format!("cannot read {}", self.change.display()))?;
        Ok(Some((change, backup)))
    }

    pub(super) fn write(&self, change: &Change, backup: &str) -> anyhow::Result<()> {
        let folder = self.change.parent().unwrap_or(Path::new("/"));
        let json = serde_json::to_vec(change)?;
        let written = private::create_dir(folder)
            .and_then(|()| {
                private::write_atomically(&self.backup, &[backup.as_bytes()], OnDisk::Name)
            })
            .and_then(|()| private::write_atomically(&self.change, &[&json], OnDisk::Name));
        written.map_err(|error| match private::unwritable(folder, &error) {
            Some(refusal) => BadRequest(refusal.message).into(),
            None => {
                anyhow::Error::new(error).context(format!("cannot write {}", self.backup.display()))
            }
        })
    }

    pub(super) fn forget(&self) {
        // What remains is replaced by the next change of the same file.
        let _ = fs::remove_file(&self.change);
        let _ = fs::remove_file(&self.backup);
    }
}

pub(super) fn digest(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

impl Change {
    pub(super) fn slot(&self) -> Slot {
        Slot {
            section: self.section.clone(),
            name: self.name.clone(),
            is_list: self.is_list,
        }
    }

    /// The text without the change; `None` if there was no file.
    pub(super) fn undone(
        &self,
        format: Format,
        text: &str,
        before: &str,
    ) -> Result<Option<String>, Fault> {
        if digest(text) == self.digest || text == before {
            return Ok(self.existed.then(|| before.to_owned()));
        }
        let slot = self.slot();
        // Edited since, but not at this part: then it is put back as it was, with its blanks.
        if !self.inserted.is_empty() && text.matches(&self.inserted).count() == 1 {
            let undone = text.replacen(&self.inserted, &self.removed, 1);
            let entry = match &self.source {
                Some(_) => format.entry(before, &slot)?,
                None => None,
            };
            let fits = |undone: &str| -> Result<bool, Fault> {
                Ok(format.is_as_strict(text, undone)
                    && format.others(undone, &slot)? == format.others(text, &slot)?
                    && format.entry(undone, &slot)? == entry)
            };
            if fits(&undone).unwrap_or(false) {
                return Ok(Some(undone));
            }
        }
        let source = self.source.as_deref();
        format.take(text, &slot, source, self.is_made).map(Some)
    }
}

/// The parts in which two texts differ.
pub(super) fn difference(before: &str, after: &str) -> (String, String) {
    let same = |one: &mut dyn Iterator<Item = char>, other: &mut dyn Iterator<Item = char>| {
        let same = one.zip(other).take_while(|(one, other)| one == other);
        same.map(|(one, _)| one.len_utf8()).sum::<usize>()
    };
    let start = same(&mut before.chars(), &mut after.chars());
    let (old, new) = (
        before.get(start..).unwrap_or_default(),
        after.get(start..).unwrap_or_default(),
    );
    let end = same(&mut old.chars().rev(), &mut new.chars().rev());
    let part = |text: &str| {
        let end = text.len().saturating_sub(end);
        text.get(..end).unwrap_or_default().to_owned()
    };
    (part(new), part(old))
}
