use std::sync::Arc;

use toolcell_spec::Refusal;

use super::changes::ChangeList;
use super::lease::Lease;
use super::snapshot::copy_tree;
use super::swap::{self, BEFORE, WORK};
use super::tree::TreeIndex;
use super::{Quota, Workspace};

/// What becomes of the files if the call does not succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They stay as the call left them.
    #[default]
    Keep,
    /// The files of before come back, also if the process of the call is killed.
    RollBack,
}

/// The use of a workspace by one call.
#[derive(Debug)]
pub struct WorkspaceRun {
    workspace: Arc<Workspace>,
    lease: Lease,
    before: TreeIndex,
    room: Quota,
    on_failure: OnFailure,
}

impl WorkspaceRun {
    /// Reads the tree, and copies it if it may have to come back.
    ///
    /// # Errors
    ///
    /// `workspace_unusable` for a tree that cannot be kept, `unknown_workspace` if it was removed meanwhile, and failures of
    /// the file system.
    pub fn begin(
        workspace: Arc<Workspace>,
        lease: Lease,
        on_failure: OnFailure,
    ) -> Result<Self, Refusal> {
        if !lease.is_writer() {
            return Ok(Self {
                workspace,
                lease,
                before: TreeIndex::default(),
                room: Quota { bytes: 0, files: 0 },
                on_failure,
            });
        }
        // What cannot be counted would be no part of the quota.
        let before = workspace.plain_index(&lease)?;
        let room = workspace.room(before.usage)?;
        if on_failure == OnFailure::RollBack {
            workspace
                .keep_before(&before)
                .map_err(|error| workspace.failed(&error))?;
        }
        Ok(Self {
            workspace,
            lease,
            before,
            room,
            on_failure,
        })
    }

    /// What the call may add.
    pub fn room(&self) -> Quota {
        self.room
    }

    /// What the call changed.
    ///
    /// # Errors
    ///
    /// Failures of the file system: the files are as the call left them.
    pub fn end(self, succeeded: bool) -> Result<ChangeList, Refusal> {
        if !self.lease.is_writer() {
            return Ok(ChangeList::default());
        }
        let workspace = &self.workspace;
        if self.on_failure == OnFailure::RollBack {
            let settled = if succeeded {
                workspace.forget_before()
            } else {
                swap::replace_tree(workspace.folder(), &workspace.folder().join(BEFORE))
            };
            settled.map_err(|error| workspace.failed(&error))?;
        }
        let after = workspace.index(&self.lease)?;
        Ok(self.before.changes(&after))
    }
}

impl Workspace {
    /// Complete once it has its name.
    fn keep_before(&self, index: &TreeIndex) -> std::io::Result<()> {
        let draft = self.folder().join(WORK).join(BEFORE);
        toolcell_system::private::create_dir(&draft)?;
        copy_tree(&self.tree(), &draft, index)?;
        std::fs::rename(&draft, self.folder().join(BEFORE))
    }

    fn forget_before(&self) -> std::io::Result<()> {
        let draft = self.folder().join(WORK).join(BEFORE);
        std::fs::rename(self.folder().join(BEFORE), &draft)?;
        swap::remove_all(&draft)
    }
}
