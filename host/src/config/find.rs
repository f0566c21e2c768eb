use std::path::{Path, PathBuf};

use anyhow::Context;
use etcetera::BaseStrategy;

use super::{FILE_NAME, HOME_VARIABLE, Home};

/// Where the user's own file is, or would be: in the folder that `TOOLCELL_HOME` names, else in the platform's folder for
/// configuration.
pub fn user_file(home: &Home) -> anyhow::Result<PathBuf> {
    if std::env::var_os(HOME_VARIABLE).is_some_and(|home| !home.is_empty()) {
        return Ok(home.folder().join(FILE_NAME));
    }
    let base = etcetera::choose_base_strategy().context("find the folder for configuration")?;
    Ok(base.config_dir().join("toolcell").join(FILE_NAME))
}

/// The project's file: in `folder`, or in the nearest folder above it that has one. A name that is there and cannot be
/// looked at counts as there: it must not be passed over.
pub fn project_file(folder: &Path) -> Option<PathBuf> {
    let files = folder.ancestors().map(|folder| folder.join(FILE_NAME));
    files.into_iter().find(|file| match std::fs::symlink_metadata(file) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory),
    })
}
