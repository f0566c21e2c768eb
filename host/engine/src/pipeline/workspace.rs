//! The workspace of a call: leased while an instance of its tool runs, and compared afterwards.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use toolcell_executor::{Execution, GuestOutcome, WorkspaceRoom, unless_canceled};
use toolcell_policy::Permit;
use toolcell_spec::{AccessKind, ErrorCode, OutputRetention, Refusal, ToolResult};
use toolcell_system::pool::GUEST_FILES;
use toolcell_workspace::{Access, ChangeList, Lease, OnFailure, Quota, Workspace, WorkspaceRun};

use super::Request;
use super::call_state::CallState;
use crate::catalog::Tool;

/// An extension of the specification.
pub(super) const WORKSPACE: &str = "workspace";

/// The workspace that a call is given, as `/workspace`.
///
/// ```
/// use toolcell_engine::pipeline::CallWorkspace;
///
/// fn told(given: &CallWorkspace) -> String {
///     format!("/workspace has the files of {}", given.name())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct CallWorkspace {
    workspace: Arc<Workspace>,
    on_failure: OnFailure,
}

/// Gives `workspace` to a call.
pub fn call_workspace(workspace: Arc<Workspace>, on_failure: OnFailure) -> CallWorkspace {
    CallWorkspace {
        workspace,
        on_failure,
    }
}

impl CallWorkspace {
    /// If the call does not succeed, the files of before come back, also if the process of the call is killed.
    #[must_use]
    pub fn rolled_back(self) -> Self {
        Self {
            on_failure: OnFailure::RollBack,
            ..self
        }
    }

    pub fn name(&self) -> &str {
        self.workspace.name().as_str()
    }

    /// The folder with its files, canonical.
    pub fn tree(&self) -> PathBuf {
        self.workspace.tree()
    }
}

/// The files of a workspace, for a call that runs elsewhere.
///
/// ```
/// use toolcell_engine::pipeline::SentWorkspace;
///
/// fn bytes(sent: &SentWorkspace) -> usize {
///     sent.archive.len()
/// }
/// ```
pub struct SentWorkspace {
    pub name: String,
    pub quota: Quota,
    /// A tar archive of all files.
    pub archive: Vec<u8>,
}

/// The largest archive that is sent.
const ARCHIVE_BYTES_MAX: u64 = 64 << 20;

/// A workspace whose files are elsewhere for a call; nobody else changes them meanwhile.
pub(super) struct LentWorkspace {
    workspace: Arc<Workspace>,
    lease: Lease,
    on_failure: OnFailure,
}

/// `None` if the call has no workspace, or its tool reads no files.
pub(super) async fn lend(
    request: &Request,
    tool: &Tool,
) -> Result<Option<(LentWorkspace, SentWorkspace)>, Refusal> {
    let profile = tool.permission_profile();
    let access = match (profile.wants_file_write(), &request.workspace) {
        (_, None) => return Ok(None),
        (true, _) => Access::Write,
        (false, _) if profile.wants(&AccessKind::FileRead) => Access::Read,
        // A tool that it calls may use them.
        (false, _) if tool.calls_tools() => Access::Write,
        (false, _) => return Ok(None),
    };
    let Some(given) = request.workspace.clone() else {
        return Ok(None);
    };
    let taken = Arc::clone(&given.workspace).lease(access, request.limits.wall);
    let lease = unless_canceled(&request.cancellation, taken).await??;
    let lent = LentWorkspace {
        workspace: given.workspace,
        lease,
        on_failure: given.on_failure,
    };
    let packed = GUEST_FILES.run(move || lent.pack().map(|sent| (lent, sent)));
    let packed = packed.await;
    packed
        .unwrap_or_else(|error| Err(Refusal::host_fault(error.to_string())))
        .map(Some)
}

impl LentWorkspace {
    fn pack(&self) -> Result<SentWorkspace, Refusal> {
        let quota = self.workspace.info(&self.lease)?.quota;
        let (mut file, size) = self.workspace.archive(&self.lease)?;
        if size > ARCHIVE_BYTES_MAX {
            let message = format!(
                "the files of the workspace {} take {size} bytes as an archive, and at most {ARCHIVE_BYTES_MAX} are sent to a \
                 worker: remove some, or call the tool without --cluster",
                self.workspace.name()
            );
            return Err(Refusal::new(ErrorCode::ClusterWorkspace, message));
        }
        let mut archive = Vec::new();
        file.read_to_end(&mut archive)
            .map_err(|error| Refusal::host_fault(error.to_string()))?;
        Ok(SentWorkspace {
            name: self.workspace.name().to_string(),
            quota,
            archive,
        })
    }

