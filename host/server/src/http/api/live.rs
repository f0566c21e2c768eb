//! The calls of this process that were made through the API: their events, and their results as far as there is room.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use toolcell::{Background, Cancellation, Listener};
use toolcell_core::record::{
    AbortReason, CallRecord, EventType, InvocationId, Status, ToolEvent, ToolResult,
};

use crate::results::json_bytes;
use crate::tasks::CallIdentity;

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
    /// `Some` if the call can go on without its request.
    task: Option<(CallIdentity, Background)>,
    state: Mutex<LiveState>,
    /// Counts the changes of the state.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct LiveState {
    events: Vec<Arc<ToolEvent>>,
    /// `true` if the call waits for an approver.
    asks: bool,
    /// `Some` if the call runs without a request.
    room: Option<BackgroundPlace>,
    end: Option<LiveCallEnd>,
}

/// The place of one call among those that run without a request; dropping it frees the place.
pub(super) struct BackgroundPlace {
    _permit: OwnedSemaphorePermit,
}

/// How a call ended.
#[derive(Clone)]
pub(super) enum LiveCallEnd {
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

/// A change that a waiting request sees.
pub(super) enum LiveChange {
    Ended(LiveCallEnd),
    Asks,
}

/// Events of a call from a number on.
pub(super) enum LiveEvents {
    Events(Vec<Arc<ToolEvent>>),
    /// There are no more.
    Over,
    /// They have left the memory.
    Recorded,
}

impl LiveCall {
    /// A call that can go on without its request is a `task`; one that does has `room`.
    pub(super) fn new(
        task: Option<(CallIdentity, Background)>,
        room: Option<BackgroundPlace>,
    ) -> Self {
        let state = Mutex::new(LiveState {
            room,
            ..LiveState::default()
        });
        let changes = watch::Sender::new(0);
        Self {
            id: OnceLock::new(),
            cancellation: Cancellation::new(),
            task,
            state,
            changes,
        }
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut LiveState)) {
        change(&mut self.state());
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
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
        self.finish(LiveCallEnd::Lost);
    }

    fn finish(&self, end: LiveCallEnd) {
        self.change(|state| (state.end, state.room) = (Some(end), None));
    }

    /// Returns whether a request waits for a change.
    pub(super) fn is_awaited(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Records that no request waits for the call. If the server stops before the call was approved and ran,
    /// another process resumes it.
    pub(super) fn enter_background(&self) {
        if let Some((identified, background)) = &self.task {
            identified.become_task();
            background.enter();
        }
    }

    pub(super) fn cancel(&self, reason: AbortReason) {
        self.cancellation.cancel(reason);
    }

    /// The state of a call that has not ended; else how it ended.
    pub(super) fn look(&self) -> Result<&'static str, LiveCallEnd> {
        let state = self.state();
        match (&state.end, state.asks) {
            (Some(end), _) => Err(end.clone()),
            (None, true) => Ok("awaiting_approval"),
            (None, false) => Ok("running"),
        }
    }

    /// The tool, as the last event names it.
    pub(super) fn tool_id(&self) -> Option<String> {
        self.state()
            .events
            .last()?
            .tool_id
            .as_deref()
            .map(str::to_owned)
    }

    /// Waits until `find` finds something.
    async fn until<T>(&self, mut find: impl FnMut(&LiveState) -> Option<T>) -> T {
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
        self.until(|state| (self.id.get().is_some() || state.end.is_some()).then_some(()))
            .await;
        self.id.get().copied()
    }

    /// Waits for the end, or, if the request `leaves` then, until an approver was asked.
    pub(super) async fn step(&self, leaves: bool) -> LiveChange {
        self.until(|state| match &state.end {
            Some(end) => Some(LiveChange::Ended(end.clone())),
            None => (state.asks && leaves).then_some(LiveChange::Asks),
        })
        .await
    }

