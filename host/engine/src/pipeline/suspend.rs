//! A call that waits for an answer to its tool's question although its process ends. It is stored only if its caller
//! can come back ([`Background`](super::Background)).
//!
//! The question is on disk before the caller sees it; the stored row is claimed before the tool runs again, so that no
//! answers are used twice, and removed at the call's end.

use data_encoding::BASE64;

use crate::approval::{Inquiry, RequestedInput, bind};
use crate::catalog::Tool;
use toolcell_executor::{Execution, GuestOutcome, NeededInput, canceled};
use toolcell_journal::{Artifacts, Keep, Role, SuspendRequest, SuspendedCall};
use toolcell_policy::{DecisionOutcome, Permit, PolicyVerdict};
use toolcell_spec::{
    AbortReason, Behavior, CallRecord, ErrorCode, Input, PermissionDecision, Refusal, RuleSource,
    Status, Suspension, SuspensionState, Timestamp,
};

use super::approval::{self, StoredCall};
use super::call_state::{CallState, PreparedCall};
use super::children::{self, CallTree};
use super::interact::{self, QuestionRound};
use super::permission::{self, Permitted};
use super::resolve;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SuspensionStage {
    Never,
    /// Another process can continue.
    Waiting,
    Claimed,
}

pub(super) struct SoFar<'a> {
    pub(super) permit: &'a Permit,
    pub(super) attempt: u32,
    pub(super) resume_state: &'a [u8],
    pub(super) execution: &'a Execution,
}

pub(super) struct PausedRound<'a> {
    pub(super) so_far: &'a SoFar<'a>,
    pub(super) inquiry: &'a Inquiry,
    pub(super) unfit: usize,
    pub(super) asked: usize,
    pub(super) shown: usize,
}

/// Returns whether another process could continue: not if only this one has drafts, artifacts, request secrets, edited
/// arguments, an earlier attempt's log, the parent call or batch, or what must not be stored.
pub(super) fn is_possible(journey: &CallState<'_>, so_far: &SoFar<'_>) -> bool {
    let Some(tool) = journey.tool.as_deref() else {
        return false;
    };
    let request = &journey.request;
    let may_be_stored = resolve::may_be_noted(journey, tool) || !guard!("suspended_output");
    request.background.is_some()
        && journey.services.desk.is_some()
        && journey.services.calls.settings().keep == Keep::All
        && may_be_stored
        && request.secrets.is_empty()
        && request.lineage.is_none()
        && request.replay.is_none()
        && request.order.is_none()
        && so_far.attempt == 1
        && so_far.permit.capability().scratch.is_none()
        && journey
            .artifacts
            .as_ref()
            .and_then(Artifacts::usage)
            .is_none()
        && !journey
            .decisions
            .iter()
            .any(|decision| decision.user_modified)
}

/// On failure, the call waits in this process alone.
pub(super) async fn suspend(journey: &mut CallState<'_>, paused: &PausedRound<'_>) {
    let (Some(desk), Some(tool)) = (&journey.services.desk, journey.tool.clone()) else {
        return;
    };
    let journal = desk.journal.clone();
    let id = journey.invocation.invocation_id;
    if journey.asked.is_none() {
        let Ok(Some(held)) = journal.hold_async(id, Role::Runner).await else {
            return;
        };
        let stored = StoredCall::new(&journal, &journey.trail, None, held);
        journey.asked = Some(Box::new(stored));
    }
    let suspension = describe(journey, &tool, paused);
    let invocation = journey.invocation.clone();
    let events = journey.trail.events();
    let suspending = SuspendRequest {
        suspension,
        invocation,
        history: journey.history(events),
    };
    let stored = journal.run(move |store| store.suspend(&suspending)).await;
    let Some(asked) = journey
        .asked
        .as_deref_mut()
        .filter(|_| stored.is_ok_and(|stored| stored))
    else {
        return;
    };
    asked.stage = SuspensionStage::Waiting;
    // Afterwards: a process that is killed in between leaves a call that the log ends, and that counts.
    let invocation = journey.invocation.clone();
    let changes = journey.changes;
    if journey
        .services
        .calls
        .suspended(invocation, changes)
        .await
        .is_ok()
    {
        journey.set_can_be_left(true);
    }
}

fn describe(journey: &mut CallState<'_>, tool: &Tool, paused: &PausedRound<'_>) -> Suspension {
    let PausedRound {
        so_far,
        inquiry,
        unfit,
        asked,
        shown,
    } = *paused;
    let calls_left = CallTree::from_call(journey).calls_left();
    let SoFar {
        permit,
        resume_state,
        execution,
        attempt: _,
    } = *so_far;
    let actor = journey.request.actor_ref.as_deref();
    let is_remembered =
        |decision: &PermissionDecision| decision.source == Some(RuleSource::Session);
    let has_approval = journey
        .asked
        .as_deref()
        .is_some_and(|asked| asked.approval.is_some());
    Suspension {
        invocation_id: inquiry.invocation_id,
        tool_id: inquiry.tool_id.clone(),
        actor_ref: journey.request.actor_ref.clone(),
        binding: bind(tool, permit, actor),
        is_approved: has_approval || journey.decisions.iter().any(is_remembered),
        changes: journey.changes,
        plan: approval::plan(journey, permit.call_input()),
        questions: inquiry
            .requests
            .iter()
            .map(RequestedInput::to_open)
            .collect(),
        expires_at: inquiry.expires_at,
        rounds: shown,
        unfit,
        asked,
        calls_left,
        responses: journey.responses.clone(),
        resume_state: BASE64.encode(resume_state),
        spent: execution.usage.clone(),
        partial_bytes: execution.partial_bytes,
        logs: execution.logs.clone(),
        redacted: execution.redacted,
    }
}

