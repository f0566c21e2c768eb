//! Searches records, for questions too rare for the index.

use std::io;
use std::ops::ControlFlow;

use serde_json::Value;

use super::line::Kind;
use super::{CallLog, LogError, segment};

impl CallLog {
    /// Calls `seen` with records that contain `text`, in order, until it breaks. `text` is one that JSON does not
    /// escape and the end of a call has, such as a reference.
    pub fn scan(
        &self,
        text: &str,
        mut seen: impl FnMut(&Value) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let sizes = segment::sizes(self.dir()).map_err(|error| self.failed("read", &error))?;
        for (number, _) in sizes {
            let read = segment::each_line_of(self.dir(), number, |line, earlier| {
                if matches!(line.kind, Kind::Ended | Kind::Carried)
                    && line.payload.contains(text)
                    && let Ok(record) = earlier.record(line.id, line.payload)
                {
                    return Ok(seen(&record));
                }
                Ok(ControlFlow::Continue(()))
            });
            match read {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                // Pruned at this moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.failed("read", &error)),
            }
        }
        Ok(())
    }

    pub fn was_pruned(&self) -> Result<bool, LogError> {
        let sizes = segment::sizes(self.dir()).map_err(|error| self.failed("read", &error))?;
        let last = sizes.last().map_or(0, |(last, _)| *last);
        Ok(last > sizes.len() as u64)
    }
}
