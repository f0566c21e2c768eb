//! The two forms of an answer. A client gives its model `content` or `structuredContent`, and no server learns which,
//! so each has the whole answer.

use std::borrow::Cow;
use std::collections::HashMap;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ResourceContents};
use serde_json::{Map, Value, json};

use super::meta_of;
use crate::block::decoded_bytes;

const SMALL: usize = 1 << 10;
/// A text of this many bytes equals a field's value by no chance.
const CHANCE: usize = 32;
/// In `_meta` of a result: the property added to its structured content.
const TEXT_PROPERTY: &str = "toolcell/text_property";
/// In `_meta` of the block added to the content.
const REPEATS: &str = "toolcell/repeats";
/// One more property could break these, because they judge a whole object.
const OF_THE_WHOLE: [&str; 14] = [
    "$dynamicRef",
    "$recursiveRef",
    "const",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "if",
    "maxProperties",
    "not",
    "patternProperties",
    "propertyNames",
    "then",
];

/// Makes both forms complete. `schema` is for the output; with `is_repeated`, the content refers to structured content
/// that is too large for it.
pub(super) fn complete(answer: &mut CallToolResult, schema: Option<&Value>, is_repeated: bool) {
    let Some(structured) = answer.structured_content.take() else {
        return;
    };
    let serialised = structured.to_string();
    let mut told = String::new();
    let mut has_structure = is_repeated;
    for block in &answer.content {
        match words(block, &told) {
            text if is(&text, &structured, &serialised) => has_structure = true,
            text => {
                let line = if told.is_empty() || text.is_empty() {
                    ""
                } else {
                    "\n"
                };
                told.push_str(line);
                told.push_str(&text);
            }
        }
    }
    if !has_structure && (serialised.len() <= SMALL || says_more(&structured, &told)) {
        let mut repeated = ContentBlock::text(serialised);
        if let ContentBlock::Text(text) = &mut repeated {
            text.meta = Some(meta_of(REPEATS, "structuredContent".into()));
        }
        answer.content.push(repeated);
    }
    answer.structured_content = match (unsaid(&told, &structured), structured) {
        (None, structured) => Some(structured),
        (Some(text), Value::Object(mut fields)) => {
            let name = property(schema, &fields);
            fields.insert(name.clone(), text.into());
            answer
                .meta
                .get_or_insert_default()
                .0
                .insert(TEXT_PROPERTY.to_owned(), name.into());
            Some(Value::Object(fields))
        }
        // It has no room for a text. What failed is read in the content.
        (Some(_), structured) => Some(structured).filter(|_| answer.is_error == Some(true)),
    };
}

/// `schema` with the property that [`complete`] may add; `None` if it judges the whole output, and so cannot be
/// announced.
pub(super) fn widened(schema: &Value) -> Option<JsonObject> {
    let name = property(Some(schema), &Map::new());
    let mut widened = schema.clone();
    for pointer in parts(schema)? {
        let Some(part) = widened.pointer_mut(&pointer).and_then(Value::as_object_mut) else {
            continue;
        };
        let is_closed = |word| {
            part.get(word)
                .is_some_and(|other| *other != Value::Bool(true))
        };
        if pointer.is_empty()
            || is_closed("additionalProperties")
            || is_closed("unevaluatedProperties")
        {
            let properties = part
                .entry("properties")
                .or_insert_with(|| json!({}))
                .as_object_mut()?;
            // Without a type: where any property is allowed, the tool may have one of this name.
            properties.insert(
                name.clone(),
                json!({ "description": "The text of the answer, as the content has it." }),
            );
        }
    }
    match widened {
        Value::Object(widened) => Some(widened),
        _ => None,
    }
}

/// `text`, or `text_2` and so on, if the schema or the output has that.
fn property(schema: Option<&Value>, output: &Map<String, Value>) -> String {
    let places = schema.and_then(parts).unwrap_or_default();
    let is_known = |name: &str| {
        let of = |pointer: &String| schema?.pointer(pointer)?.get("properties")?.get(name);
        output.contains_key(name) || places.iter().any(|pointer| of(pointer).is_some())
    };
    let mut name = "text".to_owned();
    let mut number = 1;
    while is_known(&name) {
        number += 1;
        name = format!("text_{number}");
    }
    name
}

