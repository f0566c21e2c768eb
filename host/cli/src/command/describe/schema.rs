//! A JSON Schema in a few words. Schemas are untrusted, and a reference can lead back to where it came from, so every
//! walk is counted.

use serde_json::Value;

/// The rest is shown as `..`.
const STEPS_MAX: usize = 2_000;
const REFERENCES_MAX: usize = 8;
const DEPTH_MAX: usize = 4;
const CHOICES_MAX: usize = 12;
/// In characters.
const VALUE_CHARS_MAX: usize = 60;

pub(super) struct Reader<'a> {
    root: &'a Value,
    steps: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self {
            root,
            steps: STEPS_MAX,
        }
    }

    /// `false` after the last step.
    pub(super) fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }

    pub(super) fn resolved(&self, schema: &'a Value) -> &'a Value {
        let mut at = schema;
        for _ in 0..REFERENCES_MAX {
            let reference = at["$ref"].as_str();
            let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
            match pointer.and_then(|pointer| self.root.pointer(pointer)) {
                Some(found) => at = found,
                None => break,
            }
        }
        at
    }

    /// `string`, `"a" or "b"`, `array of integer`.
    pub(super) fn kind(&mut self, schema: &'a Value) -> String {
        self.kind_at(schema, 0)
    }

    fn kind_at(&mut self, schema: &'a Value, depth: usize) -> String {
        if depth > DEPTH_MAX || !self.step() {
            return "..".to_owned();
        }
        let schema = self.resolved(schema);
        if schema == &Value::Bool(false) {
            return "nothing".to_owned();
        }
        if let Some(value) = schema.get("const") {
            return written(value);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return any_of(values.iter().map(written), values.len());
        }
        if let Some(branches) = alternatives(schema) {
            let kinds = branches.iter().take(CHOICES_MAX);
            let kinds: Vec<String> = kinds
                .map(|branch| self.kind_at(branch, depth + 1))
                .collect();
            return any_of(kinds.into_iter(), branches.len());
        }
        match schema.get("type") {
            Some(Value::String(kind)) => self.named(kind, schema, depth),
            Some(Value::Array(kinds)) => {
                let names: Vec<String> = kinds
                    .iter()
                    .filter_map(Value::as_str)
                    .take(CHOICES_MAX)
                    .map(|kind| self.named(kind, schema, depth))
                    .collect();
                any_of(names.into_iter(), kinds.len())
            }
            _ => "any".to_owned(),
        }
    }

    fn named(&mut self, kind: &str, schema: &'a Value, depth: usize) -> String {
        match schema.get("items").filter(|_| kind == "array") {
            Some(items) if items.is_object() => {
                format!("array of {}", self.kind_at(items, depth + 1))
            }
            _ => cut(kind),
        }
    }

    /// The schema's own object, its items' or its only non-null alternative's.
    pub(super) fn object(&self, schema: &'a Value) -> Option<&'a Value> {
        let mut at = self.resolved(schema);
        for _ in 0..DEPTH_MAX {
            if at.get("properties").is_some_and(Value::is_object) {
                return Some(at);
            }
            let branches = alternatives(at).into_iter().flatten();
            let mut branches = branches.filter(|branch| !is_null(branch));
            let only = branches.next().filter(|_| branches.next().is_none());
            at = self.resolved(at.get("items").or(only)?);
        }
        None
    }
}

pub(super) fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    schema["anyOf"].as_array().or(schema["oneOf"].as_array())
}

/// Name, schema and whether required, in the order of the schema.
pub(crate) fn properties(object: &Value) -> impl Iterator<Item = (&str, &Value, bool)> {
    let required = object["required"].as_array();
    let required = required.map_or(&[][..], Vec::as_slice);
    let fields = object["properties"].as_object().into_iter().flatten();
    fields.map(move |(name, schema)| {
        (
            name.as_str(),
            schema,
            required.iter().any(|one| one == name),
        )
    })
}

