//! Searches the records themselves, for questions that are too rare for the index.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;

use serde_json::Value;

use super::line::{Kind, Line};
use super::segment::{self, LINE_BYTES_MAX};
use super::{CallLog, LogError, once};

impl CallLog {
    /// Calls `seen` with each record of a call in which `text` occurs, in the order of the log, until it breaks. `text` is
    /// one that JSON does not escape, and that a folded line has too, such as a reference. Takes a second for a full log.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn scan(
        &self,
        text: &str,
        mut seen: impl FnMut(&Value) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let sizes = segment::sizes(self.dir()).map_err(|error| self.failed("read", &error))?;
        for (number, _) in sizes {
            // Pruned at this moment.
            let Ok(file) = File::open(segment::path(self.dir(), number)) else {
                continue;
            };
            let mut reader = BufReader::with_capacity(1 << 20, file);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = reader
                    .by_ref()
                    .take(LINE_BYTES_MAX)
                    .read_until(b'\n', &mut line);
                read.map_err(|error| self.failed("read", &error))?;
                let Some(content) = line.strip_suffix(b"\n") else {
                    break;
                };
                let Some(content) = Line::read(content) else {
                    continue;
                };
                if !matches!(content.kind, Kind::Ended | Kind::Carried)
                    || !content.payload.contains(text)
                {
                    continue;
                }
                let Ok(record) = once::whole(self.dir(), number, content.id, content.payload)
                else {
                    continue;
                };
                if seen(&record).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns whether older calls were removed from the log, because of its size or their age.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn was_pruned(&self) -> Result<bool, LogError> {
        let sizes = segment::sizes(self.dir()).map_err(|error| self.failed("read", &error))?;
        Ok(sizes
            .last()
            .is_some_and(|(last, _)| *last > sizes.len() as u64))
    }
}
