use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, OpenOptions};
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolcell_spec::{ErrorCode, Refusal, Timestamp};
use toolcell_system::private::{self, OnDisk};

use super::changes::ChangeList;
use super::lease::Lease;
use super::swap::{self, WORK};
use super::tree::{Entry, TreeIndex, Usage, hashed};
use super::{SnapshotId, Workspace, failed};

const SNAPSHOTS: &str = "snapshots";
const OBJECTS: &str = "objects";
const SNAPSHOTS_MAX: usize = 1_000;

#[derive(Debug, Serialize, Deserialize)]
struct Snapshot {
    created_at: Timestamp,
    files: TreeIndex,
}

/// Figures of a snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotInfo {
    pub id: SnapshotId,
    pub created_at: Timestamp,
    pub usage: Usage,
}

/// What the snapshots of a workspace take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptSnapshots {
    pub(crate) count: usize,
    pub(crate) bytes: u64,
}

impl Workspace {
    /// Keeps the files as they are now. Without `id`, the snapshot is named `s1`, `s2` and so on.
    ///
    /// # Errors
    ///
    /// `workspace_exists` for an `id` that is taken, `workspace_full`, `workspace_unusable`, and failures of the file system.
    pub fn snapshot(&self, lease: &Lease, id: Option<SnapshotId>) -> Result<SnapshotInfo, Refusal> {
        let index = self.plain_index(lease)?;
        let id = self.free_id(id)?;
        self.keep_objects(&index)?;
        let snapshot = Snapshot {
            created_at: Timestamp::now(),
            files: index,
        };
        let text = json!(snapshot).to_string();
        let path = self.snapshot_path(&id);
        let written = private::create_dir(&self.folder().join(SNAPSHOTS))
            .and_then(|()| private::create_atomically(&path, &[text.as_bytes()], OnDisk::Name));
        written.map_err(|error| failed(&path, &error))?;
        Ok(info(id, &snapshot))
    }

    fn free_id(&self, id: Option<SnapshotId>) -> Result<SnapshotId, Refusal> {
        let taken = self.snapshot_ids()?;
        if taken.len() >= SNAPSHOTS_MAX {
            let message = format!(
                "the workspace {} has {SNAPSHOTS_MAX} snapshots; remove some first",
                self.name()
            );
            return Err(Refusal::new(ErrorCode::WorkspaceFull, message));
        }
        match id {
            Some(id) if taken.contains(&id) => {
                let message = format!("there is a snapshot {id} already; choose another name");
                Err(Refusal::new(ErrorCode::WorkspaceExists, message))
            }
            Some(id) => Ok(id),
            None => {
                let numbers = taken
                    .iter()
                    .filter_map(|id| id.as_str().strip_prefix('s')?.parse::<u64>().ok());
                format!("s{}", numbers.max().unwrap_or(0).saturating_add(1)).parse()
            }
        }
    }

    /// Stores the contents that no snapshot has yet.
    fn keep_objects(&self, index: &TreeIndex) -> Result<(), Refusal> {
        let objects = self.folder().join(OBJECTS);
        let failed = |error: io::Error| self.failed(&error);
        private::create_dir(&objects).map_err(failed)?;
        let is_new = |digest: &str| !object(&objects, digest).exists();
        let new: BTreeMap<&str, (&String, u64)> = index
            .files()
            .filter(|(_, file)| is_new(&file.digest))
            .map(|(path, file)| (file.digest.as_str(), (path, file.size)))
            .collect();
        let bytes = new
            .values()
            .map(|(_, size)| *size)
            .fold(0, u64::saturating_add);
        if bytes > self.room(index.usage)?.bytes {
            return Err(self.full());
        }
        let tree = swap::open_dir(&self.tree()).map_err(failed)?;
        let draft = self.folder().join(WORK).join("object");
        for (digest, (path, _)) in new {
            let stored = tree
                .open(path)
                .and_then(|from| copy_file(from, &mut fs::File::create(&draft)?))
                .and_then(|()| fs::rename(&draft, object(&objects, digest)));
            stored.map_err(failed)?;
        }
        sync(&objects).map_err(failed)
    }

    fn snapshot_path(&self, id: &SnapshotId) -> PathBuf {
        self.folder().join(SNAPSHOTS).join(format!("{id}.json"))
    }

    fn snapshot_ids(&self) -> Result<Vec<SnapshotId>, Refusal> {
        let ids = ids(&self.folder().join(SNAPSHOTS));
        ids.map_err(|error| self.failed(&error))
    }

    /// The oldest first.
    ///
    /// # Errors
    ///
    /// Failures of the file system.
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>, Refusal> {
        let mut found = Vec::new();
        for id in self.snapshot_ids()? {
            let snapshot = self.read_snapshot(&id)?;
            found.push(info(id, &snapshot));
        }
        found.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(found)
    }

