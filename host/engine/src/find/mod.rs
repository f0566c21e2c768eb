//! Finds tools: by exact names, or by words, ranked with BM25 (AT-DEF-13..18). The words of queries and of tools are
//! untrusted.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Transaction, params};

pub use crate::catalog::SELECT;
use crate::catalog::{Surface, Tool, ToolAvailability, cut};
use toolcell_spec::{
    ErrorCode, LoadingState, NextAction, QueryType, Refusal, SchemaVersion, ToolRef,
    ToolSearchResult,
};

/// Maximum length of a query, in characters. A search takes time in proportion to it.
pub const QUERY_CHARS_MAX: usize = 1_000;
/// Default and maximum number of results.
pub const RESULTS: usize = 5;
pub const RESULTS_MAX: usize = 50;
/// Maximum length of a searched text, in characters, as for a description.
const SEARCHED_CHARS_MAX: usize = 16_000;

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

/// A query that was read.
///
/// ```
/// use toolcell_engine::find::ToolQuery;
/// use toolcell_spec::QueryType;
///
/// assert_eq!(ToolQuery::parse("select:files.read,grep")?.query_type(), QueryType::Select);
/// assert_eq!(ToolQuery::parse("read a file")?.query_type(), QueryType::Keyword);
/// # Ok::<(), toolcell_spec::Refusal>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolQuery {
    text: String,
    kind: QueryKind,
}

#[derive(Clone, Debug)]
enum QueryKind {
    Select(Vec<String>),
    /// An expression of FTS5.
    Keyword(String),
}

impl ToolQuery {
    /// Reads `select:NAME,NAME`, or words.
    ///
    /// # Errors
    ///
    /// `invalid_arguments`, if the query is empty or has more than 1,000 characters.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let refuse = |code, message: String| Err(Refusal::new(code, message));
        let length = text.chars().count();
        if length > QUERY_CHARS_MAX {
            let message = format!(
                "the query has {length} characters, more than {QUERY_CHARS_MAX}; use fewer words"
            );
            return refuse(ErrorCode::QueryTooLong, message);
        }
        let kind = match text.trim().strip_prefix(SELECT) {
            Some(names) => {
                let names = names
                    .split(',')
                    .map(str::trim)
                    .filter(|name| !name.is_empty());
                QueryKind::Select(names.map(str::to_owned).collect())
            }
            None => QueryKind::Keyword(expression(text)),
        };
        if matches!(&kind, QueryKind::Select(names) if names.is_empty()) || text.trim().is_empty() {
            let message =
                format!("the query {text:?} names nothing; give words, or {SELECT}NAME,NAME");
            return refuse(ErrorCode::QueryEmpty, message);
        }
        Ok(Self {
            text: text.to_owned(),
            kind,
        })
    }

    /// Returns whether the query is for exact names or for words.
    pub fn query_type(&self) -> QueryType {
        match self.kind {
            QueryKind::Select(_) => QueryType::Select,
            QueryKind::Keyword(_) => QueryType::Keyword,
        }
    }
}

/// Returns an expression of FTS5 that matches each text with one of the words of `text`, each once; empty if it has no
/// word. Every word is quoted and holds no quote, so that none of them is read as syntax.
fn expression(text: &str) -> String {
    let separates = |c: char| c.is_whitespace() || c.is_control() || c.is_ascii_punctuation();
    let mut expression = String::new();
    let mut known = HashSet::new();
    for word in text.split(separates).filter(|word| !word.is_empty()) {
        if !known.insert(word.to_lowercase()) {
            continue;
        }
        let or = if expression.is_empty() { "" } else { OR };
        let _ = write!(expression, "{or}\"{word}\"");
    }
    expression
}

/// A tool that can be found.
#[derive(Debug)]
struct SearchEntry {
    tool: Arc<Tool>,
    /// The name by which the caller loads and calls the tool.
    name: String,
    qualified_name: String,
    standing: ToolAvailability,
}

/// Finds the tools of one surface. To build one, and to search, blocks the thread.
///
/// ```
/// use toolcell_engine::catalog::Surface;
/// use toolcell_engine::find::{ToolFinder, ToolQuery, RESULTS};
/// use toolcell_spec::NextAction;
///
/// let finder = ToolFinder::new(&Surface::default(), Vec::new())?;
/// let found = finder.search(&ToolQuery::parse("read a file")?, RESULTS, |_| false)?;
/// assert!(found.matches.is_empty() && found.next_action == NextAction::SearchAgain);
/// # Ok::<(), toolcell_spec::Refusal>(())
/// ```
#[derive(Debug)]
pub struct ToolFinder {
    entries: Vec<SearchEntry>,
    index: Mutex<Connection>,
}

