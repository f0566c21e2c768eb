use std::time::Duration;

use crate::approval::{Approver, Prompt, Reply};
use toolcell_executor::stopped;
use toolcell_journal::{AnswerOutcome, ApprovalStanding};
use toolcell_spec::{
    Answer, ApprovalState, ErrorCode, InvocationId, PermissionChannel, Refusal, Timestamp,
};

use super::super::call_state::CallState;
use super::{ApprovalService, expired, withdrawn};

/// Questions with unusable edits; an unusable edit in the last reply ends the call.
const EDITS_MAX: usize = 8;
const LOOK_EVERY: Duration = Duration::from_millis(75);

/// Channel of approvers that only announce a call.
pub(super) const ANNOUNCE_ONLY: &str = "none";

/// Waits until the question expires, without holding a place in the scheduler.
pub(super) async fn wait(
    journey: &CallState<'_>,
    desk: &ApprovalService,
    prompt: &Prompt,
    channel: Option<PermissionChannel>,
) -> Result<Answer, Refusal> {
    let id = prompt.invocation_id();
    let cancellation = &journey.request.cancellation;
    let here = answer_here(journey, desk, prompt, channel);
    tokio::pin!(here);
    let mut asking = true;
    loop {
        let look = LOOK_EVERY.min(Duration::from_millis(
            prompt.expires_at().millis_since(Timestamp::now()) + 1,
        ));
        tokio::select! {
            biased;
            () = cancellation.cancelled() => return Err(stopped(cancellation)),
            given = &mut here, if asking => {
                asking = false;
                given?;
            }
            () = tokio::time::sleep(look) => {}
        }
        if let Some(answer) = look_up(desk, id).await? {
            return Ok(answer);
        }
    }
}

/// Asks this process's approver if its answers count for the tool's `channel`. Without a reply, others can still
/// answer.
async fn answer_here(
    journey: &CallState<'_>,
    desk: &ApprovalService,
    prompt: &Prompt,
    channel: Option<PermissionChannel>,
) -> Result<(), Refusal> {
    let own = journey.request.approval.approver.as_deref();
    let Some(approver) = own.or(desk.approver.as_deref()) else {
        return Ok(());
    };
    let counts = channel.is_none_or(|channel| {
        channel.takes(approver.channel()) || approver.channel() == ANNOUNCE_ONLY
    });
    let reply = if counts || !guard!("asked_channel") {
        checked(approver, prompt).await
    } else {
        approver
            .announce(prompt)
            .await
            .filter(|reply| !reply.approved)
    };
    let Some(reply) = reply else { return Ok(()) };
    let id = prompt.invocation_id();
    let answer = Answer {
        approved: reply.approved,
        approver: approver.principal().to_owned(),
        channel: approver.channel().to_owned(),
        edit: reply.edit,
        feedback: reply.feedback,
        always: reply.always,
        answered_at: Timestamp::now(),
    };
    match desk
        .journal
        .run(move |store| store.answer(id, &answer))
        .await?
    {
        // The stored answer counts, even if another approver was faster.
        AnswerOutcome::Taken | AnswerOutcome::TooLate(_) => Ok(()),
        AnswerOutcome::OwnCall => Err(Refusal::new(
            ErrorCode::SelfApproval,
            "a caller cannot approve its own call",
        )),
        AnswerOutcome::Unknown => Err(Refusal::host_fault(
            "the request is no longer in the approval store",
        )),
    }
}

/// An approver of an unusable edit is told why and asked again.
async fn checked(approver: &dyn Approver, prompt: &Prompt) -> Option<Reply> {
    let mut again: Option<Prompt> = None;
    for _ in 1..EDITS_MAX {
        let prompt = again.as_ref().unwrap_or(prompt);
        let reply = approver.ask(prompt).await?;
        let Some(edit) = reply.edit.as_deref().filter(|_| reply.approved) else {
            return Some(reply);
        };
        match prompt.check_edit(edit).await {
            Ok(()) => return Some(reply),
            Err(why) => {
                again = Some(prompt.again(&format!(
                    "the arguments as you changed them cannot run: {why}"
                )))
            }
        }
    }
    approver.ask(again.as_ref().unwrap_or(prompt)).await
}

/// `None` while the question is open.
async fn look_up(desk: &ApprovalService, id: InvocationId) -> Result<Option<Answer>, Refusal> {
    let standing = desk.journal.run(move |store| store.standing(id)).await?;
    let Some(ApprovalStanding {
        approval,
        state,
        answer,
    }) = standing
    else {
        return Err(Refusal::host_fault(
            "the request is no longer in the approval store",
        ));
    };
    match (state, answer) {
        (ApprovalState::Pending, _)
            if approval.expires_at > Timestamp::now() || !guard!("approval_expiry") =>
        {
            Ok(None)
        }
        (ApprovalState::Pending, _) => {
            let closed = desk.journal.run(move |store| store.expire(id)).await?;
            // An answer may have arrived between the two reads.
            if closed { Err(expired()) } else { Ok(None) }
        }
        (ApprovalState::Approved | ApprovalState::Rejected, Some(answer)) => Ok(Some(answer)),
        (ApprovalState::Expired, _) => Err(expired()),
        (ApprovalState::Canceled, _) => Err(withdrawn()),
        (state, _) => {
            let message = format!("the approval is not open any more: it is {state}");
            Err(Refusal::new(ErrorCode::ApprovalClosed, message))
        }
    }
}
