//! `/v1/workspaces`: the files that the caller keeps between calls.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, LOCATION, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json as value;
use toolcell::CallWorkspace;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::pool::GUEST_FILES;
use toolcell_workspace::{
    Access, FileInfo, Lease, SnapshotId, SnapshotInfo, UploadProgress, Workspace, WorkspaceInfo,
    WorkspaceName, WorkspaceOwner,
};
use utoipa::ToSchema;

use crate::http::problem::Problem;
use crate::workspace_files::{PATIENCE, not_given};
use crate::workspaces::WorkspaceService;

use super::answer::{CallerRequest, PathParams, QueryParams, json, read, unreadable};
use super::artifacts::{WantedBytes, wanted};
use super::body_sender::{BodySender, feed};
use super::{ApiCaller, ApiState};

/// Of a call: the name of its workspace.
pub(super) const WORKSPACE: &str = "toolcell-workspace";
const PIECE_BYTES: u64 = 256 << 10;
/// In one answer, which is in memory as a whole.
const FILES_MAX: usize = 10_000;

type ApiAnswer = Result<Response<Body>, Problem>;

impl ApiState {
    pub(super) fn workspaces(
        &self,
        caller: &ApiCaller,
    ) -> Result<(Arc<WorkspaceService>, WorkspaceOwner), Refusal> {
        let service = caller.offering(&self.server).workspaces.clone();
        let service = service.ok_or_else(not_given)?;
        let owner = service.owner(caller.name(), None);
        Ok((service, owner))
    }

    /// The workspace of a call that a request with `headers` makes.
    pub(super) async fn workspace(
        &self,
        caller: &ApiCaller,
        headers: &HeaderMap,
    ) -> Result<Option<CallWorkspace>, Refusal> {
        let named = headers
            .get(WORKSPACE)
            .map(|name| name.to_str().unwrap_or("?"));
        let (service, owner) = match (self.workspaces(caller), named) {
            (Ok(found), _) => found,
            (Err(_), None) => return Ok(None),
            (Err(refusal), Some(_)) => return Err(refusal),
        };
        let named = named.map(str::to_owned);
        let opened = blocking(move || {
            let workspace = service.for_call(&owner, named.as_deref())?;
            Ok(service.given(workspace))
        });
        opened.await.map(Some)
    }

    /// Does `work` with an existing workspace of the caller.
    async fn within<T: Send + 'static>(
        &self,
        caller: &ApiCaller,
        name: String,
        access: Access,
        work: impl FnOnce(&Workspace, Lease) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Problem> {
        let (service, owner) = self.workspaces(caller)?;
        let opened = blocking(move || service.open(&owner, Some(&name))).await?;
        Ok(leased(Arc::new(opened), access, work).await?)
    }

    /// As [`Self::within`]; makes the workspace if there is none.
    async fn made<T: Send + 'static>(
        &self,
        caller: &ApiCaller,
        name: String,
        access: Access,
        work: impl FnOnce(&Workspace, Lease) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Problem> {
        let (service, owner) = self.workspaces(caller)?;
        let made = blocking(move || service.for_call(&owner, Some(&name))).await?;
        Ok(leased(made, access, work).await?)
    }
}

async fn leased<T: Send + 'static>(
    workspace: Arc<Workspace>,
    access: Access,
    work: impl FnOnce(&Workspace, Lease) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let lease = Arc::clone(&workspace).lease(access, PATIENCE).await?;
    blocking(move || work(&workspace, lease)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = GUEST_FILES.run(work).await;
    done.unwrap_or_else(|error| Err(Refusal::host_fault(error.to_string())))
}

#[derive(Serialize)]
struct WorkspaceDocument {
    #[serde(flatten)]
    info: WorkspaceInfo,
    files: Vec<FileInfo>,
    /// Number of files that are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    snapshots: Vec<SnapshotInfo>,
}

fn document(workspace: &Workspace, lease: &Lease) -> Result<WorkspaceDocument, Refusal> {
    let mut files = workspace.files(lease)?;
    let more = files.len().checked_sub(FILES_MAX).filter(|more| *more > 0);
    files.truncate(FILES_MAX);
    Ok(WorkspaceDocument {
        info: workspace.info(lease)?,
        files,
        more,
        snapshots: workspace.snapshots()?,
    })
}

/// The workspaces of the caller.
#[utoipa::path(get, path = "/v1/workspaces", tag = "workspaces", responses((status = 200, description = "The workspaces")))]
pub(super) async fn list(CallerRequest(shared, caller, _): CallerRequest) -> ApiAnswer {
    let (service, owner) = shared.workspaces(&caller)?;
    let mut infos = Vec::new();
    for workspace in blocking(move || service.list(&owner)).await? {
        let info = leased(Arc::new(workspace), Access::Read, |workspace, lease| {
            workspace.info(&lease)
        });
        match info.await {
            // One that is removed meanwhile is not listed.
            Err(refusal) if refusal.code == ErrorCode::UnknownWorkspace => {}
            info => infos.push(info?),
        }
    }
    Ok(json(StatusCode::OK, &value!({ "workspaces": infos })))
}

