//! The index of words without SQLite: the words of each tool as they are written, without their stems. A tool is found by
//! the words of a query that it has; a word in its name counts more than one in its description.

use std::collections::HashMap;

use super::{SearchEntry, TEXTS};
use toolcell_spec::Refusal;

/// The weight of a word in each text: as in the full text index.
const WEIGHTS: [u8; TEXTS.len()] = [8, 2, 4, 1, 4, 4, 4];

/// The words of the tools.
#[derive(Debug)]
pub(super) struct WordIndex(Vec<ToolWords>);

#[derive(Debug, Default)]
struct ToolWords {
    /// In lower case, with a bit for each text that has it.
    places: HashMap<Box<str>, u8>,
    is_late: bool,
}

impl WordIndex {
    /// Creates the index. It does not fail; one of another kind does.
    pub(super) fn new(entries: &[SearchEntry]) -> Result<Self, Refusal> {
        Ok(Self(entries.iter().map(ToolWords::new).collect()))
    }

    /// The best matches of any of `words`: the indices of their entries, and their scores, of which higher is better. Deprecated
    /// tools come last, and equal scores keep the order of the tools.
    pub(super) fn ranked(
        &self,
        words: &[String],
        limit: usize,
    ) -> Result<Vec<(usize, f64)>, Refusal> {
        let words: Vec<String> = words.iter().flat_map(|word| parts(word)).collect();
        let score = |tool: &ToolWords| -> u32 {
            let places = words
                .iter()
                .filter_map(|word| tool.places.get(word.as_str()));
            places.map(|places| u32::from(weight(*places))).sum()
        };
        let scored = self
            .0
            .iter()
            .enumerate()
            .map(|(at, tool)| (at, score(tool)));
        let mut found: Vec<(usize, u32)> = scored.filter(|(_, score)| *score > 0).collect();
        let is_late = |at: usize| self.0.get(at).is_some_and(|tool| tool.is_late);
        found.sort_by_key(|(at, score)| (is_late(*at), u32::MAX - score));
        found.truncate(limit);
        Ok(found
            .into_iter()
            .map(|(at, score)| (at, f64::from(score)))
            .collect())
    }

    /// Which texts of the entry `at` have one of `words`.
    pub(super) fn reasons(
        &self,
        words: &[String],
        at: usize,
        _: bool,
    ) -> Result<Vec<&'static str>, Refusal> {
        let known = |word: String| self.0.get(at)?.places.get(word.as_str()).copied();
        let found = words.iter().flat_map(|word| parts(word)).filter_map(known);
        let places = found.fold(0, |all, places| all | places);
        let texts = TEXTS.into_iter().enumerate();
        Ok(texts
            .filter(|(text, _)| places & (1 << text) != 0)
            .map(|(_, name)| name)
            .collect())
    }
}

/// The highest of a word in the texts `places`.
fn weight(places: u8) -> u8 {
    let weights = WEIGHTS.into_iter().enumerate();
    let weights = weights.filter(|(text, _)| places & (1 << text) != 0);
    weights.map(|(_, weight)| weight).max().unwrap_or_default()
}

impl ToolWords {
    fn new(entry: &SearchEntry) -> Self {
        let mut words = Self {
            is_late: entry.is_late(),
            ..Self::default()
        };
        for (at, text) in entry.texts().iter().flatten().enumerate() {
            for word in parts(text) {
                *words.places.entry(word.into()).or_default() |= 1 << at;
            }
        }
        words
    }
}

/// The words of `text`, in lower case.
fn parts(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

#[cfg(feature = "sqlite")]
#[cfg(test)]
mod tests {
    use super::super::tests::{declared, finder};
    use super::super::words;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_word_in_the_name_counts_most_and_each_tool_with_a_word_is_found() {
        let about = |text: &str| json!({ "description": text });
        let finder = finder(
            &[
                declared("t", "grep", about("Searches files for a word.")),
                declared("t", "read_file", about("Returns what a path holds.")),
                declared(
                    "t",
                    "old",
                    json!({ "description": "Reads: read, file.", "lifecycle": "deprecated" }),
                ),
                declared("t", "sum", about("Adds numbers.")),
            ],
            0,
        );
        let index = WordIndex::new(&finder.entries).unwrap();
        let found = |query: &str, limit| {
            let ranked = index.ranked(&words(query), limit).unwrap();
            ranked.into_iter().map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(
            found("READ a File", 5),
            [1, 0, 2],
            "deprecated tools come last"
        );
        assert_eq!(found("READ a File", 1), [1]);
        assert_eq!(found("numbers.", 5), [3]);
        assert!(found("number", 5).is_empty() && found("", 5).is_empty());
        let reasons = index.reasons(&words("a read file"), 1, false).unwrap();
        assert_eq!(reasons, ["name", "description"]);
    }
}
