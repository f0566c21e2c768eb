//! Resumes or ends calls that another process began.

use std::sync::Arc;

use rmcp::model::InputResponses;
use tokio::sync::mpsc;
use toolcell::{CallContext, CallRecord, CallSpec, Keep};
use toolcell_engine::pipeline::{Background, StoredCallRef};
use toolcell_journal::{RoleLock, StoredApproval, SuspendedCall};

use crate::Server;
use crate::asking::{ApprovalAnnouncers, AskChannel, CallQuestion, messenger, reopen};
use crate::calls::{CallEnd, CallEntry, CallPlace, TooLarge};

use super::Tasks;
use super::stored::StoredState;

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
        let Some(place) = self.places.begin() else {
            return;
        };
        let offering = self.offering();
        let keep = offering.keep;
        let background = Background::default();
        background.set_returns();
        let entry = CallEntry::new(owner.into(), Some(background.clone())).identified_as(id);
        let mut context = CallContext {
            cancellation: entry.cancellation.clone(),
            background: Some(background),
            keeper: self.keeper(),
            ..CallContext::default()
        };
        let mut questions = None;
        if channel == AskChannel::InputRequired {
            let actor = kept.approval.actor_ref.as_deref();
            let announcers = ApprovalAnnouncers::default();
            let (respondent, asked) = messenger(actor, announcers, offering.outdated());
            context.respondent = Some(Arc::new(respondent));
            questions = Some(asked);
        }
        let spec = CallSpec::from(StoredCallRef::from(&*kept));
        let resume = async move { offering.tools.resume(spec, &*kept, held, context).await };
        self.run_resumed(tasks, entry, (place, keep), resume, (questions, None));
    }

    /// Runs a call that another process began, in a task of its own, and registers it. Returns its entry.
    fn run_resumed(
        self: &Arc<Self>,
        tasks: &Arc<Tasks>,
        entry: CallEntry,
        (place, keep): (CallPlace, Keep),
        resume: impl Future<Output = Option<CallRecord>> + Send + 'static,
        asked: (Option<mpsc::Receiver<CallQuestion>>, Option<CallQuestion>),
    ) -> Arc<CallEntry> {
        // Its client asks about it: no request waits.
        entry.set_left();
        let entry = Arc::new(entry);
        let server = Arc::clone(self);
        let resumed = Arc::clone(&entry);
        let call = tokio::spawn(async move {
            let record = server
                .until_stopped(
                    &resumed.cancellation,
                    || resumed.can_be_left(),
                    std::pin::pin!(resume),
                )
                .await
                .flatten();
            if let Some(record) = &record {
                server.keep(record).await;
            }
            drop(place);
            record.map(Box::new)
        });
        self.calls.enter(&entry);
        tasks.follow(Arc::clone(&entry), call, keep, asked);
        entry
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
        let (Some(place), Some((messenger, ask, questions))) = (
            self.places.begin(),
            reopen(&kept.suspension, offering.outdated()),
        ) else {
            return Ok(false);
        };
        let keep = offering.keep;
        let background = Background::returned(kept.suspension.rounds);
        let entry = CallEntry::new(owner.into(), Some(background.clone())).identified_as(id);
        let context = CallContext {
            cancellation: entry.cancellation.clone(),
            background: Some(background),
            keeper: self.keeper(),
            respondent: Some(Arc::new(messenger)),
            ..CallContext::default()
        };
        let spec = CallSpec::from(StoredCallRef::from(&*kept));
        let resume = async move { offering.tools.resume(spec, &*kept, held, context).await };
        let asked = (Some(questions), Some(ask));
        let entry = self.run_resumed(tasks, entry, (place, keep), resume, asked);
        entry.give(responses).map(|()| true)
    }

    /// Goes on with a stored call that was approved, and ends one that cannot go on. `owner` can ask about it here: by
    /// default, its caller.
    pub(super) async fn settle(
        self: &Arc<Self>,
        tasks: &Arc<Tasks>,
        owner: Option<&str>,
        channel: AskChannel,
        stored: StoredState,
    ) -> StoredState {
        let ended = match stored {
            StoredState::Approved(kept, held) => {
                let actor = kept.approval.actor_ref.as_deref().unwrap_or_default();
                let owner = owner.map_or_else(|| format!("{actor}\n{actor}"), str::to_owned);
                self.go_on(tasks, &owner, kept, held, channel);
                None
            }
            StoredState::Over(kept, held) => self.end_stored(&*kept, held).await,
            StoredState::Interrupted(kept, held) => self.end_stored(&*kept, held).await,
            other => return other,
        };
        ended.map_or(StoredState::Working, |end| {
            StoredState::Ended(Box::new(end))
        })
    }

    /// Ends the suspended calls that no living process has and none can resume, and removes all of their state.
    pub(crate) async fn end_all_suspended(&self, tasks: &Tasks) {
        // Whatever cannot be read now is looked at when its client asks for it, or by the next server.
        for id in tasks.unfinished_suspended().await.unwrap_or_default() {
            if let Ok(StoredState::Interrupted(kept, held)) = tasks.read(id).await {
                self.end_stored(&*kept, held).await;
            }
        }
    }

    /// Ends a call that can no longer run; `None` if it turns out that it can, or has ended.
    pub(super) async fn end_stored<'k>(
        &self,
        stored: impl Into<StoredCallRef<'k>>,
        held: RoleLock,
    ) -> Option<CallEnd> {
        let offering = self.offering();
        let record = offering.tools.close(stored, held).await?;
        self.keep(&record).await;
        Some(CallEnd::from_record(record, offering.keep))
    }
}
