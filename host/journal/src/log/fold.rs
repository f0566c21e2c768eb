//! Folds new lines of the segments into the index.

use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::database::{self, Durability};
use crate::waiting::StoreError;
use toolcell_spec::Timestamp;

use super::call_lines::Brief;
use super::head::{LogHead, SegmentEnd};
use super::index::has_ended;
use super::line::{Kind, Line};
use super::numbers::{Numbers, Place};
use super::prune::PrunedSegments;
use super::segment::{self, LineReader};
use super::{Inner, Key, share};

const PUT_CALL: &str = "INSERT INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
     ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, at = excluded.at, length = excluded.length, \
     start_segment = coalesce(excluded.start_segment, start_segment), start_at = coalesce(excluded.start_at, start_at), \
     start_length = coalesce(excluded.start_length, start_length), tool_id = excluded.tool_id, status = excluded.status, \
     error_class = excluded.error_class, error_code = excluded.error_code, ended_at = excluded.ended_at \
     WHERE calls.ended_at IS NULL";

impl Inner {
    pub(super) fn index(&self) -> Result<Connection, StoreError> {
        let mut index = database::open(&self.journal, Durability::Normal)?;
        self.fold(&mut index)?;
        Ok(index)
    }

    /// Goes by segment, so that others who write to the database never wait long.
    pub(super) fn fold(&self, index: &mut Connection) -> Result<(), StoreError> {
        if self.is_folded(index)? {
            return Ok(());
        }
        let key = self.store_key()?;
        let mut next = 0;
        while let Some(folded) = self.fold_segment(index, &key, next)? {
            next = folded + 1;
        }
        Ok(())
    }

    fn is_folded(&self, index: &Connection) -> Result<bool, StoreError> {
        Ok(known_ends(index, "segments")? == segment::sizes(&self.dir)?)
    }

    /// Takes the first one from `next` on with new lines; returns its number.
    fn fold_segment(
        &self,
        index: &mut Connection,
        key: &Key,
        next: u64,
    ) -> Result<Option<u64>, StoreError> {
        let transaction = database::change(index)?;
        // Under the lock: a list from before it may lack a segment whose events another reader has numbered.
        let segments = segment::numbers(&self.dir)?;
        let mut head = LogHead::read(&self.head_file(), key)?;
        let mut numbers = Numbers::begin(&transaction, head.next)?;
        forget_removed(&transaction, &segments)?;
        let mut folded = None;
        for number in segments.into_iter().filter(|number| *number >= next) {
            let mut fold = SegmentFold {
                transaction: &transaction,
                numbers: &mut numbers,
                dir: &self.dir,
                number,
                bytes_max: u64::MAX,
                pruned: Vec::new(),
            };
            let known = head.ends.get(&number).copied();
            match File::open(segment::path(&self.dir, number)) {
                Ok(file) if fold.file(key, &file, known, &mut head)? => folded = Some(number),
                // Pruned at this moment.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            for pruned in fold.pruned {
                head.ends.remove(&pruned);
            }
            if folded.is_some() {
                break;
            }
        }
        head.next = numbers.finish()?;
        // Before the commit: what is in the index is in the head.
        head.write(&self.head_file(), key)?;
        transaction.commit()?;
        Ok(folded)
    }

    fn store_key(&self) -> Result<Key, StoreError> {
        self.key()
            .map_err(|error| StoreError::Unavailable(format!("{error:#}")))
    }

