//! The files of a gateway's workspace, at a worker for one call.

use std::sync::Arc;
use std::time::Duration;

use toolcell::{CallWorkspace, Home};
use toolcell_cluster::{Cluster, WorkspaceRef, digest};
use toolcell_engine::pipeline::call_workspace;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::pool::GUEST_FILES;
use toolcell_workspace::{
    Access, OnFailure, Quota, Workspace, WorkspaceName, WorkspaceOwner, WorkspaceSettings,
    Workspaces,
};
use ulid::Ulid;

/// Those that a killed worker left are removed by the next sweep of workspaces.
const LEFT: Duration = Duration::from_secs(60 * 60);

/// Removed when it is dropped.
pub(super) struct FetchedFiles {
    all: Workspaces,
    owner: WorkspaceOwner,
    workspace: Arc<Workspace>,
    /// Digest of the archive that came.
    before: String,
}

impl FetchedFiles {
    pub(super) async fn fetch(
        cluster: &Cluster,
        home: &Home,
        (sent, most): (&WorkspaceRef, Quota),
    ) -> Result<Self, Refusal> {
        let archive = cluster.object(&sent.archive).await;
        let archive = archive.map_err(super::unanswered)?;
        let name: WorkspaceName = sent.name.parse().map_err(|_| {
            Refusal::new(
                ErrorCode::ClusterWorkspace,
                "the name of the workspace is none",
            )
        })?;
        let (bytes, files) = sent.quota;
        let settings = WorkspaceSettings {
            quota: Quota {
                bytes: bytes.min(most.bytes),
                files: files.min(most.files),
            },
            time_to_live: Some(LEFT),
        };
        let all = Workspaces::new(home.workspaces());
        let before = sent.archive.clone();
        on_files(move || {
            let owner = WorkspaceOwner::session(&format!("cluster:{}", Ulid::generate()));
            let workspace = Arc::new(all.open_or_create(&owner, &name, &settings)?);
            let fetched = Self {
                all,
                owner,
                workspace,
                before,
            };
            let lease = fetched.workspace.lock(Access::Write, Duration::ZERO)?;
            let mut archive = archive.as_slice();
            fetched.workspace.replace_by_archive(&lease, &mut archive)?;
            Ok(fetched)
        })
        .await
    }

    /// The gateway decides what becomes of the files if the call fails.
    pub(super) fn given(&self) -> CallWorkspace {
        call_workspace(Arc::clone(&self.workspace), OnFailure::Keep)
    }

    /// The archive of the files, if the call changed them.
    pub(super) async fn changed(self) -> Result<Option<Vec<u8>>, Refusal> {
        on_files(move || {
            let lease = self.workspace.lock(Access::Read, LEFT)?;
            let mut archive = Vec::new();
            self.workspace.write_archive(&lease, &mut archive)?;
            Ok((digest(&archive) != self.before).then_some(archive))
        })
        .await
    }
}

impl Drop for FetchedFiles {
    fn drop(&mut self) {
        let all = self.all.clone();
        let owner = self.owner.clone();
        // Many files may take long; the end of the process removes them later.
        std::thread::spawn(move || all.remove_all(&owner));
    }
}

async fn on_files<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = GUEST_FILES.run(work).await;
    done.unwrap_or_else(|error| Err(Refusal::host_fault(error.to_string())))
}
