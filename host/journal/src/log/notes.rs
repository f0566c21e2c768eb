//! Notes: events of running calls, for followers in other processes. No call waits: a thread appends at most one line
//! per call in [`TICK`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::trail::WeakTrail;
use toolcell_spec::{EventType, InvocationId, ToolEvent};

use super::call_lines::{NotePayload, brief};
use super::line::Kind;
use super::{CallLog, Keep, LogError};

const TICK: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 512 << 10;

/// Calls with events to note, apart from the log, so that the thread keeps no segment locked while it sleeps.
#[derive(Default)]
pub(super) struct Notes(Mutex<NoteQueue>);

#[derive(Default)]
struct NoteQueue {
    calls: Vec<WeakTrail>,
    is_served: bool,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, NoteQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Vec<WeakTrail>> {
        let mut waiting = self.lock();
        waiting.is_served = !waiting.calls.is_empty();
        let calls = std::mem::take(&mut waiting.calls);
        waiting.is_served.then_some(calls)
    }

    fn serve(&self) {
        thread::sleep(TICK);
        while let Some(calls) = self.next() {
            let running = calls.iter().filter_map(WeakTrail::upgrade);
            running.for_each(|call| call.note());
            thread::sleep(TICK);
        }
    }
}

impl CallLog {
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

    pub(crate) fn note_soon(&self, call: WeakTrail) {
        let mut waiting = self.0.notes.lock();
        waiting.calls.push(call);
        if !waiting.is_served {
            let notes = Arc::clone(&self.0.notes);
            let thread = thread::Builder::new()
                .name("notes".to_owned())
                .stack_size(STACK_BYTES);
            // Without a thread, followers hear of the call when it ends.
            waiting.is_served = thread.spawn(move || notes.serve()).is_ok();
        }
    }

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
            events: brief(Some(id), events),
        };
        self.append(Kind::Noted, Some(id), &note)?;
        if let Some(started) = self.0.started().get_mut(&id) {
            started.add_events(first, events.len());
        }
        Ok(())
    }

    /// Appends events of no call, on a thread for the host's own store.
    pub async fn announced(
        &self,
        events: Vec<ToolEvent>,
        session: Option<String>,
    ) -> Result<(), LogError> {
        if self.0.settings.keep != Keep::All || events.is_empty() {
            return Ok(());
        }
        let log = self.clone();
        self.aside(move || {
            let note = NotePayload {
                session: session.as_deref(),
                first: 0,
                events,
            };
            log.append(Kind::Noted, None, &note).map(drop)
        })
        .await
    }
}
