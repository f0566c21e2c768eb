//! Phase 4: invalid_arguments, setup_required, and what stops a guest. It has no side effect and an empty capability,
//! but for what preflight reads.

use serde_json::json;

use crate::catalog::Tool;
use toolcell_executor::{InputCheck, PreflightAccess};
use toolcell_policy::{Permit, PreflightPermit};
use toolcell_spec::{AccessKind, ErrorCode, EventType, HookEvent, Input, Refusal, Status};

use super::call_state::{CallState, PreparedCall, phase_token};
use super::schema_gate::Gated;
use super::{observe, permission};

pub(super) const VALUE: &str = "value";
const IO_PREFLIGHT: &str = "io_preflight";
const REFUSED: &str = "the tool refused the values";

phase_token! {
    pub(super) Valid(PreparedCall)
}

pub(super) async fn validate(journey: &mut CallState<'_>, gated: Gated) -> Result<Valid, Refusal> {
    let prepared = gated.open();
    if journey.resumed.is_some() || !prepared.tool.validates() {
        return Ok(Valid(prepared));
    }
    let limits = journey.request.limits.for_checks();
    let with_files = reads_files(&prepared.tool);
    let preflight = if with_files {
        PreflightAccess::Left
    } else {
        PreflightAccess::Offline
    };
    let check = InputCheck {
        preflight,
        ..journey.check(&prepared.tool, &prepared.input, &limits)
    };
    if let Err(refusal) = journey.services.executor.validate(check).await {
        return Err(refused(journey, refusal, VALUE));
    }
    if !with_files {
        return Ok(Valid(prepared));
    }
    match look(journey, &prepared).await? {
        Some(look) => {
            let check = InputCheck {
                preflight: PreflightAccess::Alone(&look),
                ..journey.check(&prepared.tool, &prepared.input, &limits)
            };
            if let Err(refusal) = journey.services.executor.validate(check).await {
                return Err(refused(journey, refusal, IO_PREFLIGHT));
            }
        }
        None => journey.preflight_left = true,
    }
    Ok(Valid(prepared))
}

/// Runs a delayed preflight with `permit`, before the tool: without hooks' and approvers' answers it could have read
/// nothing.
pub(super) async fn preflight(
    journey: &mut CallState<'_>,
    tool: &Tool,
    permit: &Permit,
) -> Result<(), Refusal> {
    if !std::mem::take(&mut journey.preflight_left) || !tool.validates() || !reads_files(tool) {
        return Ok(());
    }
    let limits = journey.request.limits.for_checks();
    let look = PreflightPermit::from_permit(permit);
    let check = InputCheck {
        preflight: PreflightAccess::Alone(&look),
        ..journey.check(tool, permit.guest_input(), &limits)
    };
    let checked = journey.services.executor.validate(check).await;
    checked.map_err(|refusal| refused_late(journey, permit.call_input(), refusal, IO_PREFLIGHT))
}

fn refused(journey: &mut CallState<'_>, refusal: Refusal, which: &str) -> Refusal {
    // A canceled check says nothing about the values, and neither does a world that is not there.
    if journey.request.cancellation.requested().is_none()
        && refusal.code != ErrorCode::WorldNotAvailable
    {
        journey.pass_through(Status::ValidationFailed, REFUSED);
        tell(journey, &journey.request.input, &refusal, which);
    }
    refusal
}

/// The tool refuses what is permitted already: the call fails, and nobody denied it.
pub(super) fn refused_late(
    journey: &mut CallState<'_>,
    input: &Input,
    refusal: Refusal,
    which: &str,
) -> Refusal {
    if journey.request.cancellation.requested().is_none() {
        journey.pass_through(Status::Approved, "permitted");
        // Only from there does the call reach `failed`. The tool has not started.
        let _ = journey.invocation.pass_running(REFUSED);
        tell(journey, input, &refusal, which);
    }
    refusal
}

fn tell(journey: &CallState<'_>, input: &Input, refusal: &Refusal, which: &str) {
    // A tool names no part of its arguments.
    let data = json!({
        "which": which,
        "input_ref": journey.redaction.reference(input),
        "error_class": refusal.class,
        "message": refusal.message,
        "pointers": [""],
    });
    journey.trail.emit(EventType::ValidationFailed, data);
}

/// Returns whether the tool declares files, which preflight may then access.
pub(super) fn reads_files(tool: &Tool) -> bool {
    let profile = tool.permission_profile();
    profile.wants(&AccessKind::FileRead) || profile.wants_file_write()
}

async fn look(
    journey: &CallState<'_>,
    prepared: &PreparedCall,
) -> Result<Option<PreflightPermit>, Refusal> {
    let PreparedCall { tool, input } = prepared;
    // Hooks are asked later, and could deny the call or change what it reads.
    let hooks = &journey.services.hooks;
    let mut events = [HookEvent::PreToolUse, HookEvent::PermissionRequest].into_iter();
    let hooks_apply = events.any(|event| hooks.are_told(event, tool.declaration()));
    if hooks_apply && guard!("preflight_hooks") {
        return Ok(None);
    }
    let filled = observe::with_defaults(tool, input);
    permission::look(journey, tool, filled.as_ref().unwrap_or(input)).await
}