/// A suspended call claims its run first: it may then end without running, but never run again with the same answers.
pub(super) async fn run_again(journey: &mut CallState<'_>) -> Result<(), Refusal> {
    let waiting = journey
        .asked
        .as_deref_mut()
        .filter(|asked| asked.stage == SuspensionStage::Waiting);
    let Some(asked) = waiting else {
        return journey.advance(Status::Running);
    };
    let journal = asked.journal.clone();
    let id = journey.invocation.invocation_id;
    // A call that is dropped from here on has used its answers up.
    asked.stage = SuspensionStage::Claimed;
    journey.set_can_be_left(false);
    journey.heed_cancellation()?;
    if !journal.run(move |store| store.claim_suspended(id)).await? {
        let kept = journal.run(move |store| store.suspended(id)).await?;
        let is_withdrawn = kept.is_some_and(|kept| kept.state == SuspensionState::Withdrawn);
        return Err(if is_withdrawn {
            canceled(AbortReason::UserInterruption)
        } else {
            interact::expired()
        });
    }
    journey.advance(Status::Running)?;
    // The log has to end the call if this process is killed.
    journey.write_start().await
}

/// After any change the tool does not run again.
pub(super) async fn re_enter(
    journey: &mut CallState<'_>,
    prepared: PreparedCall,
    kept: &Suspension,
) -> Result<Permitted, Refusal> {
    let PreparedCall {
        tool,
        input: remade,
    } = prepared;
    let input = Input::from_text(kept.plan.permission_input.as_str());
    if remade.value() != input.value() {
        return Err(outdated(&["what hooks make of the input"]));
    }
    journey.invocation.permission_input = Some(journey.redaction.recorded(&input).await?);
    let PolicyVerdict {
        mut decision,
        outcome,
    } = permission::judge(journey, &tool, &input).await?;
    let permit = match outcome {
        DecisionOutcome::Allow(permit) => Ok(permit),
        DecisionOutcome::Ask(question) if kept.is_approved || !guard!("suspended_approval") => {
            decision.behavior = Behavior::Allow;
            decision.reason.message = format!(
                "approved before the tool asked ({})",
                decision.reason.message
            );
            Ok(question.approved())
        }
        DecisionOutcome::Ask(_) => Err(outdated(&["the call needs an approval by now"])),
        DecisionOutcome::Deny(refusal) => Err(refusal),
    };
    let permit = match permit {
        Ok(permit) => permit,
        Err(refusal) => {
            return Err(permission::denied(journey, &tool, &input, decision, refusal).await);
        }
    };
    let actor = journey.request.actor_ref.as_deref();
    let now = bind(&tool, &permit, actor);
    let changed = kept.binding.differences(&now);
    if !changed.is_empty() && guard!("suspended_binding") {
        return Err(outdated(&changed));
    }
    permission::announce(journey, &tool, &input, decision).await?;
    permission::admit(journey, tool, permit).await
}

fn outdated(changed: &[&str]) -> Refusal {
    let message = format!(
        "this changed since the tool asked its question: {}; the tool did not run again with the answer; call again",
        changed.join(", ")
    );
    Refusal::new(ErrorCode::QuestionOutdated, message)
}

pub(super) fn restored(kept: &Suspension) -> Result<(Box<Execution>, QuestionRound), Refusal> {
    let damaged = || Refusal::host_fault("a suspended call cannot be read");
    let resume_state = BASE64
        .decode(kept.resume_state.as_bytes())
        .map_err(|_| damaged())?;
    let inquiry = Inquiry::from_suspension(kept).map_err(|_| damaged())?;
    let round = QuestionRound {
        requests: inquiry.requests,
        expires_at: kept.expires_at,
        unfit: kept.unfit,
        shown: kept.rounds,
    };
    let execution = Box::new(Execution {
        outcome: Ok(GuestOutcome::NeedsInput(NeededInput {
            requests: Vec::new(),
            resume_state,
        })),
        usage: kept.spent.clone(),
        partial_bytes: kept.partial_bytes,
        logs: kept.logs.clone(),
        context_modifiers: Vec::new(),
        redacted: kept.redacted,
        recorded: None,
        command: None,
    });
    Ok((execution, round))
}

pub(super) fn closing(kept: &SuspendedCall) -> Option<Refusal> {
    match kept.state {
        SuspensionState::Claimed => Some(approval::interrupted()),
        SuspensionState::Withdrawn => Some(canceled(AbortReason::UserInterruption)),
        SuspensionState::Waiting if kept.suspension.expires_at <= Timestamp::now() => {
            Some(interact::expired())
        }
        SuspensionState::Waiting if children::is_orphan(&kept.invocation) => {
            Some(children::outlived())
        }
        SuspensionState::Waiting => None,
    }
}

/// After the log has the end: the row leads to it if this process is killed.
pub(super) async fn conclude(asked: StoredCall, record: &mut CallRecord, is_written: bool) {
    let journal = asked.journal.clone();
    let id = record.invocation.invocation_id;
    // A row that cannot be removed is removed when the call is next looked at, or ends the call once more for the log.
    let _ = journal
        .run(move |store| {
            if is_written {
                store.forget_suspended(id)
            } else {
                store.withdraw_suspended(id).map(drop)
            }
        })
        .await;
    if asked.approval.is_some() {
        return approval::conclude(asked, record).await;
    }
    let StoredCall { leaving, held, .. } = asked;
    drop(leaving);
    held.retire_async().await;
}
