//! The log's sequence: the index numbers every event from 1, without gaps, when it first reads the line. All readers
//! share it, and so agree.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::line::NO_CALL;

pub(super) struct Numbers<'a> {
    transaction: &'a Transaction<'a>,
    next: u64,
    before: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) at: u64,
    pub(super) length: u64,
}

pub(super) fn lines_of(index: &Connection, id: &str) -> rusqlite::Result<Vec<Place>> {
    let sql = "SELECT segment, at, length FROM lines WHERE call = ?1 AND call <> '-' ORDER BY last";
    let mut lines = index.prepare(sql)?;
    let places = lines.query_map([id], |row| Place::read(row, 0))?;
    places.collect()
}

impl Place {
    pub(super) fn read(row: &Row<'_>, from: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            segment: row.get(from)?,
            at: row.get(from + 1)?,
            length: row.get(from + 2)?,
        })
    }
}

impl<'a> Numbers<'a> {
    /// The next number is at least `least`.
    pub(super) fn begin(transaction: &'a Transaction<'a>, least: u64) -> rusqlite::Result<Self> {
        let before =
            transaction.query_row("SELECT next FROM sequence", [], |row| row.get::<_, u64>(0))?;
        Ok(Self {
            transaction,
            next: before.max(least),
            before,
        })
    }

    pub(super) fn finish(self) -> rusqlite::Result<u64> {
        if self.next != self.before {
            self.transaction
                .execute("UPDATE sequence SET next = ?1", [self.next])?;
        }
        Ok(self.next)
    }

    /// Skips events that earlier lines have. `first` is the place of the first among the call's.
    pub(super) fn add(
        &mut self,
        id: &str,
        (first, events): (u64, u64),
        place: Place,
    ) -> rusqlite::Result<()> {
        if id == NO_CALL {
            return self.number(id, (first, events), place);
        }
        let told = self.told(id)?;
        let end = first.saturating_add(events);
        // A call that another process resumed is written from its first event on again.
        if end <= told || first > told {
            return Ok(());
        }
        self.number(id, (told, end - told), place)
    }

    /// [`Self::add`], but the last event is always numbered.
    pub(super) fn add_end(
        &mut self,
        id: &str,
        (first, events): (u64, u64),
        place: Place,
    ) -> rusqlite::Result<()> {
        let end = first.saturating_add(events);
        let from = self.told(id)?.min(end.saturating_sub(1)).max(first);
        self.number(id, (from, end.saturating_sub(from)), place)
    }

    fn told(&self, id: &str) -> rusqlite::Result<u64> {
        // The last line has the last event: one look, however many lines the call has.
        let sql = "SELECT first + events FROM lines WHERE call = ?1 AND call <> '-' ORDER BY last DESC LIMIT 1";
        let mut told = self.transaction.prepare(sql)?;
        let told = told.query_row([id], |row| row.get(0)).optional()?;
        Ok(told.unwrap_or_default())
    }

    fn number(
        &mut self,
        id: &str,
        (first, events): (u64, u64),
        place: Place,
    ) -> rusqlite::Result<()> {
        if events == 0 {
            return Ok(());
        }
        self.next += events;
        let Place {
            segment,
            at,
            length,
        } = place;
        self.transaction
            .prepare("INSERT INTO lines VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                self.next - 1,
                id,
                first,
                events,
                segment,
                at,
                length
            ])
            .map(drop)
    }
}