    /// Takes the files as the call left them.
    pub(super) async fn take_back(self, archive: Vec<u8>, succeeded: bool) -> Result<(), Refusal> {
        let is_kept = succeeded || self.on_failure == OnFailure::Keep;
        if !is_kept || !self.lease.is_writer() {
            return Ok(());
        }
        let put = move || {
            let mut archive = archive.as_slice();
            self.workspace.replace_by_archive(&self.lease, &mut archive)
        };
        let put = GUEST_FILES.run(put).await;
        put.unwrap_or_else(|error| Err(Refusal::host_fault(error.to_string())))
            .map(drop)
    }
}

/// What a result says about the workspace of its call.
#[derive(Debug, Serialize)]
pub(super) struct WorkspaceNote {
    name: String,
    #[serde(flatten)]
    changes: ChangeList,
    /// Why it is not known what changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// `None` for a call that cannot reach one. A call that a tool makes uses its caller's lease.
pub(super) async fn begin(
    journey: &mut CallState<'_>,
    permit: &Permit,
) -> Result<Option<WorkspaceRun>, Refusal> {
    let Some(given) = journey.request.workspace.clone() else {
        return Ok(None);
    };
    let Some(access) = access(permit, &given.workspace) else {
        return Ok(None);
    };
    let patience = permit.limits().wall;
    let cancellation = journey.request.cancellation.clone();
    // Calls of this process take turns before; this keeps those of others apart.
    let taken = Arc::clone(&given.workspace).lease(access, patience);
    let lease = unless_canceled(&cancellation, taken).await??;
    let begun = move || WorkspaceRun::begin(given.workspace, lease, given.on_failure);
    let run = GUEST_FILES.run(begun).await;
    let run = run.map_err(|error| Refusal::host_fault(error.to_string()))??;
    let room = run.room();
    journey.room =
        (access == Access::Write).then(|| Arc::new(WorkspaceRoom::new(room.bytes, room.files)));
    Ok(Some(run))
}

fn access(permit: &Permit, workspace: &Workspace) -> Option<Access> {
    let capability = permit.capability();
    let tree = workspace.tree();
    // The arguments may have narrowed it to folders within.
    let mounts = capability.mounts.iter();
    let mut within = mounts
        .filter(|mount| mount.host.starts_with(&tree))
        .peekable();
    within.peek()?;
    // A tool that is called may change what its caller only reads.
    let writes = within.any(|mount| mount.writable) || !capability.tools.is_empty();
    Some(if writes { Access::Write } else { Access::Read })
}

/// Before the call's end is reported.
pub(super) async fn end(
    journey: &mut CallState<'_>,
    run: Option<WorkspaceRun>,
    execution: &mut Execution,
) {
    let (Some(run), Some(given)) = (run, &journey.request.workspace) else {
        return;
    };
    let name = given.workspace.name().to_string();
    let succeeded = matches!(
        execution.outcome,
        Ok(GuestOutcome::Success(_) | GuestOutcome::NeedsInput(_))
    );
    let ended = GUEST_FILES.run(move || run.end(succeeded)).await;
    let ended = ended.unwrap_or_else(|error| Err(Refusal::host_fault(error.to_string())));
    let note = journey.workspace.get_or_insert_with(|| WorkspaceNote {
        name,
        changes: ChangeList::default(),
        problem: None,
    });
    match ended {
        Ok(changes) => note.changes.append(changes),
        Err(refusal) => note.problem = Some(refusal.message),
    }
}

/// The tool chose the names of files: they are kept as its output is.
pub(super) fn note(journey: &mut CallState<'_>, result: &mut ToolResult) {
    let Some(mut note) = journey.workspace.take() else {
        return;
    };
    if journey.keeping() != OutputRetention::default() {
        note.changes.hide();
    }
    let mut value = json!(note);
    if let Some(redactor) = journey.redaction.active() {
        redactor.redact(&mut value);
    }
    result.extra.insert(WORKSPACE.to_owned(), value);
}
