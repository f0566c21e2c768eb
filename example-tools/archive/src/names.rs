//! The tree that an archive would make.

use std::collections::BTreeSet;

use toolcell_guest::ToolError;

use crate::{
    ENTRIES_MAX,
    entry::{Entry, Kind},
    entry_name,
};

/// Files and folders by their paths. Folders include those that only files name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) files: BTreeSet<String>,
    pub(crate) folders: BTreeSet<String>,
}

impl Names {
    /// Adds an entry; returns its path.
    ///
    /// # Errors
    ///
    /// What must not be extracted: invalid_arguments, code `refused_entry`; result_too_large, code `too_many_entries`.
    pub(crate) fn add(&mut self, entry: &Entry) -> Result<String, ToolError> {
        let refuse = |why: &str| Err(refused(entry, why));
        if let Some(why) = reason(entry) {
            return refuse(&why);
        }
        let path = entry_name::check(&entry.name).map_err(|why| refused(entry, &why))?;
        let is_folder = entry.kind == Kind::Folder;
        if path.is_empty() {
            return if is_folder {
                Ok(path)
            } else {
                refuse("it has no name")
            };
        }
        for folder in parents(&path) {
            if self.files.contains(folder) {
                return refuse("a file of the archive has the name of its folder");
            }
            if !self.folders.contains(folder) {
                self.folders.insert(folder.to_owned());
            }
        }
        // Extractors do not agree which of two entries wins, so that one can hide the other.
        if self.files.contains(&path) || !is_folder && self.folders.contains(&path) {
            return refuse("the archive has two entries of this name");
        }
        if is_folder {
            self.folders.insert(path.clone());
        } else {
            self.files.insert(path.clone());
        }
        if self.files.len() + self.folders.len() > ENTRIES_MAX {
            let message = format!("the archive has more than {ENTRIES_MAX} files and folders");
            return Err(ToolError::result_too_large("too_many_entries", message));
        }
        Ok(path)
    }
}

/// Why the entry is not extracted, if it is not because of its name.
fn reason(entry: &Entry) -> Option<String> {
    match entry.kind {
        Kind::Link => Some("it is a link, which could lead out of the folder".to_owned()),
        Kind::Special => Some("it is neither a file nor a folder".to_owned()),
        Kind::File | Kind::Folder => entry.unreadable.clone(),
    }
}

/// Why the entry is not extracted, for a list.
pub(crate) fn problem(entry: &Entry) -> Option<String> {
    reason(entry).or_else(|| entry_name::check(&entry.name).err())
}

fn refused(entry: &Entry, why: &str) -> ToolError {
    let name = entry_name::shown(&entry.name);
    ToolError::invalid_arguments(
        "refused_entry",
        format!("the archive cannot be extracted because of {name:?}: {why}"),
    )
}

/// The folders above `path`, from the outermost.
pub(crate) fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}
