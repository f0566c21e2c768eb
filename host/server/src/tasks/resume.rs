//! Resumes or ends calls that another process began.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::InputResponses;
use serde_json::Value;
use toolcell::{Background, Callee, Request, RoleLock, StoredApproval, SuspendedCall, Terms};
use toolcell_core::record::{Plan, ToolInvocation};

use crate::asking::{ApprovalAnnouncers, AskChannel, ReopenedQuestion, messenger, reopen};
use crate::call::TIMEOUT_KEY;
use crate::{Server, ToolSet};

use super::ended::{CallEnd, mapped};
use super::entry::TooLarge;
use super::stored::StoredState;
use super::{DetachedCall, Tasks};

impl Server {
    /// Goes on with an approved call. Without a place for another call, it stays as it is: the next question about it
    /// tries again.
    pub(super) fn go_on(
        self: &Arc<Self>,
        tasks: &Arc<Tasks>,
        owner: &str,
        kept: Box<StoredApproval>,
        held: RoleLock,
        channel: AskChannel,
    ) {
        let id = kept.approval.invocation_id;
        if self.stop.is_cancelled() {
            return;
        }
        let Some(place) = self.calls.begin() else {
            return;
        };
        let offering = self.offering();
        let keep = offering.keep;
        let mut request = request(&offering, ResumableCall::from(&*kept));
        request.keeper = self.keeper();
        let cancellation = request.cancellation.clone();
        let mut questions = None;
        if channel == AskChannel::InputRequired {
            let actor = kept.approval.actor_ref.as_deref();
            let announcers = ApprovalAnnouncers::default();
            let (respondent, asked) = messenger(actor, announcers, offering.outdated());
            request.respondent = Some(respondent);
            questions = Some(asked);
        }
        let background = Background::default();
        background.set_returns();
        request.background = Some(background.clone());
        let server = Arc::clone(self);
        let canceled = cancellation.clone();
        let entered = background.clone();
        let call = tokio::spawn(async move {
            let resumed = {
                let call = std::pin::pin!(offering.host.resume(request, &kept, held));
                server
                    .until_stopped(&canceled, || background.can_be_left(), call)
                    .await
                    .flatten()
            };
            if let Some(record) = &resumed {
                server.keep(record).await;
            }
            drop(place);
            resumed.map(Box::new)
        });
        let detached = DetachedCall {
            call,
            cancellation,
            questions,
            background: entered,
            keep,
        };
        tasks.put(&mut tasks.entries(), id, owner, detached, None);
    }

    /// Takes over a suspended call, whose question an earlier process asked, with `responses` of its client. It goes on once
    /// all questions are answered. Without a place for another call, it stays as it is. Returns whether it was taken over.
    ///
    /// # Errors
    ///
    /// The answers are too large; the call is taken over then, and its questions are open.
    pub(super) fn take_over(
        self: &Arc<Self>,
        tasks: &Arc<Tasks>,
        owner: &str,
        kept: Box<SuspendedCall>,
        held: RoleLock,
        responses: &InputResponses,
    ) -> Result<bool, TooLarge> {
        let id = kept.suspension.invocation_id;
        if self.stop.is_cancelled() {
            return Ok(false);
        }
        let offering = self.offering();
        let (Some(place), Some(reopened)) = (
            self.calls.begin(),
            reopen(&kept.suspension, offering.outdated()),
        ) else {
            return Ok(false);
        };
        let ReopenedQuestion {
            messenger,
            ask,
            questions,
        } = reopened;
        let keep = offering.keep;
        let mut request = request(&offering, ResumableCall::from(&*kept));
        request.keeper = self.keeper();
        request.respondent = Some(messenger);
        let cancellation = request.cancellation.clone();
        let background = Background::returned(kept.suspension.rounds);
        request.background = Some(background.clone());
        let server = Arc::clone(self);
        let canceled = cancellation.clone();
        let left = background.clone();
        let call = tokio::spawn(async move {
            let resumed = {
                let call = std::pin::pin!(offering.host.resume_suspended(request, &kept, held));
                server
                    .until_stopped(&canceled, || left.can_be_left(), call)
                    .await
                    .flatten()
            };
            if let Some(record) = &resumed {
                server.keep(record).await;
            }
            drop(place);
            resumed.map(Box::new)
        });
        let detached = DetachedCall {
            call,
            cancellation,
            questions: Some(questions),
            background,
            keep,
        };
        let mut entries = tasks.entries();
        tasks.put(&mut entries, id, owner, detached, Some(ask));
        entries
            .get_mut(&id)
            .map_or(Ok(()), |entry| entry.give(responses))
            .map(|()| true)
    }

