//! Writes files into a folder of its own first, and moves them to their places when all of them are complete.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
};

use toolcell_guest::{ToolError, log};

use crate::{entry::broken, names::Names};

/// Folders that an interrupted call may have left.
const LEFT_MAX: u32 = 100;

/// Files on their way into the folder `to`.
pub(crate) struct Staging {
    to: PathBuf,
    /// `true` if `to` does not exist yet. It then takes its place in one step.
    is_new: bool,
    /// Inside of `to`, because no other folder may be granted; beside it if it is new.
    folder: PathBuf,
    /// To be undone in reverse order.
    steps: Vec<Step>,
    replaced: usize,
}

enum Step {
    MadeFolder(PathBuf),
    Created(PathBuf),
    /// The old file was moved to `kept`.
    Replaced {
        path: PathBuf,
        kept: PathBuf,
    },
}

impl Staging {
    pub(crate) fn begin(to: &str) -> Result<Self, ToolError> {
        let failed = |error: io::Error| ToolError::at_path(to, &error);
        let path = PathBuf::from(to);
        let is_new = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => false,
            Ok(_) => return Err(failed(io::ErrorKind::NotADirectory.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(failed(error)),
        };
        let mut staging = Self {
            folder: path.clone(),
            to: path,
            is_new,
            steps: Vec::new(),
            replaced: 0,
        };
        match staging.make_folders() {
            Ok(()) => Ok(staging),
            Err(error) => Err(staging.undo(failed(error))),
        }
    }

    fn make_folders(&mut self) -> io::Result<()> {
        let mut parent = self.to.clone();
        if self.is_new {
            parent.pop();
            let missing: Vec<&Path> = parent
                .ancestors()
                .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
                .collect();
            for folder in missing.into_iter().rev() {
                fs::create_dir(folder)?;
                self.steps.push(Step::MadeFolder(folder.to_owned()));
            }
        }
        self.folder = make_unused(&parent)?;
        fs::create_dir(self.new_files())?;
        fs::create_dir(self.old_files())
    }

    fn new_files(&self) -> PathBuf {
        self.folder.join("new")
    }

    fn old_files(&self) -> PathBuf {
        self.folder.join("old")
    }

    pub(crate) fn add_folder(&mut self, path: &str) -> Result<(), ToolError> {
        fs::create_dir_all(self.new_files().join(path))
            .map_err(|error| ToolError::at_path(path, &error))
    }

    /// Writes a file with what `content` gives; returns its size.
    pub(crate) fn add_file(
        &mut self,
        archive: &str,
        path: &str,
        content: &mut dyn Read,
    ) -> Result<u64, ToolError> {
        let failed = |error: io::Error| ToolError::at_path(path, &error);
        let target = self.new_files().join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(target)
            .map_err(failed)?;
        // Not `io::copy`, whose error does not tell a damaged archive from a full disk.
        let mut buffer = vec![0; 64 << 10];
        let mut written = 0;
        loop {
            let read = match content.read(&mut buffer) {
                Ok(0) => return Ok(written),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(archive, error)),
            };
            io::Write::write_all(&mut file, &buffer[..read]).map_err(failed)?;
            written += read as u64;
        }
    }

    /// Moves everything to its place.
    pub(crate) fn place(&mut self, names: &Names, overwrite: bool) -> Result<(), ToolError> {
        if self.is_new {
            // Fails if the folder was created meanwhile and has files.
            return fs::rename(self.new_files(), &self.to)
                .map_err(|error| ToolError::at_path(&self.to, &error));
        }
        // All are looked at first, so that a refused archive does not appear for a moment.
        for folder in &names.folders {
            self.is_free(folder, true, overwrite)?;
        }
        for file in &names.files {
            self.is_free(file, false, overwrite)?;
        }
        for folder in &names.folders {
            let path = self.to.join(folder);
            if !self.is_free(folder, true, overwrite)? {
                continue;
            }
            fs::create_dir(&path).map_err(|error| ToolError::at_path(folder, &error))?;
            self.steps.push(Step::MadeFolder(path));
        }
        for file in &names.files {
            self.place_file(file, overwrite)?;
        }
        Ok(())
    }