/// A workspace with its files and snapshots.
#[utoipa::path(get, path = "/v1/workspaces/{name}", tag = "workspaces", params(("name" = String, Path, description = "The name of the workspace")), responses((status = 200, description = "The workspace")))]
pub(super) async fn show(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
) -> ApiAnswer {
    let shown = shared.within(&caller, name, Access::Read, |workspace, lease| {
        document(workspace, &lease)
    });
    Ok(json(StatusCode::OK, &shown.await?))
}

/// Makes an empty workspace, if there is none of this name.
#[utoipa::path(put, path = "/v1/workspaces/{name}", tag = "workspaces", params(("name" = String, Path, description = "The name of the workspace")), responses((status = 200, description = "The workspace")))]
pub(super) async fn create(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
) -> ApiAnswer {
    let made = shared.made(&caller, name, Access::Read, |workspace, lease| {
        document(workspace, &lease)
    });
    Ok(json(StatusCode::OK, &made.await?))
}

/// Removes a workspace with its snapshots.
#[utoipa::path(delete, path = "/v1/workspaces/{name}", tag = "workspaces", params(("name" = String, Path, description = "The name of the workspace")), responses((status = 204, description = "It is removed")))]
pub(super) async fn remove(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
) -> ApiAnswer {
    let (service, owner) = shared.workspaces(&caller)?;
    blocking(move || service.remove(&owner, &name)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The bytes of a file.
#[utoipa::path(
    get, path = "/v1/workspaces/{name}/files/{path}", tag = "workspaces",
    params(
        ("name" = String, Path, description = "The name of the workspace"),
        ("path" = String, Path, description = "The path of the file within the workspace"),
        ("Range" = Option<String>, Header, description = "One range of bytes"),
    ),
    responses(
        (status = 200, description = "All bytes", content_type = "*/*", body = String),
        (status = 206, description = "The range of bytes", content_type = "*/*", body = String),
        (status = 416, description = "The file has no such bytes"),
    ),
)]
pub(super) async fn read_file(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams((name, path)): PathParams<(String, String)>,
    headers: HeaderMap,
) -> ApiAnswer {
    let opened = shared.within(&caller, name, Access::Read, move |workspace, lease| {
        workspace.open_file(&lease, &path)
    });
    let (mut file, size) = opened.await?;
    let (first, count, status) = match wanted(&headers, "", size) {
        WantedBytes::All => (0, size, StatusCode::OK),
        WantedBytes::Part(first, count) => (first, count, StatusCode::PARTIAL_CONTENT),
        WantedBytes::Nothing => {
            let why = format!("the file has {size} bytes, and none in this range");
            return Err(Problem::new(ErrorCode::RangeNotSatisfiable, why));
        }
    };
    let (feed, body) = feed();
    let mut headers = harmless("application/octet-stream");
    headers.insert(CONTENT_LENGTH, count.into());
    if status == StatusCode::PARTIAL_CONTENT {
        let last = first.saturating_add(count).saturating_sub(1);
        let range = HeaderValue::from_str(&format!("bytes {first}-{last}/{size}"));
        headers.extend(range.ok().map(|range| (CONTENT_RANGE, range)));
    }
    tokio::spawn(async move {
        if let Err(error) = file.seek(SeekFrom::Start(first)) {
            return feed.fail(error).await;
        }
        send(file, count, feed).await;
    });
    Ok((status, headers, body).into_response())
}

/// A tool wrote the file: a browser must not run or show what it is served from here.
fn harmless(media_type: &'static str) -> HeaderMap {
    let known = [
        (CONTENT_TYPE, media_type),
        (CONTENT_DISPOSITION, "attachment"),
        (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (ACCEPT_RANGES, "bytes"),
    ];
    known
        .into_iter()
        .map(|(name, text)| (name, HeaderValue::from_static(text)))
        .collect()
}

async fn send(mut file: std::fs::File, mut left: u64, feed: BodySender) {
    while left > 0 {
        let length = left.min(PIECE_BYTES);
        let read = GUEST_FILES.run(move || {
            let mut piece = Vec::new();
            let read = (&mut file).take(length).read_to_end(&mut piece);
            read.map(|_| (file, piece))
        });
        let (back, piece) = match read.await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => return feed.fail(error).await,
            Err(error) => return feed.fail(error.to_string()).await,
        };
        file = back;
        if piece.is_empty() {
            return feed.fail("the file was changed").await;
        }
        left = left.saturating_sub(piece.len() as u64);
        if feed.send(Bytes::from(piece)).await.is_err() {
            return;
        }
    }
}

