//! The index of words: a full text index of SQLite in memory, ranked with BM25.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, Transaction, params};

use super::SearchEntry;
use toolcell_spec::Refusal;

/// The stemmer lets `reads` find `read`. The texts themselves are not kept, because the tools have them.
const TABLE: &str = "CREATE VIRTUAL TABLE tools USING fts5(
    name, namespace, title, description, hint, tags,
    content = '', tokenize = 'porter unicode61 remove_diacritics 2'
)";
/// First row id of deprecated tools, which come last (AT-LIFE-06): an id can be sorted by without reading its row.
const LATE: i64 = 1 << 32;
/// A word in the name counts more than one in the description. Equal scores keep the order of the tools, so that the same
/// query always has the same result.
const RANKED: &str = "SELECT rowid, bm25(tools, 8.0, 2.0, 4.0, 1.0, 4.0, 4.0) AS score
    FROM tools WHERE tools MATCH ?1 ORDER BY rowid >= ?3, score, rowid LIMIT ?2";
/// Joins the words of an expression.
const OR: &str = " OR ";

/// The words of the tools.
#[derive(Debug)]
pub(super) struct WordIndex(Mutex<Connection>);

impl WordIndex {
    /// Creates the index in memory. The id of a row is the index of its entry, from [`LATE`] on for a deprecated tool.
    ///
    /// # Errors
    ///
    /// A host fault, if SQLite fails.
    pub(super) fn new(entries: &[SearchEntry]) -> Result<Self, Refusal> {
        let connection = build(entries).map_err(|error| broken(&error))?;
        Ok(Self(Mutex::new(connection)))
    }

    /// The best matches of any of `words`: the indices of their entries, and their scores, of which higher is better.
    ///
    /// # Errors
    ///
    /// A host fault, if SQLite fails.
    pub(super) fn ranked(
        &self,
        words: &[String],
        limit: usize,
    ) -> Result<Vec<(usize, f64)>, Refusal> {
        let found = self.find(&expression(words), limit);
        found.map_err(|error| broken(&error))
    }

    /// The best matches of `expression`: their indices, and their scores, of which higher is better.
    fn find(&self, expression: &str, limit: usize) -> rusqlite::Result<Vec<(usize, f64)>> {
        if expression.is_empty() {
            return Ok(Vec::new());
        }
        let index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ranked = index.prepare(RANKED)?;
        let rows = ranked.query_map(params![expression, row_id(limit), LATE], |row| {
            let id: i64 = row.get(0)?;
            let score: f64 = row.get(1)?;
            let entry = usize::try_from(id % LATE).unwrap_or(usize::MAX);
            // FTS5 gives better matches lower scores.
            Ok((entry, (-score).max(0.0)))
        })?;
        rows.collect()
    }
}

/// Returns an expression of FTS5 that matches each text with one of `words`. Every word is quoted and holds no quote, so that
/// none of them is read as syntax.
pub(super) fn expression(words: &[String]) -> String {
    let mut expression = String::new();
    for word in words {
        let or = if expression.is_empty() { "" } else { OR };
        let _ = write!(expression, "{or}\"{word}\"");
    }
    expression
}

fn row_id(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

fn build(entries: &[SearchEntry]) -> rusqlite::Result<Connection> {
    let mut index = Connection::open_in_memory()?;
    // No query of a client is written to a temporary file.
    index.execute_batch("PRAGMA temp_store = MEMORY;")?;
    index.execute_batch(TABLE)?;
    let transaction = index.transaction()?;
    insert(&transaction, entries)?;
    transaction.commit()?;
    Ok(index)
}

fn insert(into: &Transaction<'_>, entries: &[SearchEntry]) -> rusqlite::Result<()> {
    let row = "INSERT INTO tools (rowid, name, namespace, title, description, hint, tags)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut insert = into.prepare(row)?;
    for (at, entry) in entries.iter().enumerate() {
        let Some([name, namespace, title, description, hint, tags]) = entry.texts() else {
            continue;
        };
        let id = row_id(at) + if entry.is_late() { LATE } else { 0 };
        insert.execute(params![id, name, namespace, title, description, hint, tags])?;
    }
    Ok(())
}

fn broken(error: &rusqlite::Error) -> Refusal {
    Refusal::host_fault(format!("the tools cannot be searched: {error}"))
}
