//! The sequence of the log: the index numbers every event when it first reads the event's line, from 1 and without gaps.
//! All readers share the index, and so they agree on the numbers.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::line::{Line, NO_CALL};

/// The tables of the sequence. `lines` has a row for each line with events that no line before it has; `skipped` of its
/// events come before those, and `last` is the number of the last one. `told` says how many events of a call were
/// numbered before its end.
pub(super) const TABLES: &str = "
    CREATE TABLE lines (
        last INTEGER PRIMARY KEY, events INTEGER NOT NULL, skipped INTEGER NOT NULL,
        segment INTEGER NOT NULL, at INTEGER NOT NULL, length INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE told (id TEXT PRIMARY KEY, segment INTEGER NOT NULL, events INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE sequence (next INTEGER NOT NULL) STRICT;
";

/// Numbers the events of lines, within one transaction.
pub(super) struct Numbers<'a> {
    transaction: &'a Transaction<'a>,
    next: u64,
    before: u64,
}

/// Where the payload of a line is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) at: u64,
    pub(super) length: u64,
}

#[derive(Deserialize)]
struct NumberedEvents {
    first: u64,
    events: Vec<IgnoredAny>,
}

/// The segment with the latest note of the call `id`; `None` if nothing is noted of it, or if it has ended.
pub(super) fn noted_in(index: &Connection, id: &str) -> rusqlite::Result<Option<u64>> {
    index
        .query_row("SELECT segment FROM told WHERE id = ?1", [id], |row| {
            row.get(0)
        })
        .optional()
}

impl<'a> Numbers<'a> {
    pub(super) fn begin(transaction: &'a Transaction<'a>) -> rusqlite::Result<Self> {
        let next = transaction.query_row("SELECT next FROM sequence", [], |row| row.get(0))?;
        Ok(Self {
            transaction,
            next,
            before: next,
        })
    }

    /// Stores the number of the next event.
    pub(super) fn finish(self) -> rusqlite::Result<()> {
        if self.next != self.before {
            self.transaction
                .execute("UPDATE sequence SET next = ?1", [self.next])?;
        }
        Ok(())
    }

    /// Numbers the events of a note that no earlier note has.
    pub(super) fn noted(&mut self, line: &Line, place: Place) -> rusqlite::Result<()> {
        // A damaged line is the affair of `verify`.
        let Ok(NumberedEvents { first, events }) = serde_json::from_str(line.payload) else {
            return Ok(());
        };
        if line.id == NO_CALL {
            return self.number(events.len() as u64, 0, place);
        }
        let told = self.told(line.id)?;
        let end = first.saturating_add(events.len() as u64);
        // A call that another process resumed is noted from its first event on again.
        if end <= told || first > told {
            return Ok(());
        }
        let has_ended = "SELECT 1 FROM calls WHERE id = ?1 AND ended_at IS NOT NULL";
        if self
            .transaction
            .query_row(has_ended, [line.id], |_| Ok(()))
            .optional()?
            .is_some()
        {
            return Ok(());
        }
        let sql = "INSERT INTO told VALUES (?1, ?2, ?3) \
                   ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, events = excluded.events";
        self.transaction
            .execute(sql, params![line.id, place.segment, end])?;
        self.number(end - told, told - first, place)
    }

    /// Numbers the events of a record that no note has; its last one in any case.
    pub(super) fn ended(&mut self, id: &str, events: usize, place: Place) -> rusqlite::Result<()> {
        let events = events as u64;
        let told = self.told(id)?.min(events.saturating_sub(1));
        self.forget(id)?;
        self.number(events - told, told, place)
    }

    /// Forgets how many events of a call were noted.
    pub(super) fn forget(&mut self, id: &str) -> rusqlite::Result<()> {
        self.transaction
            .execute("DELETE FROM told WHERE id = ?1", [id])
            .map(drop)
    }

    /// Removes what is known of a segment that is gone. Its numbers are never given again.
    pub(super) fn remove(&mut self, segment: u64) -> rusqlite::Result<()> {
        self.transaction
            .execute("DELETE FROM lines WHERE segment = ?1", [segment])?;
        self.transaction
            .execute("DELETE FROM told WHERE segment = ?1", [segment])
            .map(drop)
    }

    fn told(&self, id: &str) -> rusqlite::Result<u64> {
        let sql = "SELECT events FROM told WHERE id = ?1";
        let told: rusqlite::Result<u64> = self.transaction.query_row(sql, [id], |row| row.get(0));
        told.optional().map(Option::unwrap_or_default)
    }

    fn number(&mut self, events: u64, skipped: u64, place: Place) -> rusqlite::Result<()> {
        if events == 0 {
            return Ok(());
        }
        self.next += events;
        let Place {
            segment,
            at,
            length,
        } = place;
        let sql = "INSERT INTO lines VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.transaction
            .execute(
                sql,
                params![self.next - 1, events, skipped, segment, at, length],
            )
            .map(drop)
    }
}