    fn place_file(&mut self, file: &str, overwrite: bool) -> Result<(), ToolError> {
        let failed = |error: io::Error| ToolError::at_path(file, &error);
        let path = self.to.join(file);
        if self.is_free(file, false, overwrite)? {
            // Takes the name first, because a rename would replace a file that was created since it was looked for.
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .map_err(failed)?;
            self.steps.push(Step::Created(path.clone()));
        } else {
            let kept = self.old_files().join(self.replaced.to_string());
            fs::rename(&path, &kept).map_err(failed)?;
            self.replaced += 1;
            self.steps.push(Step::Replaced {
                path: path.clone(),
                kept,
            });
        }
        fs::rename(self.new_files().join(file), path).map_err(failed)
    }

    /// `true` if nothing has the path in `to`. `false` if what has it can stay, or be replaced.
    ///
    /// # Errors
    ///
    /// invalid_arguments, code `already_exists`.
    fn is_free(&self, path: &str, is_folder: bool, overwrite: bool) -> Result<bool, ToolError> {
        let refuse = |what: &str| {
            let message = format!("{path} exists in {}{what}", self.to.display());
            Err(ToolError::invalid_arguments("already_exists", message))
        };
        match fs::symlink_metadata(self.to.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(ToolError::at_path(path, &error)),
            // It could lead out of the folder.
            Ok(metadata) if metadata.is_symlink() => refuse(" as a link"),
            Ok(metadata) if metadata.is_dir() != is_folder => refuse(if is_folder {
                " as a file"
            } else {
                " as a folder"
            }),
            Ok(_) if is_folder || overwrite => Ok(false),
            Ok(_) => refuse("; `overwrite` replaces files"),
        }
    }

    /// Removes the staging folder, and with it the old files. Returns how many files were replaced.
    pub(crate) fn finish(self) -> usize {
        remove(&self.folder);
        self.replaced
    }

    /// Undoes all steps; returns `error` with what is left.
    pub(crate) fn undo(mut self, error: ToolError) -> ToolError {
        let mut left = Vec::new();
        let mut folders = Vec::new();
        while let Some(step) = self.steps.pop() {
            let (path, result) = match step {
                Step::MadeFolder(path) => {
                    folders.push(path);
                    continue;
                }
                Step::Created(path) => (path.clone(), fs::remove_file(path)),
                Step::Replaced { path, kept } => (path.clone(), fs::rename(kept, path)),
            };
            if let Err(error) = result {
                log::error(format!("could not put back {}: {error}", path.display()));
                left.push(path.display().to_string());
            }
        }
        if left.is_empty() {
            // Otherwise it has old files.
            if self.folder != self.to {
                remove(&self.folder);
            }
            for folder in folders {
                // Fails if another program has put something into it.
                let _ = fs::remove_dir(folder);
            }
            return nothing_done(error);
        }
        let message = format!(
            "{}, and these files could not be put back: {}; the old ones are in {}",
            error.message,
            left.join(", "),
            self.old_files().display()
        );
        ToolError::execution_failed("undo_failed", message)
    }
}

/// Adds that the folder is as it was.
pub(crate) fn nothing_done(error: ToolError) -> ToolError {
    let message = format!("{}; nothing was extracted", error.message);
    ToolError { message, ..error }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        log::warn(format!("could not remove {}: {error}", folder.display()));
    }
}

/// Makes a folder in `parent` with a name that nothing has.
fn make_unused(parent: &Path) -> io::Result<PathBuf> {
    for number in 0..LEFT_MAX {
        let folder = parent.join(format!(".extracting-{number}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