    fn read_snapshot(&self, id: &SnapshotId) -> Result<Snapshot, Refusal> {
        let path = self.snapshot_path(id);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("the workspace {} has no snapshot {id}", self.name());
                return Err(Refusal::new(ErrorCode::UnknownSnapshot, message));
            }
            Err(error) => return Err(failed(&path, &error)),
        };
        serde_json::from_slice(&text).map_err(|error| failed(&path, &error.into()))
    }

    /// What changed since the snapshot `from`, until the snapshot `to` or now.
    ///
    /// # Errors
    ///
    /// `unknown_snapshot`, and failures of the file system.
    pub fn diff(
        &self,
        lease: &Lease,
        from: &SnapshotId,
        to: Option<&SnapshotId>,
    ) -> Result<ChangeList, Refusal> {
        let before = self.read_snapshot(from)?.files;
        let after = match to {
            Some(to) => self.read_snapshot(to)?.files,
            None => self.index(lease)?,
        };
        Ok(before.changes(&after))
    }

    /// Puts the files of the snapshot `id` in place of the present ones, in one step. Returns what changed.
    ///
    /// # Errors
    ///
    /// `unknown_snapshot`, `workspace_unusable` for a damaged snapshot, and failures of the file system: the files are as
    /// they were.
    pub fn restore(&self, lease: &Lease, id: &SnapshotId) -> Result<ChangeList, Refusal> {
        let files = self.read_snapshot(id)?.files;
        let before = self.index(lease)?;
        let draft = self.folder().join(WORK).join("next");
        let failed = |error: io::Error| self.failed(&error);
        swap::remove_all(&draft)
            .and_then(|()| private::create_dir(&draft))
            .map_err(failed)?;
        let objects = swap::open_dir(&self.folder().join(OBJECTS)).map_err(failed)?;
        let restored = make_tree(&draft, &files, |file, to| {
            let mut from = objects.open(object_name(&file.digest))?;
            let (_, digest) = hashed(&mut from, |piece| io::Write::write_all(to, piece))?;
            if digest == file.digest {
                Ok(())
            } else {
                Err(io::Error::other(
                    "the content of a file in the snapshot is damaged",
                ))
            }
        });
        restored
            .and_then(|()| sync(&draft))
            .and_then(|()| swap::replace_tree(self.folder(), &draft))
            .map_err(failed)?;
        let after = self.index(lease)?;
        Ok(before.changes(&after))
    }

    /// # Errors
    ///
    /// `unknown_snapshot`, and failures of the file system.
    pub fn remove_snapshot(&self, _lease: &Lease, id: &SnapshotId) -> Result<(), Refusal> {
        self.read_snapshot(id)?;
        let path = self.snapshot_path(id);
        fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
        let mut used = BTreeSet::new();
        for id in self.snapshot_ids()? {
            let snapshot = self.read_snapshot(&id)?;
            let digests = snapshot.files.files().map(|(_, file)| file.digest.as_str());
            used.extend(digests.map(|digest| object_name(digest).to_owned()));
        }
        let objects = self.folder().join(OBJECTS);
        let entries = fs::read_dir(&objects).map_err(|error| self.failed(&error))?;
        for entry in entries.flatten() {
            let is_used = entry
                .file_name()
                .to_str()
                .is_some_and(|name| used.contains(name));
            if !is_used {
                fs::remove_file(entry.path()).map_err(|error| self.failed(&error))?;
            }
        }
        Ok(())
    }
}

fn info(id: SnapshotId, snapshot: &Snapshot) -> SnapshotInfo {
    SnapshotInfo {
        id,
        created_at: snapshot.created_at,
        usage: snapshot.files.usage,
    }
}

fn ids(snapshots: &Path) -> io::Result<Vec<SnapshotId>> {
    let entries = match fs::read_dir(snapshots) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    Ok(names
        .filter_map(|name| name.to_str()?.strip_suffix(".json")?.parse().ok())
        .collect())
}

pub(crate) fn kept(workspace: &Workspace) -> io::Result<KeptSnapshots> {
    let count = ids(&workspace.folder().join(SNAPSHOTS))?.len();
    let mut bytes = 0_u64;
    match fs::read_dir(workspace.folder().join(OBJECTS)) {
        Ok(entries) => {
            for entry in entries {
                bytes = bytes.saturating_add(entry?.metadata()?.len());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(KeptSnapshots { count, bytes })
}

fn object(objects: &Path, digest: &str) -> PathBuf {
    objects.join(object_name(digest))
}

fn object_name(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

/// Copies the files of `index` from the folder `from` to the empty folder `to`.
pub(crate) fn copy_tree(from: &Path, to: &Path, index: &TreeIndex) -> io::Result<()> {
    let from = swap::open_dir(from)?;
    let mut paths = index.files().map(|(path, _)| path);
    make_tree(to, index, |_, target| {
        let path = paths.next().ok_or(io::ErrorKind::NotFound)?;
        copy_file(from.open(path)?, target)
    })
}

/// Makes the entries of `index` in the empty folder `to`; `fill` writes each file, in their order.
pub(crate) fn make_tree(
    to: &Path,
    index: &TreeIndex,
    mut fill: impl FnMut(&super::tree::FileEntry, &mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let to = swap::open_dir(to)?;
    // A folder comes before what it contains.
    for (path, entry) in &index.entries {
        match entry {
            Entry::Folder => to.create_dir(path)?,
            Entry::Link(target) => to.symlink_contents(target, path)?,
            Entry::File(file) => fill(file, &mut create(&to, path)?.into_std())?,
        }
    }
    Ok(())
}

pub(crate) fn create(folder: &Dir, path: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    folder.open_with(path, &options)
}

/// Shares the blocks of the file where the file system can.
fn copy_file(from: File, to: &mut fs::File) -> io::Result<()> {
    let mut from = from.into_std();
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(&*to, &from).is_ok() {
        return Ok(());
    }
    io::copy(&mut from, to).map(|_| ())
}

/// Before a draft gets its place, its contents are on the disk.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    let folder = fs::File::open(folder)?;
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(&folder)?;
    folder.sync_all()
}
