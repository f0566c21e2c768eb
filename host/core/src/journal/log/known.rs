use crate::record::{InvocationId, ToolEvent};

use super::{CallLog, LogError, index, numbers, orphan, segment};

/// Maximum number of segments in which the notes of one call are looked for.
const SEGMENTS_MAX: u64 = 8;

impl CallLog {
    /// The events of the call `id` that were noted while it ran, from its first one on, without a gap. Empty if there are
    /// none, if the call has ended, or if the log cannot be read.
    pub async fn noted_events(&self, id: InvocationId) -> Vec<ToolEvent> {
        let log = self.clone();
        self.aside(move || log.read_noted(&id.to_string()))
            .await
            .unwrap_or_default()
    }

    fn read_noted(&self, id: &str) -> Result<Vec<ToolEvent>, LogError> {
        let Some(index) = self.index()? else {
            return Ok(Vec::new());
        };
        let last = numbers::noted_in(&index, id).map_err(|error| self.failed("search", &error))?;
        let Some(last) = last else {
            return Ok(Vec::new());
        };
        let mut notes = Vec::new();
        // A call that has not started is noted in whichever segment its process writes.
        for number in (last.saturating_sub(SEGMENTS_MAX - 1).max(1)..=last).rev() {
            let earlier = segment::notes_of(self.dir(), number, id)
                .map_err(|error| self.failed("read", &error))?;
            notes.splice(..0, earlier);
            let events = orphan::noted(&notes);
            if !events.is_empty() {
                return Ok(events);
            }
        }
        Ok(Vec::new())
    }

    /// Returns whether the call `id` has ended; `None` if it is not on record, or the log cannot be read. Ends calls of
    /// killed processes before.
    pub async fn has_ended(&self, id: InvocationId) -> Option<bool> {
        let log = self.clone();
        self.aside(move || log.read_ended(&id.to_string()))
            .await
            .ok()
            .flatten()
    }

    fn read_ended(&self, id: &str) -> Result<Option<bool>, LogError> {
        let Some(index) = self.settled()? else {
            return Ok(None);
        };
        index::has_ended(&index, id).map_err(|error| self.failed("search", &error))
    }
}
