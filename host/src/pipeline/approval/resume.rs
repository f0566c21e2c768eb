use std::sync::Arc;

use crate::approval::bind;
use crate::catalog::Tool;
use crate::record::{ApprovalState, Behavior, ErrorClass, Input, Refusal, Timestamp};

use super::super::journey::Journey;
use super::super::permission::{self, Permitted};
use super::super::{pre_hooks, redaction};
use super::{expired, permit_of, settle};
use crate::journal::Kept;

/// Re-enters a call at its answer, in a process that did not ask. Everything is decided again; if anything has changed
/// since the question, nothing runs.
pub(in super::super) async fn re_enter(journey: &mut Journey<'_>, kept: &Kept) -> Result<Permitted, Refusal> {
    if let Some(refusal) = journey.request.unavailable.take() {
        return Err(refusal);
    }
    journey.heed_cancellation()?;
    let tool = journey.services.catalog.resolve(&journey.request.tool)?;
    journey.tool = Some(Arc::clone(&tool));
    journey.redaction.reuse(kept.approval.plan.reference_key.as_deref())?;
    redaction::begin(journey, &tool).await?;
    journey.redaction.check_secrets()?;
    let input = again(journey, &tool, kept).await?;
    journey.invocation.permission_input = Some(journey.shown(&input).await?);
    permission::request_hooks(journey, &tool, &input).await?;
    let verdict = permission::verdict(journey, &tool, &input).await?;
    if verdict.decision.behavior == Behavior::Deny {
        let _ = permission::announce(journey, &tool, &input, verdict.decision).await;
    }
    let permit = permit_of(verdict.outcome)?;
    let actor = journey.request.actor_ref.as_deref();
    let now = bind(&tool, permit.capability(), permit.limits(), permit.call_input(), actor);
    let changed = kept.approval.binding.differences(&now);
    if !changed.is_empty() && guard!("approval_binding") {
        return Err(outdated(&changed));
    }
    let answer = kept.answer.clone().filter(|_| kept.state == ApprovalState::Approved);
    let answer = answer.ok_or_else(|| Refusal::host_fault("a call without an approval was resumed"))?;
    settle::settle(journey, tool, permit, answer).await
}

/// Rebuilds the input that was asked about from what the caller sent, with the current hooks. Fails if they now change
/// it differently, because that was not asked about.
async fn again(journey: &mut Journey<'_>, tool: &Tool, kept: &Kept) -> Result<Input, Refusal> {
    let asked = Input::from_text(kept.approval.plan.permission_input.as_str());
    let sent = journey.request.input.clone();
    let filled = sent.value().ok().and_then(|value| tool.contract().with_defaults(value));
    let filled = filled.map(|filled| sent.with_value(filled));
    let made = pre_hooks::shape(journey, tool, filled.unwrap_or(sent), false).await?;
    match made.value() == asked.value() {
        true => Ok(asked),
        false => Err(outdated(&["what hooks make of the input"])),
    }
}

fn outdated(changed: &[&str]) -> Refusal {
    let message = format!(
        "this changed since the approval was requested: {}; nothing ran; call again to request a new approval",
        changed.join(", ")
    );
    Refusal::new(ErrorClass::ApprovalRejected, "approval_outdated", message)
}

/// The final refusal of an orphaned call; `None` if it can still be answered or resumed, or has ended.
pub(in super::super) fn closing(kept: &Kept) -> Option<Refusal> {
    let reject = |code, message: String| Some(Refusal::new(ErrorClass::ApprovalRejected, code, message));
    match kept.state {
        ApprovalState::Claimed => Some(Refusal::new(
            ErrorClass::Canceled,
            "interrupted",
            "the process that ran the call ended before it had a result; the tool may have done its work, and is not \
             run again",
        )),
        ApprovalState::Rejected => {
            // If the input has hidden values, the feedback may repeat them, and nothing here can redact it.
            let open = kept.approval.plan.shown_input.is_none();
            let feedback = kept.answer.as_ref().and_then(|answer| answer.feedback.as_deref()).filter(|_| open);
            let because = feedback.map(|why| format!(": {why}")).unwrap_or_default();
            reject("approval_rejected", format!("the call was not approved{because}"))
        }
        ApprovalState::Withdrawn => reject("approval_withdrawn", "the call ended before it could run".to_owned()),
        ApprovalState::Expired => Some(expired()),
        ApprovalState::Pending | ApprovalState::Approved if kept.approval.expires_at <= Timestamp::now() => {
            Some(expired())
        }
        ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Done => None,
    }
}
