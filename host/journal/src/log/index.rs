//! Finds calls with the index, updated before each question.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::Value;

use crate::database;
use toolcell_spec::{EVIDENCE, Status, Timestamp};

use super::call_lines::EarlierLines;
use super::numbers::{self, Place};
use super::segment::{self, LINE_BYTES_MAX};
use super::{CallLog, Damage, LogError};

/// Segments with a call without an end, except suspended ones. Each question asks for them, so it must not read all
/// calls.
const OPEN_SEGMENTS: &str =
    "SELECT DISTINCT segment FROM calls WHERE ended_at IS NULL AND status <> 'needs_input'";
const PLACE: &str = "id, segment, at, length, start_segment, start_at, start_length, caller";
const END_BY_ID: &str = "SELECT ended_at IS NOT NULL FROM calls WHERE id = ?1";
/// Of a whole id, in which no other one ends.
const ID_LENGTH: usize = 26;
const ALIKE_MAX: usize = 5;

/// `None` matches all calls.
#[derive(Clone, Debug, Default)]
pub struct CallQuery {
    /// A tool id, or a component for all its tools; `*` at its end matches all ids that begin so.
    pub tool: Option<String>,
    pub status: Option<Status>,
    /// The caller's `actor_ref`.
    pub caller: Option<String>,
    /// The call's `session_ref`.
    pub session: Option<String>,
    /// Includes calls that began then.
    pub since: Option<Timestamp>,
    /// In the id, tool, caller, session or error code, in any case.
    pub text: Option<String>,
    /// The time and id of a call: only those after it in this order.
    pub before: Option<(Timestamp, String)>,
    /// Takes the latest calls.
    pub limit: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    pub invocation_id: String,
    pub tool_id: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// RFC 3339, in UTC.
    pub created_at: String,
    /// Absent while the call runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<i64>,
}

struct CallPlace {
    id: String,
    place: Place,
    start: Option<Place>,
    caller: Option<String>,
}

impl CallLog {
    /// The latest first. Ends calls of killed processes before.
    pub fn calls(&self, query: &CallQuery) -> Result<Vec<CallSummary>, LogError> {
        let calls = self.ask(|index| list(index, query))?;
        Ok(calls.unwrap_or_default())
    }

    /// The call whose id is, or alone ends in, `id`: how it ended, or how it started. Ends the calls of killed
    /// processes before. Fails also if several ids end so, and lists them.
    pub fn record(&self, id: &str) -> Result<Option<Value>, LogError> {
        self.record_of(id, None)
    }

    /// [`Self::record`] if `caller` made the call. Otherwise nothing is read, so that the time does not tell that it is
    /// there.
    pub fn record_of(&self, id: &str, caller: Option<&str>) -> Result<Option<Value>, LogError> {
        loop {
            let Some((index, call)) = self.place(id)? else {
                return Ok(None);
            };
            if caller.is_some() && call.caller.as_deref() != caller {
                return Ok(None);
            }
            match self.record_at(&index, &call) {
                // Pruned since the search: the next one does not find it there.
                Err(_) if !segment::path(self.dir(), call.place.segment).exists() => {}
                found => {
                    return found.map(Some).map_err(|error| self.failed("read", &error));
                }
            }
        }
    }

    /// [`Self::record`], or the damage of the file that holds it.
    pub fn checked_record(&self, id: &str) -> Result<Option<Result<Value, Damage>>, LogError> {
        let Some((index, call)) = self.place(id)? else {
            return Ok(None);
        };
        match self.verify_segment(call.place.segment)? {
            Err(damage) if guard!("replay_log") => Ok(Some(Err(damage))),
            _ => self
                .record_at(&index, &call)
                .map(|record| Some(Ok(record)))
                .map_err(|error| self.failed("read", &error)),
        }
    }

