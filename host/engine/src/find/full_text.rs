//! The index of words: a full text index of SQLite in memory, ranked with BM25.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, Transaction, params};

use super::{SearchEntry, TEXTS};
use toolcell_spec::Refusal;

/// The stemmer lets `reads` find `read`. The texts themselves are not kept, because the tools have them.
const TABLE: &str = "CREATE VIRTUAL TABLE tools USING fts5(
    name, namespace, title, description, search_hint, aliases, tool_kind,
    content = '', tokenize = 'porter unicode61 remove_diacritics 2'
)";
/// First row id of deprecated tools, which come last (AT-LIFE-06): an id can be sorted by without reading its row.
const LATE: i64 = 1 << 32;
/// A word in the name counts more than one in the description. Equal scores keep the order of the tools, so that the same
/// query always has the same result.
const RANKED: &str = "SELECT rowid, bm25(tools, 8.0, 2.0, 4.0, 1.0, 4.0, 4.0, 4.0) AS score
    FROM tools WHERE tools MATCH ?1 ORDER BY rowid >= ?3, score, rowid LIMIT ?2";
const UNRANKED: &str = "SELECT rowid FROM tools WHERE tools MATCH ?1 ORDER BY rowid LIMIT ?2";
const HAS: &str = "SELECT 1 FROM tools WHERE tools MATCH ?1 AND rowid = ?2";
/// Counts the tools with a word, up to a limit.
const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM tools WHERE tools MATCH ?1 LIMIT ?2)";
/// Number of tools up to which every word of a query ranks them. To rank one takes more than a microsecond.
pub(super) const RANKED_MAX: usize = 256;
/// Maximum number of matches counted for the words of one query, per tool: 128 words that most tools have, and as many
/// rare words as a query can hold.
const COUNTED_MAX: usize = 64;
/// Joins the words of an expression. It is in no word, because words are quoted and have no spaces.
const OR: &str = " OR ";

/// The words of the tools.
#[derive(Debug)]
pub(super) struct WordIndex {
    connection: Mutex<Connection>,
    /// The number of tools.
    tools: usize,
}

impl WordIndex {
    /// Creates the index in memory. The id of a row is the index of its entry, from [`LATE`] on for a deprecated tool.
    ///
    /// # Errors
    ///
    /// A host fault, if SQLite fails.
    pub(super) fn new(entries: &[SearchEntry]) -> Result<Self, Refusal> {
        let connection = build(entries).map_err(|error| broken(&error))?;
        Ok(Self {
            connection: Mutex::new(connection),
            tools: entries.len(),
        })
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

    /// Which texts of the entry `at` have one of `words`.
    ///
    /// # Errors
    ///
    /// A host fault, if SQLite fails.
    pub(super) fn reasons(
        &self,
        words: &[String],
        at: usize,
        is_late: bool,
    ) -> Result<Vec<&'static str>, Refusal> {
        let index = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let found = texts_with(&index, &expression(words), row_of(at, is_late));
        found.map_err(|error| broken(&error))
    }

    /// The best matches of `expression`: their indices, and their scores, of which higher is better.
    fn find(&self, expression: &str, limit: usize) -> rusqlite::Result<Vec<(usize, f64)>> {
        if expression.is_empty() {
            return Ok(Vec::new());
        }
        let index = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ranking = if self.tools > RANKED_MAX {
            ranking_words(&index, expression, self.tools)?
        } else {
            expression.to_owned()
        };
        let mut found = best(&index, &ranking, limit)?;
        if ranking != expression && found.iter().filter(|(id, _)| *id < LATE).count() < limit {
            let known: HashSet<i64> = found.iter().map(|(id, _)| *id).collect();
            let others = unranked(&index, expression, limit + known.len())?;
            found.extend(
                others
                    .into_iter()
                    .filter(|id| !known.contains(id))
                    .map(|id| (id, 0.0)),
            );
            found.sort_by_key(|(id, _)| *id >= LATE);
            found.truncate(limit);
        }
        let entry = |id: i64| usize::try_from(id % LATE).unwrap_or(usize::MAX);
        Ok(found
            .into_iter()
            .map(|(id, score)| (entry(id), score))
            .collect())
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

/// The words of `expression` that rank the tools: the rare ones, which at most half of `tools` have, or else the common
/// ones. BM25 gives common words next to no weight, but each tool that has one would be ranked. Words that are not counted
/// are taken for common ones, so that a long query takes no longer.
fn ranking_words(index: &Connection, expression: &str, tools: usize) -> rusqlite::Result<String> {
    let half = tools / 2;
    let mut count = index.prepare(COUNT)?;
    let mut rare = Vec::new();
    let mut common = Vec::new();
    let mut counted = 0;
    for word in expression.split(OR) {
        if counted >= COUNTED_MAX * tools {
            break;
        }
        let matches: i64 = count.query_row(params![word, row_id(half + 1)], |row| row.get(0))?;
        let matches = usize::try_from(matches).unwrap_or(usize::MAX);
        counted += matches;
        match matches {
            0 => {}
            _ if matches <= half => rare.push(word),
            _ => common.push(word),
        }
    }
    Ok(match (rare.is_empty(), common.is_empty()) {
        (false, _) => rare.join(OR),
        (true, false) => common.join(OR),
        // No tool has any of the words.
        (true, true) => expression.to_owned(),
    })
}

/// The ids of the best matches of `expression`, and their scores.
fn best(index: &Connection, expression: &str, limit: usize) -> rusqlite::Result<Vec<(i64, f64)>> {
    let mut ranked = index.prepare(RANKED)?;
    let rows = ranked.query_map(params![expression, row_id(limit), LATE], |row| {
        let id: i64 = row.get(0)?;
        let score: f64 = row.get(1)?;
        // FTS5 gives better matches lower scores.
        Ok((id, (-score).max(0.0)))
    })?;
    rows.collect()
}

/// The ids of the first matches of `expression` in the order of the tools, without a rank.
fn unranked(index: &Connection, expression: &str, limit: usize) -> rusqlite::Result<Vec<i64>> {
    let mut matches = index.prepare(UNRANKED)?;
    let rows = matches.query_map(params![expression, row_id(limit)], |row| row.get(0))?;
    rows.collect()
}

fn row_id(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

fn texts_with(
    index: &Connection,
    expression: &str,
    row: i64,
) -> rusqlite::Result<Vec<&'static str>> {
    let mut has = index.prepare(HAS)?;
    let mut found = Vec::new();
    for text in TEXTS {
        if has.exists(params![format!("{text} : ({expression})"), row])? {
            found.push(text);
        }
    }
    Ok(found)
}

fn row_of(at: usize, is_late: bool) -> i64 {
    row_id(at) + if is_late { LATE } else { 0 }
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
    let row = "INSERT INTO tools
        (rowid, name, namespace, title, description, search_hint, aliases, tool_kind)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut insert = into.prepare(row)?;
    for (at, entry) in entries.iter().enumerate() {
        let Some([name, namespace, title, description, hint, aliases, kind]) = entry.texts() else {
            continue;
        };
        let id = row_of(at, entry.is_late());
        insert.execute(params![
            id,
            name,
            namespace,
            title,
            description,
            hint,
            aliases,
            kind
        ])?;
    }
    Ok(())
}

fn broken(error: &rusqlite::Error) -> Refusal {
    Refusal::host_fault(format!("the tools cannot be searched: {error}"))
}
