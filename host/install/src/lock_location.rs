//! A lock and what this user confirmed of it. A lock comes from anywhere, with a project, and a tool may be able to
//! write to it: an entry counts only if this user has installed it as it is.

use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::private::{self, OnDisk, OthersAccess};

use crate::digest::Digest;
use crate::lock::{self, BYTES_MAX, ENTRIES_MAX, LockEntry, ToolLock};

pub(crate) const FOLDER: &str = "installed";
/// Locked by the process that changes the lock: NFS carries the locks of files to other machines.
const TURN: &str = ".toolcell.lock.turn";
const DRAFT: &str = ".toolcell.lock.draft";
/// As the other files of a project, less what the user's mask takes.
const FILE_MODE: u32 = 0o666;
/// Others change the lock in milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockLocation {
    lock: PathBuf,
    confirmed: PathBuf,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledTools {
    pub lock: ToolLock,
    /// Between two steps of an install, a name has two confirmed entries.
    confirmed: Vec<LockEntry>,
}

/// Ends on drop.
struct ChangeTurn {
    path: PathBuf,
    /// Locked.
    _file: File,
}

impl Drop for ChangeTurn {
    fn drop(&mut self) {
        // Still locked. If this fails, the next process reuses it.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl InstalledTools {
    /// `None` if the lock has none. Fails if this user has not confirmed the entry.
    pub fn get(&self, name: &str) -> Option<Result<&LockEntry, Refusal>> {
        let entry = self.lock.0.get(name)?;
        Some(if self.is_confirmed(entry) {
            Ok(entry)
        } else {
            Err(unconfirmed(name, self.knows(name)))
        })
    }

    /// Confirmed unchanged by this user.
    pub fn is_confirmed(&self, entry: &LockEntry) -> bool {
        self.confirmed.contains(entry) || !guard!("confirmed_locks")
    }

    fn knows(&self, name: &str) -> bool {
        self.confirmed.iter().any(|entry| entry.name == name)
    }

    pub fn last(&self, name: &str) -> Option<&LockEntry> {
        let confirmed = self
            .lock
            .0
            .get(name)
            .filter(|entry| self.is_confirmed(entry));
        confirmed.or_else(|| self.confirmed.iter().rfind(|entry| entry.name == name))
    }

    /// Includes the last entry of each name that the lock binds to other bytes or no longer has. Only the user frees a
    /// name, with [`Self::remove`]: a tool that can write to the lock must not.
    fn settled(&self) -> Vec<LockEntry> {
        let stays = |entry: &&LockEntry| match self.lock.0.get(&entry.name) {
            Some(locked) => locked == *entry || !self.confirmed.contains(locked),
            None => guard!("orphaned_names"),
        };
        self.confirmed.iter().filter(stays).cloned().collect()
    }

    pub fn confirmed(&self) -> &[LockEntry] {
        &self.confirmed
    }

    pub fn orphans(&self) -> impl Iterator<Item = &LockEntry> {
        self.confirmed
            .iter()
            .filter(|entry| !self.lock.0.contains_key(&entry.name))
    }

    pub fn entries(&self) -> impl Iterator<Item = &LockEntry> {
        self.lock
            .0
            .values()
            .filter(|entry| self.is_confirmed(entry))
    }
}

fn unconfirmed(name: &str, is_known: bool) -> Refusal {
    let why = if is_known {
        "was changed since you installed it"
    } else {
        "names a tool that you have not installed"
    };
    let message = format!(
        "`{name}`: {} {why}; run `toolcell install` to review and confirm the change",
        lock::FILE_NAME
    );
    Refusal::new(ErrorCode::LockNotConfirmed, message)
}

impl LockLocation {
    /// Neither need exist; `home` is the folder of all state.
    pub fn beside(config: &Path, home: &Path) -> Self {
        let lock = lock::beside(config);
        // One place has one name: what is confirmed is for the folder, by whatever path it was reached.
        let folder = lock.parent().and_then(|folder| folder.canonicalize().ok());
        let lock = folder.map_or(lock, |folder| folder.join(lock::FILE_NAME));
        let name = Digest::of(lock.as_os_str().as_encoded_bytes()).hex();
        Self {
            confirmed: home.join(FOLDER).join(format!("{name}.toml")),
            lock,
        }
    }

    pub fn file(&self) -> &Path {
        &self.lock
    }

    /// Relative references begin here.
    pub fn folder(&self) -> &Path {
        self.lock.parent().unwrap_or(Path::new("/"))
    }

    /// Confirmed entries, if the lock cannot be read. Empty if they cannot be read either.
    pub fn known(&self) -> Vec<LockEntry> {
        self.confirmed().unwrap_or_default()
    }

    /// Fails if others could have written the confirmation.
    pub fn read(&self) -> Result<InstalledTools, Refusal> {
        let Some(text) = text_of(&self.lock)
            .map_err(|error| lock::unreadable(&self.lock, &error.to_string()))?
        else {
            return Ok(InstalledTools {
                lock: ToolLock::default(),
                confirmed: self.confirmed()?,
            });
        };
        Ok(InstalledTools {
            lock: ToolLock::parse(&text, &self.lock)?,
            confirmed: self.confirmed()?,
        })
    }