/// JSON Pointers of the parts that describe the output itself. `None` if one cannot be found or judges the whole
/// output.
fn parts(schema: &Value) -> Option<Vec<String>> {
    let mut found = vec![String::new()];
    let mut at = 0;
    while let Some(pointer) = found.get(at).cloned() {
        at += 1;
        // `true` and `false` are schemas too.
        let Some(part) = schema.pointer(&pointer)?.as_object() else {
            continue;
        };
        let moves_references = !pointer.is_empty() && part.contains_key("$id");
        if moves_references
            || part
                .keys()
                .any(|word| OF_THE_WHOLE.contains(&word.as_str()))
        {
            return None;
        }
        for word in ["allOf", "anyOf", "oneOf"] {
            let count = part.get(word).and_then(Value::as_array).map_or(0, Vec::len);
            found.extend((0..count).map(|at| format!("{pointer}/{word}/{at}")));
        }
        if let Some(reference) = part.get("$ref") {
            let target = reference.as_str()?.strip_prefix('#')?.to_owned();
            if !found.contains(&target) {
                found.push(target);
            }
        }
    }
    Some(found)
}

/// Empty for a link whose address `told` has.
fn words<'b>(block: &'b ContentBlock, told: &str) -> Cow<'b, str> {
    let note = |kind: &str, labels: &[Option<String>]| {
        let labels: Vec<&str> = labels.iter().flatten().map(String::as_str).collect();
        Cow::Owned(format!("[{kind}: {}]", labels.join(", ")))
    };
    let size = |data: &str| Some(format!("{} bytes", decoded_bytes(data)));
    match block {
        ContentBlock::Text(text) => Cow::Borrowed(&text.text),
        ContentBlock::Image(image) => {
            note("image", &[Some(image.mime_type.clone()), size(&image.data)])
        }
        ContentBlock::Audio(audio) => {
            note("audio", &[Some(audio.mime_type.clone()), size(&audio.data)])
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => Cow::Borrowed(text),
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => note(
                "resource",
                &[Some(uri.clone()), mime_type.clone(), size(blob)],
            ),
            _ => Cow::Borrowed(""),
        },
        ContentBlock::ResourceLink(link) if told.contains(&link.uri) => Cow::Borrowed(""),
        ContentBlock::ResourceLink(link) => {
            let size = link.size.map(|size| format!("{size} bytes"));
            let name = Some(link.name.clone()).filter(|name| *name != link.uri);
            note(
                "resource_link",
                &[name, Some(link.uri.clone()), link.mime_type.clone(), size],
            )
        }
        _ => Cow::Borrowed(""),
    }
}

fn is(text: &str, structured: &Value, serialised: &str) -> bool {
    let same_kind = || text.trim_start().chars().next() == serialised.chars().next();
    text == serialised
        || (same_kind()
            && serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured))
}

/// Ignores values without information and one missing word in ten, such as an entry's kind.
fn says_more(structured: &Value, text: &str) -> bool {
    let mut left = counted(text);
    let mut all = 0_usize;
    let mut missing = 0_usize;
    each_word(structured, false, &mut |word| {
        all += 1;
        missing += usize::from(!take(&mut left, word));
    });
    missing * 10 > all
}

/// The part that `structured` lacks: all; or only some lines of a long text that is nearly all there in other words;
/// `None` if nothing.
fn unsaid(text: &str, structured: &Value) -> Option<String> {
    let whole = text.trim();
    if whole.is_empty() || (whole.len() >= CHANCE && has_value(structured, whole)) {
        return None;
    }
    if text.len() <= SMALL {
        return Some(text.to_owned());
    }
    let mut left = counted(text);
    each_word(structured, true, &mut |word| _ = take(&mut left, word));
    let has_words = |line: &&str| split(line).next().is_some();
    let is_unsaid =
        |line: &&str| split(line).any(|word| left.get(word).is_some_and(|count| *count > 0));
    let all = text.lines().filter(has_words).count();
    let lines: Vec<&str> = text.lines().filter(is_unsaid).collect();
    match lines.len() {
        0 if all > 0 => None,
        some if some * 10 <= all && all > 0 => Some(lines.join("\n")),
        _ => Some(text.to_owned()),
    }
}

