//! Files of workspaces as resources of MCP.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, ReadResourceResponse, ReadResourceResult, Resource};
use rmcp::service::RequestContext;
use serde_json::json;
use toolcell::CallWorkspace;
use toolcell_dialect::mcp::{self, WorkspaceFile};
use toolcell_spec::{ErrorCode, Refusal, ResultProvenance, Trust, Writer};
use toolcell_system::pool::{GUEST_FILES, UnfinishedJob};
use toolcell_workspace::{Access, WorkspaceOwner};

use super::results;
use super::session::{ClientSession, PAYLOAD_BYTES_MAX};
use super::workspaces::{self, WorkspaceService};

const PART_BYTES_MAX: u64 = 8 << 20;
/// While a call changes the files.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

impl ClientSession {
    /// `None` if calls have no workspace.
    pub(super) fn workspaces(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Option<(Arc<WorkspaceService>, WorkspaceOwner)> {
        let service = self.offering().workspaces.clone()?;
        let owner = service.owner(&self.identity.owner, self.session_of(context).as_deref());
        Some((service, owner))
    }

    /// The workspace of a call with this context.
    pub(super) async fn workspace(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<CallWorkspace>, Refusal> {
        let Some((service, owner)) = self.workspaces(context) else {
            return match workspaces::named(context) {
                None => Ok(None),
                Some(_) => Err(not_given()),
            };
        };
        let named = workspaces::named(context).map(str::to_owned);
        let open = move || {
            let workspace = service.for_call(&owner, named.as_deref())?;
            Ok(service.given(workspace))
        };
        let opened = GUEST_FILES.run(open).await;
        let opened = opened.map_err(|error| Refusal::host_fault(error.to_string()))?;
        opened.map(Some)
    }

    /// The files of the client's workspace, if there is one.
    pub(super) async fn workspace_links(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Vec<Resource> {
        let Some((service, owner)) = self.workspaces(context) else {
            return Vec::new();
        };
        let Some(Ok(workspace)) = GUEST_FILES
            .run(move || service.open(&owner, None))
            .await
            .ok()
        else {
            return Vec::new();
        };
        let workspace = Arc::new(workspace);
        let Ok(lease) = Arc::clone(&workspace).lease(Access::Read, PATIENCE).await else {
            return Vec::new();
        };
        let list = move || {
            let files = workspace.files(&lease).ok()?;
            let links = files.into_iter().map(|file| {
                let named = WorkspaceFile {
                    workspace: workspace.name().to_string(),
                    path: file.path,
                };
                named.link(Some(file.size))
            });
            Some(links.collect::<Vec<_>>())
        };
        GUEST_FILES
            .run(list)
            .await
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// A client that asks for all of a large file gets its first part, which says where the next one is.
    pub(super) async fn read_workspace_file(
        &self,
        (uri, named): (&str, WorkspaceFile),
        from: Option<u64>,
        context: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unreadable = |refusal: Refusal| {
            let data = json!({ "uri": uri, "state": refusal.code });
            ErrorData::resource_not_found(refusal.message, Some(data))
        };
        let Some((service, owner)) = self.workspaces(context) else {
            return Err(unreadable(not_given()));
        };
        let path = named.path.clone();
        let workspace = named.workspace.clone();
        let busy = |error: UnfinishedJob| ErrorData::internal_error(error.to_string(), None);
        let find = move || service.open(&owner, Some(&workspace));
        let found = GUEST_FILES.run(find).await.map_err(busy)?;
        let workspace = Arc::new(found.map_err(unreadable)?);
        let lease = Arc::clone(&workspace).lease(Access::Read, PATIENCE);
        let lease = lease.await.map_err(unreadable)?;
        let opened = GUEST_FILES
            .run(move || workspace.open_file(&lease, &path))
            .await;
        let (mut file, size) = opened.map_err(busy)?.map_err(unreadable)?;
        let from = from.or_else(|| (size > PAYLOAD_BYTES_MAX).then_some(0));
        let count = match from {
            None => size,
            Some(from) => size.saturating_sub(from).min(PART_BYTES_MAX),
        };
        results::reserve(context, usize::try_from(count).unwrap_or(usize::MAX)).await?;
        let read = move || {
            file.seek(SeekFrom::Start(from.unwrap_or(0)))?;
            let mut bytes = Vec::new();
            file.take(count).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let read = GUEST_FILES.run(read).await;
        let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error.to_string())));
        let bytes = read.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let link = named.link(Some(size));
        let contents = match from {
            None => mcp::payload(&link, bytes, &provenance()),
            Some(from) => mcp::payload_part(&link, from, bytes, &provenance()),
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// A tool wrote it, or whoever uploaded it.
fn provenance() -> ResultProvenance {
    ResultProvenance {
        trust: Trust::Untrusted,
        written_by: Writer::Tool,
        tool_id: None,
        component: None,
        hooks: Vec::new(),
    }
}

pub(super) fn not_given() -> Refusal {
    let message = "calls of this server have no workspace: its operator sets `per` of [workspace], or --workspace";
    Refusal::new(ErrorCode::UnknownWorkspace, message)
}
