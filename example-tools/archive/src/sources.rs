//! Finds the files that an archive is made of.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use toolcell_guest::{ToolError, cancellation};

use crate::{ENTRIES_MAX, entry_name, names};

/// Maximum number of skipped names in an answer.
const SKIPPED_MAX: usize = 20;

/// A file or a folder for the archive.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// Its name in the archive.
    pub(crate) name: String,
    pub(crate) is_folder: bool,
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In the order of their names.
    pub(crate) sources: Vec<Source>,
    pub(crate) bytes: u64,
    pub(crate) skipped: Vec<String>,
}

/// Finds everything below `from`, or what `only` names of it. `target`, the archive itself, is left out.
pub(crate) fn find(
    from: &Path,
    only: &[String],
    target: &Path,
    bytes_max: u64,
) -> Result<Found, ToolError> {
    let failed = |error: io::Error| ToolError::at_path(from, &error);
    let mut found = Found::default();
    let mut waiting: Vec<(PathBuf, String)> = Vec::new();
    if fs::metadata(from).map_err(failed)?.is_file() {
        let name = from.file_name().and_then(|name| name.to_str());
        waiting.push((from.to_owned(), name.unwrap_or_default().to_owned()));
    } else if only.is_empty() {
        waiting.push((from.to_owned(), String::new()));
    } else {
        for path in only {
            let name = inside(from, path)?;
            waiting.push((from.join(&name), name));
        }
    }
    while let Some((path, name)) = waiting.pop() {
        cancellation::check()?;
        if path != target {
            found.add(&path, name, &mut waiting, bytes_max)?;
        }
    }
    found.sources.sort_by(|a, b| a.name.cmp(&b.name));
    // `only` may name a folder and a file in it.
    found.sources.dedup_by(|a, b| a.name == b.name);
    let sizes = found.sources.iter().map(|source| source.bytes);
    found.bytes = sizes.sum();
    Ok(found)
}

/// Checks a path in `from`, which must not go through a link. Returns it without `.`.
fn inside(from: &Path, path: &str) -> Result<String, ToolError> {
    let refuse = |why: &str| {
        let message = format!("`only` has {:?}: {why}", entry_name::shown(path.as_bytes()));
        ToolError::invalid_arguments("path_outside", message)
    };
    let name = entry_name::check(path.as_bytes()).map_err(|why| refuse(&why))?;
    for part in names::parents(&name).chain([name.as_str()]) {
        let metadata = fs::symlink_metadata(from.join(part))
            .map_err(|error| ToolError::at_path(from.join(part), &error))?;
        if metadata.is_symlink() {
            return Err(refuse("it is a link, or leads through one"));
        }
    }
    Ok(name)
}

impl Found {
    /// Adds a file or a folder, whose content goes to `waiting`.
    fn add(
        &mut self,
        path: &Path,
        name: String,
        waiting: &mut Vec<(PathBuf, String)>,
        bytes_max: u64,
    ) -> Result<(), ToolError> {
        let failed = |error: io::Error| ToolError::at_path(path, &error);
        let is_root = name.is_empty();
        let metadata = if is_root {
            // The caller may name a link to a folder; the host has resolved it.
            fs::metadata(path)
        } else {
            fs::symlink_metadata(path)
        };
        let metadata = metadata.map_err(failed)?;
        if !metadata.is_dir() && !metadata.is_file() {
            if self.skipped.len() < SKIPPED_MAX {
                self.skipped.push(name);
            }
            return Ok(());
        }
        if metadata.is_dir() {
            for entry in fs::read_dir(path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let file_name = entry.file_name();
                let file_name = file_name.to_str().ok_or_else(|| {
                    let message = format!("{} is not UTF-8", entry.path().display());
                    ToolError::invalid_arguments("invalid_name", message)
                })?;
                let name = if is_root {
                    file_name.to_owned()
                } else {
                    format!("{name}/{file_name}")
                };
                waiting.push((entry.path(), name));
                self.check_count(waiting.len())?;
            }
        }
        if is_root {
            return Ok(());
        }
        let is_folder = metadata.is_dir();
        let bytes = if is_folder { 0 } else { metadata.len() };
        self.bytes += bytes;
        if self.bytes > bytes_max {
            let message = format!(
                "the files have more than {bytes_max} bytes; `max_bytes` raises the limit, `only` names some of them"
            );
            return Err(ToolError::invalid_arguments("too_large", message));
        }
        self.sources.push(Source {
            path: path.to_owned(),
            name,
            is_folder,
            bytes,
        });
        Ok(())
    }

    fn check_count(&self, waiting: usize) -> Result<(), ToolError> {
        if self.sources.len() + waiting <= ENTRIES_MAX {
            return Ok(());
        }
        let message = format!(
            "there are more than {ENTRIES_MAX} files and folders; `only` names some of them"
        );
        Err(ToolError::invalid_arguments("too_many_entries", message))
    }
}
