//! Finds tools: by exact names, or by words, the best first (AT-DEF-13..18). The words of queries and of tools are
//! untrusted.

#[cfg(feature = "sqlite")]
mod full_text;
#[cfg(any(test, not(feature = "sqlite")))]
#[cfg_attr(
    feature = "sqlite",
    allow(dead_code, reason = "compiled for its tests")
)]
mod plain_words;

use std::collections::HashSet;
use std::sync::Arc;

pub use crate::catalog::SELECT;
use crate::catalog::{Surface, Tool, ToolAvailability, cut};
#[cfg(feature = "sqlite")]
use full_text::WordIndex;
#[cfg(not(feature = "sqlite"))]
use plain_words::WordIndex;
use toolcell_spec::{
    ErrorCode, LoadingState, NextAction, QueryType, Refusal, SchemaVersion, ToolRef,
    ToolSearchResult,
};

/// In characters: a search takes proportional time.
pub const QUERY_CHARS_MAX: usize = 1_000;
/// Default and maximum number of results.
pub const RESULTS: usize = 5;
pub const RESULTS_MAX: usize = 50;
const SEARCHED_CHARS_MAX: usize = 16_000;

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
    /// Words, each once.
    Keyword(Vec<String>),
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
            None => QueryKind::Keyword(words(text)),
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

    pub fn query_type(&self) -> QueryType {
        match self.kind {
            QueryKind::Select(_) => QueryType::Select,
            QueryKind::Keyword(_) => QueryType::Keyword,
        }
    }
}

/// The words of `text`, each once, whatever its case.
fn words(text: &str) -> Vec<String> {
    let separates = |c: char| c.is_whitespace() || c.is_control() || c.is_ascii_punctuation();
    let mut known = HashSet::new();
    let words = text.split(separates).filter(|word| !word.is_empty());
    words
        .filter(|word| known.insert(word.to_lowercase()))
        .map(str::to_owned)
        .collect()
}

#[derive(Debug)]
struct SearchEntry {
    tool: Arc<Tool>,
    name: String,
    qualified_name: String,
    standing: ToolAvailability,
}

/// The texts of a tool in which it is found, by their names in `match_reasons` (AT-DEF-14).
const TEXTS: [&str; 7] = [
    "name",
    "namespace",
    "title",
    "description",
    "search_hint",
    "aliases",
    "tool_kind",
];

impl SearchEntry {
    /// In the order of [`TEXTS`]. `None` for a tool that cannot be called, which is found by its name alone.
    fn texts(&self) -> Option<[String; TEXTS.len()]> {
        if self.standing.state == LoadingState::Unavailable {
            return None;
        }
        let declaration = self.tool.declaration();
        let shown = |text: &str| cut(&self.tool.contract().shown(text), SEARCHED_CHARS_MAX);
        let or_empty = |text: Option<&str>| text.map(shown).unwrap_or_default();
        Some([
            declaration.name.clone(),
            declaration.namespace.clone(),
            or_empty(declaration.title.as_deref()),
            shown(&declaration.description),
            or_empty(declaration.search_hint.as_deref()),
            declaration.aliases.join(" "),
            declaration.tool_kind.0.clone(),
        ])
    }

    /// `true` for a deprecated tool, which comes last (AT-LIFE-06).
    fn is_late(&self) -> bool {
        self.standing.state == LoadingState::Discoverable
    }
}

/// Finds the tools of one surface. Building and searching block the thread.
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
    index: WordIndex,
}

impl ToolFinder {
    /// A finder of the tools of `surface`, which the caller knows by `names`, in the same order. Drafts and retired tools
    /// are not found (AT-LIFE-01, AT-LIFE-07).
    ///
    /// # Errors
    ///
    /// A host fault, if the index fails.
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
        let index = WordIndex::new(&entries)?;
        Ok(Self { entries, index })
    }

    /// Searches for `query`. Returns at most `limit` results, and never more than 50; exact names are returned whatever
    /// `limit` says. `has_loaded` says whether the caller has loaded the tool with a qualified name.
    ///
    /// # Errors
    ///
    /// A host fault, if the index fails.
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
        let found: Vec<(&SearchEntry, Option<f64>, Vec<&str>)> = match &query.kind {
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
                    .map(|entry| (entry, None, Vec::new()))
                    .collect()
            }
            QueryKind::Keyword(words) => {
                let ranked = self.index.ranked(words, limit.min(RESULTS_MAX))?;
                let mut found = Vec::with_capacity(ranked.len());
                for (at, score) in ranked {
                    if let Some(entry) = self.entries.get(at) {
                        let reasons = self.index.reasons(words, at, entry.is_late())?;
                        found.push((entry, Some(score), reasons));
                    }
                }
                found
            }
        };
        let matches: Vec<ToolRef> = found
            .into_iter()
            .map(|(entry, score, reasons)| ToolRef {
                match_reasons: reasons.into_iter().map(str::to_owned).collect(),
                ..entry.tool.reference(&entry.name, standing(entry), score)
            })
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

    /// Tools with exactly this caller's or qualified name, else bare name, else alias; the last two can be shared.
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
}

#[cfg(feature = "sqlite")]
#[cfg(test)]
mod tests;