/// Writes a file, with the folders that hold it: at once, or in parts of at most 4 MiB in their order.
#[utoipa::path(
    put, path = "/v1/workspaces/{name}/files/{path}", tag = "workspaces",
    request_body(content = String, content_type = "application/octet-stream"),
    params(
        ("name" = String, Path, description = "The name of the workspace, which is made if there is none"),
        ("path" = String, Path, description = "The path of the file within the workspace"),
        ("Content-Range" = Option<String>, Header, description = "`bytes FIRST-LAST/SIZE` of a part; `bytes */SIZE` asks how far the upload is"),
    ),
    responses(
        (status = 200, description = "The file is written"),
        (status = 202, description = "The part is written; `Range` says how far the upload is"),
        (status = 409, description = "The part does not follow those that have arrived"),
    ),
)]
pub(super) async fn write_file(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams((name, path)): PathParams<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> ApiAnswer {
    let part = part(&headers, body.len() as u64)?;
    Workspace::check_path(&path)?;
    let written = shared.made(
        &caller,
        name,
        Access::Write,
        move |workspace, lease| match part {
            None => {
                let info = workspace.put(&lease, &path, &mut &*body)?;
                Ok(UploadProgress::Complete(info))
            }
            Some((Some(from), total)) => workspace.put_part(&lease, (&path, total), from, &body),
            Some((None, total)) => {
                let arrived = workspace.uploaded(&lease, &path, total)?;
                Ok(UploadProgress::Partial(arrived))
            }
        },
    );
    match written.await? {
        UploadProgress::Complete(info) => Ok(json(StatusCode::OK, &info)),
        UploadProgress::Partial(arrived) => {
            let last = arrived.checked_sub(1).map(|last| format!("bytes=0-{last}"));
            let range = last.and_then(|range| HeaderValue::from_str(&range).ok());
            let headers: HeaderMap = range.into_iter().map(|range| (RANGE, range)).collect();
            let told = value!({ "arrived": arrived });
            Ok((headers, json(StatusCode::ACCEPTED, &told)).into_response())
        }
    }
}

/// `None` for a whole file; the first byte of a part, if it is one, and the size of the file.
fn part(headers: &HeaderMap, bytes: u64) -> Result<Option<(Option<u64>, u64)>, Problem> {
    let Some(range) = headers.get(CONTENT_RANGE) else {
        return Ok(None);
    };
    let parsed = || {
        let range = range.to_str().ok()?.strip_prefix("bytes ")?;
        let (part, total) = range.split_once('/')?;
        let total = total.parse().ok()?;
        if part == "*" {
            return (bytes == 0).then_some((None, total));
        }
        let (first, last) = part.split_once('-')?;
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let length = last.checked_sub(first)?.checked_add(1)?;
        (length == bytes).then_some((Some(first), total))
    };
    parsed().map(Some).ok_or_else(|| {
        unreadable("Content-Range is `bytes FIRST-LAST/SIZE` of exactly this body, or `bytes */SIZE` without one")
    })
}

/// Removes a file, or a folder with its content.
#[utoipa::path(delete, path = "/v1/workspaces/{name}/files/{path}", tag = "workspaces", params(("name" = String, Path, description = "The name of the workspace"), ("path" = String, Path, description = "The path within the workspace")), responses((status = 204, description = "It is removed")))]
pub(super) async fn remove_file(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams((name, path)): PathParams<(String, String)>,
) -> ApiAnswer {
    let removed = shared.within(&caller, name, Access::Write, move |workspace, lease| {
        workspace.remove_path(&lease, &path)
    });
    removed.await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// All files as a tar archive, without links.
#[utoipa::path(get, path = "/v1/workspaces/{name}/archive", tag = "workspaces", params(("name" = String, Path, description = "The name of the workspace")), responses((status = 200, description = "The archive", content_type = "application/x-tar", body = String)))]
pub(super) async fn read_archive(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
) -> ApiAnswer {
    // Made before it is sent: a client that reads slowly must not hold up the calls that write.
    let packed = shared.within(&caller, name, Access::Read, |workspace, lease| {
        workspace.archive(&lease)
    });
    let (file, size) = packed.await?;
    let (feed, body) = feed();
    tokio::spawn(send(file, size, feed));
    let mut headers = harmless("application/x-tar");
    headers.insert(CONTENT_LENGTH, size.into());
    Ok((headers, body).into_response())
}

/// Adds the files of a tar archive, all or none; those that are there are replaced.
#[utoipa::path(put, path = "/v1/workspaces/{name}/archive", tag = "workspaces", request_body(content((String = "application/x-tar"), (String = "application/octet-stream"))), params(("name" = String, Path, description = "The name of the workspace, which is made if there is none")), responses((status = 200, description = "What changed"), (status = 422, description = "The archive is refused, and nothing of it is kept")))]
pub(super) async fn write_archive(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
    body: Bytes,
) -> ApiAnswer {
    let changes = shared.made(&caller, name, Access::Write, move |workspace, lease| {
        workspace.put_archive(&lease, &mut &*body)
    });
    Ok(json(StatusCode::OK, &changes.await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffQuery {
    from: String,
    to: Option<String>,
}

/// What changed between a snapshot and another one, or now.
#[utoipa::path(get, path = "/v1/workspaces/{name}/diff", tag = "workspaces", params(("name" = String, Path, description = "The name of the workspace"), ("from" = String, Query, description = "A snapshot"), ("to" = Option<String>, Query, description = "A later snapshot; without it, the files as they are")), responses((status = 200, description = "What changed")))]
pub(super) async fn diff(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<DiffQuery>,
) -> ApiAnswer {
    let from: SnapshotId = query.from.parse().map_err(Problem::from)?;
    let to: Option<SnapshotId> = query
        .to
        .map(|to| to.parse())
        .transpose()
        .map_err(Problem::from)?;
    let changes = shared.within(&caller, name, Access::Read, move |workspace, lease| {
        workspace.diff(&lease, &from, to.as_ref())
    });
    Ok(json(StatusCode::OK, &changes.await?))
}

/// The name of a snapshot.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotRequest {
    /// Without it, the snapshot is named `s1`, `s2` and so on.
    #[schema(value_type = Option<String>)]
    id: Option<SnapshotId>,
}

/// Keeps the files as they are now.
#[utoipa::path(post, path = "/v1/workspaces/{name}/snapshots", tag = "workspaces", request_body = SnapshotRequest, params(("name" = String, Path, description = "The name of the workspace")), responses((status = 201, description = "The snapshot")))]
pub(super) async fn snapshot(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
    headers: HeaderMap,
    body: Bytes,
) -> ApiAnswer {
    let SnapshotRequest { id } = read(&headers, &body)?;
    let taken = shared.within(&caller, name, Access::Write, move |workspace, lease| {
        workspace.snapshot(&lease, id)
    });
    Ok(json(StatusCode::CREATED, &taken.await?))
}

/// Removes a snapshot.
#[utoipa::path(delete, path = "/v1/workspaces/{name}/snapshots/{id}", tag = "workspaces", params(("name" = String, Path, description = "The name of the workspace"), ("id" = String, Path, description = "The snapshot")), responses((status = 204, description = "It is removed")))]
pub(super) async fn remove_snapshot(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams((name, id)): PathParams<(String, String)>,
) -> ApiAnswer {
    let id: SnapshotId = id.parse().map_err(Problem::from)?;
    let removed = shared.within(&caller, name, Access::Write, move |workspace, lease| {
        workspace.remove_snapshot(&lease, &id)
    });
    removed.await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The snapshot whose files are wanted.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreRequest {
    #[schema(value_type = String)]
    id: SnapshotId,
}

/// Puts a snapshot's files in place of the present ones.
#[utoipa::path(post, path = "/v1/workspaces/{name}/restore", tag = "workspaces", request_body = RestoreRequest, params(("name" = String, Path, description = "The name of the workspace")), responses((status = 200, description = "What changed")))]
pub(super) async fn restore(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
    headers: HeaderMap,
    body: Bytes,
) -> ApiAnswer {
    let RestoreRequest { id } = read(&headers, &body)?;
    let changes = shared.within(&caller, name, Access::Write, move |workspace, lease| {
        workspace.restore(&lease, &id)
    });
    Ok(json(StatusCode::OK, &changes.await?))
}

/// The new workspace.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkRequest {
    #[schema(value_type = String)]
    name: WorkspaceName,
}

/// Makes a new workspace with the files of this one, without its snapshots.
#[utoipa::path(post, path = "/v1/workspaces/{name}/fork", tag = "workspaces", request_body = ForkRequest, params(("name" = String, Path, description = "The name of the workspace")), responses((status = 201, description = "The new workspace")))]
pub(super) async fn fork(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(name): PathParams<String>,
    headers: HeaderMap,
    body: Bytes,
) -> ApiAnswer {
    let ForkRequest { name: new } = read(&headers, &body)?;
    let place = HeaderValue::from_str(&format!("/v1/workspaces/{new}"));
    let (service, owner) = shared.workspaces(&caller)?;
    let made = blocking(move || service.fork(&owner, &name, &new)).await?;
    let made = leased(Arc::new(made), Access::Read, |workspace, lease| {
        document(workspace, &lease)
    });
    let made = made.await?;
    let headers: HeaderMap = place.into_iter().map(|place| (LOCATION, place)).collect();
    Ok((headers, json(StatusCode::CREATED, &made)).into_response())
}
