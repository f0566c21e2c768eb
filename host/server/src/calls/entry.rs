use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rmcp::model::{ElicitRequestParams, InputResponses, MetaObject};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use toolcell::{Cancellation, Listener};
use toolcell_engine::pipeline::Background;
use toolcell_spec::{
    AbortReason, EventType, InvocationId, Status, Timestamp, ToolEvent, json_bytes,
};

use crate::asking::{CallQuestion, wire};

use super::Calls;
use super::ended::CallEnd;

const ANSWERS_BYTES_MAX: usize = 256 << 10;

pub(crate) struct CallEntry {
    pub(crate) owner: Arc<str>,
    pub(crate) cancellation: Cancellation,
    /// Known from the first event on.
    id: OnceLock<InvocationId>,
    /// Numbers the rounds of questions, too; `None` if the call cannot go on without its request.
    background: Option<Background>,
    is_left: AtomicBool,
    state: Mutex<EntryState>,
    changes: watch::Sender<u64>,
}

struct EntryState {
    events: Vec<Arc<ToolEvent>>,
    /// Running, or what it waits for.
    status: Status,
    questions: Option<mpsc::Receiver<CallQuestion>>,
    open: Option<QuestionRound>,
    /// `Some` if the call runs without a request of the HTTP API.
    room: Option<BackgroundPlace>,
    updated: Timestamp,
    end: Option<EntryEnd>,
    /// The client got the result.
    is_read: bool,
}

/// Questions that were asked together.
struct QuestionRound {
    ask: CallQuestion,
    number: usize,
    /// The call gets all at once, because it asks again for what is missing.
    given: InputResponses,
}

/// A place among the calls that run without a request; dropping it frees the place.
pub(crate) struct BackgroundPlace {
    pub(crate) _permit: OwnedSemaphorePermit,
}

#[derive(Clone)]
pub(crate) enum EntryEnd {
    Ended(Arc<CallEnd>),
    /// No longer in memory; the log may have it.
    Recorded,
    /// No result: the host failed, or left the call to another process.
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ResultWeight {
    pub(super) bytes: usize,
    pub(super) is_read: bool,
    pub(super) is_recorded: bool,
}

pub(crate) enum CallChange {
    Ended(EntryEnd),
    Asks,
}

pub(crate) enum CallEvents {
    Events(Vec<Arc<ToolEvent>>),
    Over,
    Recorded,
}

pub(crate) enum TaskState {
    Working(Timestamp),
    Asks {
        questions: BTreeMap<String, ElicitRequestParams>,
        meta: MetaObject,
        /// The task's call, or one that its tool makes.
        approval: Option<InvocationId>,
        updated: Timestamp,
    },
    Ended(Arc<CallEnd>, Timestamp),
}

/// The answers of a client take more than [`ANSWERS_BYTES_MAX`].
#[derive(Debug, thiserror::Error)]
#[error("the answers take more than {ANSWERS_BYTES_MAX} bytes: send shorter ones")]
pub(crate) struct TooLarge;

impl CallEntry {
    /// A call with a `background` can go on without its request.
    pub(crate) fn new(owner: Arc<str>, background: Option<Background>) -> Self {
        Self {
            owner,
            cancellation: Cancellation::new(),
            id: OnceLock::new(),
            background,
            is_left: AtomicBool::new(false),
            state: Mutex::new(EntryState {
                events: Vec::new(),
                status: Status::Running,
                questions: None,
                open: None,
                room: None,
                updated: Timestamp::now(),
                end: None,
                is_read: false,
            }),
            changes: watch::Sender::new(0),
        }
    }

    #[must_use]
    pub(crate) fn identified_as(self, id: InvocationId) -> Self {
        Self {
            id: id.into(),
            ..self
        }
    }

