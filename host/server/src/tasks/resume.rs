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
    /// The call stays as it is without a place: the next question about it tries again.
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
        let offering = self.offering_of(kept.approval.actor_ref.as_deref());
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

    /// Goes on once all questions of the earlier process are answered. `false` without a place.
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
        let offering = self.offering_of(kept.suspension.actor_ref.as_deref());
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

    /// `owner` can ask about the call here: by default, its caller.
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

    /// No living process has them and none can resume; all of their state is removed.
    pub(crate) async fn end_all_suspended(&self, tasks: &Tasks) {
        // Whatever cannot be read now is looked at when its client asks for it, or by the next server.
        for id in tasks.unfinished_suspended().await.unwrap_or_default() {
            if let Ok(StoredState::Interrupted(kept, held)) = tasks.read(id).await {
                self.end_stored(&*kept, held).await;
            }
        }
    }

    /// `None` if the call can run after all, or has ended.
    pub(super) async fn end_stored<'k>(
        &self,
        stored: impl Into<StoredCallRef<'k>>,
        held: RoleLock,
    ) -> Option<CallEnd> {
        let stored = stored.into();
        let offering = self.offering_of(stored.actor_ref().map(String::as_str));
        let record = offering.tools.close(stored, held).await?;
        self.keep(&record).await;
        Some(CallEnd::from_record(record, offering.keep))
    }
}
