//! Where two results first differ. Ids, times and usage differ in each call, and are not compared.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

const EXCERPT_CHARS_MAX: usize = 80;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// `error`, `content`, `structured_content`, `ui_facing_summary` or `context_modifiers`.
    pub(super) part: &'static str,
    /// The first block is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) block: Option<usize>,
    /// JSON Pointer into that part or block.
    pub(super) pointer: String,
    /// Both begin at 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) byte: Option<usize>,
    /// The text begins at the difference; absent if the result ends before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<String>,
    /// The text begins at the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replayed: Option<String>,
}

/// Compares error, content, structured content, summary, and context changes.
pub(super) fn first(recorded: &Value, replayed: &Value) -> Option<Difference> {
    for field in ["/error_class", "/error_code"] {
        let of = |result: &Value| result.pointer(&format!("/error{field}")).cloned();
        let before = of(recorded);
        let now = of(replayed);
        if before != now {
            let place = (field.to_owned(), before.as_ref(), now.as_ref());
            return Some(described("error", None, place));
        }
    }
    let blocks = |result: &Value| {
        let mut blocks = result
            .get("content")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        // The reference of an artifact is new for each call; its digest says whether the file is the same.
        let artifacts = blocks
            .iter_mut()
            .filter(|block| block.get("type").is_some_and(|kind| kind == "artifact_ref"));
        artifacts
            .filter_map(Value::as_object_mut)
            .for_each(|block| _ = block.remove("reference"));
        blocks
    };
    let before = blocks(recorded);
    let now = blocks(replayed);
    for at in 0..before.len().max(now.len()) {
        if let Some(place) = differing(before.get(at), now.get(at), String::new()) {
            return Some(described("content", Some(at), place));
        }
    }
    let parts = [
        "structured_content",
        "ui_facing_summary",
        "context_modifiers",
    ];
    parts.into_iter().find_map(|part| {
        let place = differing(recorded.get(part), replayed.get(part), String::new())?;
        Some(described(part, None, place))
    })
}

/// Where two values differ, as a JSON Pointer, and what is there.
type Place<'v> = (String, Option<&'v Value>, Option<&'v Value>);

/// The first place below `pointer` at which the values differ. The order of an object's fields does not matter.
fn differing<'v>(
    before: Option<&'v Value>,
    now: Option<&'v Value>,
    pointer: String,
) -> Option<Place<'v>> {
    if before == now {
        return None;
    }
    let below = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    let deeper = match (before, now) {
        (Some(Value::Object(before)), Some(Value::Object(now))) => {
            let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
            names
                .into_iter()
                .find_map(|name| differing(before.get(name), now.get(name), below(name)))
        }
        (Some(Value::Array(before)), Some(Value::Array(now))) => (0..before.len().max(now.len()))
            .find_map(|at| differing(before.get(at), now.get(at), below(&at.to_string()))),
        _ => None,
    };
    deeper.or(Some((pointer, before, now)))
}

fn described(
    part: &'static str,
    block: Option<usize>,
    (pointer, before, now): Place<'_>,
) -> Difference {
    let mut difference = Difference {
        part,
        block,
        pointer,
        line: None,
        byte: None,
        recorded: before.map(|value| excerpt(&value.to_string())),
        replayed: now.map(|value| excerpt(&value.to_string())),
    };
    if part != "error"
        && let (Some(Value::String(before)), Some(Value::String(now))) = (before, now)
    {
        let at = common_bytes(before, now);
        let same = before.get(..at).unwrap_or_default();
        let line_start = same.rfind('\n').map_or(0, |end| end + 1);
        difference.line = Some(same.matches('\n').count() + 1);
        difference.byte = Some(at - line_start + 1);
        difference.recorded = before.get(at..).map(excerpt);
        difference.replayed = now.get(at..).map(excerpt);
    }
    difference
}

fn common_bytes(one: &str, other: &str) -> usize {
    let same = one
        .chars()
        .zip(other.chars())
        .take_while(|(one, other)| one == other);
    same.map(|(one, _)| one.len_utf8()).sum()
}

fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(recorded: Value, replayed: Value) -> Difference {
        first(&recorded, &replayed).unwrap()
    }

    #[test]
    fn ids_times_and_the_order_of_fields_do_not_count() {
        let one = json!({ "result_id": "a", "created_at": "b", "structured_content": { "x": 1, "y": [2] } });
        let other =
            json!({ "result_id": "c", "usage": {}, "structured_content": { "y": [2], "x": 1 } });
        assert_eq!(first(&one, &other), None);
    }

    #[test]
    fn structured_content_differs_at_a_pointer() {
        let place = found(
            json!({ "structured_content": { "a/b": [1, { "~": 2 }] } }),
            json!({ "structured_content": { "a/b": [1, { "~": 3 }] } }),
        );
        assert_eq!(
            (place.part, place.pointer.as_str()),
            ("structured_content", "/a~1b/1/~0")
        );
        assert_eq!(
            (place.recorded.as_deref(), place.replayed.as_deref()),
            (Some("2"), Some("3"))
        );
        let gone = found(
            json!({ "structured_content": [1] }),
            json!({ "structured_content": [1, null] }),
        );
        assert_eq!(
            (
                gone.pointer.as_str(),
                gone.recorded,
                gone.replayed.as_deref()
            ),
            ("/1", None, Some("null"))
        );
        let changed = json!({ "context_modifiers": [{ "key": "a", "value": 1 }] });
        let place = found(
            changed,
            json!({ "context_modifiers": [{ "key": "a", "value": 2 }] }),
        );
        assert_eq!(
            (place.part, place.pointer.as_str()),
            ("context_modifiers", "/0/value")
        );
        let missing = found(json!({}), json!({ "structured_content": 1 }));
        assert_eq!(
            (missing.part, missing.pointer.as_str()),
            ("structured_content", "")
        );
    }

    #[test]
    fn a_text_differs_in_a_line_at_a_byte() {
        let block = |text: &str| json!({ "type": "text", "text": text });
        let of = |texts: &[&str]| json!({ "content": texts.iter().map(|text| block(text)).collect::<Vec<_>>() });
        let place = found(
            of(&["same", "one\ntw\u{f6}"]),
            of(&["same", "one\ntw\u{f3}!"]),
        );
        assert_eq!((place.block, place.pointer.as_str()), (Some(1), "/text"));
        assert_eq!(
            (place.line, place.byte),
            (Some(2), Some(3)),
            "the characters share a byte"
        );
        assert_eq!(
            (place.recorded.as_deref(), place.replayed.as_deref()),
            (Some("\u{f6}"), Some("\u{f3}!"))
        );
        let more = found(of(&["same"]), of(&["same", "more"]));
        assert_eq!((more.block, more.recorded), (Some(1), None));
    }

    #[test]
    fn how_a_call_ended_comes_first() {
        let failed = json!({ "error": { "error_class": "timeout", "error_code": "fuel_exhausted" }, "content": [1] });
        let place = found(json!({ "content": [] }), failed);
        assert_eq!(
            (place.part, place.pointer.as_str()),
            ("error", "/error_class")
        );
        assert_eq!((place.recorded, place.line), (None, None));
    }
}