impl ToolFinder {
    /// A finder of the tools of `surface`, which the caller knows by `names`, in the same order. Drafts and retired tools
    /// are not found (AT-LIFE-01, AT-LIFE-07).
    ///
    /// # Errors
    ///
    /// A host fault, if SQLite fails.
    pub fn new(surface: &Surface, names: Vec<String>) -> Result<Self, Refusal> {
        let is_known = |standing: ToolAvailability| {
            standing.state != LoadingState::Unavailable || standing.reason.is_some()
        };
        let known = surface
            .tools()
            .zip(names)
            .filter(|((_, standing), _)| is_known(*standing));
        let entries: Vec<SearchEntry> = known
            .map(|((tool, standing), name)| SearchEntry {
                qualified_name: tool.declaration().qualified_name(),
                tool: Arc::clone(tool),
                name,
                standing,
            })
            .collect();
        let index = build_index(&entries).map_err(|error| broken(&error))?;
        Ok(Self {
            entries,
            index: Mutex::new(index),
        })
    }

    /// Searches for `query`. Returns at most `limit` results, and never more than 50; exact names are returned whatever
    /// `limit` says. `has_loaded` says whether the caller has loaded the tool with a qualified name.
    ///
    /// # Errors
    ///
    /// A host fault, if SQLite fails.
    pub fn search(
        &self,
        query: &ToolQuery,
        limit: usize,
        has_loaded: impl Fn(&str) -> bool,
    ) -> Result<ToolSearchResult, Refusal> {
        let standing = |entry: &SearchEntry| {
            if has_loaded(&entry.qualified_name) {
                entry.standing.after_loading()
            } else {
                entry.standing
            }
        };
        let mut missing_names = Vec::new();
        let found: Vec<(&SearchEntry, Option<f64>)> = match &query.kind {
            QueryKind::Select(names) => {
                let mut found: Vec<&SearchEntry> = Vec::new();
                for name in names {
                    let named = self.named(name);
                    if named.is_empty() {
                        missing_names.push(name.clone());
                    }
                    found.extend(named);
                }
                let mut seen = HashSet::new();
                found.retain(|entry| seen.insert(&entry.qualified_name));
                found
                    .into_iter()
                    .take(RESULTS_MAX)
                    .map(|entry| (entry, None))
                    .collect()
            }
            QueryKind::Keyword(expression) => {
                let ranked = self
                    .ranked(expression, limit.min(RESULTS_MAX))
                    .map_err(|error| broken(&error))?;
                let entry = |(at, score): (usize, f64)| Some((self.entries.get(at)?, Some(score)));
                ranked.into_iter().filter_map(entry).collect()
            }
        };
        let matches: Vec<ToolRef> = found
            .into_iter()
            .map(|(entry, score)| entry.tool.reference(&entry.name, standing(entry), score))
            .collect();
        let deferred = self
            .entries
            .iter()
            .filter(|entry| standing(entry).state == LoadingState::Deferred);
        Ok(ToolSearchResult {
            schema_version: SchemaVersion::default(),
            query: query.text.clone(),
            query_type: query.query_type(),
            next_action: NextAction::after(&matches),
            matches,
            total_deferred_tools: deferred.count(),
            pending_providers: Vec::new(),
            unavailable_providers: Vec::new(),
            missing_names,
        })
    }

    /// The tools with exactly this name: the caller's name or the qualified one, else the bare one, else an alias. Several
    /// tools may share one of the last two.
    fn named(&self, name: &str) -> Vec<&SearchEntry> {
        let find = |is: &dyn Fn(&SearchEntry) -> bool| {
            self.entries
                .iter()
                .filter(|entry| is(entry))
                .collect::<Vec<_>>()
        };
        let mut found =
            find(&|entry: &SearchEntry| entry.name == name || entry.qualified_name == name);
        if found.is_empty() {
            found = find(&|entry: &SearchEntry| entry.tool.declaration().name == name);
        }
        if found.is_empty() {
            found = find(&|entry: &SearchEntry| {
                entry
                    .tool
                    .declaration()
                    .aliases
                    .iter()
                    .any(|alias| alias == name)
            });
        }
        found
    }

    /// The best matches of `expression`: their indices, and their scores, of which higher is better.
    fn ranked(&self, expression: &str, limit: usize) -> rusqlite::Result<Vec<(usize, f64)>> {
        if expression.is_empty() {
            return Ok(Vec::new());
        }
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
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

fn row_id(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// Creates the index in memory. The id of a row is the index of its entry, from [`LATE`] on for a deprecated tool.
fn build_index(entries: &[SearchEntry]) -> rusqlite::Result<Connection> {
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
        // A tool that cannot be called is found by its name alone.
        if entry.standing.state == LoadingState::Unavailable {
            continue;
        }
        let declaration = entry.tool.declaration();
        let shown = |text: &str| cut(&entry.tool.contract().shown(text), SEARCHED_CHARS_MAX);
        let or_empty = |text: Option<&str>| text.map(shown).unwrap_or_default();
        let tags = [
            declaration.aliases.join(" "),
            declaration.tool_kind.0.clone(),
        ]
        .join(" ");
        insert.execute(params![
            row_id(at)
                + if entry.standing.state == LoadingState::Discoverable {
                    LATE
                } else {
                    0
                },
            declaration.name,
            declaration.namespace,
            or_empty(declaration.title.as_deref()),
            shown(&declaration.description),
            or_empty(declaration.search_hint.as_deref()),
            tags,
        ])?;
    }
    Ok(())
}

fn broken(error: &rusqlite::Error) -> Refusal {
    Refusal::host_fault(format!("the tools cannot be searched: {error}"))
}

#[cfg(test)]
mod tests;