    fn change(&self, change: impl FnOnce(&mut EntryState)) {
        change(&mut self.state.lock());
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// `None` before the first event.
    pub(crate) fn id(&self) -> Option<InvocationId> {
        self.id.get().copied()
    }

    pub(crate) fn background(&self) -> Option<&Background> {
        self.background.as_ref()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().end.is_none()
    }

    pub(crate) fn cancel(&self, reason: AbortReason) {
        self.cancellation.cancel(reason);
    }

    /// No request waits for the call: its client asks about it.
    pub(crate) fn set_left(&self) {
        self.is_left.store(true, Ordering::Release);
    }

    /// Another process resumes the call if the server stops before it was approved and ran.
    pub(crate) fn enter_background(&self) {
        if let Some(background) = &self.background {
            self.set_left();
            background.enter();
        }
    }

    /// Dropping the call's future does not lose the call.
    pub(crate) fn can_be_left(&self) -> bool {
        let can = self
            .background
            .as_ref()
            .is_some_and(Background::can_be_left);
        can && self.is_left.load(Ordering::Acquire)
    }

    /// Learns the id from the first event.
    pub(crate) fn learning(self: &Arc<Self>, next: Option<Arc<dyn Listener>>) -> Arc<dyn Listener> {
        Arc::new(EntryListener {
            entry: Arc::clone(self),
            calls: None,
            next,
        })
    }

    /// Registers the call in `calls` from its first event on, and keeps its events.
    pub(crate) fn listening(self: &Arc<Self>, calls: &Arc<Calls>) -> Arc<dyn Listener> {
        Arc::new(EntryListener {
            entry: Arc::clone(self),
            calls: Some(Arc::clone(calls)),
            next: None,
        })
    }

    pub(crate) fn set_room(&self, room: Option<BackgroundPlace>) {
        self.state.lock().room = room;
    }

    /// Fails if the call has no place, and `room` gives none.
    pub(crate) fn leave(&self, room: impl FnOnce() -> Option<BackgroundPlace>) -> bool {
        let mut state = self.state.lock();
        if state.end.is_none() && state.room.is_none() {
            state.room = room();
            return state.room.is_some();
        }
        true
    }

    pub(crate) fn asks(&self) {
        self.change(|state| state.status = Status::AwaitingApproval);
    }

    pub(super) fn end(&self, mut ended: CallEnd) {
        ended.bytes += json_bytes(&self.state.lock().events);
        self.finish(EntryEnd::Ended(Arc::new(ended)));
    }

    pub(super) fn finish(&self, end: EntryEnd) {
        self.change(|state| {
            if matches!(end, EntryEnd::Recorded) {
                state.events = Vec::new();
            }
            (state.open, state.questions, state.room) = (None, None, None);
            state.updated = Timestamp::now();
            state.end = Some(end);
        });
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Size, and harm of the loss; `None` before the call has ended.
    pub(super) fn weight(&self) -> Option<ResultWeight> {
        let state = self.state.lock();
        let ended = match state.end.as_ref()? {
            EntryEnd::Ended(ended) => Some(ended),
            EntryEnd::Recorded | EntryEnd::Lost => None,
        };
        Some(ResultWeight {
            bytes: ended.map_or(0, |ended| ended.bytes),
            is_read: state.is_read,
            is_recorded: ended.is_some_and(|ended| ended.is_recorded),
        })
    }

    pub(super) fn is_unwritten(&self) -> bool {
        match &self.state.lock().end {
            Some(EntryEnd::Ended(ended)) => ended.is_unwritten,
            Some(EntryEnd::Lost) => true,
            Some(EntryEnd::Recorded) | None => false,
        }
    }

    /// The error is how the call ended.
    pub(crate) fn look(&self) -> Result<Status, EntryEnd> {
        let mut state = self.state.lock();
        state.is_read = state.end.is_some();
        state.end.clone().map_or(Ok(state.status), Err)
    }

    pub(crate) fn tool_id(&self) -> Option<String> {
        let state = self.state.lock();
        state.events.last()?.tool_id.as_deref().map(str::to_owned)
    }

    async fn until<T>(&self, mut find: impl FnMut(&EntryState) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            let found = find(&self.state.lock());
            if let Some(found) = found {
                return found;
            }
            // The sender lives as long as the call.
            let _ = changes.changed().await;
        }
    }

    /// `None` if the call ended without an id.
    pub(crate) async fn identified(&self) -> Option<InvocationId> {
        self.until(|state| (self.id.get().is_some() || state.end.is_some()).then_some(()))
            .await;
        self.id()
    }

    /// Waits for the end, or, if the request `leaves`, until an approver was asked.
    pub(crate) async fn step(&self, leaves: bool) -> CallChange {
        self.until(|state| match &state.end {
            Some(end) => Some(CallChange::Ended(end.clone())),
            None => {
                (leaves && state.status == Status::AwaitingApproval).then_some(CallChange::Asks)
            }
        })
        .await
    }

    /// Waits for events from the index `from` on.
    pub(crate) async fn events(&self, from: usize) -> CallEvents {
        self.until(|state| match (state.events.get(from..), &state.end) {
            (Some(events), _) if !events.is_empty() => Some(CallEvents::Events(events.to_vec())),
            (_, Some(EntryEnd::Recorded)) => Some(CallEvents::Recorded),
            (_, Some(_)) => Some(CallEvents::Over),
            (_, None) => None,
        })
        .await
    }

    fn hear(&self, event: &ToolEvent) {
        self.change(|state| {
            state.status = match event.event_type {
                EventType::Queued => Status::Queued,
                EventType::NeedsInput => Status::NeedsInput,
                EventType::Started | EventType::Resumed => Status::Running,
                _ => state.status,
            };
            state.events.push(Arc::new(event.clone()));
        });
    }

    /// `ask` is open already.
    pub(crate) fn take_questions(
        &self,
        questions: Option<mpsc::Receiver<CallQuestion>>,
        ask: Option<CallQuestion>,
    ) {
        let mut state = self.state.lock();
        state.questions = questions;
        if let Some(ask) = ask {
            self.begin_round(&mut state, ask);
        }
    }

    /// `None` if the result has left the memory.
    pub(crate) fn task_state(&self) -> Option<TaskState> {
        let mut state = self.state.lock();
        self.refresh(&mut state);
        state.is_read = state.end.is_some();
        match (&state.end, &state.open) {
            (Some(EntryEnd::Ended(ended)), _) => {
                Some(TaskState::Ended(Arc::clone(ended), state.updated))
            }
            (Some(EntryEnd::Lost), _) => {
                let lost = Arc::new(CallEnd::lost(self.id()?));
                Some(TaskState::Ended(lost, state.updated))
            }
            (Some(EntryEnd::Recorded), _) => None,
            (None, Some(round)) => Some(TaskState::Asks {
                questions: round.questions(),
                meta: round.ask.meta(),
                approval: round.ask.approval_of(),
                updated: state.updated,
            }),
            (None, None) => Some(TaskState::Working(state.updated)),
        }
    }

    /// The call goes on once all questions are answered.
    pub(crate) fn give(&self, responses: &InputResponses) -> Result<(), TooLarge> {
        let mut state = self.state.lock();
        self.refresh(&mut state);
        let Some(round) = &mut state.open else {
            return Ok(());
        };
        let mut given = round.given.clone();
        let mut keys = round.ask.questions().into_keys().peekable();
        let mut complete = keys.peek().is_some();
        for key in keys {
            match responses
                .get(&round.wire(&key))
                .cloned()
                .or_else(|| round.given.get(&key).cloned())
            {
                Some(response) => _ = given.insert(key, response),
                None => complete = false,
            }
        }
        let bytes: usize = given
            .iter()
            .map(|(key, response)| key.len() + response.to_string().len())
            .sum();
        if bytes > ANSWERS_BYTES_MAX {
            return Err(TooLarge);
        }
        round.given = given;
        if complete && let Some(QuestionRound { ask, number, given }) = state.open.take() {
            state.updated = Timestamp::now();
            // Answers that cannot be read leave the question open.
            state.open = ask.answer(Some(&given)).err().map(|ask| QuestionRound {
                ask,
                number,
                given: InputResponses::new(),
            });
        }
        Ok(())
    }

    /// Drops a question that was answered elsewhere, and takes the next one.
    fn refresh(&self, state: &mut EntryState) {
        if state
            .open
            .as_ref()
            .is_some_and(|round| round.ask.is_closed())
        {
            state.open = None;
            state.updated = Timestamp::now();
        }
        while state.open.is_none()
            && let Some(questions) = &mut state.questions
            && let Ok(ask) = questions.try_recv()
        {
            if !ask.is_closed() {
                self.begin_round(state, ask);
                state.updated = Timestamp::now();
            }
        }
    }

    fn begin_round(&self, state: &mut EntryState, ask: CallQuestion) {
        state.open = Some(QuestionRound {
            ask,
            number: self.background.as_ref().map_or(1, Background::begin_round),
            given: InputResponses::new(),
        });
    }
}

impl QuestionRound {
    fn wire(&self, key: &str) -> String {
        wire(key, self.number)
    }

    fn questions(&self) -> BTreeMap<String, ElicitRequestParams> {
        let open = self
            .ask
            .questions()
            .into_iter()
            .filter(|(key, _)| !self.given.contains_key(key));
        open.map(|(key, question)| (self.wire(&key), question))
            .collect()
    }
}

/// Only the call owns it: dropping it tells `next` that the call has ended.
struct EntryListener {
    entry: Arc<CallEntry>,
    /// `None` for a call that may become a task.
    calls: Option<Arc<Calls>>,
    next: Option<Arc<dyn Listener>>,
}

impl Listener for EntryListener {
    fn event(&self, event: &ToolEvent) {
        let is_new = event
            .invocation_id
            .is_some_and(|id| self.entry.id.set(id).is_ok());
        if let Some(calls) = &self.calls {
            if is_new {
                calls.enter(&self.entry);
            }
            self.entry.hear(event);
        }
        if let Some(next) = &self.next {
            next.event(event);
        }
    }
}
