//! Everything that a component declares of its tools, and the difference of two, as one reads a diff. A description is
//! read by a model: a change of it is as much as a change of code.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use toolcell_core::catalog::Tool;

use crate::digest::Digest;

/// Maximum number of lines of a difference.
const LINES_MAX: usize = 2_000;
/// Maximum depth of values that are compared one by one.
const DEPTH_MAX: usize = 64;

/// Each value of the records of all tools, by its place, such as `files.read declaration.description`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(BTreeMap<String, String>);

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "mark", content = "text")]
pub enum Line {
    /// The place that the next lines are about.
    Place(String),
    /// What was there.
    Before(String),
    /// What is there.
    After(String),
}

/// As in a diff.
impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Place(text) => write!(f, "@ {text}"),
            Self::Before(text) => write!(f, "- {text}"),
            Self::After(text) => write!(f, "+ {text}"),
        }
    }
}

impl Words {
    /// The records of `tools`.
    pub fn of(tools: &[Arc<Tool>]) -> Self {
        let mut words = BTreeMap::new();
        for tool in tools {
            let mut execution = tool.execution_profile().clone();
            // Other bytes alone are not another declaration.
            execution.extra.remove("component_digest");
            let records = json!({
                "declaration": tool.declaration(), "interface": tool.interface(),
                "execution": execution, "permission": tool.permission_profile(),
            });
            flatten(&records, tool.declaration().qualified_name(), " ", 0, &mut words);
        }
        Self(words)
    }

    /// Its digest: equal words have equal digests.
    pub fn digest(&self) -> Digest {
        Digest::of(serde_json::to_string(&self.0).unwrap_or_default().as_bytes())
    }

    /// How `later` differs from this one; empty if it does not.
    pub fn difference(&self, later: &Self) -> Vec<Line> {
        let places: BTreeSet<&String> = self.0.keys().chain(later.0.keys()).collect();
        let mut lines = Vec::new();
        for place in places {
            let (before, after) = (self.0.get(place), later.0.get(place));
            if before == after {
                continue;
            }
            if lines.len() >= LINES_MAX {
                lines.push(Line::Place("and more".to_owned()));
                break;
            }
            lines.push(Line::Place(place.clone()));
            let of =
                |text: Option<&String>| text.map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default();
            let (before, after): (Vec<String>, Vec<String>) = (of(before), of(after));
            // Of a long text, the lines that stay are not repeated.
            let same = before.iter().zip(&after).take_while(|(before, after)| before == after).count();
            lines.extend(before.iter().skip(same).cloned().map(Line::Before));
            lines.extend(after.iter().skip(same).cloned().map(Line::After));
        }
        lines
    }
}

/// Puts each value below `value`, which is at `place`, into `words`. Empty lists and objects are values. Two records that
/// differ have different words: else a change could hide behind a key that is spelled as the place of another value.
fn flatten(value: &Value, place: String, separator: &str, depth: usize, words: &mut BTreeMap<String, String>) {
    let inner = |key: &dyn std::fmt::Display| format!("{place}{separator}{key}");
    match value {
        Value::Object(fields) if !fields.is_empty() && depth < DEPTH_MAX => {
            fields.iter().for_each(|(key, value)| flatten(value, inner(&part(key)), ".", depth + 1, words));
        }
        Value::Array(items) if !items.is_empty() && depth < DEPTH_MAX => {
            items.iter().enumerate().for_each(|(at, value)| flatten(value, inner(&at), ".", depth + 1, words));
        }
        Value::String(text) => drop(words.insert(place, said(text))),
        other => drop(words.insert(place, other.to_string())),
    }
}

/// How a key is written in a place: as JSON, unless it is a plain word, which contains no separator and is no index.
fn part(key: &str) -> Cow<'_, str> {
    let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-$".contains(&byte))
        && !key.bytes().all(|byte| byte.is_ascii_digit());
    match is_plain || !guard!("plain_places") {
        true => Cow::Borrowed(key),
        false => Cow::Owned(Value::from(key).to_string()),
    }
}

/// How a text is written: as it is, unless it could be another value, such as `5` or `true`.
fn said(text: &str) -> String {
    match serde_json::from_str::<Value>(text).is_ok() && guard!("plain_places") {
        true => Value::from(text).to_string(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(value: &Value) -> Words {
        let mut words = BTreeMap::new();
        flatten(value, "t.t".to_owned(), " ", 0, &mut words);
        Words(words)
    }

    #[test]
    fn a_difference_is_read_as_a_diff() {
        let before = words(&json!({"declaration": {"description": "Reads.\nSecond line.", "old": true}, "n": [1, 2]}));
        let after = words(&json!({"declaration": {"description": "Reads.\nSend it to me."}, "n": [1, 3, []]}));
        let lines: Vec<String> = before.difference(&after).iter().map(ToString::to_string).collect();
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
        assert_eq!((before.difference(&before), before.digest()), (Vec::new(), before.clone().digest()));
        assert_ne!(before.digest(), after.digest());
    }

    #[test]
    fn the_order_of_fields_means_nothing() {
        let (one, other) = (words(&json!({"a": 1, "b": 2})), words(&json!({"b": 2, "a": 1})));
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
                assert!(!words(one).difference(&words(other)).is_empty(), "{one} {other}");
            }
        }
    }
}
