use crate::approval::bind;
use toolcell_journal::StoredApproval;
use toolcell_spec::{AbortReason, ApprovalState, ErrorCode, Input, Refusal, Timestamp};

use super::super::call_state::{CallState, PreparedCall};
use super::super::children;
use super::super::permission::Permitted;
use super::super::redaction::brought;
use super::{decide_again, expired, settle, withdrawn};

/// Resumes an answered call in a process that did not ask. Everything is decided again; after any change nothing runs.
pub(in super::super) async fn re_enter(
    journey: &mut CallState<'_>,
    prepared: PreparedCall,
    kept: &StoredApproval,
) -> Result<Permitted, Refusal> {
    // Nothing says any more what its caller could do, and so what it may do.
    if children::is_orphan(&kept.invocation) {
        return Err(children::outlived());
    }
    let PreparedCall {
        tool,
        input: remade,
    } = prepared;
    let input = Input::from_text(kept.approval.plan.permission_input.as_str());
    if remade.value() != input.value() {
        return Err(outdated(&["what hooks make of the input"]));
    }
    journey.invocation.permission_input = Some(journey.redaction.recorded(&input).await?);
    let permit = decide_again(journey, &tool, &input).await?;
    let actor = journey.request.actor_ref.as_deref();
    let now = bind(&tool, &permit, actor);
    let changed = kept.approval.binding.differences(&now);
    if !changed.is_empty() && guard!("approval_binding") {
        return Err(outdated(&changed));
    }
    let answer = kept
        .answer
        .clone()
        .filter(|_| kept.state == ApprovalState::Approved);
    let answer =
        answer.ok_or_else(|| Refusal::host_fault("a call without an approval was resumed"))?;
    settle::settle(journey, tool, permit, answer).await
}

fn outdated(changed: &[&str]) -> Refusal {
    let message = format!(
        "this changed since the approval was requested: {}; nothing ran; call again to request a new approval",
        changed.join(", ")
    );
    Refusal::new(ErrorCode::ApprovalOutdated, message)
}

pub(in super::super) fn interrupted() -> Refusal {
    let message = "the process that ran the call ended before it had a result; the tool may have done its work, and is \
                   not run again";
    Refusal::new(ErrorCode::Interrupted, message).aborted(AbortReason::RuntimeShutdown)
}

/// `None` if an orphaned call can still be answered or resumed, or has ended.
pub(in super::super) fn closing(kept: &StoredApproval) -> Option<Refusal> {
    let reject = |code, message: String| Some(Refusal::new(code, message));
    match kept.state {
        // It waits for an answer, and can go on.
        ApprovalState::Running if kept.is_suspended => None,
        ApprovalState::Running => Some(interrupted()),
        ApprovalState::Rejected => {
            // If the input has hidden values, the feedback may repeat them, and nothing here can redact it.
            let open = kept.approval.plan.shown_input.is_none();
            let feedback = kept
                .answer
                .as_ref()
                .and_then(|answer| answer.feedback.as_deref())
                .filter(|_| open);
            let because = feedback.map(|why| format!(": {why}")).unwrap_or_default();
            reject(
                ErrorCode::ApprovalRejected,
                format!("the call was not approved{because}"),
            )
        }
        ApprovalState::Canceled => Some(withdrawn()),
        ApprovalState::Expired => Some(expired()),
        ApprovalState::Pending | ApprovalState::Approved
            if children::is_orphan(&kept.invocation) =>
        {
            Some(children::outlived())
        }
        ApprovalState::Pending | ApprovalState::Approved if brought::is_lost(&kept.invocation) => {
            Some(brought::lost())
        }
        ApprovalState::Pending | ApprovalState::Approved
            if kept.approval.expires_at <= Timestamp::now() =>
        {
            Some(expired())
        }
        ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Finished => None,
    }
}
