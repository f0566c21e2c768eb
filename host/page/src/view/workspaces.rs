//! Workspaces: the files that tools keep between calls.

use std::io::Read;
use std::time::Duration;

use axum::extract::{Form, Multipart, Path, Query};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use maud::{Markup, html};
use serde::Deserialize;
use toolcell_workspace::{
    Access, ChangeKind, ChangeList, FileInfo, Lease, SnapshotId, SnapshotInfo, Workspace,
    WorkspaceInfo, WorkspaceName,
};

use super::call::{SANDBOX, download as for_download, kind};
use super::moment;
use crate::layout::{PageProblem, Place, fact};
use crate::route::see;
use crate::text::{in_url, line};
use crate::{OwnPage, PageState, UserWorkspaces};

const FILES_MAX: usize = 1_000;
const PREVIEW_BYTES_MAX: u64 = 256 << 10;
const IMAGE_BYTES_MAX: u64 = 16 << 20;
/// Each is written, and counted, by itself.
const UPLOADS_MAX: usize = 100;
/// While a call uses the workspace, a thread waits.
const WAIT: Duration = Duration::from_millis(100);

#[derive(Deserialize)]
pub(crate) struct FilePath {
    path: String,
}

#[derive(Deserialize)]
pub(crate) struct SnapshotForm {
    id: String,
}

fn of_user(state: &PageState) -> Result<&dyn UserWorkspaces, PageProblem> {
    let none = || PageProblem::unknown("this server gives its callers no workspaces");
    state.workspaces.as_deref().ok_or_else(none)
}

fn open(state: &PageState, name: &str, access: Access) -> Result<(Workspace, Lease), PageProblem> {
    let unknown = |_| PageProblem::unknown("there is no workspace of this name");
    let name: WorkspaceName = name.parse().map_err(unknown)?;
    let workspace = of_user(state)?.open(&name)?;
    let lease = workspace.lock(access, WAIT)?;
    Ok((workspace, lease))
}

pub(crate) async fn list(OwnPage(state): OwnPage) -> Result<Response, PageProblem> {
    let work = |state: &PageState| {
        let mut infos = Vec::new();
        for workspace in of_user(state)?.list()? {
            // One that a call uses is listed without its files' number.
            match workspace.try_lock(Access::Read) {
                Ok(Some(lease)) => {
                    infos.push((workspace.name().to_string(), workspace.info(&lease).ok()))
                }
                Ok(None) => infos.push((workspace.name().to_string(), None)),
                // It was removed meanwhile.
                Err(_) => {}
            }
        }
        let body = html! {
            h1 { "Workspaces" }
            @if infos.is_empty() {
                p class="empty" {
                    "There is no workspace"
                    @if state.user.principal().is_none() { ": " code { "toolcell call --workspace=NAME" } " makes one" }
                    "."
                }
            } @else {
                div class="scroll" tabindex="0" {
                    table {
                        thead { tr { @for name in ["Name", "Files", "Bytes", "Quota", "Snapshots", "Used"] { th scope="col" { (name) } } } }
                        tbody { @for (name, info) in &infos { (row(name, info.as_ref())) } }
                    }
                }
            }
        };
        state.page("Workspaces", Place::Workspaces, &body)
    };
    state.with_files(work).await
}

fn row(name: &str, info: Option<&WorkspaceInfo>) -> Markup {
    html! {
        tr {
            td { a class="open said" href={ "/workspaces/" (in_url(name)) } { (line(name)) } }
            @if let Some(info) = info {
                td class="number" { (info.usage.files) }
                td class="number" { (info.usage.bytes.saturating_add(info.snapshot_bytes)) }
                td class="number" { (info.quota.bytes) }
                td class="number" { (info.snapshot_count) }
                td { (moment(&info.used_at.to_string())) }
            } @else { td colspan="5" { "A call uses it." } }
        }
    }
}

