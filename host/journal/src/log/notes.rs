//! Notes: events that are appended while their call runs, for those who follow the log from another process.

use toolcell_spec::{EventType, InvocationId, ToolEvent};

use super::call_lines::{NotePayload, brief};
use super::line::Kind;
use super::{CallLog, Keep, LogError};

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
            events: brief(Some(id), events),
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
