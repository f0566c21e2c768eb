//! Finds calls in the segments: a SQLite file that is brought up to date before each question, and that can be made again
//! from the segments at any time.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::private;
use crate::record::{EVIDENCE, Status, Timestamp};

use super::line::{Kind, Line};
use super::numbers::{self, Numbers, Place};
use super::payload::{Brief, EarlierLines};
use super::prune::PrunedSegments;
use super::segment::{self, LINE_BYTES_MAX};
use super::share;
use super::{CallLog, Damage, LogError};

const FILE_NAME: &str = "index.db";
/// How long to wait while another process brings the index up to date.
const PATIENCE: Duration = Duration::from_secs(10);
const VERSION: i64 = 3;
/// The number of the first event of a new index.
const FIRST: i64 = 1;
const TABLES: &str = "
    CREATE TABLE segments (number INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, chain BLOB NOT NULL) STRICT;
    CREATE TABLE calls (
        id TEXT PRIMARY KEY, segment INTEGER NOT NULL, at INTEGER NOT NULL, length INTEGER NOT NULL,
        start_segment INTEGER, start_at INTEGER, start_length INTEGER,
        tool_id TEXT NOT NULL, status TEXT NOT NULL, error_class TEXT, error_code TEXT, caller TEXT,
        session TEXT, created_at INTEGER NOT NULL, ended_at INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX calls_by_time ON calls (created_at);
";
/// The segments that have a call without an end, but for suspended ones, which need none. Each question asks for them, so
/// it must not read all calls.
const OPEN_SEGMENTS: &str =
    "SELECT DISTINCT segment FROM calls WHERE ended_at IS NULL AND status <> 'needs_input'";
const PLACE: &str = "id, segment, at, length, start_segment, start_at, start_length";
const PUT_CALL: &str = "INSERT INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
     ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, at = excluded.at, length = excluded.length, \
     start_segment = coalesce(excluded.start_segment, start_segment), start_at = coalesce(excluded.start_at, start_at), \
     start_length = coalesce(excluded.start_length, start_length), tool_id = excluded.tool_id, status = excluded.status, \
     error_class = excluded.error_class, error_code = excluded.error_code, ended_at = excluded.ended_at \
     WHERE calls.ended_at IS NULL";
const END_BY_ID: &str = "SELECT ended_at IS NOT NULL FROM calls WHERE id = ?1";
/// Characters of an id.
const ID_CHARS: usize = 26;
/// Maximum number of calls that are told of if several ids end alike.
const ALIKE_MAX: usize = 5;

/// Which calls are listed. `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct CallQuery {
    /// A tool id, or the name of a component for all of its tools; with `*` at its end, all ids that begin so.
    pub tool: Option<String>,
    pub status: Option<Status>,
    /// The `actor_ref` of the caller.
    pub caller: Option<String>,
    /// The `session_ref` of the call.
    pub session: Option<String>,
    /// Only calls that began then, or later.
    pub since: Option<Timestamp>,
    /// Maximum number of calls: the latest ones.
    pub limit: u32,
}

/// One line of a list of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    pub invocation_id: String,
    pub tool_id: String,
    /// The specification's word, such as `succeeded`.
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

/// How far the index has read a segment.
pub(super) struct IndexedSegment {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) chain: [u8; 32],
}

/// Where the record of a call is.
struct CallPlace {
    id: String,
    place: Place,
    /// The line of its start, if that is in the same segment.
    start: Option<Place>,
}