    /// Waits for the events from the index `from` on.
    pub(super) async fn events(&self, from: usize) -> LiveEvents {
        self.until(|state| match (state.events.get(from..), &state.end) {
            (Some(events), _) if !events.is_empty() => Some(LiveEvents::Events(events.to_vec())),
            (_, Some(LiveCallEnd::Recorded)) => Some(LiveEvents::Recorded),
            (_, Some(_)) => Some(LiveEvents::Over),
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
pub(super) struct LiveCalls {
    calls: Mutex<BTreeMap<InvocationId, Arc<LiveCall>>>,
    /// Room for calls that run without a request.
    open: Arc<Semaphore>,
}

impl Default for LiveCalls {
    fn default() -> Self {
        Self {
            calls: Mutex::default(),
            open: Arc::new(Semaphore::new(OPEN_MAX)),
        }
    }
}

impl LiveCalls {
    fn calls(&self) -> MutexGuard<'_, BTreeMap<InvocationId, Arc<LiveCall>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: InvocationId) -> Option<Arc<LiveCall>> {
        self.calls().get(&id).cloned()
    }

    /// Room for one more call that runs without a request; `None` if [`OPEN_MAX`] do.
    pub(super) fn room(&self) -> Option<BackgroundPlace> {
        let permit = Arc::clone(&self.open).try_acquire_owned().ok()?;
        Some(BackgroundPlace { _permit: permit })
    }

    /// Lets `call` go on without its request. Returns whether there is room for that.
    pub(super) fn leave(&self, call: &LiveCall) -> bool {
        let mut state = call.state();
        if state.end.is_none() && state.room.is_none() {
            state.room = self.room();
            return state.room.is_some();
        }
        true
    }

    /// A listener that keeps the events of `call`, and finds it by its id from the first one on.
    pub(super) fn listener(self: &Arc<Self>, call: &Arc<LiveCall>) -> Arc<dyn Listener> {
        Arc::new(LiveListener {
            calls: Arc::clone(self),
            call: Arc::clone(call),
        })
    }

    /// Keeps the result of a call, as far as there is room.
    pub(super) fn end(&self, call: &LiveCall, record: CallRecord) {
        let CallRecord {
            invocation,
            result,
            events,
            ..
        } = record;
        let bytes = json_bytes(&result) + json_bytes(&events);
        let status = invocation.status();
        let tool_id = invocation.tool_id;
        let ended = EndedCall {
            result,
            status,
            tool_id,
            bytes,
        };
        call.finish(LiveCallEnd::Ended(Arc::new(ended)));
        self.make_room(call.id.get().copied());
    }

    /// Removes the oldest results that are too many or too large, but neither `newest` nor one that a request waits
    /// for, because the log may not have it. Later requests find such a call in the log.
    fn make_room(&self, newest: Option<InvocationId>) {
        let mut calls = self.calls();
        let size = |call: &LiveCall| match &call.state().end {
            Some(LiveCallEnd::Ended(ended)) => Some(ended.bytes),
            Some(LiveCallEnd::Recorded | LiveCallEnd::Lost) => Some(0),
            None => None,
        };
        let ended: Vec<(InvocationId, usize)> = calls
            .iter()
            .filter_map(|(id, call)| Some((*id, size(call)?)))
            .collect();
        let mut count = ended.len();
        let mut bytes = ended.iter().map(|(_, bytes)| bytes).sum::<usize>();
        for (id, size) in ended {
            if count <= ENDED_MAX && bytes <= ENDED_BYTES_MAX {
                return;
            }
            if Some(id) == newest || calls.get(&id).is_some_and(|call| call.is_awaited()) {
                continue;
            }
            (count, bytes) = (count - 1, bytes.saturating_sub(size));
            if let Some(call) = calls.remove(&id) {
                call.change(|state| {
                    (state.end, state.events) = (Some(LiveCallEnd::Recorded), Vec::new())
                });
            }
        }
    }
}

struct LiveListener {
    calls: Arc<LiveCalls>,
    call: Arc<LiveCall>,
}

impl Listener for LiveListener {
    fn event(&self, event: &ToolEvent) {
        if let Some(id) = event.invocation_id
            && self.call.id.set(id).is_ok()
        {
            self.calls.calls().insert(id, Arc::clone(&self.call));
        }
        self.call.hear(event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use toolcell_core::record::{
        ErrorCode, InvocationId, Refusal, ResultProvenance, Status, ToolResult, Trust, Writer,
    };

    use super::{ENDED_MAX, EndedCall, LiveCall, LiveCallEnd, LiveCalls, LiveChange, OPEN_MAX};

    fn result(id: InvocationId) -> ToolResult {
        let trust = Trust::Untrusted;
        let written_by = Writer::Host;
        let provenance = ResultProvenance {
            trust,
            written_by,
            tool_id: None,
            component: None,
            hooks: Vec::new(),
        };
        ToolResult::failed(
            id,
            Refusal::new(ErrorCode::ToolFailed, "message").to_error(),
            provenance,
        )
    }

    fn begin(calls: &LiveCalls) -> Arc<LiveCall> {
        let id = InvocationId::new();
        let call = Arc::new(LiveCall::new(None, None));
        call.id.set(id).unwrap();
        calls.calls().insert(id, Arc::clone(&call));
        call
    }

    fn end(calls: &LiveCalls, call: &LiveCall) {
        let id = *call.id.get().unwrap();
        let ended = EndedCall {
            result: result(id),
            status: Status::Failed,
            tool_id: "tool".to_owned(),
            bytes: 1,
        };
        call.finish(LiveCallEnd::Ended(Arc::new(ended)));
        calls.make_room(Some(id));
    }

    #[tokio::test]
    async fn a_result_stays_until_the_request_that_waits_for_it_has_it() {
        let calls = LiveCalls::default();
        let awaited = begin(&calls);
        // The oldest: ids begin with the time in milliseconds.
        std::thread::sleep(Duration::from_millis(5));
        let mut waits = Box::pin(awaited.step(false));
        assert!(
            waits
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        end(&calls, &awaited);
        for _ in 0..ENDED_MAX {
            end(&calls, &begin(&calls));
        }
        assert_eq!(calls.calls().len(), ENDED_MAX, "results are bounded");
        assert!(matches!(
            waits.await,
            LiveChange::Ended(LiveCallEnd::Ended(_))
        ));
        end(&calls, &begin(&calls));
        assert!(
            matches!(awaited.look(), Err(LiveCallEnd::Recorded)),
            "no request waits for it any more"
        );
    }

    #[test]
    fn a_call_goes_on_without_its_request_only_as_far_as_there_is_room() {
        let calls = LiveCalls::default();
        let open: Vec<_> = (0..OPEN_MAX).map(|_| begin(&calls)).collect();
        assert!(open.iter().all(|call| calls.leave(call)));
        let more = begin(&calls);
        assert!(!calls.leave(&more) && calls.room().is_none());
        assert!(calls.leave(&open[0]), "it has its room already");
        open[0].lose();
        assert!(calls.leave(&more));
        end(&calls, &open[1]);
        assert!(calls.room().is_some());
    }
}