    /// Reads the records of [`Self::calls`], the earliest first, one at a time, because together they may be large: the
    /// latest with at most `bytes_max` together, and at least one. Leaves out those removed meanwhile. Returns their
    /// number.
    pub fn each_record(
        &self,
        query: &CallQuery,
        bytes_max: u64,
        mut read: impl FnMut(Value),
    ) -> Result<usize, LogError> {
        let Some(index) = self.settled()? else {
            return Ok(0);
        };
        let calls = list(&index, query).map_err(|error| self.failed("search", &error))?;
        let mut places = Vec::new();
        let mut bytes = 0_u64;
        for call in &calls {
            let mut found =
                find(&index, &call.invocation_id).map_err(|error| self.failed("search", &error))?;
            let Some(call) = found.pop() else { continue };
            bytes = bytes.saturating_add(call.place.length);
            if bytes > bytes_max && !places.is_empty() && guard!("record_bytes") {
                break;
            }
            places.push(call);
        }
        let mut count = 0;
        for call in places.iter().rev() {
            match self.record_at(&index, call) {
                Ok(record) => read(record),
                // Its segment was pruned since the search.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(self.failed("read", &error)),
            }
            count += 1;
        }
        Ok(count)
    }

    fn place(&self, id: &str) -> Result<Option<(Connection, CallPlace)>, LogError> {
        let Some(index) = self.settled()? else {
            return Ok(None);
        };
        let mut found = find(&index, id).map_err(|error| self.failed("search", &error))?;
        if found.len() > 1 {
            let ids = found.into_iter().map(|call| call.id).collect();
            return Err(LogError::Ambiguous(ids));
        }
        Ok(found.pop().map(|call| (index, call)))
    }

    fn record_at(&self, index: &Connection, call: &CallPlace) -> io::Result<Value> {
        let payload = self.payload(call.place)?;
        let mut earlier = EarlierLines::default();
        if let Some(start) = call.start {
            earlier.start = Some(self.payload(start)?);
        }
        let others = [Some(call.place.at), call.start.map(|start| start.at)];
        let notes = numbers::lines_of(index, &call.id).map_err(io::Error::other)?;
        for note in notes {
            if note.segment == call.place.segment && !others.contains(&Some(note.at)) {
                earlier.notes.push(self.payload(note)?);
            }
        }
        earlier.record(&call.id, &payload)
    }

    /// Ends the calls of killed processes before; `None` if no call was ever written.
    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, LogError> {
        let answer = self.settled()?.map(|index| question(&index)).transpose();
        answer.map_err(|error| self.failed("search", &error))
    }

    /// Ends the calls of killed processes before; `None` if no call was ever written.
    pub(super) fn settled(&self) -> Result<Option<Connection>, LogError> {
        let Some(index) = self.index()? else {
            return Ok(None);
        };
        let unfinished = || -> rusqlite::Result<Vec<u64>> {
            let mut open = index.prepare(OPEN_SEGMENTS)?;
            open.query_map([], |row| row.get(0))?.collect()
        };
        let unfinished = unfinished().map_err(|error| self.failed("search", &error))?;
        if self.end_orphans(&unfinished)? {
            self.index()
        } else {
            Ok(Some(index))
        }
    }