impl CallLog {
    /// Lists calls, the latest first. Ends calls of killed processes before.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn calls(&self, query: &CallQuery) -> Result<Vec<CallSummary>, LogError> {
        let Some(index) = self.settled()? else {
            return Ok(Vec::new());
        };
        list(&index, query).map_err(|error| self.failed("search", &error))
    }

    /// Returns the record of the call `id`, or of the only one whose id ends so: how it ended, or how it started if it is
    /// running. `None` if there is none. Ends the calls of killed processes before.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or several ids end so: the error lists them.
    pub fn record(&self, id: &str) -> Result<Option<Value>, LogError> {
        loop {
            let Some((index, call)) = self.place(id)? else {
                return Ok(None);
            };
            match self.record_at(&index, &call) {
                // Pruned since the search: the next one does not find it there.
                Err(_) if !segment::path(self.dir(), call.place.segment).exists() => {}
                found => {
                    return found.map(Some).map_err(|error| self.failed("read", &error));
                }
            }
        }
    }

    /// Returns the record that [`Self::record`] returns, if the file that holds it is as it was written; otherwise the
    /// damage.
    ///
    /// # Errors
    ///
    /// Those of [`Self::record`].
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

    /// Gives `read` the records of the calls that [`Self::calls`] lists, the earliest first: one at a time, because together
    /// they may be large. These are the latest calls whose lines have at most `bytes_max` bytes together, and at least one.
    /// A record that another process removes meanwhile is left out. Returns how many were read.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
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

    /// Where the record of the call is whose id is `id`, or ends so, and the index that says it.
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

    /// Opens the index, up to date, after the calls of killed processes were ended; `None` if no call was ever written.
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

    /// Reads the payload of a line.
    pub(super) fn payload(&self, place: Place) -> io::Result<String> {
        let file = File::open(segment::path(self.dir(), place.segment))?;
        let mut payload = vec![0; usize::try_from(place.length.min(LINE_BYTES_MAX)).unwrap_or(0)];
        file.read_exact_at(&mut payload, place.at)?;
        String::from_utf8(payload)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// How far the index has read each segment; empty if there is none.
    pub(super) fn seen(&self) -> Result<Vec<IndexedSegment>, LogError> {
        if !self.dir().join(FILE_NAME).exists() {
            return Ok(Vec::new());
        }
        let read = || -> rusqlite::Result<Vec<IndexedSegment>> {
            let index = open(self.dir(), FIRST)?;
            let mut seen = index.prepare("SELECT number, bytes, chain FROM segments")?;
            let rows = seen.query_map([], |row| {
                Ok(IndexedSegment {
                    number: row.get(0)?,
                    bytes: row.get(1)?,
                    chain: row.get(2)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|error| self.failed("read", &error))
    }

    /// Opens the index, up to date; `None` if no call was ever written.
    pub(super) fn index(&self) -> Result<Option<Connection>, LogError> {
        if !self.dir().is_dir() {
            return Ok(None);
        }
        let up_to_date = |first: i64| -> Result<Connection, Failure> {
            let mut index = open(self.dir(), first)?;
            update(&mut index, self.dir())?;
            Ok(index)
        };
        let index = up_to_date(FIRST).or_else(|error| {
            // A lock or a full disk is no reason to throw away what `verify` compares with.
            if !error.is_damage() {
                return Err(error);
            }
            // It is made from the segments alone, so a damaged one is made again.
            for suffix in ["", "-wal", "-shm"] {
                let _ = fs::remove_file(self.dir().join(format!("{FILE_NAME}{suffix}")));
            }
            // Lines of several processes may be read in another order now. Numbers above all that were given keep a
            // follower from taking one event for another.
            up_to_date(Timestamp::now().unix_millis())
        });
        index
            .map(Some)
            .map_err(|error| self.failed("index", &error))
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Store(#[from] rusqlite::Error),
    #[error("{0}")]
    File(#[from] io::Error),
}

impl Failure {
    /// `true` if the file is damaged, or of another version.
    fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SchemaChanged, TypeMismatch};
        match self {
            Self::File(_) => false,
            Self::Store(rusqlite::Error::InvalidQuery) => true,
            Self::Store(error) => error.sqlite_error_code().is_some_and(|code| {
                matches!(
                    code,
                    DatabaseCorrupt | NotADatabase | SchemaChanged | TypeMismatch
                )
            }),
        }
    }
}

fn open(dir: &Path, first: i64) -> rusqlite::Result<Connection> {
    let path = dir.join(FILE_NAME);
    // SQLite gives the files beside its own the same mode.
    let created = private::create_missing(&path);
    created.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let mut index = Connection::open(&path)?;
    index.busy_timeout(PATIENCE)?;
    write_ahead(&index)?;
    index.pragma_update(None, "synchronous", "NORMAL")?;
    let transaction = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.execute_batch(numbers::TABLES)?;
        transaction.execute("INSERT INTO sequence VALUES (?1)", [first])?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    if matches!(found, 0 | VERSION) {
        transaction.execute_batch(&finders())?;
    }
    transaction.commit()?;
    match found {
        0 | VERSION => Ok(index),
        _ => Err(rusqlite::Error::InvalidQuery),
    }
}

/// Turns on the mode in which readers do not wait for writers. Of several that do so at once, SQLite refuses all but one, and
/// waits for none of them, whatever its timeout.
fn write_ahead(index: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let turned = index
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        let is_busy = |error: &rusqlite::Error| {
            error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
        };
        match turned {
            Err(error) if is_busy(&error) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5))
            }
            turned => return turned.map(drop),
        }
    }
}

/// Opens the index in `dir`, up to date with the segments as they are.
pub(super) fn renewed(dir: &Path) -> io::Result<Connection> {
    let read = || -> Result<Connection, Failure> {
        let mut index = open(dir, FIRST)?;
        update(&mut index, dir)?;
        Ok(index)
    };
    read().map_err(io::Error::other)
}

/// Reads what the segments have beyond what the index knows.
fn update(index: &mut Connection, dir: &Path) -> Result<(), Failure> {
    let transaction = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Under the lock: a list from before it may lack a segment whose events another reader has numbered.
    let segments = segment::numbers(dir)?;
    let known: Vec<u64> = {
        let mut known = transaction.prepare("SELECT number FROM segments WHERE bytes > 0")?;
        known
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?
    };
    let mut numbers = Numbers::begin(&transaction)?;
    for gone in known
        .iter()
        .filter(|number| segments.binary_search(number).is_err())
    {
        transaction.execute("DELETE FROM calls WHERE segment = ?1", [gone])?;
        // `verify` has to know that it was there: only what a note says to be pruned may be gone.
        transaction.execute("UPDATE segments SET bytes = 0 WHERE number = ?1", [gone])?;
        numbers.remove(*gone)?;
        share::forget(&transaction, *gone)?;
    }
    for number in segments {
        let file = match File::open(segment::path(dir, number)) {
            Ok(file) => file,
            // Pruned at this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        add(&transaction, &mut numbers, number, file)?;
    }
    numbers.finish()?;
    transaction.commit()?;
    Ok(())
}

fn add(
    transaction: &Transaction,
    numbers: &mut Numbers,
    number: u64,
    mut file: File,
) -> Result<(), Failure> {
    let known: Option<u64> = transaction
        .query_row(
            "SELECT bytes FROM segments WHERE number = ?1",
            [number],
            |row| row.get(0),
        )
        .optional()?;
    let mut bytes = known.unwrap_or(0);
    if file.metadata()?.len() <= bytes {
        return Ok(());
    }
    file.seek(SeekFrom::Start(bytes))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut chain = None;
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)? as u64;
        // The last line may be incomplete yet.
        let Some(content) = line.strip_suffix(b"\n") else {
            break;
        };
        if let Some(content) = Line::read(content) {
            let length = content.payload.len() as u64;
            let place = Place {
                segment: number,
                at: bytes + read - 1 - length,
                length,
            };
            note(transaction, numbers, place, &content)?;
            chain = Some(content.chain);
        }
        bytes += read;
    }
    if let Some(chain) = chain {
        let sql = "INSERT INTO segments VALUES (?1, ?2, ?3) \
                   ON CONFLICT (number) DO UPDATE SET bytes = excluded.bytes, chain = excluded.chain";
        transaction.execute(sql, params![number, bytes, chain.as_bytes()])?;
    }
    Ok(())
}

