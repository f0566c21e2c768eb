//! The calls of this process that were made through the API: their events, and their results as far as there is room.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::json;
use tokio::sync::watch;
use toolcell::{Background, Cancellation, Listener};
use toolcell_core::record::{AbortReason, CallRecord, EventType, InvocationId, Status, ToolEvent, ToolResult};

/// Maximum number of ended calls of one principal that are kept in memory, and maximum size of their results and events,
/// in bytes of JSON. The log has others, as its settings say.
const ENDED_MAX: usize = 64;
const ENDED_BYTES_MAX: usize = 4 << 20;
/// Maximum number of calls of one principal that run without a request.
const OPEN_MAX: usize = 64;

/// One call.
pub(super) struct LiveCall {
    id: OnceLock<InvocationId>,
    pub(super) cancellation: Cancellation,
    /// `Some` if the call goes on without its request.
    background: Option<Background>,
    state: Mutex<State>,
    /// Counts the changes of the state.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    events: Vec<Arc<ToolEvent>>,
    /// Whether an approver has been asked, and the call waits.
    asks: bool,
    end: Option<End>,
}

/// How a call ended.
#[derive(Clone)]
pub(super) enum End {
    Ended(Arc<EndedCall>),
    /// The result has left the memory; the log may have it.
    Recorded,
    /// There is no result: the host failed, or left the call to another process.
    Lost,
}

pub(super) struct EndedCall {
    pub(super) result: ToolResult,
    pub(super) status: Status,
    pub(super) tool_id: String,
    /// Size of the result and the events as JSON, in bytes.
    bytes: usize,
}

/// What a request that waits learns of its call.
pub(super) enum Step {
    Ended(End),
    Asks,
}

/// Events of a call from a number on.
pub(super) enum News {
    Events(Vec<Arc<ToolEvent>>),
    /// There are no more.
    Over,
    /// They have left the memory.
    Recorded,
}

impl LiveCall {
    pub(super) fn new(background: Option<Background>) -> Self {
        let (state, changes) = (Mutex::default(), watch::Sender::new(0));
        Self { id: OnceLock::new(), cancellation: Cancellation::new(), background, state, changes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn is_open(&self) -> bool {
        self.state().end.is_none()
    }

    /// Notes that an approver was asked.
    pub(super) fn asks(&self) {
        self.change(|state| state.asks = true);
    }

    /// Ends a call that has no record.
    pub(super) fn lose(&self) {
        self.change(|state| state.end = Some(End::Lost));
    }

    /// Records that no request waits for the call any more.
    pub(super) fn enter_background(&self) {
        self.background.iter().for_each(Background::enter);
    }

    pub(super) fn cancel(&self) {
        self.cancellation.cancel(AbortReason::UserInterruption);
    }

    /// The state of a call that has not ended; else how it ended.
    pub(super) fn look(&self) -> Result<&'static str, End> {
        let state = self.state();
        match (&state.end, state.asks) {
            (Some(end), _) => Err(end.clone()),
            (None, true) => Ok("awaiting_approval"),
            (None, false) => Ok("running"),
        }
    }

    /// The tool, as the last event names it.
    pub(super) fn tool_id(&self) -> Option<String> {
        self.state().events.last()?.tool_id.as_deref().map(str::to_owned)
    }

    /// Waits until `find` finds something.
    async fn until<T>(&self, mut find: impl FnMut(&State) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            let found = find(&self.state());
            if let Some(found) = found {
                return found;
            }
            // The sender lives as long as the call.
            let _ = changes.changed().await;
        }
    }

    /// Waits for the id; `None` if the call has ended without one.
    pub(super) async fn identified(&self) -> Option<InvocationId> {
        self.until(|state| (self.id.get().is_some() || state.end.is_some()).then_some(())).await;
        self.id.get().copied()
    }

