use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde_json::json;
use tempfile::TempDir;
use toolcell_spec::{ErrorCode, Refusal, Timestamp};
use toolcell_system::private::{self, OnDisk};

use super::lease::{Access, LOCK, locked};
use super::snapshot::copy_tree;
use super::swap::{self, TREE};
use super::workspace::{STATE, State, unknown};
use super::{Workspace, WorkspaceName, WorkspaceOwner, WorkspaceSettings, failed};

/// A folder with a draft's lock is in use.
const DRAFT_LOCK: &str = "draft";
/// No workspace has a name that begins so.
const DRAFT_PREFIX: &str = ".draft-";
/// Another process may remove a draft before it is locked.
const ATTEMPTS: usize = 8;
/// For a workspace that is removed or copied while a call uses it.
const PATIENCE: Duration = Duration::from_secs(30);

/// All workspaces of a home.
///
/// ```
/// use toolcell_workspace::{WorkspaceName, WorkspaceOwner, WorkspaceSettings, Workspaces};
///
/// # let home = tempfile::tempdir()?;
/// let workspaces = Workspaces::new(home.path().join("workspaces"));
/// let (owner, name): (_, WorkspaceName) = (WorkspaceOwner::user(), "report".parse()?);
/// workspaces.open_or_create(&owner, &name, &WorkspaceSettings::default())?;
/// assert_eq!(workspaces.list(&owner)?.len(), 1);
/// assert!(workspaces.list(&WorkspaceOwner::principal("other"))?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Workspaces {
    root: PathBuf,
}

impl Workspaces {
    /// `root` is created when it is needed.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Canonical, because a grant follows no link.
    fn folder(&self, owner: &WorkspaceOwner) -> PathBuf {
        let root = self.root.canonicalize();
        root.as_ref().unwrap_or(&self.root).join(owner.folder())
    }

    /// Sorted by name, without those whose time is over.
    ///
    /// # Errors
    ///
    /// Failures of the file system.
    pub fn list(&self, owner: &WorkspaceOwner) -> Result<Vec<Workspace>, Refusal> {
        let folder = self.folder(owner);
        let mut found = listed(&folder).map_err(|error| failed(&folder, &error))?;
        found.retain(|workspace| !self.remove_expired(workspace));
        found.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(found)
    }

    /// # Errors
    ///
    /// `unknown_workspace` if `owner` has none of this name.
    pub fn open(&self, owner: &WorkspaceOwner, name: &WorkspaceName) -> Result<Workspace, Refusal> {
        let workspace = Workspace::at(self.folder(owner).join(name.as_str()), name.clone());
        if !workspace.folder().join(STATE).exists() || self.remove_expired(&workspace) {
            return Err(unknown(name));
        }
        Ok(workspace)
    }

    /// A new workspace gets `settings`; one that exists keeps its own.
    ///
    /// # Errors
    ///
    /// Failures of the file system.
    pub fn open_or_create(
        &self,
        owner: &WorkspaceOwner,
        name: &WorkspaceName,
        settings: &WorkspaceSettings,
    ) -> Result<Workspace, Refusal> {
        match self.open(owner, name) {
            Err(refusal) if refusal.code == ErrorCode::UnknownWorkspace => {}
            opened => return opened,
        }
        match self.create(owner, name, settings) {
            // Another process was faster.
            Err(refusal) if refusal.code == ErrorCode::WorkspaceExists => self.open(owner, name),
            created => created,
        }
    }

    /// # Errors
    ///
    /// `workspace_exists`, and failures of the file system.
    pub fn create(
        &self,
        owner: &WorkspaceOwner,
        name: &WorkspaceName,
        settings: &WorkspaceSettings,
    ) -> Result<Workspace, Refusal> {
        let state = State {
            created_at: Timestamp::now(),
            quota: settings.quota,
            ttl_seconds: settings.time_to_live.map(|time| time.as_secs()),
        };
        self.place(owner, name, &state, |_| Ok(()))
    }

    /// Makes `to` a workspace with the files and settings of `from`, without its snapshots.
    ///
    /// # Errors
    ///
    /// `unknown_workspace`, `workspace_exists`, `workspace_busy`, and failures of the file system.
    pub fn fork(
        &self,
        owner: &WorkspaceOwner,
        from: &WorkspaceName,
        to: &WorkspaceName,
    ) -> Result<Workspace, Refusal> {
        let source = self.open(owner, from)?;
        let lease = source.lock(Access::Read, PATIENCE)?;
        let index = source.plain_index(&lease)?;
        let state = State {
            created_at: Timestamp::now(),
            ..source.state()?
        };
        self.place(owner, to, &state, |tree| {
            copy_tree(&source.tree(), tree, &index).map_err(|error| source.failed(&error))
        })
    }

    /// Removes a workspace with its snapshots.
    ///
    /// # Errors
    ///
    /// `unknown_workspace`, `workspace_busy`, and failures of the file system.
    pub fn remove(&self, owner: &WorkspaceOwner, name: &WorkspaceName) -> Result<(), Refusal> {
        let workspace = self.open(owner, name)?;
        let _lease = workspace.lock(Access::Write, PATIENCE)?;
        discard(&workspace).map_err(|error| workspace.failed(&error))
    }

    /// Removes all workspaces of an owner that nobody uses.
    pub fn remove_all(&self, owner: &WorkspaceOwner) {
        let folder = self.folder(owner);
        for workspace in listed(&folder).unwrap_or_default() {
            let lock = locked(&workspace.folder().join(LOCK), Access::Write);
            if matches!(lock, Ok(Some(_))) {
                let _ = discard(&workspace);
            }
        }
        let _ = fs::remove_dir(&folder);
    }