    fn confirmed(&self) -> Result<Vec<LockEntry>, Refusal> {
        confirmed_in(&self.confirmed)
    }

    /// A process that is killed at any point leaves the old or the new lock, and either counts. The caller has the
    /// store open, so that no other process removes the drafts.
    pub fn change(
        &self,
        change: impl FnOnce(&mut InstalledTools) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let failed = |error: &io::Error| unwritable(&self.lock, error);
        let _turn = self.turn(PATIENCE).map_err(|error| failed(&error))?;
        // Before `change`, which may write other files, too.
        let mut draft = self.draft().map_err(|error| failed(&error))?;
        let before = self.read()?;
        let mut after = before.clone();
        change(&mut after)?;
        if after == before {
            return Ok(());
        }
        let text = after.lock.to_text()?;
        lock::fits(&after.lock, &text).map_err(|why| failed(&io::Error::other(why)))?;
        let mut write = || -> io::Result<()> {
            draft.write_all(text.as_bytes())?;
            draft.as_file().sync_all()
        };
        write().map_err(|error| failed(&error))?;
        let settled = after.settled();
        self.confirm(
            before
                .confirmed
                .into_iter()
                .chain(settled.iter().cloned())
                .collect(),
        )?;
        let replace = || -> io::Result<()> {
            draft.persist(&self.lock)?;
            File::open(self.folder())?.sync_all()
        };
        replace().map_err(|error| failed(&error))?;
        self.confirm(settled)
    }

