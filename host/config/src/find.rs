use std::path::{Path, PathBuf};

use toolcell::FILE_NAME;

/// Finds the project's file: in `folder`, or in the nearest folder above it that has one. A file that cannot be
/// accessed counts as present, so that it is not skipped.
pub fn project_file(folder: &Path) -> Option<PathBuf> {
    let files = folder.ancestors().map(|folder| folder.join(FILE_NAME));
    files
        .into_iter()
        .find(|file| match std::fs::symlink_metadata(file) {
            Ok(_) => true,
            Err(error) => !matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ),
        })
}
