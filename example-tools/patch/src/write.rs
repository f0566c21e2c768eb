use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use toolcell_guest::{ToolError, log};

use crate::{Action, apply::Applied};

/// The change of one file.
#[derive(Debug)]
pub(crate) struct Change {
    /// The file name for messages.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) action: Action,
    /// The old text; `None` if the file does not exist.
    pub(crate) before: Option<String>,
    pub(crate) applied: Applied,
}

impl Change {
    /// The unified diff that was applied.
    pub(crate) fn diff(&self) -> String {
        let name = |side: &str, exists: bool| {
            if exists {
                format!("{side}/{}", self.name)
            } else {
                "/dev/null".into()
            }
        };
        let old = name("a", self.action != Action::Created);
        let new = name("b", self.action != Action::Deleted);
        format!("--- {old}\n+++ {new}\n{}", self.applied.diff)
    }
}

/// Makes all changes or none. New texts are first written beside their files, so that a lack of space or rights fails
/// before any file changes; then each file is replaced atomically. If a replacement fails, the earlier ones are rolled
/// back.
pub(crate) fn commit(changes: &[Change]) -> Result<(), ToolError> {
    let mut journal = Journal::default();
    let result =
        stage(changes, &mut journal).and_then(|staged| replace(changes, &staged, &mut journal));
    result.map_err(|error| {
        let left = journal.undo();
        if left.is_empty() {
            ToolError {
                message: format!("{}; nothing was changed", error.message),
                ..error
            }
        } else {
            ToolError::execution_failed(
                "undo_failed",
                format!(
                    "{}, and these files could not be put back: {}",
                    error.message,
                    left.join(", ")
                ),
            )
        }
    })
}

/// The steps so far, to be undone in reverse order.
#[derive(Default)]
struct Journal<'c>(Vec<Step<'c>>);

enum Step<'c> {
    MadeFolder(PathBuf),
    Staged(PathBuf),
    Created(&'c Change),
    Replaced(&'c Change),
    Deleted(&'c Change),
}

impl Journal<'_> {
    /// Returns the names of the files that stay changed.
    fn undo(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        while let Some(step) = self.0.pop() {
            match step {
                // Errors are ignored: the folder is not empty any more, or the staged file has already been renamed.
                Step::MadeFolder(path) => drop(fs::remove_dir(path)),
                Step::Staged(path) => drop(fs::remove_file(path)),
                Step::Created(change) => note(&mut left, change, fs::remove_file(&change.path)),
                Step::Replaced(change) | Step::Deleted(change) => {
                    note(&mut left, change, restore(change))
                }
            }
        }
        left
    }
}

fn note(left: &mut Vec<String>, change: &Change, result: io::Result<()>) {
    if let Err(error) = result {
        log::error(format!("could not put back {}: {error}", change.name));
        left.push(change.name.clone());
    }
}

fn restore(change: &Change) -> io::Result<()> {
    let staged = beside(&change.path)?;
    write_new(&staged, change.before.as_deref().unwrap_or_default())?;
    fs::rename(staged, &change.path)
}

/// Writes each new text beside its file. Returns the staged paths, in the order of the changes.
fn stage<'c>(
    changes: &'c [Change],
    journal: &mut Journal<'c>,
) -> Result<Vec<Option<PathBuf>>, ToolError> {
    let mut staged = Vec::new();
    for change in changes {
        if change.action == Action::Deleted {
            staged.push(None);
            continue;
        }
        let mut write = || {
            make_folders(&change.path, journal)?;
            let path = beside(&change.path)?;
            // Recorded before the write, so that a half-written file is removed too.
            journal.0.push(Step::Staged(path.clone()));
            write_new(&path, &change.applied.text)?;
            Ok(path)
        };
        staged.push(Some(write().map_err(|error: io::Error| {
            ToolError::at_path(&change.name, &error)
        })?));
    }
    Ok(staged)
}

fn replace<'c>(
    changes: &'c [Change],
    staged: &[Option<PathBuf>],
    journal: &mut Journal<'c>,
) -> Result<(), ToolError> {
    for (change, staged) in changes.iter().zip(staged) {
        let failed = |error: io::Error| ToolError::at_path(&change.name, &error);
        match (staged, change.action) {
            (Some(staged), Action::Created) => {
                // Takes the name first, because a rename would replace a file that was created since it was looked for.
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(&change.path)
                    .map_err(failed)?;
                journal.0.push(Step::Created(change));
                fs::rename(staged, &change.path).map_err(failed)?;
            }
            (Some(staged), _) => {
                is_as_read(change)?;
                fs::rename(staged, &change.path).map_err(failed)?;
                journal.0.push(Step::Replaced(change));
            }
            (None, _) => {
                is_as_read(change)?;
                fs::remove_file(&change.path).map_err(failed)?;
                journal.0.push(Step::Deleted(change));
            }
        }
    }
    Ok(())
}

/// Fails with execution_failed, code `changed_meanwhile`, if the file is not what the hunks were applied to. WASI has no
/// locks, so that only a change in the moment between this check and the replacement is lost.
fn is_as_read(change: &Change) -> Result<(), ToolError> {
    let failed = |error: io::Error| ToolError::at_path(&change.name, &error);
    let before = change.before.as_deref().unwrap_or_default().as_bytes();
    let metadata = fs::symlink_metadata(&change.path).map_err(failed)?;
    if metadata.is_file()
        && metadata.len() == before.len() as u64
        && fs::read(&change.path).map_err(failed)? == before
    {
        return Ok(());
    }
    let message = format!(
        "{} was changed by another program since it was read; apply the patch again",
        change.name
    );
    Err(ToolError::execution_failed("changed_meanwhile", message))
}

/// Creates the missing parent folders of `path`.
fn make_folders(path: &Path, journal: &mut Journal<'_>) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .collect();
    for folder in missing.into_iter().rev() {
        fs::create_dir(folder)?;
        journal.0.push(Step::MadeFolder(folder.to_owned()));
    }
    Ok(())
}

/// An unused path in the same folder.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (0..100)
        .map(|number| path.with_file_name(format!(".{name}.patch-{number}")))
        .find(|path| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        })
        .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
