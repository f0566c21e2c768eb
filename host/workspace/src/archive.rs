//! Archives (tar) of a workspace, in and out. An archive of a stranger is read entry by entry, within the quota: it has
//! files and folders, and nothing else is taken from it.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use cap_std::fs::Dir;
use tar::{Archive, Builder, EntryType, Header, PaxExtensions};
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::private;

use super::changes::ChangeList;
use super::files::plain_path;
use super::lease::Lease;
use super::snapshot::{copy_tree, sync};
use super::swap::{self, WORK};
use super::tree::{Entry, PATH_BYTES_MAX, TreeIndex, Usage};
use super::{Quota, Workspace};

/// Entries of one archive, with those that only name the next.
pub const ARCHIVE_ENTRIES_MAX: u64 = 400_000;
/// Of one extended header.
const HEADER_BYTES_MAX: u64 = 64 << 10;
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

impl Workspace {
    /// Writes the files and folders as a tar archive. Links are left out: in another place they would lead elsewhere.
    ///
    /// # Errors
    ///
    /// Failures of `to` and of the file system.
    pub fn write_archive(&self, lease: &Lease, to: impl Write) -> Result<(), Refusal> {
        let index = self.plain_index(lease)?;
        let written = swap::open_dir(&self.tree()).and_then(|tree| {
            let mut archive = Builder::new(to);
            for (path, entry) in &index.entries {
                let mut header = Header::new_gnu();
                match entry {
                    Entry::Folder => {
                        header.set_entry_type(EntryType::Directory);
                        header.set_mode(FOLDER_MODE);
                        header.set_size(0);
                        archive.append_data(&mut header, format!("{path}/"), io::empty())?;
                    }
                    Entry::File(file) => {
                        header.set_entry_type(EntryType::Regular);
                        header.set_mode(FILE_MODE);
                        header.set_size(file.size);
                        let content = tree.open(path)?.take(file.size);
                        archive.append_data(&mut header, path, content)?;
                    }
                    Entry::Link(_) => {}
                }
            }
            archive.into_inner()?.flush()
        });
        written.map_err(|error| self.failed(&error))
    }

    /// The archive as a file without a name, and its size: whoever reads it slowly holds up no call.
    ///
    /// # Errors
    ///
    /// Failures of the file system.
    pub fn archive(&self, lease: &Lease) -> Result<(fs::File, u64), Refusal> {
        let file = tempfile::tempfile_in(self.folder());
        let mut file = file.map_err(|error| self.failed(&error))?;
        self.write_archive(lease, &mut file)?;
        let size = file.stream_position().and_then(|size| {
            file.rewind()?;
            Ok(size)
        });
        Ok((file, size.map_err(|error| self.failed(&error))?))
    }

    /// Adds the files of a tar archive, all or none; those that are there are replaced. Returns what changed.
    ///
    /// # Errors
    ///
    /// `archive_refused` for what is no tar archive, or has links, devices, or paths that lead elsewhere; `workspace_full`;
    /// failures of the file system: the files are as they were.
    pub fn put_archive(&self, lease: &Lease, from: &mut dyn Read) -> Result<ChangeList, Refusal> {
        let before = self.plain_index(lease)?;
        let room = self.room(before.usage)?;
        self.unpack(lease, from, (&before, room), |draft| {
            copy_tree(&self.tree(), draft, &before)
        })
    }

    /// Puts the files of a tar archive in the place of all that are there. Returns what changed.
    ///
    /// # Errors
    ///
    /// As [`Self::put_archive`].
    pub fn replace_by_archive(
        &self,
        lease: &Lease,
        from: &mut dyn Read,
    ) -> Result<ChangeList, Refusal> {
        let before = self.plain_index(lease)?;
        let room = self.room(Usage::default())?;
        self.unpack(lease, from, (&before, room), |_| Ok(()))
    }