/// Notes a line, whose payload is at `place`.
fn note(
    transaction: &Transaction,
    numbers: &mut Numbers,
    place: Place,
    line: &Line,
) -> Result<(), Failure> {
    match line.kind {
        Kind::Started | Kind::Suspended | Kind::Ended | Kind::Carried => {
            note_call(transaction, numbers, place, line)
        }
        Kind::Noted => note_events(transaction, numbers, place, line),
        Kind::Dropped => {
            transaction.execute("DELETE FROM calls WHERE id = ?1", [line.id])?;
            Ok(())
        }
        Kind::Pruned => {
            let said = serde_json::from_str::<PrunedSegments>(line.payload).unwrap_or_default();
            for (segment, calls) in said.evicted_calls {
                transaction.execute(
                    "INSERT OR REPLACE INTO evicted VALUES (?1, ?2)",
                    [segment, calls],
                )?;
            }
            Ok(())
        }
        Kind::Opened | Kind::Repaired => Ok(()),
    }
}

/// Notes a line with events of a call that runs, or of no call.
fn note_events(
    transaction: &Transaction,
    numbers: &mut Numbers,
    place: Place,
    line: &Line,
) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Note {
        first: u64,
        events: Vec<IgnoredAny>,
    }
    share::add_note(transaction, line.id, place)?;
    // A damaged line is the affair of `verify`.
    if let Ok(Note { first, events }) = serde_json::from_str(line.payload)
        && has_ended(transaction, line.id)? != Some(true)
    {
        numbers.add(line.id, (first, events.len() as u64), place)?;
    }
    Ok(())
}