pub(crate) async fn show(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let (workspace, lease) = open(state, &name, Access::Read)?;
        let info = workspace.info(&lease)?;
        let files = workspace.files(&lease)?;
        let snapshots = workspace.snapshots()?;
        let base = format!("/workspaces/{}", in_url(&name));
        let body = html! {
            h1 { "Workspace " span class="said" { (line(&name)) } }
            dl class="facts" {
                (fact("Files and folders", &html! { (info.usage.files) " of " (info.quota.files) }))
                (fact("Bytes", &html! { (info.usage.bytes) " of " (info.quota.bytes) ", and " (info.snapshot_bytes) " of snapshots" }))
                (fact("Used", &html! { (moment(&info.used_at.to_string())) }))
            }
            (tree(&base, &files))
            (upload_form(state, &base))
            (snapshot_list(&base, &snapshots))
        };
        state.page(&name, Place::Workspaces, &body)
    };
    state.with_files(work).await
}

fn tree(base: &str, files: &[FileInfo]) -> Markup {
    html! {
        h2 { "Files" }
        @if files.is_empty() { p class="empty" { "It has no files." } }
        ul class="files" {
            @for file in files.iter().take(FILES_MAX) {
                @let path = in_url(&file.path);
                li {
                    a class="said" href={ (base) "/preview?path=" (path) } { (line(&file.path)) }
                    " " span class="number" { (file.size) " bytes" }
                    " " a download href={ (base) "/file?path=" (path) } aria-label={ "Download " (line(&file.path)) } { "Download" }
                }
            }
            @if files.len() > FILES_MAX { li { ".. and " (files.len() - FILES_MAX) " more" } }
        }
    }
}

fn upload_form(state: &PageState, base: &str) -> Markup {
    html! {
        form class="upload" method="post" action={ (base) "/upload" } enctype="multipart/form-data" data-drop {
            label { "Files to add" input type="file" name="file" multiple required; }
            label { "Folder" input name="folder" autocomplete="off" placeholder="the top"; }
            button { "Upload" }
            p class="note" {
                "At most " (state.upload_bytes_max >> 20) " MiB at once"
                @if state.user.principal().is_none() { "; " code { "toolcell workspace put" } " takes more" }
                "."
            }
        }
    }
}

fn snapshot_list(base: &str, snapshots: &[SnapshotInfo]) -> Markup {
    html! {
        h2 { "Snapshots" }
        form method="post" action={ (base) "/snapshots" } { button { "Take a snapshot" } }
        ul class="files" {
            @for snapshot in snapshots {
                @let id = snapshot.id.to_string();
                li {
                    span class="said" { (line(&id)) } ", " (moment(&snapshot.created_at.to_string())) ", "
                    (snapshot.usage.files) " files, " (snapshot.usage.bytes) " bytes "
                    a href={ (base) "/diff?id=" (in_url(&id)) } { "Changes since" }
                    " "
                    form method="post" action={ (base) "/restore" } {
                        input type="hidden" name="id" value=(id);
                        button { "Restore " (line(&id)) }
                    }
                }
            }
        }
    }
}

fn read(
    state: &PageState,
    name: &str,
    path: &str,
    bytes_max: u64,
) -> Result<(Vec<u8>, u64), PageProblem> {
    let (workspace, lease) = open(state, name, Access::Read)?;
    let (file, size) = workspace.open_file(&lease, path)?;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max).read_to_end(&mut bytes);
    read.map_err(|error| PageProblem::failed(&error))?;
    Ok((bytes, size))
}

pub(crate) async fn download(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
    Query(FilePath { path }): Query<FilePath>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let (workspace, lease) = open(state, &name, Access::Read)?;
        let (file, size) = workspace.open_file(&lease, &path)?;
        Ok(for_download(file, size))
    };
    state.with_files(work).await
}

/// An image of a known type, or text; nothing of it runs.
pub(crate) async fn preview(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
    Query(FilePath { path }): Query<FilePath>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let (bytes, size) = read(state, &name, &path, PREVIEW_BYTES_MAX)?;
        if let Some(kind) = kind(&bytes) {
            let (bytes, _) = read(state, &name, &path, IMAGE_BYTES_MAX)?;
            let headers = [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, SANDBOX)];
            return Ok((headers, bytes).into_response());
        }
        let base = format!("/workspaces/{}", in_url(&name));
        let whole = format!("{base}/file?path={}", in_url(&path));
        let text = String::from_utf8_lossy(&bytes);
        let is_binary = bytes.contains(&0);
        let body = html! {
            h1 class="said" { (line(&path)) }
            p { a href=(base) { "Workspace " (line(&name)) } ", " (size) " bytes, " a download href=(whole) { "Download" } }
            @if is_binary { p class="empty" { "It is no text, and no image that the page shows." } }
            @else { (crate::text::block(&text, &whole)) }
        };
        state.page(&path, Place::Workspaces, &body)
    };
    state.with_files(work).await
}

