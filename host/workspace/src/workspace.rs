use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use toolcell_spec::{ErrorCode, Refusal, Timestamp};
use toolcell_system::private::{self, OnDisk};

use super::lease::{LOCK, Lease};
use super::snapshot;
use super::swap::{self, TREE};
use super::tree::{TreeIndex, Usage};
use super::{WorkspaceName, failed};

pub(crate) const STATE: &str = "workspace.json";
const INDEX: &str = "index.json";

/// What a workspace may take, its snapshots included.
///
/// ```
/// assert_eq!(toolcell_workspace::Quota::default().bytes, 1 << 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Default: 1 GiB.
    pub bytes: u64,
    /// Files, folders and links; default: 100,000.
    pub files: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            files: 100_000,
        }
    }
}

/// Settings of a new workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceSettings {
    pub quota: Quota,
    /// A workspace that was not used for so long is removed; `None`: never.
    pub time_to_live: Option<Duration>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) created_at: Timestamp,
    pub(crate) quota: Quota,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_seconds: Option<u64>,
}

/// Figures of a workspace.
#[derive(Clone, Debug, Serialize)]
pub struct WorkspaceInfo {
    pub name: WorkspaceName,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    pub quota: Quota,
    /// Of the files.
    pub usage: Usage,
    pub snapshot_count: usize,
    /// Bytes that the contents of the snapshots take.
    pub snapshot_bytes: u64,
}

/// A workspace that exists. It can be removed by others at any time; whoever uses its files holds a [`Lease`].
#[derive(Clone, Debug)]
pub struct Workspace {
    folder: PathBuf,
    name: WorkspaceName,
}

impl Workspace {
    pub(crate) fn at(folder: PathBuf, name: WorkspaceName) -> Self {
        Self { folder, name }
    }

    pub fn name(&self) -> &WorkspaceName {
        &self.name
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that a call is granted. It keeps its path, whatever is restored.
    pub fn tree(&self) -> PathBuf {
        self.folder.join(TREE)
    }

    pub(crate) fn unknown(&self) -> Refusal {
        unknown(&self.name)
    }

    pub(crate) fn failed(&self, error: &io::Error) -> Refusal {
        if error.kind() == io::ErrorKind::NotFound && !self.folder.exists() {
            return self.unknown();
        }
        failed(&self.folder, error)
    }

    pub(crate) fn state(&self) -> Result<State, Refusal> {
        let path = self.folder.join(STATE);
        let text = std::fs::read(&path).map_err(|error| self.failed(&error))?;
        serde_json::from_slice(&text).map_err(|error| failed(&path, &error.into()))
    }

    /// When its files were last used: users set the time of the file that they lock.
    pub(crate) fn used_at(&self) -> io::Result<SystemTime> {
        std::fs::metadata(self.folder.join(LOCK))?.modified()
    }

    /// # Errors
    ///
    /// `unknown_workspace` if it was removed meanwhile, and failures of the file system.
    pub fn info(&self, lease: &Lease) -> Result<WorkspaceInfo, Refusal> {
        let state = self.state()?;
        let usage = self.index(lease)?.usage;
        let used_at = self.used_at().map_err(|error| self.failed(&error))?;
        let kept = snapshot::kept(self).map_err(|error| self.failed(&error))?;
        Ok(WorkspaceInfo {
            name: self.name.clone(),
            created_at: state.created_at,
            used_at: used_at.into(),
            ttl_seconds: state.ttl_seconds,
            quota: state.quota,
            usage,
            snapshot_count: kept.count,
            snapshot_bytes: kept.bytes,
        })
    }

    /// Bytes and files that can still be added.
    pub(crate) fn room(&self, used: Usage) -> Result<Quota, Refusal> {
        let quota = self.state()?.quota;
        let kept = snapshot::kept(self).map_err(|error| self.failed(&error))?;
        let bytes = used.bytes.saturating_add(kept.bytes);
        Ok(Quota {
            bytes: quota.bytes.saturating_sub(bytes),
            files: quota.files.saturating_sub(used.files),
        })
    }

    /// The refusal for more than the quota.
    pub(crate) fn full(&self) -> Refusal {
        let quota = self.state().map(|state| state.quota).unwrap_or_default();
        let message = format!(
            "the workspace {} may take {} bytes and {} files, its snapshots included; remove files or snapshots first",
            self.name, quota.bytes, quota.files
        );
        Refusal::new(ErrorCode::WorkspaceFull, message)
    }

    /// The files as they are; remembered for the next time if nobody changes them meanwhile.
    pub(crate) fn index(&self, lease: &Lease) -> Result<TreeIndex, Refusal> {
        let path = self.folder.join(INDEX);
        // It is derived: one that cannot be read is made again.
        let known: TreeIndex = std::fs::read(&path)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let read = swap::open_dir(&self.tree()).and_then(|tree| TreeIndex::read(&tree, &known));
        let index = read.map_err(|error| self.failed(&error))?;
        if lease.is_writer() && index != known {
            let text = serde_json::to_vec(&index).map_err(|error| failed(&path, &error.into()))?;
            private::write_atomically(&path, &[&text], OnDisk::Later)
                .map_err(|error| failed(&path, &error))?;
        }
        Ok(index)
    }

    /// As [`Self::index`], of a tree all of whose entries can be kept.
    pub(crate) fn plain_index(&self, lease: &Lease) -> Result<TreeIndex, Refusal> {
        let index = self.index(lease)?;
        match &index.odd {
            None => Ok(index),
            Some(odd) => {
                let message = format!(
                    "the workspace {} has an entry that cannot be kept: {odd}; remove it, or restore a snapshot",
                    self.name
                );
                Err(Refusal::new(ErrorCode::WorkspaceUnusable, message))
            }
        }
    }
}

pub(crate) fn unknown(name: &WorkspaceName) -> Refusal {
    let message = format!(
        "there is no workspace {name}; `toolcell workspace list` shows those that there are"
    );
    Refusal::new(ErrorCode::UnknownWorkspace, message)
}