    pub(super) fn payload(&self, place: Place) -> io::Result<String> {
        let file = File::open(segment::path(self.dir(), place.segment))?;
        let mut payload = vec![0; usize::try_from(place.length.min(LINE_BYTES_MAX)).unwrap_or(0)];
        file.read_exact_at(&mut payload, place.at)?;
        String::from_utf8(payload)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Up to date; `None` if no call was ever written.
    pub(super) fn index(&self) -> Result<Option<Connection>, LogError> {
        if !self.dir().is_dir() {
            return Ok(None);
        }
        self.0
            .index()
            .map(Some)
            .map_err(|error| self.failed("index", &error))
    }
}

fn list(index: &Connection, query: &CallQuery) -> rusqlite::Result<Vec<CallSummary>> {
    let (exact, prefix) = match query
        .tool
        .as_deref()
        .map(|tool| (tool, tool.strip_suffix('*')))
    {
        None => (None, None),
        Some((_, Some(prefix))) => (None, Some(prefix)),
        Some((tool, None)) => (Some(tool), None),
    };
    // An index counts only for a condition that is not an alternative.
    let caller = match &query.caller {
        Some(_) => "caller = ?4",
        None => "?4 IS NULL",
    };
    let sql = format!(
        "SELECT id, tool_id, status, error_class, error_code, caller, session, created_at, ended_at - created_at \
               FROM calls \
               WHERE (?1 IS NULL OR tool_id = ?1 OR substr(tool_id, 1, length(?1) + 1) = ?1 || '.') \
               AND (?2 IS NULL OR substr(tool_id, 1, length(?2)) = ?2) \
               AND (?3 IS NULL OR status = ?3) AND {caller} AND (?5 IS NULL OR created_at >= ?5) \
               AND (?6 IS NULL OR session = ?6) AND (?7 IS NULL OR (created_at, id) < (?7, ?8)) \
               AND (?9 IS NULL OR instr(lower(id || ' ' || tool_id || ' ' || ifnull(caller, '') || ' ' || \
               ifnull(session, '') || ' ' || ifnull(error_code, '')), lower(?9))) \
               ORDER BY created_at DESC, id DESC LIMIT ?10"
    );
    let status = query.status.map(Status::as_str);
    let since = query.since.map(Timestamp::unix_millis);
    let before = query.before.as_ref();
    let mut calls = index.prepare(&sql)?;
    let parameters = params![
        exact,
        prefix,
        status,
        query.caller,
        since,
        query.session,
        before.map(|(at, _)| at.unix_millis()),
        before.map(|(_, id)| id),
        query.text,
        query.limit
    ];
    let rows = calls.query_map(parameters, |row| {
        Ok(CallSummary {
            invocation_id: row.get(0)?,
            tool_id: row.get(1)?,
            status: row.get(2)?,
            error_class: row.get(3)?,
            error_code: row.get(4)?,
            caller: row.get(5)?,
            session: row.get(6)?,
            created_at: Timestamp::of_unix_millis(row.get(7)?).to_string(),
            elapsed_ms: row.get(8)?,
        })
    })?;
    rows.collect()
}

fn calls_by_ending() -> String {
    let reversed = database::reversed_id();
    format!(
        "SELECT {PLACE} FROM calls WHERE {reversed} >= ?1 AND {reversed} < ?2 LIMIT {ALIKE_MAX}"
    )
}

/// A whole id first; else ids that end so, at most [`ALIKE_MAX`].
fn find(index: &Connection, id: &str) -> rusqlite::Result<Vec<CallPlace>> {
    // Also as a reference that records have, to the call or to a part of it.
    let id = id
        .strip_prefix(EVIDENCE)
        .and_then(|id| id.split('#').next())
        .unwrap_or(id)
        .to_ascii_uppercase();
    if id.is_empty() {
        return Ok(Vec::new());
    }
    let exact = format!("SELECT {PLACE} FROM calls WHERE id = ?1");
    if let Some(exact) = index.query_row(&exact, [&id], found).optional()? {
        return Ok(vec![exact]);
    }
    if id.len() == ID_LENGTH {
        return Ok(Vec::new());
    }
    let from: String = id.chars().rev().collect();
    // No id has a character after `~`.
    let before = format!("{from}~");
    let mut calls = index.prepare(&calls_by_ending())?;
    let rows = calls.query_map([from, before], found)?;
    rows.collect()
}

/// `None` if the call is not in the log.
pub(super) fn has_ended(index: &Connection, id: &str) -> rusqlite::Result<Option<bool>> {
    index
        .query_row(END_BY_ID, [id], |row| row.get(0))
        .optional()
}

fn found(row: &Row<'_>) -> rusqlite::Result<CallPlace> {
    let place = Place::read(row, 1)?;
    let start_segment: Option<u64> = row.get(4)?;
    let start = if start_segment == Some(place.segment) {
        Some(Place::read(row, 4)?)
    } else {
        None
    };
    Ok(CallPlace {
        id: row.get(0)?,
        place,
        start,
        caller: row.get(7)?,
    })
}

#[cfg(test)]
mod tests;
