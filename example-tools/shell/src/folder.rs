//! A granted folder as a file system of bashkit. What may be read and written is the host's to decide.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use bashkit::{DirEntry, FileSystem, FileSystemExt, FileType, Metadata, Result, async_trait};

const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

pub(crate) struct Folder {
    root: PathBuf,
    /// Modes that `chmod` set in this call. WASI has no modes to keep them in.
    modes: Mutex<HashMap<PathBuf, u32>>,
}

impl Folder {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            modes: Mutex::default(),
        }
    }

    /// `path` starts at the root of this file system, and has no `..`: bashkit removes them.
    fn place(&self, path: &Path) -> PathBuf {
        let relative = path.strip_prefix("/").unwrap_or(path);
        if relative.as_os_str().is_empty() {
            // Joining an empty path would add a slash.
            self.root.clone()
        } else {
            self.root.join(relative)
        }
    }

    /// Refuses links, because bashkit follows them itself: a target such as `/tmp/a` can be in another folder.
    fn no_link(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.place(path);
        match fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_symlink() => Err(io::Error::other("is a symbolic link")),
            _ => Ok(place),
        }
    }

    fn modes(&self) -> MutexGuard<'_, HashMap<PathBuf, u32>> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metadata(&self, place: &Path, found: &fs::Metadata) -> Metadata {
        let (file_type, mode) = if found.is_symlink() {
            (FileType::Symlink, 0o777)
        } else if found.is_dir() {
            (FileType::Directory, FOLDER_MODE)
        } else {
            (FileType::File, FILE_MODE)
        };
        let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Metadata {
            file_type,
            size: found.len(),
            mode: self.modes().get(place).copied().unwrap_or(mode),
            modified,
            created: found.created().unwrap_or(modified),
        }
    }

    fn list(&self, place: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(place)? {
            let entry = entry?;
            // A name that is not UTF-8 cannot be written in a script, and what is denied cannot be looked at.
            let (Ok(name), Ok(found)) = (entry.file_name().into_string(), entry.metadata()) else {
                continue;
            };
            let metadata = self.metadata(&place.join(&name), &found);
            entries.push(DirEntry { name, metadata });
        }
        Ok(entries)
    }
}

#[async_trait]
impl FileSystemExt for Folder {}

#[async_trait]
impl FileSystem for Folder {
    async fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let place = self.no_link(path)?;
        // Some hosts let a folder be opened, and fail in another way when it is read.
        if fs::metadata(&place)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        Ok(fs::read(place)?)
    }

    async fn write_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        Ok(fs::write(self.no_link(path)?, content)?)
    }

    async fn append_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        let place = self.no_link(path)?;
        let mut file = OpenOptions::new().append(true).create(true).open(place)?;
        Ok(file.write_all(content)?)
    }

    async fn mkdir(&self, path: &Path, recursive: bool) -> Result<()> {
        let place = self.place(path);
        if recursive {
            return Ok(fs::create_dir_all(place)?);
        }
        Ok(fs::create_dir(place)?)
    }

    async fn remove(&self, path: &Path, recursive: bool) -> Result<()> {
        let place = self.place(path);
        self.modes().remove(&place);
        if !fs::symlink_metadata(&place)?.is_dir() {
            return Ok(fs::remove_file(place)?);
        }
        if recursive {
            return Ok(fs::remove_dir_all(place)?);
        }
        Ok(fs::remove_dir(place)?)
    }

    async fn stat(&self, path: &Path) -> Result<Metadata> {
        let place = self.place(path);
        let found = fs::symlink_metadata(&place)?;
        Ok(self.metadata(&place, &found))
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        Ok(self.list(&self.no_link(path)?)?)
    }

    async fn exists(&self, path: &Path) -> Result<bool> {
        Ok(fs::symlink_metadata(self.place(path)).is_ok())
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (self.place(from), self.place(to));
        fs::rename(&from, &to)?;
        let mut modes = self.modes();
        let mode = modes.remove(&from);
        modes.remove(&to);
        if let Some(mode) = mode {
            modes.insert(to, mode);
        }
        Ok(())
    }

    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        fs::copy(self.no_link(from)?, self.no_link(to)?)?;
        Ok(())
    }

    async fn symlink(&self, target: &Path, link: &Path) -> Result<()> {
        // The only function for links that every target of Rust has.
        #[allow(deprecated)]
        fs::soft_link(target, self.place(link))?;
        Ok(())
    }

    async fn read_link(&self, path: &Path) -> Result<PathBuf> {
        Ok(fs::read_link(self.place(path))?)
    }

    async fn chmod(&self, path: &Path, mode: u32) -> Result<()> {
        let place = self.place(path);
        fs::symlink_metadata(&place)?;
        self.modes().insert(place, mode);
        Ok(())
    }

    async fn set_modified_time(&self, path: &Path, time: SystemTime) -> Result<()> {
        let place = self.no_link(path)?;
        let file = if fs::metadata(&place)?.is_dir() {
            fs::File::open(place)?
        } else {
            OpenOptions::new().append(true).open(place)?
        };
        Ok(file.set_modified(time)?)
    }
}