pub(crate) async fn diff(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
    Query(SnapshotForm { id }): Query<SnapshotForm>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let id = snapshot_id(&id)?;
        let (workspace, lease) = open(state, &name, Access::Read)?;
        let changes = workspace.diff(&lease, &id, None)?;
        let base = format!("/workspaces/{}", in_url(&name));
        let body = html! {
            h1 { "Changes since " (line(&id.to_string())) }
            p { a href=(base) { "Workspace " (line(&name)) } }
            (changed(&changes))
        };
        state.page("Changes", Place::Workspaces, &body)
    };
    state.with_files(work).await
}

fn changed(changes: &ChangeList) -> Markup {
    let sign = |change: ChangeKind| match change {
        ChangeKind::Added => ("added", "+ "),
        ChangeKind::Removed => ("removed", "- "),
        ChangeKind::Changed => ("hunk", "~ "),
    };
    html! {
        @if changes.is_empty() { p class="empty" { "Nothing changed." } }
        @else {
            pre class="diff" tabindex="0" {
                @for file in &changes.files {
                    @let (kind, sign) = sign(file.change);
                    span class=(kind) { (sign) (line(&file.path)) "\n" }
                }
                @if changes.more > 0 { span class="hunk" { ".. and " (changes.more) " more\n" } }
            }
        }
    }
}

fn snapshot_id(id: &str) -> Result<SnapshotId, PageProblem> {
    let unknown = |_| PageProblem::unknown("there is no snapshot of this name");
    id.parse().map_err(unknown)
}

/// All files of the form, or those before the one that is refused.
pub(crate) async fn upload(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
    mut form: Multipart,
) -> Result<Response, PageProblem> {
    let wrong = |error: axum::extract::multipart::MultipartError| {
        PageProblem::new(
            error.status(),
            format!("the files cannot be read: {}", error.body_text()),
        )
    };
    let mut files: Vec<(String, Bytes)> = Vec::new();
    let mut folder = String::new();
    while let Some(field) = form.next_field().await.map_err(wrong)? {
        match field.file_name().map(str::to_owned) {
            Some(_) if files.len() >= UPLOADS_MAX => {
                let why = format!(
                    "at most {UPLOADS_MAX} files at once: send an archive with toolcell workspace put --tar"
                );
                return Err(PageProblem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            Some(file) => files.push((file, field.bytes().await.map_err(wrong)?)),
            None if field.name() == Some("folder") => folder = field.text().await.map_err(wrong)?,
            None => {}
        }
    }
    let to = format!("/workspaces/{}", in_url(&name));
    let work = move |state: &PageState| {
        let (workspace, lease) = open(state, &name, Access::Write)?;
        for (file, bytes) in &files {
            let folder = folder.trim().trim_matches('/');
            let path = match folder {
                "" => file.clone(),
                folder => format!("{folder}/{file}"),
            };
            workspace.put(&lease, &path, &mut bytes.as_ref())?;
        }
        Ok(())
    };
    state.with_files(work).await?;
    see(&to)
}

pub(crate) async fn snapshot(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
) -> Result<Response, PageProblem> {
    let to = format!("/workspaces/{}", in_url(&name));
    let work = move |state: &PageState| {
        let (workspace, lease) = open(state, &name, Access::Write)?;
        Ok(workspace.snapshot(&lease, None)?)
    };
    state.with_files(work).await?;
    see(&to)
}

pub(crate) async fn restore(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
    Form(SnapshotForm { id }): Form<SnapshotForm>,
) -> Result<Response, PageProblem> {
    let to = format!("/workspaces/{}", in_url(&name));
    let work = move |state: &PageState| {
        let id = snapshot_id(&id)?;
        let (workspace, lease) = open(state, &name, Access::Write)?;
        Ok(workspace.restore(&lease, &id)?)
    };
    state.with_files(work).await?;
    see(&to)
}
