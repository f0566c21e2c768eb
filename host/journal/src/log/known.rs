use toolcell_spec::{InvocationId, ToolEvent};

use super::{CallLog, LogError, call_lines, index, numbers};

impl CallLog {
    /// Without a gap; empty if the log has none, or cannot be read.
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
        let lines = numbers::lines_of(&index, id).map_err(|error| self.failed("search", &error))?;
        let mut payloads = Vec::with_capacity(lines.len());
        for place in lines {
            payloads.push(
                self.payload(place)
                    .map_err(|error| self.failed("read", &error))?,
            );
        }
        Ok(call_lines::events(id, payloads.iter().map(String::as_str)))
    }

    /// `None` if not on record, or the log cannot be read. Ends calls of killed processes before.
    pub async fn has_ended(&self, id: InvocationId) -> Option<bool> {
        let log = self.clone();
        self.aside(move || log.ask(|index| index::has_ended(index, &id.to_string())))
            .await
            .ok()
            .flatten()
            .flatten()
    }
}
