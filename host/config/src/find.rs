use std::path::{Path, PathBuf};

use toolcell::Home;
use toolcell_spec::RuleSource;

/// Name of the file of settings, a user's own or a project's.
pub const FILE_NAME: &str = Home::SETTINGS_FILE;

/// Name of the file of a user's own settings for one checkout, beside the project's file.
pub const LOCAL_FILE_NAME: &str = "toolcell.local.toml";

/// The files of a project, whether each exists or not: at least one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFiles {
    /// `toolcell.toml`, which belongs to the project; `toolcell.lock` is beside it.
    pub shared: PathBuf,
    /// `toolcell.local.toml`, which belongs to the user of this checkout.
    pub local: PathBuf,
}

impl ProjectFiles {
    /// Finds the files of a project: in `folder`, or in the nearest folder above it that has one of them. A file that
    /// cannot be accessed counts as present, so that it is not skipped.
    pub fn find(folder: &Path) -> Option<Self> {
        folder
            .ancestors()
            .map(Self::in_folder)
            .find(|files| is_present(&files.shared) || is_present(&files.local))
    }

    /// The files of a project in `folder`, if it were one.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            shared: folder.join(FILE_NAME),
            local: folder.join(LOCAL_FILE_NAME),
        }
    }

    /// The files, and what their settings count as. Of two rules that decide, a record names the one of the first.
    pub fn sources(&self) -> [(RuleSource, &Path); 2] {
        [
            (RuleSource::LocalSettings, &self.local),
            (RuleSource::ProjectSettings, &self.shared),
        ]
    }
}

/// The project's file beside `file`, if `file` is the local one of a checkout: they have one lock.
pub(super) fn shared_file(file: &Path) -> Option<PathBuf> {
    file.file_name()
        .is_some_and(|name| name == LOCAL_FILE_NAME)
        .then(|| file.with_file_name(FILE_NAME))
}

fn is_present(file: &Path) -> bool {
    match std::fs::symlink_metadata(file) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
        ),
    }
}