    /// Ends the suspended calls that no living process has and none can resume, and removes all of their state.
    pub(crate) async fn end_all_suspended(&self, tasks: &Tasks) {
        // Whatever cannot be read now is looked at when its client asks for it, or by the next server.
        for id in tasks.unfinished_suspended().await.unwrap_or_default() {
            if let Ok(StoredState::Interrupted(kept, held)) = tasks.read(id).await {
                self.end_suspended(&kept, held).await;
            }
        }
    }

    /// Ends a suspended call that cannot be resumed; `None` if it can.
    pub(super) async fn end_suspended(
        &self,
        kept: &SuspendedCall,
        held: RoleLock,
    ) -> Option<CallEnd> {
        let offering = self.offering();
        let record = offering
            .host
            .close_suspended(request(&offering, ResumableCall::from(kept)), kept, held)
            .await?;
        self.keep(&record).await;
        Some(CallEnd::from_record(record, offering.keep))
    }

    /// Ends a call that can no longer run; `None` if it turns out that it can, or has ended.
    pub(super) async fn end_orphan(
        &self,
        kept: &StoredApproval,
        held: RoleLock,
    ) -> Option<CallEnd> {
        let offering = self.offering();
        let record = offering
            .host
            .close(request(&offering, ResumableCall::from(kept)), kept, held)
            .await?;
        self.keep(&record).await;
        Some(CallEnd::from_record(record, offering.keep))
    }
}

/// A stored call.
#[derive(Clone, Copy)]
struct ResumableCall<'k> {
    plan: &'k Plan,
    actor: Option<&'k str>,
    invocation: &'k ToolInvocation,
}

impl<'k> From<&'k StoredApproval> for ResumableCall<'k> {
    fn from(kept: &'k StoredApproval) -> Self {
        let StoredApproval {
            approval,
            invocation,
            ..
        } = kept;
        Self {
            plan: &approval.plan,
            actor: approval.actor_ref.as_deref(),
            invocation,
        }
    }
}

impl<'k> From<&'k SuspendedCall> for ResumableCall<'k> {
    fn from(kept: &'k SuspendedCall) -> Self {
        let SuspendedCall {
            suspension,
            invocation,
            ..
        } = kept;
        Self {
            plan: &suspension.plan,
            actor: suspension.actor_ref.as_deref(),
            invocation,
        }
    }
}

/// The request of a stored call, built from the current tool set, which may deny more than before.
fn request(offering: &ToolSet, left: ResumableCall<'_>) -> Request {
    let ResumableCall {
        plan,
        actor,
        invocation,
    } = left;
    let mut limits = offering.limits.clone();
    let found = offering.offers.find(&plan.tool);
    let surface = offering.offers.surface();
    let offer = found.as_ref().ok();
    for wall in [wish(invocation), offer.and_then(|offer| offer.wall)]
        .into_iter()
        .flatten()
    {
        limits.wall = limits.wall.min(wall);
    }
    // A tool no longer offered does not run.
    let withheld = match &found {
        Ok(offer) => surface.refusal(&offer.tool, offer.standing),
        Err(refusal) => Some(refusal.clone()),
    };
    let callee = Callee::from(plan.tool.as_str()).on_surface(Arc::clone(surface.id()), withheld);
    let mut request = Request::new(callee, plan.model_input.as_str())
        .grants(Arc::clone(&offering.grants))
        .policy(Arc::clone(&offering.policy))
        .limits(limits)
        .approval(Terms {
            expire: offering.approvals.expire,
            ..Terms::default()
        })
        .actor(actor.map(str::to_owned));
    request.offered = Some(offering.offers.callable());
    request
}

/// The timeout that the first request asked for. What is stored is bound to it.
fn wish(invocation: &ToolInvocation) -> Option<Duration> {
    let wish = mapped(&invocation.extra, "_meta")?
        .get(TIMEOUT_KEY)
        .and_then(Value::as_u64);
    wish.filter(|ms| *ms > 0).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_core::record::Extra;

    use super::{TIMEOUT_KEY, mapped};

    #[test]
    fn the_metadata_of_the_first_request_is_found_in_its_record() {
        let mapping = json!([{ "source": "mcp", "tool_name": "a", "_meta": { TIMEOUT_KEY: 5 } }]);
        let extra = Extra::from_iter([("external_mappings".to_owned(), mapping)]);
        assert_eq!(
            mapped(&extra, "_meta").and_then(|meta| meta.get(TIMEOUT_KEY)),
            Some(&json!(5))
        );
        assert!(mapped(&Extra::new(), "tool_name").is_none());
    }
}