    /// Waits for the end, or, if the request `leaves` then, until an approver was asked.
    pub(super) async fn step(&self, leaves: bool) -> Step {
        self.until(|state| match &state.end {
            Some(end) => Some(Step::Ended(end.clone())),
            None => (state.asks && leaves).then_some(Step::Asks),
        })
        .await
    }

    /// Waits for the events from the index `from` on.
    pub(super) async fn events(&self, from: usize) -> News {
        self.until(|state| match (state.events.get(from..), &state.end) {
            (Some(events), _) if !events.is_empty() => Some(News::Events(events.to_vec())),
            (_, Some(End::Recorded)) => Some(News::Recorded),
            (_, Some(_)) => Some(News::Over),
            (_, None) => None,
        })
        .await
    }

    fn hear(&self, event: &ToolEvent) {
        self.change(|state| {
            if matches!(event.event_type, EventType::Queued | EventType::Started) {
                state.asks = false;
            }
            state.events.push(Arc::new(event.clone()));
        });
    }
}

/// The calls of one principal.
#[derive(Default)]
pub(super) struct LiveCalls(Mutex<BTreeMap<InvocationId, Arc<LiveCall>>>);

impl LiveCalls {
    fn calls(&self) -> MutexGuard<'_, BTreeMap<InvocationId, Arc<LiveCall>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: InvocationId) -> Option<Arc<LiveCall>> {
        self.calls().get(&id).cloned()
    }

    /// Whether one more call may run without a request.
    pub(super) fn have_room(&self) -> bool {
        let open = self.calls().values().filter(|call| call.background.is_some() && call.is_open()).count();
        open < OPEN_MAX || !guard!("open_calls")
    }

    /// A listener that keeps the events of `call`, and finds it by its id from the first one on.
    pub(super) fn listener(self: &Arc<Self>, call: &Arc<LiveCall>) -> Arc<dyn Listener> {
        Arc::new(Hearing { calls: Arc::clone(self), call: Arc::clone(call) })
    }

    /// Keeps the result of a call, as far as there is room.
    pub(super) fn end(&self, call: &LiveCall, record: CallRecord) {
        let CallRecord { invocation, result, events, .. } = record;
        let bytes = json!(result).to_string().len() + json!(events).to_string().len();
        let (status, tool_id) = (invocation.status(), invocation.tool_id);
        let ended = EndedCall { result, status, tool_id, bytes };
        call.change(|state| state.end = Some(End::Ended(Arc::new(ended))));
        self.make_room(call.id.get().copied());
    }

    /// Removes the oldest results that are too many or too large, but not that of `newest`, for which a request waits.
    /// Requests that hold such a call find it in the log.
    fn make_room(&self, newest: Option<InvocationId>) {
        let mut calls = self.calls();
        let size = |call: &LiveCall| match &call.state().end {
            Some(End::Ended(ended)) => Some(ended.bytes),
            Some(End::Recorded | End::Lost) => Some(0),
            None => None,
        };
        let ended: Vec<(InvocationId, usize)> =
            calls.iter().filter_map(|(id, call)| Some((*id, size(call)?))).collect();
        let (mut count, mut bytes) = (ended.len(), ended.iter().map(|(_, bytes)| bytes).sum::<usize>());
        for (id, size) in ended {
            if count <= ENDED_MAX && bytes <= ENDED_BYTES_MAX {
                return;
            }
            if Some(id) == newest {
                continue;
            }
            (count, bytes) = (count - 1, bytes.saturating_sub(size));
            if let Some(call) = calls.remove(&id) {
                call.change(|state| (state.end, state.events) = (Some(End::Recorded), Vec::new()));
            }
        }
    }
}

struct Hearing {
    calls: Arc<LiveCalls>,
    call: Arc<LiveCall>,
}

impl Listener for Hearing {
    fn event(&self, event: &ToolEvent) {
        if let Some(id) = event.invocation_id
            && self.call.id.set(id).is_ok()
        {
            self.calls.calls().insert(id, Arc::clone(&self.call));
        }
        self.call.hear(event);
    }
}
