//! Events of the log in sequence, for readers in any process.

use rusqlite::{Connection, params};

use toolcell_spec::{InvocationId, ToolEvent};

use super::call_lines::LineEvents;
use super::numbers::Place;
use super::{CallLog, LogError, segment};

const LINES_MAX: u32 = 256;
/// Then a read takes no further line.
const BYTES_MAX: u64 = 16 << 20;

/// An event of the log, or a gap.
///
/// ```
/// use toolcell_journal::FollowedEvent;
///
/// fn line(followed: &FollowedEvent) -> String {
///     match followed {
///         FollowedEvent::Event(logged) => format!("{} {}", logged.sequence, logged.event.event_type.as_str()),
///         FollowedEvent::Missed(count) => format!("{count} events are gone"),
///     }
/// }
/// assert_eq!(line(&FollowedEvent::Missed(3)), "3 events are gone");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum FollowedEvent {
    Event(Box<LoggedEvent>),
    /// Events that were removed, or cannot be read.
    Missed(u64),
}

/// One event, as logged.
///
/// ```
/// use toolcell_journal::LoggedEvent;
///
/// /// Where a follower goes on that has read this event.
/// fn next(logged: &LoggedEvent) -> u64 {
///     logged.sequence + 1
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedEvent {
    /// From 1, without gaps.
    pub sequence: u64,
    /// The call's `session_ref`.
    pub session: Option<String>,
    pub event: ToolEvent,
}

/// Reads events from one position on.
///
/// ```
/// use toolcell_journal::{EventReader, FollowedEvent, LogError};
///
/// /// Counts the events that are on record, and those that are gone.
/// fn count(reader: &mut EventReader) -> Result<(u64, u64), LogError> {
///     let (mut seen, mut missed) = (0, 0);
///     loop {
///         let found = reader.read()?;
///         for followed in &found {
///             match followed {
///                 FollowedEvent::Event(_) => seen += 1,
///                 FollowedEvent::Missed(count) => missed += count,
///             }
///         }
///         if found.is_empty() {
///             return Ok((seen, missed));
///         }
///     }
/// }
/// ```
#[derive(Debug)]
pub struct EventReader {
    log: CallLog,
    next: u64,
    end: u64,
    /// Segments and sizes at the last read.
    seen: Option<Vec<(u64, u64)>>,
}

struct Row {
    last: u64,
    call: String,
    /// Place among the call's events.
    first: u64,
    events: u64,
    place: Place,
}

impl CallLog {
    /// Starts at `from`, or with `None` after all events. Ends the calls of killed processes before.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn follow(&self, from: Option<u64>) -> Result<EventReader, LogError> {
        let end = self.ask(next_of)?.unwrap_or(1);
        Ok(EventReader {
            log: self.clone(),
            next: from.unwrap_or(end).max(1),
            end,
            seen: None,
        })
    }
}

impl EventReader {
    /// The number after the latest event at the beginning.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next events in order; empty if there are none yet.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn read(&mut self) -> Result<Vec<FollowedEvent>, LogError> {
        // Before the index: what is written meanwhile is then read next time.
        let sizes =
            segment::sizes(self.log.dir()).map_err(|error| self.log.failed("read", &error))?;
        if self.seen.as_ref() == Some(&sizes) {
            return Ok(Vec::new());
        }
        let Some(mut index) = self.log.index()? else {
            return Ok(Vec::new());
        };
        let (rows, end) = self
            .rows(&mut index)
            .map_err(|error| self.log.failed("search", &error))?;
        let mut found = Vec::new();
        let mut bytes = 0;
        let all = rows.len() < LINES_MAX as usize;
        for row in rows {
            if bytes > BYTES_MAX {
                return Ok(found);
            }
            bytes += row.place.length;
            self.take(&row, &mut found);
        }
        if all {
            self.miss(end, &mut found);
            self.seen = Some(sizes);
        }
        Ok(found)
    }

    fn rows(&self, index: &mut Connection) -> rusqlite::Result<(Vec<Row>, u64)> {
        // One view of both.
        let view = index.transaction()?;
        let sql = "SELECT last, call, first, events, segment, at, length FROM lines WHERE last >= ?1 ORDER BY last LIMIT ?2";
        let rows = {
            let mut lines = view.prepare(sql)?;
            let rows = lines.query_map(params![self.next, LINES_MAX], |row| {
                Ok(Row {
                    last: row.get(0)?,
                    call: row.get(1)?,
                    first: row.get(2)?,
                    events: row.get(3)?,
                    place: Place::read(row, 4)?,
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<Row>>>()?
        };
        Ok((rows, next_of(&view)?))
    }

    fn take(&mut self, row: &Row, found: &mut Vec<FollowedEvent>) {
        let first = (row.last + 1).saturating_sub(row.events);
        self.miss(first, found);
        let line = self
            .log
            .payload(row.place)
            .ok()
            .and_then(|payload| LineEvents::read(&row.call, &payload).ok());
        if let Some(LineEvents {
            session,
            first: first_of_line,
            events,
        }) = line
        {
            let skipped = row.first.saturating_sub(first_of_line as u64);
            let new = events
                .into_iter()
                .skip(usize::try_from(skipped).unwrap_or(usize::MAX));
            for (sequence, event) in (first..=row.last).zip(new) {
                if sequence == self.next {
                    let session = session.clone();
                    found.push(FollowedEvent::Event(Box::new(LoggedEvent {
                        sequence,
                        session,
                        event,
                    })));
                    self.next += 1;
                }
            }
        }
        // Its segment was removed meanwhile, or the line was damaged.
        self.miss(row.last + 1, found);
    }

    fn miss(&mut self, next: u64, found: &mut Vec<FollowedEvent>) {
        if next > self.next {
            match found.last_mut() {
                Some(FollowedEvent::Missed(count)) => *count += next - self.next,
                _ => found.push(FollowedEvent::Missed(next - self.next)),
            }
            self.next = next;
        }
    }
}

impl LoggedEvent {
    /// Compares `id` with the end of the ID.
    pub fn is_of_call(&self, id: &str) -> bool {
        let of = |call: InvocationId| call.to_string().ends_with(&id.to_ascii_uppercase());
        self.event.invocation_id.is_some_and(of)
    }
}

fn next_of(index: &Connection) -> rusqlite::Result<u64> {
    index.query_row("SELECT next FROM sequence", [], |row| row.get(0))
}
