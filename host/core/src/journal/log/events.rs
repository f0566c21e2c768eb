//! The events of the log in the order of their sequence, for readers in any process.

use std::io;

use rusqlite::{Connection, params};
use serde::Deserialize;

use crate::record::{InvocationId, ToolEvent};

use super::numbers::Place;
use super::{CallLog, LogError, fold, notes, segment};

/// Maximum number of lines that one read takes.
const LINES_MAX: u32 = 256;
/// Bytes of lines after which a read takes no further line.
const BYTES_MAX: u64 = 16 << 20;

/// An event of the log, or a gap.
#[derive(Clone, Debug, PartialEq)]
pub enum FollowedEvent {
    Event(Box<LoggedEvent>),
    /// So many events at this place were removed from the log, or cannot be read.
    Missed(u64),
}

/// One event, as the log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedEvent {
    /// Its number: from 1, without gaps.
    pub sequence: u64,
    /// The `session_ref` of its call.
    pub session: Option<String>,
    pub event: ToolEvent,
}

/// Reads the events of the log from one position on.
#[derive(Debug)]
pub struct EventReader {
    log: CallLog,
    next: u64,
    end: u64,
    /// The segments and their sizes when they were last read to the end.
    seen: Option<Vec<(u64, u64)>>,
}

/// A row of the index.
struct Row {
    last: u64,
    events: u64,
    skipped: u64,
    place: Place,
}

/// A note, or the record of a call.
#[derive(Deserialize)]
struct Payload {
    session: Option<String>,
    invocation: Option<PayloadInvocation>,
    events: Vec<ToolEvent>,
}

#[derive(Deserialize)]
struct PayloadInvocation {
    session_ref: Option<String>,
}

impl CallLog {
    /// Begins to read events with the number `from`; `None` for the first one after all that the log has. Ends the calls
    /// of killed processes before.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn follow(&self, from: Option<u64>) -> Result<EventReader, LogError> {
        let end = match self.settled()? {
            Some(index) => next_of(&index).map_err(|error| self.failed("search", &error))?,
            None => 1,
        };
        Ok(EventReader {
            log: self.clone(),
            next: from.unwrap_or(end).max(1),
            end,
            seen: None,
        })
    }
}

impl EventReader {
    /// Returns the number after the latest event when the reader began.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The number that the next event has which the reader returns.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Tells the processes that write the log that it is followed, for the next five seconds. Then they also note that a
    /// call has begun.
    ///
    /// # Errors
    ///
    /// The folder of the log cannot be written.
    pub fn announce(&self) -> Result<(), LogError> {
        notes::follow(self.log.dir()).map_err(|error| self.log.failed("follow", &error))
    }

    /// Returns the next events, in order; empty if there are none yet.
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

    /// The next rows, and the number that the next event of the log gets.
    fn rows(&self, index: &mut Connection) -> rusqlite::Result<(Vec<Row>, u64)> {
        // One view of both.
        let view = index.transaction()?;
        let sql = "SELECT last, events, skipped, segment, at, length FROM lines WHERE last >= ?1 ORDER BY last LIMIT ?2";
        let rows = {
            let mut lines = view.prepare(sql)?;
            let rows = lines.query_map(params![self.next, LINES_MAX], |row| {
                let place = Place {
                    segment: row.get(3)?,
                    at: row.get(4)?,
                    length: row.get(5)?,
                };
                Ok(Row {
                    last: row.get(0)?,
                    events: row.get(1)?,
                    skipped: row.get(2)?,
                    place,
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<Row>>>()?
        };
        Ok((rows, next_of(&view)?))
    }

    /// Adds the events of a line from the position on.
    fn take(&mut self, row: &Row, found: &mut Vec<FollowedEvent>) {
        let first = (row.last + 1).saturating_sub(row.events);
        self.miss(first, found);
        if let Ok(Payload {
            session,
            invocation,
            events,
        }) = self.payload(row.place)
        {
            let session =
                session.or_else(|| invocation.and_then(|invocation| invocation.session_ref));
            let new = events
                .into_iter()
                .skip(usize::try_from(row.skipped).unwrap_or(usize::MAX));
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

    /// Moves to the position `next`; what is before it is missed.
    fn miss(&mut self, next: u64, found: &mut Vec<FollowedEvent>) {
        if next > self.next {
            match found.last_mut() {
                Some(FollowedEvent::Missed(count)) => *count += next - self.next,
                _ => found.push(FollowedEvent::Missed(next - self.next)),
            }
            self.next = next;
        }
    }

    fn payload(&self, place: Place) -> io::Result<Payload> {
        let (id, payload) = self.log.line(place)?;
        if !fold::is_folded(&payload) {
            return serde_json::from_str(&payload).map_err(Into::into);
        }
        let record = fold::record(&id, &payload)?;
        let session = record.invocation.session_ref.as_deref().map(str::to_owned);
        Ok(Payload {
            session,
            invocation: None,
            events: record.events,
        })
    }
}

impl LoggedEvent {
    /// Returns whether the ID of the event's call is `id`, or ends with it.
    pub fn is_of_call(&self, id: &str) -> bool {
        let of = |call: InvocationId| call.to_string().ends_with(&id.to_ascii_uppercase());
        self.event.invocation_id.is_some_and(of)
    }
}

/// The number that the next event of the log gets.
fn next_of(index: &Connection) -> rusqlite::Result<u64> {
    index.query_row("SELECT next FROM sequence", [], |row| row.get(0))
}
