//! The new file takes its place at once: a call that is stopped leaves no half of it.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use toolcell_guest::ToolError;

/// Names that are tried for the file until it is complete.
const ATTEMPTS: u32 = 100;

/// Fails early if `path` cannot become the new file.
pub(crate) fn check(path: &str, overwrite: bool) -> Result<(), ToolError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(ToolError::at_path(path, &ErrorKind::IsADirectory.into()))
        }
        Ok(_) if !overwrite => Err(exists(path)),
        _ => Ok(()),
    }
}

pub(crate) fn write(path: &str, bytes: &[u8], overwrite: bool) -> Result<(), ToolError> {
    let target = Path::new(path);
    let failed = |error: io::Error| ToolError::at_path(path, &error);
    let (draft, mut file) = create_beside(target).map_err(failed)?;
    let written = file.write_all(bytes).map_err(failed);
    drop(file);
    let placed = written.and_then(|()| {
        if !overwrite && fs::symlink_metadata(target).is_ok() {
            return Err(exists(path));
        }
        fs::rename(&draft, target).map_err(failed)
    });
    if placed.is_err() {
        // The error that is reported is the first one.
        let _ = fs::remove_file(&draft);
    }
    placed
}

/// Creates a file with an unused name in the folder of `target`.
fn create_beside(target: &Path) -> io::Result<(PathBuf, fs::File)> {
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

fn exists(path: &str) -> ToolError {
    ToolError::invalid_arguments(
        "already_exists",
        format!("{path}: already exists: choose another name, or set overwrite"),
    )
}