    /// Calls, at most `max`, whose rows contradict their lines.
    pub(super) fn forged_rows(&self, max: usize) -> Result<Vec<String>, StoreError> {
        const FACTS: &str =
            "id, tool_id, status, error_class, error_code, caller, session, created_at, ended_at";
        let key = self.store_key()?;
        let mut fresh = Connection::open_in_memory()?;
        database::put_log_tables(&fresh)?;
        let path = self.journal.join(database::FILE_NAME);
        fresh.execute("ATTACH ?1 AS kept", [path.to_string_lossy()])?;
        // One view of the index, which other processes go on to write.
        let transaction = fresh.transaction()?;
        let known = known_ends(&transaction, "kept.segments")?;
        let mut numbers = Numbers::begin(&transaction, 1)?;
        for (number, bytes_max) in known {
            let mut fold = SegmentFold {
                transaction: &transaction,
                numbers: &mut numbers,
                dir: &self.dir,
                number,
                bytes_max,
                pruned: Vec::new(),
            };
            match File::open(segment::path(&self.dir, number)) {
                Ok(file) => fold.lines(&key, &file, 0, None)?,
                // Pruned at this moment, with its calls.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error.into()),
            };
        }
        let differences = format!(
            "SELECT id FROM (SELECT {FACTS} FROM main.calls EXCEPT SELECT {FACTS} FROM kept.calls)
            UNION SELECT id FROM (SELECT {FACTS} FROM kept.calls EXCEPT SELECT {FACTS} FROM main.calls) LIMIT {max}"
        );
        let mut forged = transaction.prepare(&differences)?;
        let ids = forged.query_map([], |row| row.get(0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }
}

fn known_ends(index: &Connection, table: &str) -> rusqlite::Result<Vec<(u64, u64)>> {
    let mut known = index.prepare(&format!(
        "SELECT number, bytes FROM {table} ORDER BY number"
    ))?;
    known
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// The head remembers removed segments until a line says that they were pruned.
fn forget_removed(transaction: &Transaction<'_>, segments: &[u64]) -> Result<(), StoreError> {
    for (gone, _) in known_ends(transaction, "segments")? {
        if segments.binary_search(&gone).is_ok() {
            continue;
        }
        for sql in [
            "DELETE FROM calls WHERE segment = ?1",
            "DELETE FROM lines WHERE segment = ?1",
            "DELETE FROM used WHERE segment = ?1",
            "DELETE FROM segments WHERE number = ?1",
        ] {
            transaction.execute(sql, [gone])?;
        }
    }
    Ok(())
}

struct SegmentFold<'a, 'n> {
    transaction: &'a Transaction<'a>,
    numbers: &'n mut Numbers<'a>,
    dir: &'a Path,
    number: u64,
    bytes_max: u64,
    pruned: Vec<u64>,
}

impl SegmentFold<'_, '_> {
    /// Keeps the end in the `head`, unless lines that it knows are missing. Returns whether there were new lines.
    fn file(
        &mut self,
        key: &Key,
        file: &File,
        known: Option<SegmentEnd>,
        head: &mut LogHead,
    ) -> Result<bool, StoreError> {
        let read = self.read_so_far()?;
        let known = known.or(read);
        let bytes = read.map_or(0, |end| end.bytes);
        let length = file.metadata()?.len();
        if length == bytes {
            return Ok(false);
        }
        let from = if length > bytes { bytes } else { 0 };
        let mut folded = self.lines(key, file, from, known)?;
        if from > 0 && folded.as_ref().is_some_and(|folded| !folded.is_intact) {
            // Its end was cut, and other lines took its place.
            folded = self.lines(key, file, 0, known)?;
        }
        let Some(FoldedLines { end, is_intact }) = folded else {
            return Ok(false);
        };
        let sql = "INSERT INTO segments VALUES (?1, ?2, ?3) \
                   ON CONFLICT (number) DO UPDATE SET bytes = excluded.bytes, chain = excluded.chain";
        self.transaction
            .execute(sql, params![self.number, end.bytes, end.chain.as_bytes()])?;
        let kept = known.filter(|_| !is_intact).unwrap_or(end);
        head.ends.insert(self.number, kept);
        Ok(true)
    }

    fn read_so_far(&self) -> rusqlite::Result<Option<SegmentEnd>> {
        let sql = "SELECT bytes, chain FROM segments WHERE number = ?1";
        let end = self.transaction.query_row(sql, [self.number], |row| {
            let chain: [u8; blake3::OUT_LEN] = row.get(1)?;
            Ok(SegmentEnd {
                bytes: row.get(0)?,
                chain: chain.into(),
            })
        });
        end.optional()
    }

    fn lines(
        &mut self,
        key: &Key,
        file: &File,
        from: u64,
        known: Option<SegmentEnd>,
    ) -> Result<Option<FoldedLines>, StoreError> {
        let mut lines = LineReader::new(file, from)?;
        let mut bytes = from;
        let mut chain = None;
        let mut is_intact = known.is_none();
        // The last line may be incomplete yet.
        while let Some((line, end)) = lines.next()? {
            if end > self.bytes_max {
                break;
            }
            if let Some(content) = Line::read(line) {
                let length = content.payload.len() as u64;
                let place = Place {
                    segment: self.number,
                    at: end - 1 - length,
                    length,
                };
                is_intact |= known.is_some_and(|known| {
                    known.bytes == bytes && content.follows(key, &known.chain)
                });
                self.note(place, &content)?;
                chain = Some(content.chain);
            }
            bytes = end;
            is_intact |=
                known.is_some_and(|known| known.bytes == bytes && chain == Some(known.chain));
        }
        Ok(chain.map(|chain| FoldedLines {
            end: SegmentEnd { bytes, chain },
            is_intact,
        }))
    }

    fn note(&mut self, place: Place, line: &Line) -> Result<(), StoreError> {
        match line.kind {
            Kind::Started | Kind::Suspended | Kind::Ended | Kind::Carried => {
                self.note_call(place, line)
            }
            Kind::Noted => self.note_events(place, line),
            Kind::Dropped => {
                self.transaction
                    .execute("DELETE FROM calls WHERE id = ?1", [line.id])?;
                Ok(())
            }
            Kind::Pruned => {
                let said = serde_json::from_str::<PrunedSegments>(line.payload).unwrap_or_default();
                self.pruned.extend(said.removed_segments);
                for (segment, calls) in said.evicted_calls {
                    self.transaction.execute(
                        "INSERT OR REPLACE INTO evicted VALUES (?1, ?2)",
                        [segment, calls],
                    )?;
                }
                Ok(())
            }
            Kind::Opened => Ok(segment::check_format(self.dir, line.payload)?),
            Kind::Repaired => Ok(()),
        }
    }

    fn note_events(&mut self, place: Place, line: &Line) -> Result<(), StoreError> {
        #[derive(Deserialize)]
        struct Note {
            first: u64,
            events: Vec<IgnoredAny>,
        }
        share::add_note(self.transaction, line.id, place)?;
        // A damaged line is the affair of `verify`.
        if let Ok(Note { first, events }) = serde_json::from_str(line.payload)
            && has_ended(self.transaction, line.id)? != Some(true)
        {
            self.numbers
                .add(line.id, (first, events.len() as u64), place)?;
        }
        Ok(())
    }

    fn note_call(&mut self, place: Place, line: &Line) -> Result<(), StoreError> {
        // A damaged line is the affair of `verify`.
        let Ok(brief) = serde_json::from_str::<Brief>(line.payload) else {
            return Ok(());
        };
        let events = brief.events();
        let invocation = brief.invocation;
        share::add(self.transaction, invocation.actor_ref.as_deref(), place)?;
        let error = brief.result.and_then(|result| result.error);
        // A call has one end: the first one that was written, until it is carried elsewhere.
        if line.kind == Kind::Carried {
            self.transaction
                .execute("DELETE FROM calls WHERE id = ?1", [line.id])?;
        }
        let start = (line.kind == Kind::Started).then_some(place);
        let changed = self.transaction.prepare(PUT_CALL)?.execute(params![
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
            Kind::Started if changed > 0 => self.numbers.add(line.id, events, place)?,
            Kind::Ended if changed > 0 => self.numbers.add_end(line.id, events, place)?,
            _ => {}
        }
        Ok(())
    }
}

struct FoldedLines {
    end: SegmentEnd,
    is_intact: bool,
}
