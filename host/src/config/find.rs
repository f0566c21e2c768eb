use std::path::{Path, PathBuf};

use anyhow::Context;
use etcetera::BaseStrategy;

use super::{FILE_NAME, HOME_VARIABLE, Home};

/// Returns the path of the user's own file, whether it exists or not: in the folder that `TOOLCELL_HOME` names, else in
/// the platform's configuration folder.
pub fn user_file(home: &Home) -> anyhow::Result<PathBuf> {
    if std::env::var_os(HOME_VARIABLE).is_some_and(|home| !home.is_empty()) {
        return Ok(home.folder().join(FILE_NAME));
    }
    let base = etcetera::choose_base_strategy().context("cannot find the folder for configuration")?;
    Ok(base.config_dir().join("toolcell").join(FILE_NAME))
}

/// Finds the project's file: in `folder`, or in the nearest folder above it that has one. A file that cannot be
/// accessed counts as present, so that it is not skipped.
pub fn project_file(folder: &Path) -> Option<PathBuf> {
    let files = folder.ancestors().map(|folder| folder.join(FILE_NAME));
    files.into_iter().find(|file| match std::fs::symlink_metadata(file) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory),
    })
}
