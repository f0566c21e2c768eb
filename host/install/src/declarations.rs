//! Everything that a component declares of its tools, and the difference of two. A model reads a description: a change
//! of it is as much as a change of code.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use toolcell_engine::catalog::Tool;

use crate::digest::Digest;

const LINES_MAX: usize = 2_000;
/// Lines of one value, on each side, and characters of a line: a long text must not take the room of another one.
const PLACE_LINES_MAX: usize = 40;
const LINE_CHARS_MAX: usize = 2_000;
/// More equal characters are left out of a line.
const HEAD_CHARS_MAX: usize = 400;
const CONTEXT_CHARS: usize = 80;
const DEPTH_MAX: usize = 64;

/// Each value of all tools, by its place, such as `files.read declaration.description`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolDeclarations(BTreeMap<String, String>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case", tag = "mark", content = "text")]
pub enum DiffLine {
    Place(String),
    Before(String),
    After(String),
}

impl std::fmt::Display for DiffLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Place(text) => write!(f, "@ {text}"),
            Self::Before(text) => write!(f, "- {text}"),
            Self::After(text) => write!(f, "+ {text}"),
        }
    }
}

impl DiffLine {
    fn and_more() -> Self {
        Self::Place("and more".to_owned())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclarationDiff {
    /// A model reads these: descriptions, names, schemas.
    pub words: Vec<DiffLine>,
    /// A host reads these: what the component runs on, and its permission profile.
    pub records: Vec<DiffLine>,
}

impl ToolDeclarations {
    pub fn from_tools(tools: &[Arc<Tool>]) -> Self {
        let mut words = BTreeMap::new();
        for tool in tools {
            let mut execution = tool.execution_profile().clone();
            // Other bytes alone are not another declaration.
            execution.extra.remove("component_digest");
            let records = json!({
                "declaration": tool.declaration(), "interface": tool.interface(),
                "execution": execution, "permission": tool.permission_profile(),
            });
            flatten(
                &records,
                tool.declaration().qualified_name(),
                " ",
                0,
                &mut words,
            );
        }
        Self(words)
    }

    pub fn digest(&self) -> Digest {
        Digest::of(
            serde_json::to_string(&self.0)
                .unwrap_or_default()
                .as_bytes(),
        )
    }

    /// Words for a model come first, so that others take none of their room.
    pub fn difference(&self, later: &Self) -> DeclarationDiff {
        let places: BTreeSet<(ValueRank, &String)> = self
            .0
            .keys()
            .chain(later.0.keys())
            .map(|place| (ValueRank::from_place(place), place))
            .collect();
        let mut differences = DeclarationDiff::default();
        for (rank, place) in places {
            let before = self.0.get(place);
            let after = later.0.get(place);
            if before == after {
                continue;
            }
            let lines = if rank == ValueRank::Record {
                &mut differences.records
            } else {
                &mut differences.words
            };
            if lines.len() < LINES_MAX {
                lines.extend(compare(place, before, after));
            } else if lines.last() != Some(&DiffLine::and_more()) {
                lines.push(DiffLine::and_more());
            }
        }
        differences
    }
}

/// Earlier ranks are shown first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ValueRank {
    Description,
    Name,
    Input,
    /// Other values that a model can read.
    Declared,
    Record,
}

impl ValueRank {
    fn from_place(place: &str) -> Self {
        let value = place.split_once(' ').map_or(place, |(_, value)| value);
        let is_in = |field: &str| {
            value
                .strip_prefix(field)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if is_in("declaration.description") {
            Self::Description
        } else if [
            "declaration.name",
            "declaration.title",
            "declaration.aliases",
        ]
        .into_iter()
        .any(is_in)
        {
            Self::Name
        } else if is_in("declaration.input_contract") {
            Self::Input
        } else if is_in("declaration") || is_in("interface") {
            Self::Declared
        } else {
            Self::Record
        }
    }
}

fn compare(place: &str, before: Option<&String>, after: Option<&String>) -> Vec<DiffLine> {
    let of = |text: Option<&String>| {
        text.map(|text| text.lines().map(str::to_owned).collect())
            .unwrap_or_default()
    };
    let before: Vec<String> = of(before);
    let after: Vec<String> = of(after);
    // Of a long text, the lines that stay are not repeated, nor is how the first one that differs begins.
    let same = before
        .iter()
        .zip(&after)
        .take_while(|(before, after)| before == after)
        .count();
    let head = before
        .get(same)
        .zip(after.get(same))
        .map_or(0, |(before, after)| {
            let equal = before
                .chars()
                .zip(after.chars())
                .take_while(|(before, after)| before == after)
                .count();
            if equal > HEAD_CHARS_MAX {
                equal - CONTEXT_CHARS
            } else {
                0
            }
        });
    let shown = |lines: &[String], mark: fn(String) -> DiffLine| {
        let marked = |(at, line): (usize, &String)| mark(cut(line, if at == 0 { head } else { 0 }));
        let mut shown: Vec<DiffLine> = lines
            .iter()
            .skip(same)
            .take(PLACE_LINES_MAX)
            .enumerate()
            .map(marked)
            .collect();
        let rest = lines.len().saturating_sub(same + PLACE_LINES_MAX);
        if rest > 0 {
            shown.push(mark(format!("[{rest} more lines]")));
        }
        shown
    };
    let mut lines = vec![DiffLine::Place(place.to_owned())];
    lines.extend(shown(&before, DiffLine::Before));
    lines.extend(shown(&after, DiffLine::After));
    lines
}

fn cut(line: &str, from: usize) -> String {
    let shown: String = line.chars().skip(from).take(LINE_CHARS_MAX).collect();
    let rest = line.chars().count().saturating_sub(from + LINE_CHARS_MAX);
    let head = if from > 0 {
        format!("[{from} characters that stay] ")
    } else {
        String::new()
    };
    let tail = if rest > 0 {
        format!(" [{rest} more characters]")
    } else {
        String::new()
    };
    format!("{head}{shown}{tail}")
}

/// Two records that differ have different words: else a change could hide behind a key that is spelled as the place of
/// another value.
fn flatten(
    value: &Value,
    place: String,
    separator: &str,
    depth: usize,
    words: &mut BTreeMap<String, String>,
) {
    let inner = |key: &dyn std::fmt::Display| format!("{place}{separator}{key}");
    match value {
        Value::Object(fields) if !fields.is_empty() && depth < DEPTH_MAX => {
            fields
                .iter()
                .for_each(|(key, value)| flatten(value, inner(&part(key)), ".", depth + 1, words));
        }
        Value::Array(items) if !items.is_empty() && depth < DEPTH_MAX => {
            items
                .iter()
                .enumerate()
                .for_each(|(at, value)| flatten(value, inner(&at), ".", depth + 1, words));
        }
        Value::String(text) => drop(words.insert(place, said(text))),
        other => drop(words.insert(place, other.to_string())),
    }
}

/// JSON, unless the key is a plain word, which contains no separator and is no index.
fn part(key: &str) -> Cow<'_, str> {
    let is_plain = key
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-$".contains(&byte))
        && !key.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain {
        Cow::Borrowed(key)
    } else {
        Cow::Owned(Value::from(key).to_string())
    }
}

/// Unchanged, unless it could be another value, such as `5` or `true`.
fn said(text: &str) -> String {
    if serde_json::from_str::<Value>(text).is_ok() {
        Value::from(text).to_string()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(value: &Value) -> ToolDeclarations {
        let mut words = BTreeMap::new();
        flatten(value, "t.t".to_owned(), " ", 0, &mut words);
        ToolDeclarations(words)
    }

    #[test]
    fn a_difference_is_read_as_a_diff() {
        let before = words(
            &json!({"declaration": {"description": "Reads.\nSecond line.", "old": true}, "n": [1, 2]}),
        );
        let after = words(
            &json!({"declaration": {"description": "Reads.\nSend it to me."}, "n": [1, 3, []]}),
        );
        let DeclarationDiff {
            words: read,
            records,
        } = before.difference(&after);
        let lines: Vec<String> = read
            .iter()
            .chain(&records)
            .map(ToString::to_string)
            .collect();
        let expected = [
            "@ t.t declaration.description",
            "- Second line.",
            "+ Send it to me.",
            "@ t.t declaration.old",
            "- true",
            "@ t.t n.1",
            "- 2",
            "+ 3",
            "@ t.t n.2",
            "+ []",
        ];
        assert_eq!(lines, expected);
        assert_eq!(
            (before.difference(&before), before.digest()),
            (DeclarationDiff::default(), before.clone().digest())
        );
        assert_ne!(before.digest(), after.digest());
    }

    #[test]
    fn a_change_at_the_end_of_a_long_text_is_shown() {
        let of = |end: &str| {
            words(&json!({"declaration": {"description": format!("{}{end}", "a ".repeat(5_000))}}))
        };
        let lines: Vec<String> = of("b")
            .difference(&of("c"))
            .words
            .iter()
            .map(ToString::to_string)
            .collect();
        let head = format!("[9920 characters that stay] {}", "a ".repeat(40));
        assert_eq!(
            lines,
            [
                "@ t.t declaration.description".to_owned(),
                format!("- {head}b"),
                format!("+ {head}c")
            ]
        );
        let of = |line: &str| words(&json!({"declaration": {"description": line.repeat(5_000)}}));
        let lines = of("a\n").difference(&of("b\n")).words;
        assert_eq!(lines.len(), 1 + 2 * (PLACE_LINES_MAX + 1));
        assert_eq!(
            lines.last(),
            Some(&DiffLine::After("[4960 more lines]".to_owned()))
        );
        let lines = words(&json!({"n": "a".repeat(5_000)}))
            .difference(&ToolDeclarations::default())
            .records;
        assert!(
            lines
                .iter()
                .any(|line| line.to_string().ends_with("a [3000 more characters]")),
            "{lines:?}"
        );
    }

    #[test]
    fn the_order_of_fields_means_nothing() {
        let one = words(&json!({"a": 1, "b": 2}));
        let other = words(&json!({"b": 2, "a": 1}));
        assert_eq!(one.digest(), other.digest());
    }

    #[test]
    fn records_that_differ_have_different_words() {
        let twins = [
            json!({"a": {"b": "x"}}),
            json!({"a": {"b": "y"}, "a.b": "x"}),
            json!({"a.b": "x"}),
            json!({"a": {"": {"b": "x"}}}),
            json!({"\"a\"": {"b": "x"}}),
            json!({"a": ["x"]}),
            json!({"a": {"0": "x"}}),
            json!({"a": 5}),
            json!({"a": "5"}),
            json!({"a": "\"5\""}),
            json!({"a": []}),
            json!({"a": "[]"}),
            json!({"a": null}),
            json!({"a": "null"}),
        ];
        for (at, one) in twins.iter().enumerate() {
            for other in twins.iter().skip(at + 1) {
                assert_ne!(words(one).digest(), words(other).digest(), "{one} {other}");
                assert_ne!(
                    words(one).difference(&words(other)),
                    DeclarationDiff::default(),
                    "{one} {other}"
                );
            }
        }
    }
}
