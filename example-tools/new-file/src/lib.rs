//! A file that takes its place once it is complete: a call that is stopped leaves no half of it under its name.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use toolcell_guest::ToolError;

/// Names that are tried for the file until it is complete.
const ATTEMPTS: u32 = 100;

/// A draft beside its target. Removed on drop, unless it was placed.
pub struct NewFile {
    target: PathBuf,
    draft: PathBuf,
    file: File,
}

impl NewFile {
    pub fn beside(target: &Path) -> Result<Self, ToolError> {
        let created = create(target).map_err(|error| ToolError::at_path(target, &error))?;
        Ok(Self {
            target: target.to_owned(),
            draft: created.0,
            file: created.1,
        })
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The path of the draft, for errors.
    pub fn path(&self) -> &Path {
        &self.draft
    }

    pub fn place(self, overwrite: bool) -> Result<(), ToolError> {
        let failed = |error: io::Error| ToolError::at_path(&self.target, &error);
        self.file.sync_all().map_err(failed)?;
        if !overwrite {
            // Takes the name first, because a rename would replace a file that was created since it was looked for.
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&self.target)
                .map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => exists(&self.target, "; `overwrite` replaces it"),
                    _ => failed(error),
                })?;
        }
        fs::rename(&self.draft, &self.target).map_err(|error| {
            if !overwrite {
                // Empty, and made here.
                let _ = fs::remove_file(&self.target);
            }
            failed(error)
        })
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It is gone if it was placed.
        let _ = fs::remove_file(&self.draft);
    }
}

/// Writes all of the file.
pub fn write(target: &Path, bytes: &[u8], overwrite: bool) -> Result<(), ToolError> {
    let mut made = NewFile::beside(target)?;
    let written = made.file().write_all(bytes);
    written.map_err(|error| ToolError::at_path(target, &error))?;
    made.place(overwrite)
}

/// Fails if something is at `target` that may not be replaced.
pub fn check(target: &Path, overwrite: bool) -> Result<(), ToolError> {
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ToolError::at_path(target, &error)),
        Ok(metadata) if !metadata.is_file() => Err(exists(target, ", and is no file")),
        Ok(_) if overwrite => Ok(()),
        Ok(_) => Err(exists(target, "; `overwrite` replaces it")),
    }
}

fn create(target: &Path) -> io::Result<(PathBuf, File)> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    for attempt in 0..ATTEMPTS {
        let draft = target.with_file_name(format!(".{name}.{attempt}.part"));
        match OpenOptions::new().write(true).create_new(true).open(&draft) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other.map(|file| (draft, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn exists(target: &Path, hint: &str) -> ToolError {
    let message = format!("{} exists{hint}", target.display());
    ToolError::invalid_arguments("already_exists", message)
}
