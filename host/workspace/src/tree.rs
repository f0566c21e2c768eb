//! The files of a tree with their digests. A file whose state did not change is not read again.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, Metadata, MetadataExt};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::changes::{ChangeKind, ChangeList, FileChange};

const CHUNK_BYTES: usize = 64 << 10;
/// A file that changed shortly before it was read may change again without another time: clocks of file systems are
/// coarse.
const RACY: Duration = Duration::from_millis(50);
/// Of one path within the tree.
pub(crate) const PATH_BYTES_MAX: usize = 4_000;

/// Space that a workspace takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of the files, as long as they are; a hole counts, because it takes space once the file is copied.
    pub bytes: u64,
    /// Files, folders and links.
    pub files: u64,
}

/// What is at one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    Folder,
    Link(String),
    File(FileEntry),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub(crate) size: u64,
    /// `sha256:<hex>`.
    pub(crate) digest: String,
    /// `None` if it changed too shortly before it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<Stamp>,
}

/// State of a file that changes with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// All that is in a tree, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeIndex {
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) usage: Usage,
    /// The first entry that cannot be recorded, and why: its path is too long or no UTF-8, or it is neither a file, a
    /// folder nor a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) odd: Option<String>,
}

impl TreeIndex {
    /// Reads `tree`, but not the files that are the same as in `known`.
    pub(crate) fn read(tree: &Dir, known: &Self) -> io::Result<Self> {
        let mut index = Self::default();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let dir = if folder.is_empty() {
                tree.try_clone()?
            } else {
                match tree.open_dir(&folder) {
                    Ok(dir) => dir,
                    Err(_) => {
                        index.note_odd(format!("{folder}: the folder cannot be opened"));
                        continue;
                    }
                }
            };
            for entry in dir.entries()? {
                let entry = entry?;
                let name = entry.file_name();
                let path = name.to_str().map(|name| joined(&folder, name));
                index.usage.files += 1;
                let Some(path) = path.filter(|path| path.len() <= PATH_BYTES_MAX) else {
                    index.note_odd(format!(
                        "{folder}: the path of an entry is too long, or no UTF-8"
                    ));
                    continue;
                };
                if index.add(&dir, Path::new(&name), &path, known)? {
                    folders.push(path);
                }
            }
        }
        Ok(index)
    }

    /// Returns whether it is a folder.
    fn add(&mut self, dir: &Dir, name: &Path, path: &str, known: &Self) -> io::Result<bool> {
        let metadata = dir.symlink_metadata(name)?;
        let kind = metadata.file_type();
        let entry = if kind.is_dir() {
            Entry::Folder
        } else if kind.is_symlink() {
            let target = dir.read_link_contents(name)?;
            Entry::Link(target.to_string_lossy().into_owned())
        } else if kind.is_file() {
            self.usage.bytes = self.usage.bytes.saturating_add(metadata.len());
            Entry::File(file_entry(dir, name, &metadata, known.file(path))?)
        } else {
            self.note_odd(format!("{path}: neither a file, a folder nor a link"));
            return Ok(false);
        };
        let is_folder = entry == Entry::Folder;
        self.entries.insert(path.to_owned(), entry);
        Ok(is_folder)
    }

    fn note_odd(&mut self, what: String) {
        self.odd.get_or_insert(what);
    }

    pub(crate) fn file(&self, path: &str) -> Option<&FileEntry> {
        match self.entries.get(path)? {
            Entry::File(file) => Some(file),
            Entry::Folder | Entry::Link(_) => None,
        }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &FileEntry)> {
        let files = self.entries.iter();
        files.filter_map(|(path, entry)| match entry {
            Entry::File(file) => Some((path, file)),
            Entry::Folder | Entry::Link(_) => None,
        })
    }

    /// What is different in `later`. Folders are not listed: a tree is known by its files.
    pub(crate) fn changes(&self, later: &Self) -> ChangeList {
        let is_listed = |entry: &Entry| !matches!(entry, Entry::Folder);
        let added = later.entries.iter().filter_map(|(path, entry)| {
            let before = self.entries.get(path).filter(|entry| is_listed(entry));
            let change = match before {
                None => ChangeKind::Added,
                Some(before) if is_same(before, entry) => return None,
                Some(_) => ChangeKind::Changed,
            };
            is_listed(entry).then(|| change_of(path, change, Some(entry)))
        });
        let is_gone = |path: &String| !later.entries.get(path).is_some_and(is_listed);
        let before = self.entries.iter();
        let removed = before
            .filter(|(path, entry)| is_listed(entry) && is_gone(path))
            .map(|(path, _)| change_of(path, ChangeKind::Removed, None));
        let mut all: Vec<_> = added.chain(removed).collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        ChangeList::from_changes(all)
    }
}

fn change_of(path: &str, change: ChangeKind, entry: Option<&Entry>) -> FileChange {
    let file = match entry {
        Some(Entry::File(file)) => Some(file),
        _ => None,
    };
    FileChange {
        path: path.to_owned(),
        change,
        size: file.map(|file| file.size),
        digest: file.map(|file| file.digest.clone()),
    }
}

fn is_same(one: &Entry, other: &Entry) -> bool {
    match (one, other) {
        (Entry::File(one), Entry::File(other)) => one.digest == other.digest,
        (one, other) => one == other,
    }
}

fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn file_entry(
    dir: &Dir,
    name: &Path,
    metadata: &Metadata,
    known: Option<&FileEntry>,
) -> io::Result<FileEntry> {
    let stamp = Stamp {
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    };
    let size = metadata.len();
    let is_known = |known: &&FileEntry| known.size == size && known.stamp.as_ref() == Some(&stamp);
    if let Some(known) = known.filter(is_known) {
        return Ok(known.clone());
    }
    let began = SystemTime::now();
    let (size, digest) = hashed(&mut dir.open(name)?, |_| Ok(()))?;
    let is_settled = age(&stamp, began).is_some_and(|age| age > RACY);
    Ok(FileEntry {
        size,
        digest,
        stamp: is_settled.then_some(stamp),
    })
}

/// `None` for a time in the future.
fn age(stamp: &Stamp, now: SystemTime) -> Option<Duration> {
    let (seconds, nanos) = stamp.changed;
    let changed = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
    now.duration_since(SystemTime::UNIX_EPOCH + changed).ok()
}

/// Size and digest of what `from` gives; `to` gets each piece.
pub(crate) fn hashed(
    from: &mut impl io::Read,
    mut to: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(u64, String)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut size = 0_u64;
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let piece = buffer.get(..length).unwrap_or_default();
        hasher.update(piece);
        to(piece)?;
        size = size.saturating_add(length as u64);
    }
    let digest = format!("sha256:{}", HEXLOWER.encode(hasher.finalize().as_slice()));
    Ok((size, digest))
}