    /// Returns whether the owner has, or had, any.
    pub fn has_any(&self, owner: &WorkspaceOwner) -> bool {
        self.folder(owner).exists()
    }

    /// Removes the workspaces of all owners whose time is over. One that cannot be removed is left.
    pub fn sweep(&self) {
        let owners = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for owner in owners.map(|entry| entry.path()) {
            for workspace in listed(&owner).unwrap_or_default() {
                self.remove_expired(&workspace);
            }
            // Only an empty one is removed.
            let _ = fs::remove_dir(&owner);
        }
    }

    /// Makes the folder in a draft, and gives it its name once it is complete.
    fn place(
        &self,
        owner: &WorkspaceOwner,
        name: &WorkspaceName,
        state: &State,
        fill: impl FnOnce(&Path) -> Result<(), Refusal>,
    ) -> Result<Workspace, Refusal> {
        private::create_dir(&self.root).map_err(|error| failed(&self.root, &error))?;
        let parent = self.folder(owner);
        let failed = |error: io::Error| failed(&parent, &error);
        private::create_dir(&parent).map_err(failed)?;
        remove_abandoned(&parent);
        let draft = Draft::make(&parent).map_err(failed)?;
        let folder = draft.folder.path();
        let tree = folder.join(TREE);
        private::create_dir(&tree).map_err(failed)?;
        fill(&tree)?;
        private::create_missing(&folder.join(LOCK)).map_err(failed)?;
        let text = json!(state).to_string();
        private::write_atomically(&folder.join(STATE), &[text.as_bytes()], OnDisk::Name)
            .map_err(failed)?;
        let place = parent.join(name.as_str());
        match draft.name(&place) {
            Ok(()) => Ok(Workspace::at(place, name.clone())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let message = format!("there is a workspace {name} already; choose another name");
                Err(Refusal::new(ErrorCode::WorkspaceExists, message))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns whether the workspace is gone because its time is over.
    fn remove_expired(&self, workspace: &Workspace) -> bool {
        let is_over = || {
            let lived = workspace.state().ok()?.ttl_seconds?;
            let unused = SystemTime::now().duration_since(workspace.used_at().ok()?);
            Some(unused.ok()? > Duration::from_secs(lived))
        };
        if !is_over().unwrap_or(false) {
            return false;
        }
        // One that is in use is not over.
        let Ok(Some(_lock)) = locked(&workspace.folder().join(LOCK), Access::Write) else {
            return false;
        };
        is_over().unwrap_or(false) && discard(workspace).is_ok()
    }
}

fn listed(folder: &Path) -> io::Result<Vec<Workspace>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<WorkspaceName>().ok());
    Ok(names
        .map(|name| Workspace::at(folder.join(name.as_str()), name))
        .collect())
}

/// From its name away in one step, then deleted.
fn discard(workspace: &Workspace) -> io::Result<()> {
    let parent = workspace
        .folder()
        .parent()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let draft = Draft::make(parent)?;
    match fs::rename(workspace.folder(), draft.folder.path().join("removed")) {
        // It came with the image of a container, whose folders cannot be renamed.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::remove_dir_all(workspace.folder())
        }
        renamed => renamed,
    }
}

/// A folder without a name of a workspace. Removed on drop, or by the next process if its own was killed.
struct Draft {
    folder: TempDir,
    _lock: File,
}

impl Draft {
    fn make(parent: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let folder = tempfile::Builder::new()
                .prefix(DRAFT_PREFIX)
                .tempdir_in(parent)?;
            // Until it is locked, another process takes it for abandoned.
            let Ok(lock) = private::open_or_create(&folder.path().join(DRAFT_LOCK)) else {
                continue;
            };
            if lock.try_lock().is_ok() && folder.path().is_dir() {
                return Ok(Self {
                    folder,
                    _lock: lock,
                });
            }
        }
        Err(io::Error::other("other processes keep removing the draft"))
    }

    fn name(self, place: &Path) -> io::Result<()> {
        let folder = self.folder.path();
        match renameat_with(CWD, folder, CWD, place, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                // A folder replaces only an empty one, and no workspace is empty.
                fs::rename(folder, place).map_err(|error| match error.kind() {
                    io::ErrorKind::DirectoryNotEmpty => io::ErrorKind::AlreadyExists.into(),
                    _ => error,
                })?;
            }
            Err(error) => return Err(error.into()),
        }
        let _ = self.folder.keep();
        // Not before: without its lock, a draft is taken for abandoned.
        let _ = fs::remove_file(place.join(DRAFT_LOCK));
        Ok(())
    }
}

/// `true` if the process that made a draft without a lock had the time to lock it.
fn is_old(draft: &Path) -> bool {
    let modified = draft.symlink_metadata().and_then(|found| found.modified());
    let age = modified.ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age > Duration::from_secs(60))
}

/// A draft that cannot be removed is left to the next process.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    let drafts = entries.flatten().filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with(DRAFT_PREFIX)
    });
    for draft in drafts.map(|entry| entry.path()) {
        // Held until the draft is gone, so that who makes it at this moment takes another one.
        let lock = File::open(draft.join(DRAFT_LOCK));
        let is_abandoned = match &lock {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => is_old(&draft),
        };
        if is_abandoned {
            let _ = swap::remove_all(&draft);
        }
    }
}