/// Notes a line with the start or the end of a call.
fn note_call(
    transaction: &Transaction,
    numbers: &mut Numbers,
    place: Place,
    line: &Line,
) -> Result<(), Failure> {
    // A damaged line is the affair of `verify`.
    let Ok(brief) = serde_json::from_str::<Brief>(line.payload) else {
        return Ok(());
    };
    let events = brief.events();
    let invocation = brief.invocation;
    share::add(transaction, invocation.actor_ref.as_deref(), place)?;
    let error = brief.result.and_then(|result| result.error);
    // A call has one end: the first one that was written, until it is carried elsewhere.
    if line.kind == Kind::Carried {
        transaction.execute("DELETE FROM calls WHERE id = ?1", [line.id])?;
    }
    let start = (line.kind == Kind::Started).then_some(place);
    let changed = transaction.prepare(PUT_CALL)?.execute(params![
        line.id,
        place.segment,
        place.at,
        place.length,
        start.map(|start| start.segment),
        start.map(|start| start.at),
        start.map(|start| start.length),
        invocation.tool_id,
        invocation.status.as_str(),
        error.as_ref().map(|error| &error.error_class),
        error.as_ref().map(|error| &error.error_code),
        invocation.actor_ref,
        invocation.session_ref,
        invocation.created_at.unix_millis(),
        invocation.ended_at.map(Timestamp::unix_millis),
    ])?;
    match line.kind {
        Kind::Started if changed > 0 => numbers.add(line.id, events, place)?,
        Kind::Ended if changed > 0 => numbers.add_end(line.id, events, place)?,
        _ => {}
    }
    Ok(())
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
    let sql = "SELECT id, tool_id, status, error_class, error_code, caller, session, created_at, ended_at - created_at \
               FROM calls \
               WHERE (?1 IS NULL OR tool_id = ?1 OR substr(tool_id, 1, length(?1) + 1) = ?1 || '.') \
               AND (?2 IS NULL OR substr(tool_id, 1, length(?2)) = ?2) \
               AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR caller = ?4) AND (?5 IS NULL OR created_at >= ?5) \
               AND (?6 IS NULL OR session = ?6) ORDER BY created_at DESC, id DESC LIMIT ?7";
    let status = query.status.map(Status::as_str);
    let since = query.since.map(Timestamp::unix_millis);
    let mut calls = index.prepare(sql)?;
    let parameters = params![
        exact,
        prefix,
        status,
        query.caller,
        since,
        query.session,
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

/// The indexes for single calls: without them, each question about one call would read all of them. An index that an
/// earlier version made gets them when it is opened.
fn finders() -> String {
    format!(
        "CREATE INDEX IF NOT EXISTS calls_by_ending ON calls ({});
         CREATE INDEX IF NOT EXISTS calls_without_end ON calls (segment) WHERE ended_at IS NULL;
         CREATE TABLE IF NOT EXISTS evicted (segment INTEGER PRIMARY KEY, calls INTEGER NOT NULL) STRICT;
         {}",
        reversed(),
        share::TABLE
    )
}

/// The expression for an id from its last character to its first: ids that end alike begin alike there. SQLite has no
/// function for it, and uses an index on an expression only for the same expression.
fn reversed() -> String {
    (1..=ID_CHARS)
        .rev()
        .map(|at| format!("substr(id, {at}, 1)"))
        .collect::<Vec<_>>()
        .join(" || ")
}

fn calls_by_ending() -> String {
    let reversed = reversed();
    format!(
        "SELECT {PLACE} FROM calls WHERE {reversed} >= ?1 AND {reversed} < ?2 LIMIT {ALIKE_MAX}"
    )
}

/// The call whose id is `id`; else those whose id ends so, at most [`ALIKE_MAX`], with the places of their payloads.
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
    let from: String = id.chars().rev().collect();
    // No id has a character after `~`.
    let before = format!("{from}~");
    let mut calls = index.prepare(&calls_by_ending())?;
    let rows = calls.query_map([from, before], found)?;
    rows.collect()
}

/// Returns whether the call `id` has ended; `None` if it is not in the log.
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
    })
}

#[cfg(test)]
mod tests;