    /// Other users' processes could keep the turn, so the wait ends after `patience`.
    fn turn(&self, patience: Duration) -> io::Result<ChangeTurn> {
        let path = self.folder().join(TURN);
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let until = Instant::now() + patience;
        loop {
            let file = File::from(rustix::fs::open(
                &path,
                flags,
                Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH,
            )?);
            let ours = file.metadata()?;
            if !ours.is_file() {
                return Err(io::Error::other(format!("{TURN} is not a regular file")));
            }
            match file.try_lock() {
                Ok(()) => {
                    // The process that had it may have removed it meanwhile.
                    let there = path.symlink_metadata();
                    if there.is_ok_and(|it| (it.dev(), it.ino()) == (ours.dev(), ours.ino())) {
                        return Ok(ChangeTurn { path, _file: file });
                    }
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if Instant::now() >= until {
                let seconds = patience.as_secs();
                let message =
                    format!("another process keeps {TURN} locked for more than {seconds} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Removes the drafts of killed processes: only the process whose turn it is has one.
    fn draft(&self) -> io::Result<NamedTempFile> {
        for entry in std::fs::read_dir(self.folder())? {
            let name = entry?.file_name();
            if name.as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
                // A folder of that name is no draft, and stays.
                let _ = std::fs::remove_file(self.folder().join(name));
            }
        }
        tempfile::Builder::new()
            .prefix(DRAFT)
            .permissions(Permissions::from_mode(FILE_MODE))
            .tempfile_in(self.folder())
    }

    fn confirm(&self, entries: Vec<LockEntry>) -> Result<(), Refusal> {
        let mut kept: Vec<LockEntry> = Vec::new();
        for entry in entries {
            if !kept.contains(&entry) {
                kept.push(entry);
            }
        }
        let count = kept.len();
        let text = lock::text_of(kept)?;
        let path = format!("# {:?}\n", self.lock);
        // Names that the lock has no more add up, and what is larger could not be read again.
        if count > 2 * ENTRIES_MAX || (path.len() + text.len()) as u64 > 2 * BYTES_MAX {
            let why =
                "it would be too large; remove tools first, also those that are not in the lock";
            return Err(unwritable(&self.confirmed, &io::Error::other(why)));
        }
        let folder = self.confirmed.parent().unwrap_or(Path::new("/"));
        let write = || -> io::Result<()> {
            private::close_dir(folder)?;
            private::write_atomically(
                &self.confirmed,
                &[path.as_bytes(), text.as_bytes()],
                OnDisk::Name,
            )
        };
        write().map_err(|error| unwritable(&self.confirmed, &error))
    }
}

impl InstalledTools {
    /// Fails if the name stands by now for something else than `before`, its meaning when the user was asked.
    pub fn put(&mut self, entry: LockEntry, before: Option<&LockEntry>) -> Result<(), Refusal> {
        self.unchanged(&entry.name, before)?;
        self.confirmed.retain(|known| known.name != entry.name);
        self.confirmed.push(entry.clone());
        self.lock.0.insert(entry.name.clone(), entry);
        Ok(())
    }

    /// Writes into `entry` which of its names and ids belong to other bytes in the lock: rules with them still mean
    /// those. `pinned` has to equal `entry`. Returns each such name with its tool's.
    pub fn give_way(
        &self,
        entry: &mut LockEntry,
        pinned: Option<&LockEntry>,
    ) -> Vec<(String, String)> {
        let is_other =
            |other: &&LockEntry| other.name != entry.name && other.component != entry.component;
        let others: Vec<&LockEntry> = self.lock.0.values().filter(is_other).collect();
        let has = |other: &LockEntry, name: &String| {
            other.name == *name || other.claims().any(|claim| claim == name)
        };
        let mut taken = Vec::new();
        let mut owners = Vec::new();
        for name in entry.tools.iter().chain(&entry.tool_ids) {
            let owner = others
                .iter()
                .find(|other| has(other, name))
                .filter(|_| guard!("names_kept"));
            let was_taken = pinned.is_some_and(|pinned| pinned.taken.contains(name));
            if (owner.is_some() || was_taken) && !taken.contains(name) {
                taken.push(name.clone());
                owners.extend(owner.map(|owner| (name.clone(), owner.name.clone())));
            }
        }
        entry.taken = taken;
        owners
    }

    /// `true` also for a name that this user confirmed and that was taken out of the lock by other means.
    pub fn has(&self, name: &str) -> bool {
        self.lock.0.contains_key(name) || self.knows(name)
    }

    /// Frees the name of the confirmed entries, too.
    pub fn remove(&mut self, name: &str) -> Option<LockEntry> {
        let last = self.last(name).cloned();
        self.confirmed.retain(|known| known.name != name);
        self.lock.0.remove(name).or(last)
    }

    fn unchanged(&self, name: &str, before: Option<&LockEntry>) -> Result<(), Refusal> {
        if self.lock.0.get(name) == before {
            return Ok(());
        }
        let message = format!(
            "another process changed `{name}` in {} meanwhile: run the command again",
            lock::FILE_NAME
        );
        Err(Refusal::new(ErrorCode::LockChangedMeanwhile, message))
    }
}

/// `home` is the folder of all state. A lock whose folder is gone names none.
pub fn used(home: &Path) -> Result<Vec<Digest>, Refusal> {
    let mut used = Vec::new();
    for file in files(home)? {
        let Some(text) = confirmed_text(&file)?.filter(|text| !is_of_gone_folder(text)) else {
            continue;
        };
        used.extend(
            confirmed_entries(&file, &text)?
                .into_iter()
                .map(|entry| entry.component),
        );
    }
    used.sort();
    used.dedup();
    Ok(used)
}

/// `home` is the folder of all state.
pub fn known(home: &Path) -> Result<Vec<LockEntry>, Refusal> {
    let mut known = Vec::new();
    for file in files(home)? {
        known.extend(confirmed_in(&file)?);
    }
    Ok(known)
}

fn files(home: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let folder = home.join(FOLDER);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Ok(Vec::new());
    };
    let files: io::Result<Vec<PathBuf>> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut files = files.map_err(|error| lock::unreadable(&folder, &error.to_string()))?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "toml")
    });
    Ok(files)
}

fn confirmed_in(file: &Path) -> Result<Vec<LockEntry>, Refusal> {
    confirmed_text(file)?.map_or_else(|| Ok(Vec::new()), |text| confirmed_entries(file, &text))
}

fn confirmed_text(file: &Path) -> Result<Option<String>, Refusal> {
    let open = match private::open(file, OthersAccess::Nothing) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(lock::unreadable(file, &error.to_string())),
    };
    // Between two steps of a change, the old and the new entries of a lock are confirmed.
    bounded(open, 2 * BYTES_MAX)
        .map(Some)
        .map_err(|error| lock::unreadable(file, &error.to_string()))
}

fn confirmed_entries(file: &Path, text: &str) -> Result<Vec<LockEntry>, Refusal> {
    lock::entries(text, 2 * ENTRIES_MAX).map_err(|why| lock::unreadable(file, &why))
}

/// A path with characters that are escaped in another way counts as existing.
fn is_of_gone_folder(text: &str) -> bool {
    let first = text.lines().next().and_then(|line| line.strip_prefix("# "));
    let lock: Option<PathBuf> = first.and_then(|path| serde_json::from_str(path).ok());
    let folder = lock.as_deref().and_then(Path::parent);
    let metadata = folder.map(Path::symlink_metadata);
    matches!(metadata, Some(Err(error)) if error.kind() == io::ErrorKind::NotFound)
}

fn text_of(path: &Path) -> io::Result<Option<String>> {
    // Without NONBLOCK, a named pipe would block the reader.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    bounded(file, BYTES_MAX).map(Some)
}

fn bounded(file: File, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        Err(io::Error::other(format!(
            "it has more than {bytes_max} bytes"
        )))
    } else {
        Ok(text)
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Refusal {
    let message = format!(
        "cannot write {}: {error}; check that you may write to its folder",
        path.display()
    );
    Refusal::new(ErrorCode::LockUnwritable, message)
}

#[cfg(test)]
mod tests;
