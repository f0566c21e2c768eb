//! Notes: events that are appended while their call runs, for those who follow the log from another process. No call waits
//! for one: a thread appends them, at most one line per call in [`TICK`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use toolcell_spec::{EventType, InvocationId, ToolEvent};
use toolcell_system::pool::STORE;

use super::call_lines::{EventList, NotePayload};
use super::line::Kind;
use super::{CallLog, Inner, Keep, LogError};

/// Time between two lines of one call.
const TICK: Duration = Duration::from_millis(100);
/// How long the thread waits for more to do.
const IDLE: Duration = Duration::from_millis(500);
/// Stack of the thread, in bytes.
const STACK_BYTES: usize = 512 << 10;

/// A call that runs, and has events that the log does not have yet.
pub(crate) trait NoteSource: Send + Sync {
    /// Appends them to `log`.
    fn note(&self, log: &CallLog);
}

/// The calls with events to note. Apart from the log, so that the thread that waits for them keeps no segment locked.
#[derive(Default)]
pub(super) struct Notes {
    waiting: Mutex<NoteQueue>,
    more: Condvar,
}

#[derive(Default)]
struct NoteQueue {
    calls: Vec<Weak<dyn NoteSource>>,
    /// `true` if there is a thread.
    is_served: bool,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, NoteQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for calls to note; `false` if none came.
    fn wait(&self) -> bool {
        let is_empty = |waiting: &mut NoteQueue| waiting.calls.is_empty();
        let waited = self.more.wait_timeout_while(self.lock(), IDLE, is_empty);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.is_served = !waiting.calls.is_empty();
        waiting.is_served
    }

    /// Appends notes of the calls that have some, until there were none for a while.
    fn serve(&self, log: &Weak<Inner>) {
        while self.wait() {
            thread::sleep(TICK);
            let calls = std::mem::take(&mut self.lock().calls);
            let Some(inner) = log.upgrade() else { break };
            let log = CallLog(inner);
            calls
                .iter()
                .filter_map(Weak::upgrade)
                .for_each(|call| call.note(&log));
        }
    }
}

impl CallLog {
    /// `true` if `event` of a running call is for followers of the log before the call ends.
    pub(crate) fn wants(&self, event: &ToolEvent) -> bool {
        let wanted = matches!(
            event.event_type,
            EventType::Progress
                | EventType::PartialResult
                | EventType::NeedsInput
                | EventType::Resumed
                | EventType::PermissionRequested
                | EventType::CancelRequested
        );
        // With less, the journal shall not keep what calls did that succeed.
        wanted && self.0.settings.keep == Keep::All
    }

    /// Has the events of `call` noted soon.
    pub(crate) fn note_soon(&self, call: Weak<dyn NoteSource>) {
        let mut waiting = self.0.notes.lock();
        waiting.calls.push(call);
        if !std::mem::replace(&mut waiting.is_served, true) {
            let notes = Arc::clone(&self.0.notes);
            let log = Arc::downgrade(&self.0);
            let thread = thread::Builder::new()
                .name("notes".to_owned())
                .stack_size(STACK_BYTES);
            // Without a thread, followers hear of the call when it ends.
            waiting.is_served = thread.spawn(move || notes.serve(&log)).is_ok();
        }
        self.0.notes.more.notify_one();
    }

    /// Appends `events` of the call `id`; `first` is the place of the first one among its events.
    pub(crate) fn noted(
        &self,
        id: InvocationId,
        session: Option<&str>,
        first: usize,
        events: &[ToolEvent],
    ) -> Result<(), LogError> {
        let note = NotePayload {
            session,
            first,
            events: EventList::new(Some(id), events),
        };
        self.append(Kind::Noted, Some(id), &note)?;
        if let Some(started) = self.0.started().get_mut(&id) {
            started.add_events(first, events.len());
        }
        Ok(())
    }

    /// Appends events that belong to no call, on a thread for the host's own store.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub async fn announced(
        &self,
        events: Vec<ToolEvent>,
        session: Option<String>,
    ) -> Result<(), LogError> {
        if self.0.settings.keep != Keep::All || events.is_empty() {
            return Ok(());
        }
        let log = self.clone();
        let append = move || {
            let note = NotePayload {
                session: session.as_deref(),
                first: 0,
                events: EventList::new(None, &events),
            };
            log.append(Kind::Noted, None, &note).map(drop)
        };
        STORE
            .run(append)
            .await
            .unwrap_or_else(|error| Err(self.failed("write", &error)))
    }
}
