//! The files and folders that a build reads.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use toolcell_system::named_file;

use super::{FileGroup, INCLUDES_MAX, NAMING_BYTES_MAX, STEERING};

/// The places that a build reads, as absolute paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SourceScope {
    /// Their content counts, except what no build reads ([`super::is_idle`]), and `target` beside a manifest.
    pub(crate) folders: BTreeSet<PathBuf>,
    #[serde(default)]
    pub(crate) groups: BTreeSet<FileGroup>,
    /// They need not exist.
    pub(crate) files: BTreeSet<PathBuf>,
    /// A build writes them.
    #[serde(default)]
    pub(crate) skipped: BTreeSet<PathBuf>,
    #[serde(default)]
    pub(crate) skipped_names: BTreeSet<String>,
    /// Some places are not known, so no listing is made.
    #[serde(skip)]
    pub(crate) refused: Option<String>,
}

impl SourceScope {
    /// Adds everything below `folder`, and the files that configure cargo in it and above it.
    pub(crate) fn add(&mut self, folder: &Path) {
        self.folders.insert(folder.to_owned());
        self.add_steering(folder);
    }

    pub(crate) fn add_steering(&mut self, folder: &Path) {
        self.add_above(folder, &STEERING);
    }

    pub(crate) fn add_above(&mut self, folder: &Path, names: &[&str]) {
        for folder in folder.ancestors() {
            names
                .iter()
                .for_each(|name| self.add_file(folder.join(name)));
        }
    }

    /// The user's own configuration of cargo.
    pub(crate) fn add_cargo_home(&mut self) {
        let home = std::env::var_os("CARGO_HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
        if let Some(home) = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))) {
            ["config.toml", "config"]
                .iter()
                .for_each(|name| self.add_file(home.join(name)));
        }
    }

    pub(crate) fn add_file(&mut self, file: PathBuf) {
        self.add_with_includes(file, INCLUDES_MAX);
    }

    pub(super) fn add_with_includes(&mut self, file: PathBuf, depth: u32) {
        if depth > 0
            && file
                .parent()
                .is_some_and(|folder| folder.ends_with(".cargo"))
        {
            match included(&file) {
                Ok(others) => others
                    .into_iter()
                    .for_each(|other| self.add_with_includes(other, depth - 1)),
                Err(why) => self.refuse(&why),
            }
        }
        self.files.insert(file);
    }

    /// Makes every listing of this scope fail.
    pub(crate) fn refuse(&mut self, why: &anyhow::Error) {
        self.refused.get_or_insert_with(|| format!("{why:#}"));
    }

    pub(crate) fn of_files(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            files: files.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(crate) fn of_cargo(dir: &Path) -> Self {
        let mut scope = Self::default();
        scope.add(dir);
        scope
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &PathBuf> {
        self.folders.iter().chain(&self.files)
    }
}

pub(super) fn included(config: &Path) -> Result<Vec<PathBuf>> {
    let Some(text) = naming_text(config)? else {
        return Ok(Vec::new());
    };
    let read = || -> Option<Vec<PathBuf>> {
        let table: toml::Table = toml::from_str(&text).ok()?;
        let named = match table.get("include")? {
            toml::Value::Array(entries) => entries.clone(),
            one => vec![one.clone()],
        };
        let path = |entry: &toml::Value| {
            Some(
                config
                    .parent()?
                    .join(entry.get("path").unwrap_or(entry).as_str()?),
            )
        };
        Some(named.iter().filter_map(path).collect())
    };
    Ok(read().unwrap_or_default())
}

/// `None` if it is no regular file that can be read. Fails on more than [`NAMING_BYTES_MAX`] bytes.
pub(crate) fn naming_text(path: &Path) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    let read = named_file::open(path)
        .and_then(|file| file.take(NAMING_BYTES_MAX + 1).read_to_end(&mut bytes));
    if read.is_err() {
        return Ok(None);
    }
    if bytes.len() as u64 > NAMING_BYTES_MAX {
        bail!(
            "{} has more than {NAMING_BYTES_MAX} bytes, too many to look for the files that it names: make it smaller",
            path.display()
        );
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
