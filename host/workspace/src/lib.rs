//! Workspaces: named trees of files that the host keeps between calls, each for one owner.
//!
//! A workspace is a folder of toolcell's home:
//!
//! ```text
//! workspaces/<owner>/<name>/
//!   workspace.json   quota, time to live, when it was used
//!   lock             shared by readers, exclusive for a writer, across processes
//!   tree/            the files; granted to guests as /workspace
//!   before/          the tree of before a call that can be rolled back, while it runs
//!   objects/         contents of snapshots, by digest
//!   snapshots/       a list of files for each snapshot
//!   index.json       digests of the files in the tree, so that unchanged files are not read again
//!   uploads/         files that arrive in parts
//!   work/            drafts, removed by the next writer
//! ```
//!
//! A change of more than one file is made in a draft beside the tree, and put into its place in one step: a process that
//! is killed leaves one of the two states. Guests may put links into the tree, so the host reaches the files only through
//! `cap_std::fs::Dir`, which no link leaves.

mod archive;
mod changes;
mod files;
mod lease;
mod name;
mod run;
mod snapshot;
mod store;
mod swap;
mod tree;
mod upload;
mod workspace;

pub use archive::ARCHIVE_ENTRIES_MAX;
pub use changes::{ChangeKind, ChangeList, FileChange};
pub use files::FileInfo;
pub use lease::{Access, Lease};
pub use name::{SnapshotId, WorkspaceName, WorkspaceOwner};
pub use run::{OnFailure, WorkspaceRun};
pub use snapshot::SnapshotInfo;
pub use store::Workspaces;
pub use tree::Usage;
pub use upload::UploadProgress;
pub use workspace::{Quota, Workspace, WorkspaceInfo, WorkspaceSettings};

use std::io;
use std::path::Path;

use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::private;

/// Guest path of the workspace of a call.
pub const GUEST_PATH: &str = "/workspace";

/// The refusal for a failure of the file system below `path`.
fn failed(path: &Path, error: &io::Error) -> Refusal {
    private::unwritable(path, error).unwrap_or_else(|| {
        let message = format!("the files of the workspace cannot be used: {error}");
        Refusal::new(ErrorCode::WorkspaceUnusable, message)
            .detail(format!("{}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests;