fn has_value(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value.trim() == text,
        Value::Array(items) => items.iter().any(|item| has_value(item, text)),
        Value::Object(fields) => fields.values().any(|field| has_value(field, text)),
        _ => false,
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

fn counted(text: &str) -> HashMap<&str, usize> {
    let mut words = HashMap::new();
    split(text).for_each(|word| *words.entry(word).or_default() += 1);
    words
}

fn take(words: &mut HashMap<&str, usize>, word: &str) -> bool {
    match words.get_mut(word) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

fn each_word(value: &Value, names: bool, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => split(text).for_each(each),
        Value::Number(number) => split(&number.to_string()).for_each(each),
        Value::Bool(true) => each("true"),
        Value::Bool(false) | Value::Null => {}
        Value::Array(items) => items.iter().for_each(|item| each_word(item, names, each)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if names {
                    split(name).for_each(&mut *each);
                }
                each_word(field, names, each);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, ContentBlock};
    use serde_json::{Value, json};

    use super::{complete, widened};

    fn both(content: &[&str], structured: Value, schema: Option<&Value>) -> (Vec<String>, Value) {
        let mut answer = CallToolResult::success(
            content
                .iter()
                .map(|text| ContentBlock::text(*text))
                .collect(),
        );
        answer.structured_content = Some(structured);
        complete(&mut answer, schema, false);
        let texts = answer
            .content
            .iter()
            .filter_map(|block| Some(block.as_text()?.text.clone()))
            .collect();
        (texts, answer.structured_content.unwrap_or_default())
    }

    #[test]
    fn each_form_gets_what_the_other_one_has() {
        let (content, structured) = both(&["a\n}\nb"], json!({ "lines": 3 }), None);
        assert_eq!(
            (content[0].as_str(), content[1].as_str()),
            ("a\n}\nb", r#"{"lines":3}"#)
        );
        assert_eq!(structured, json!({ "lines": 3, "text": "a\n}\nb" }));
        let (content, structured) = both(&["{ \"n\": [1] }"], json!({ "n": [1] }), None);
        assert_eq!(
            (content.len(), structured),
            (1, json!({ "n": [1] })),
            "JSON of the structure says nothing more"
        );
        let (content, structured) = both(&["{\"n\":1}", "take care"], json!({ "n": 1 }), None);
        assert_eq!(
            (content.len(), structured),
            (2, json!({ "n": 1, "text": "take care" }))
        );
        let (content, structured) = both(&["three"], json!([1, 2, 3]), None);
        assert_eq!(
            (content, structured),
            (vec!["three".to_owned(), "[1,2,3]".to_owned()], Value::Null)
        );
    }

    #[test]
    fn what_is_long_is_not_said_twice() {
        let entries: Vec<Value> = (0..200)
            .map(|n| json!({ "path": format!("src/{n}.rs"), "bytes": n }))
            .collect();
        let lines: String = (0..200)
            .map(|n| format!("src/{n}.rs ({n} bytes)\n"))
            .collect();
        let listing = json!({ "entries": entries });
        assert_eq!(
            both(&[&lines], listing.clone(), None),
            (vec![lines.clone()], listing.clone())
        );
        let cut = format!("{lines}(cut: call again for more)\n");
        let (content, structured) = both(&[&cut], listing.clone(), None);
        assert_eq!(
            (content.len(), &structured["text"]),
            (1, &json!("(cut: call again for more)"))
        );
        // A long text of which the structure says nothing stays as it is, lines without words included.
        let code = "fn main() {\n}\n\n".repeat(200);
        assert_eq!(
            both(&[&code], json!({ "count": 600 }), None).1["text"],
            json!(code)
        );
        let long = "x ".repeat(2_000);
        let (content, structured) = both(&[&long], json!({ "page": long }), None);
        assert_eq!(
            (content.len(), structured.get("text")),
            (1, None),
            "the tool itself said it in both"
        );
    }

    #[test]
    fn the_property_is_no_property_of_the_tool_and_strict_clients_take_it() {
        let closed = |properties: Value| {
            json!({
                "type": "object", "properties": properties, "required": ["n"], "additionalProperties": false,
            })
        };
        let number = json!({ "type": "integer" });
        for (schema, name) in [
            (closed(json!({ "n": number })), "text"),
            (closed(json!({ "n": number, "text": number })), "text_2"),
            (
                json!({ "type": "object", "required": ["n"], "unevaluatedProperties": false, "$ref": "#/$defs/a",
                     "$defs": { "a": closed(json!({ "n": number, "text": number })) } }),
                "text_2",
            ),
            (
                json!({ "type": "object", "minProperties": 1, "oneOf": [closed(json!({ "n": number })), { "required": ["m"] }] }),
                "text",
            ),
        ] {
            let (_, structured) = both(&["said"], json!({ "n": 1 }), Some(&schema));
            assert_eq!(structured, json!({ "n": 1, name: "said" }));
            let announced = Value::Object(widened(&schema).unwrap());
            let fits = |value: &Value| jsonschema::is_valid(&announced, value);
            assert!(
                fits(&structured) && fits(&json!({ "n": 1 })),
                "{announced:#}"
            );
            assert!(
                !fits(&json!({ "n": 1, "other": 2 })) && !fits(&json!({ name: "said" })),
                "{announced:#}"
            );
        }
        let whole =
            json!({ "type": "object", "patternProperties": { "^t": { "type": "integer" } } });
        assert!(widened(&whole).is_none());
    }

    #[test]
    fn a_property_that_the_tool_makes_up_stays_its_own() {
        let open = json!({ "type": "object" });
        let (_, structured) = both(&["said"], json!({ "text": 7 }), Some(&open));
        assert_eq!(structured, json!({ "text": 7, "text_2": "said" }));
        assert!(jsonschema::is_valid(
            &Value::Object(widened(&open).unwrap()),
            &structured
        ));
    }
}