    /// `prepare` fills the folder in which the archive is unpacked.
    fn unpack(
        &self,
        lease: &Lease,
        from: &mut dyn Read,
        (before, room): (&TreeIndex, Quota),
        prepare: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<ChangeList, Refusal> {
        let draft = self.folder().join(WORK).join("next");
        let prepared = swap::remove_all(&draft)
            .and_then(|()| private::create_dir(&draft))
            .and_then(|()| prepare(&draft))
            .and_then(|()| swap::open_dir(&draft));
        let to = prepared.map_err(|error| self.failed(&error))?;
        match (Unpacker { to, room }).unpack(from) {
            Ok(()) => {}
            Err(problem) => {
                let _ = swap::remove_all(&draft);
                return Err(match problem {
                    Problem::Full => self.full(),
                    Problem::Refused(why) => refused(&why),
                    Problem::Failed(error) => self.failed(&error),
                });
            }
        }
        self.put_tree(&draft).map_err(|error| self.failed(&error))?;
        let after = self.index(lease)?;
        Ok(before.changes(&after))
    }

    fn put_tree(&self, draft: &Path) -> io::Result<()> {
        sync(draft)?;
        swap::replace_tree(self.folder(), draft)
    }
}

fn refused(why: &str) -> Refusal {
    let message = format!("the archive was refused, and nothing of it was kept: {why}");
    Refusal::new(ErrorCode::ArchiveRefused, message)
}

enum Problem {
    Full,
    /// The archive is to blame.
    Refused(String),
    /// The file system is.
    Failed(io::Error),
}

struct Unpacker {
    to: Dir,
    room: Quota,
}

impl Unpacker {
    fn unpack(&mut self, from: &mut dyn Read) -> Result<(), Problem> {
        let unreadable =
            |error: io::Error| Problem::Refused(format!("it is no tar archive: {error}"));
        let mut archive = Archive::new(from);
        // Extended names are read here, because the library would read one of any length.
        let entries = archive.entries().map_err(unreadable)?.raw(true);
        let mut name = None;
        let mut count = 0;
        for entry in entries {
            let mut entry = entry.map_err(unreadable)?;
            count += 1;
            if count > ARCHIVE_ENTRIES_MAX {
                return Err(Problem::Refused(format!(
                    "it has more than {ARCHIVE_ENTRIES_MAX} entries"
                )));
            }
            match entry.header().entry_type() {
                EntryType::GNULongName => {
                    let text = bounded(&mut entry, PATH_BYTES_MAX as u64 + 1)?;
                    let text = text.strip_suffix(&[0]).unwrap_or(&text).to_vec();
                    name = Some(text);
                }
                EntryType::XHeader => {
                    let text = bounded(&mut entry, HEADER_BYTES_MAX)?;
                    name = extended_name(&text)?.or(name);
                }
                EntryType::XGlobalHeader => {}
                kind => {
                    let bytes = name
                        .take()
                        .unwrap_or_else(|| entry.path_bytes().into_owned());
                    let path = String::from_utf8(bytes)
                        .map_err(|_| Problem::Refused("a path in it is no UTF-8".to_owned()))?;
                    self.add(kind, &path, &mut entry)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, kind: EntryType, path: &str, content: &mut dyn Read) -> Result<(), Problem> {
        let trimmed = path.trim_end_matches('/');
        if kind.is_dir() && matches!(trimmed, "" | ".") && !path.starts_with('/') {
            return Ok(());
        }
        let place = plain_path(trimmed).map_err(|refusal| Problem::Refused(refusal.message))?;
        if path.starts_with('/') {
            return Err(Problem::Refused(format!("{path} begins with a slash")));
        }
        if kind.is_dir() {
            return self.folder(&place);
        }
        if !kind.is_file() {
            return Err(Problem::Refused(format!(
                "{place} is neither a file nor a folder"
            )));
        }
        if let Some((folder, _)) = place.rsplit_once('/') {
            self.folder(folder)?;
        }
        self.file(&place, content)
    }

    fn folder(&mut self, path: &str) -> Result<(), Problem> {
        let parts = path.match_indices('/').map(|(at, _)| at);
        for end in parts.chain([path.len()]) {
            let folder = path.get(..end).unwrap_or(path);
            match self.to.symlink_metadata(folder) {
                Ok(found) if found.is_dir() => continue,
                Ok(_) => {
                    return Err(Problem::Refused(format!(
                        "{folder} is there, and no folder"
                    )));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Problem::Failed(error)),
            }
            self.take_file()?;
            self.to.create_dir(folder).map_err(Problem::Failed)?;
        }
        Ok(())
    }

    fn take_file(&mut self) -> Result<(), Problem> {
        self.room.files = self.room.files.checked_sub(1).ok_or(Problem::Full)?;
        Ok(())
    }

    /// What is there is replaced, a link too.
    fn file(&mut self, path: &str, content: &mut dyn Read) -> Result<(), Problem> {
        match self.to.symlink_metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(Problem::Refused(format!("{path} is there as a folder")));
            }
            Ok(found) => {
                self.to.remove_file(path).map_err(Problem::Failed)?;
                self.room.bytes = self.room.bytes.saturating_add(found.len());
                self.room.files += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Problem::Failed(error)),
        }
        self.take_file()?;
        let file = super::snapshot::create(&self.to, path).map_err(Problem::Failed)?;
        self.write(&mut file.into_std(), content)
    }

    fn write(&mut self, file: &mut fs::File, content: &mut dyn Read) -> Result<(), Problem> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = match content.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Problem::Refused(format!("it ends too early: {error}"))),
            };
            let left = self.room.bytes.checked_sub(length as u64);
            self.room.bytes = left.ok_or(Problem::Full)?;
            let piece = buffer.get(..length).unwrap_or_default();
            file.write_all(piece).map_err(Problem::Failed)?;
        }
    }
}

fn bounded(entry: &mut dyn Read, max: u64) -> Result<Vec<u8>, Problem> {
    let mut text = Vec::new();
    let read = entry.take(max + 1).read_to_end(&mut text);
    read.map_err(|error| Problem::Refused(format!("it ends too early: {error}")))?;
    if text.len() as u64 > max {
        return Err(Problem::Refused(format!(
            "a name or extended header in it has more than {max} bytes"
        )));
    }
    Ok(text)
}

fn extended_name(text: &[u8]) -> Result<Option<Vec<u8>>, Problem> {
    let mut name = None;
    for extension in PaxExtensions::new(text) {
        let extension = extension
            .map_err(|_| Problem::Refused("an extended header in it is malformed".to_owned()))?;
        match extension.key_bytes() {
            b"path" => name = Some(extension.value_bytes().to_vec()),
            // The library takes the size from the plain header: the content would be cut.
            b"size" => {
                return Err(Problem::Refused(
                    "a file in it is larger than 8 GiB".to_owned(),
                ));
            }
            _ => {}
        }
    }
    Ok(name)
}