pub(super) fn bounds(schema: &Value) -> Vec<String> {
    let of = |keyword: &str| schema.get(keyword).filter(|bound| bound.is_number());
    let range = |least: &str, most: &str| match (of(least), of(most)) {
        (Some(least), Some(most)) if least == most => Some((format!("exactly {most}"), most)),
        (Some(least), Some(most)) => Some((format!("{least} to {most}"), most)),
        (Some(least), None) => Some((format!("at least {least}"), least)),
        (None, Some(most)) => Some((format!("at most {most}"), most)),
        (None, None) => None,
    };
    let mut bounds: Vec<String> = range("minimum", "maximum")
        .into_iter()
        .map(|(words, _)| words)
        .collect();
    bounds.extend(of("exclusiveMinimum").map(|bound| format!("more than {bound}")));
    bounds.extend(of("exclusiveMaximum").map(|bound| format!("less than {bound}")));
    bounds.extend(of("multipleOf").map(|unit| format!("a multiple of {unit}")));
    for (least, most, unit) in [
        ("minLength", "maxLength", "character"),
        ("minItems", "maxItems", "item"),
    ] {
        let plural = |count: &Value| if count == 1 { "" } else { "s" };
        bounds.extend(
            range(least, most).map(|(words, last)| format!("{words} {unit}{}", plural(last))),
        );
    }
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    bounds.extend(text("format").map(|format| format!("format {}", cut(format))));
    bounds.extend(text("pattern").map(|pattern| format!("matches {}", cut(pattern))));
    bounds
}

pub(super) fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
        || schema.get("const").is_some_and(Value::is_null)
}

pub(super) fn written(value: &Value) -> String {
    cut(&value.to_string())
}

pub(super) fn cut(text: &str) -> String {
    let mut letters = text.chars();
    let head: String = letters
        .by_ref()
        .take(VALUE_CHARS_MAX)
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .collect();
    if letters.next().is_some() {
        head + ".."
    } else {
        head
    }
}

fn any_of(choices: impl Iterator<Item = String>, count: usize) -> String {
    let mut listed: Vec<String> = Vec::new();
    for choice in choices.take(CHOICES_MAX) {
        if !listed.contains(&choice) {
            listed.push(choice);
        }
    }
    if listed.is_empty() {
        return "nothing".to_owned();
    }
    if count > CHOICES_MAX {
        listed.push(format!("{} more", count - CHOICES_MAX));
    }
    listed.join(" or ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(schema: &Value) -> String {
        Reader::new(schema).kind(schema)
    }

    #[test]
    fn a_type_is_said_in_a_few_words() {
        for (schema, words) in [
            (json!({"type": "string"}), "string"),
            (json!({"type": ["string", "null"]}), "string or null"),
            (json!({"enum": ["a", 2]}), "\"a\" or 2"),
            (
                json!({"oneOf": [{"const": "fast"}, {"const": "exact"}]}),
                "\"fast\" or \"exact\"",
            ),
            (
                json!({"type": "array", "items": {"type": "integer"}}),
                "array of integer",
            ),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}}),
                "boolean",
            ),
            (json!(true), "any"),
            (json!(false), "nothing"),
            (json!({"enum": []}), "nothing"),
        ] {
            assert_eq!(kind(&schema), words, "{schema}");
        }
        let many: Vec<usize> = (0..20).collect();
        assert!(kind(&json!({ "enum": many })).ends_with("11 or 8 more"));
    }

    #[test]
    fn bounds_are_said_with_their_unit() {
        let schema = json!({"minimum": 1, "maximum": 9, "multipleOf": 2, "maxLength": 1, "minItems": 2, "pattern": "^a"});
        assert_eq!(
            bounds(&schema),
            [
                "1 to 9",
                "a multiple of 2",
                "at most 1 character",
                "at least 2 items",
                "matches ^a"
            ]
        );
        assert_eq!(
            bounds(&json!({"minItems": 3, "maxItems": 3})),
            ["exactly 3 items"]
        );
        assert!(bounds(&json!({"minimum": "no number"})).is_empty());
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let round = json!({"$ref": "#"});
        assert_eq!(kind(&round), "any");
        let branch = json!({"$ref": "#/$defs/a"});
        let wide = json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": vec![branch; 1_000]}}});
        assert!(kind(&wide).len() < 1_000);
        let list = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}});
        assert_eq!(
            kind(&list),
            "array of array of array of array of array of .."
        );
        assert!(Reader::new(&list).object(&list).is_none());
    }
}
