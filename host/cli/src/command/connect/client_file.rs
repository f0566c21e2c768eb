//! The configuration file of a client: read whole, and replaced at once.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use toolcell_system::named_file;

use super::super::exit::BadRequest;

/// In bytes. The settings of a client can have the history of its user.
const BYTES_MAX: u64 = 16 << 20;
const MODE_NEW: u32 = 0o666;
const MODE_MASK: u32 = 0o7777;

pub(super) struct ClientFile {
    /// As the client names it.
    pub(super) path: PathBuf,
    /// Where links lead to.
    pub(super) real: PathBuf,
    pub(super) text: Option<String>,
    mode: Option<u32>,
}

impl ClientFile {
    pub(super) fn read(path: PathBuf) -> Result<Self, BadRequest> {
        let cannot = |what: &str, error: &io::Error| {
            BadRequest(format!("cannot {what} {}: {error}", path.display()))
        };
        let file = match named_file::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.symlink_metadata().is_ok() {
                    let message = format!(
                        "{} is a link to a file that does not exist; make that file, or remove the link",
                        path.display()
                    );
                    return Err(BadRequest(message));
                }
                let real = settled(&path);
                return Ok(Self {
                    path,
                    real,
                    text: None,
                    mode: None,
                });
            }
            Err(error) => return Err(cannot("read", &error)),
        };
        let text = named_file::read_open_text(&file, BYTES_MAX);
        let text = text.map_err(|error| cannot("read", &error))?;
        let metadata = file.metadata().map_err(|error| cannot("read", &error))?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            let message = format!(
                "{} belongs to another user, who would lose it; run this as that user",
                path.display()
            );
            return Err(BadRequest(message));
        }
        let real = path
            .canonicalize()
            .map_err(|error| cannot("find", &error))?;
        Ok(Self {
            path,
            real,
            text: Some(text),
            mode: Some(metadata.mode() & MODE_MASK),
        })
    }

    /// Makes the folders that are missing, and returns them, from the inner one.
    pub(super) fn make_folders(&self) -> Result<Vec<PathBuf>, BadRequest> {
        let missing = self.real.ancestors().skip(1);
        let missing: Vec<PathBuf> = missing
            .take_while(|folder| folder.symlink_metadata().is_err())
            .map(Path::to_owned)
            .collect();
        if let Some(folder) = missing.first() {
            let made = DirBuilder::new().recursive(true).create(folder);
            made.map_err(|error| self.unwritable(&error))?;
        }
        Ok(missing)
    }

    /// Replaces the content, or removes the file. Fails if the file is not as it was read.
    pub(super) fn write(&self, text: Option<&str>) -> Result<(), BadRequest> {
        let now = Self::read(self.path.clone())?;
        if now.text != self.text || now.real != self.real {
            let message = format!(
                "{} was changed in the meantime, and not by toolcell; run the command again",
                self.path.display()
            );
            return Err(BadRequest(message));
        }
        let done = match text {
            Some(text) => self.replace(text),
            None => fs::remove_file(&self.real),
        };
        done.map_err(|error| self.unwritable(&error))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let folder = self.real.parent().unwrap_or(Path::new("/"));
        let mode = self.mode.unwrap_or(MODE_NEW);
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        self.persist(file)?;
        File::open(folder)?.sync_all()
    }

    fn persist(&self, file: NamedTempFile) -> io::Result<()> {
        if let Some(mode) = self.mode {
            // The user's mask does not count for an existing mode.
            file.as_file()
                .set_permissions(Permissions::from_mode(mode))?;
        }
        file.as_file().sync_all()?;
        if self.text.is_some() {
            file.persist(&self.real)?;
        } else {
            file.persist_noclobber(&self.real)?;
        }
        Ok(())
    }

    fn unwritable(&self, error: &io::Error) -> BadRequest {
        BadRequest(format!(
            "cannot write {}: {error}; make its folder writable, or name another file with --file=FILE. Nothing was \
             written",
            self.real.display()
        ))
    }
}

/// The path that a new file will have without links.
fn settled(path: &Path) -> PathBuf {
    let settle = |folder: &Path| {
        let real = folder.canonicalize().ok()?;
        let rest = path.strip_prefix(folder).ok()?;
        Some(real.join(rest))
    };
    let found = path.ancestors().skip(1).find_map(settle);
    found.unwrap_or_else(|| path.to_owned())
}
