use std::borrow::Cow;
use std::cell::Cell;

use serde_json::{Map, Value, json};
use toolcell_spec::TypedFields;

use super::OtcMode;
use crate::visible;

/// Followed references to one schema, and nested objects.
const DEPTH_MAX: usize = 8;
const SCHEMAS_MAX: usize = 2_000;
const NOTE_BYTES_MAX: usize = 1_000;
const ANNOTATIONS: [&str; 9] = [
    "title",
    "description",
    "$comment",
    "examples",
    "default",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
];

/// A JSON Schema as a `value_schema` (OTC-D-08).
pub(super) struct ValueSchema {
    pub(super) value_schema: Value,
    /// `true` if the schema refuses values that the `value_schema` allows (O-16).
    pub(super) is_lossy: bool,
}

impl ValueSchema {
    fn any(is_lossy: bool) -> Self {
        Self {
            value_schema: json!({ "val_type": "json" }),
            is_lossy,
        }
    }
}

pub(super) struct Translation<'a> {
    root: &'a Value,
    mode: OtcMode,
    left: Cell<usize>,
}

impl<'a> Translation<'a> {
    pub(super) fn new(root: &'a Value, mode: OtcMode) -> Self {
        Self {
            root,
            mode,
            left: Cell::new(SCHEMAS_MAX),
        }
    }

    pub(super) fn value_schema(&self, schema: &Value) -> ValueSchema {
        self.shown(schema, DEPTH_MAX)
    }

    /// The JSON Schema itself, if it is short.
    pub(super) fn note(&self, schema: &Value) -> String {
        let is_said =
            |name: &str| matches!(name, "title" | "description" | "$comment" | "examples");
        let text = match self.resolved(schema) {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(name, _)| !is_said(name));
                Value::Object(
                    kept.map(|(name, value)| (name.clone(), value.clone()))
                        .collect(),
                )
                .to_string()
            }
            other => other.to_string(),
        };
        // A reference would lead nowhere in the note.
        if text.len() <= NOTE_BYTES_MAX && !text.contains("\"$ref\"") {
            format!("[must satisfy the JSON Schema {}]", visible(&text))
        } else {
            "[must satisfy a JSON Schema that this format cannot express]".to_owned()
        }
    }

    pub(super) fn resolved<'b>(&'b self, schema: &'b Value) -> &'b Value {
        let mut schema = schema;
        for _ in 0..DEPTH_MAX {
            let target = schema
                .text("$ref")
                .and_then(|reference| reference.strip_prefix('#'));
            match target.and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    fn shown(&self, schema: &Value, depth: usize) -> ValueSchema {
        let Some(left) = self.left.get().checked_sub(1) else {
            return ValueSchema::any(true);
        };
        self.left.set(left);
        let (inner, nullable) = without_null(self.resolved(schema));
        let inner = self.resolved(&inner);
        let mut shown = match inner.as_object() {
            Some(fields) => self.of_fields(fields, depth),
            None => ValueSchema::any(*inner == Value::Bool(false)),
        };
        if nullable {
            match (self.mode, shown.value_schema.as_object_mut()) {
                (OtcMode::Arcade, Some(fields)) => {
                    _ = fields.insert("nullable".to_owned(), true.into())
                }
                _ => shown.is_lossy = true,
            }
        }
        shown
    }

    fn of_fields(&self, fields: &Map<String, Value>, depth: usize) -> ValueSchema {
        let kind = fields.text("type");
        let values = fields.get("enum").and_then(Value::as_array);
        let texts =
            values.filter(|values| !values.is_empty() && values.iter().all(Value::is_string));
        let one_text = fields.get("const").filter(|value| value.is_string());
        let (value_schema, is_lossy) = match (kind, texts, one_text) {
            (None | Some("string"), Some(texts), None) => (
                json!({ "val_type": "string", "enum": texts }),
                has_other(fields, &["enum"]),
            ),
            (None | Some("string"), None, Some(text)) => (
                json!({ "val_type": "string", "enum": [text] }),
                has_other(fields, &["const"]),
            ),
            (Some(kind @ ("string" | "integer" | "number" | "boolean")), ..) => {
                (json!({ "val_type": kind }), has_other(fields, &[]))
            }
            (Some("array"), ..) => return self.of_array(fields, depth),
            (Some("object"), ..) => {
                let (members, is_lossy) =
                    self.members(fields, depth, ["properties", "required_keys"]);
                let mut shown = json!({ "val_type": "json" });
                extend(&mut shown, members);
                (shown, is_lossy)
            }
            _ => return ValueSchema::any(fields.contains_key("type") || has_other(fields, &[])),
        };
        ValueSchema {
            value_schema,
            is_lossy,
        }
    }

    fn of_array(&self, fields: &Map<String, Value>, depth: usize) -> ValueSchema {
        let restricts = has_other(fields, &["items"]);
        let Some(items) = fields.get("items").map(|items| self.resolved(items)) else {
            let value_schema = json!({ "val_type": "array", "inner_val_type": "json" });
            return ValueSchema {
                value_schema,
                is_lossy: restricts,
            };
        };
        let item = self.shown(items, depth.saturating_sub(1));
        let inner = item.value_schema.text("val_type");
        // An array within an array is `json`, too.
        let inner = inner.filter(|inner| *inner != "array").unwrap_or("json");
        let mut array = json!({ "val_type": "array", "inner_val_type": inner });
        if let (OtcMode::Arcade, Some(object)) = (self.mode, items.as_object())
            && object.get("type").is_some_and(|kind| kind == "object")
        {
            let (members, _) =
                self.members(object, depth, ["inner_properties", "inner_required_keys"]);
            extend(&mut array, members);
            return ValueSchema {
                value_schema: array,
                is_lossy: restricts || item.is_lossy,
            };
        }
        let says_more = item
            .value_schema
            .as_object()
            .is_some_and(|said| said.keys().any(|name| name != "val_type"));
        ValueSchema {
            value_schema: array,
            is_lossy: restricts || item.is_lossy || says_more,
        }
    }

    /// Members under two `names`, as far as the format shows them, and whether any are left out.
    fn members(
        &self,
        fields: &Map<String, Value>,
        depth: usize,
        names: [&str; 2],
    ) -> (Map<String, Value>, bool) {
        let mut said = Map::new();
        let known = fields
            .fields("properties")
            .filter(|known| !known.is_empty());
        let Some(properties) = known else {
            return (said, has_other(fields, &["properties"]));
        };
        let Some(depth) = depth
            .checked_sub(1)
            .filter(|_| self.mode == OtcMode::Arcade)
        else {
            return (said, true);
        };
        let mut is_lossy = has_other(fields, &["properties", "required"]);
        let mut shown_properties = Map::new();
        for (name, property) in properties {
            let mut member = self.shown(property, depth);
            is_lossy |= member.is_lossy;
            let description = self.resolved(property).text("description");
            if let (Some(text), Some(fields)) = (description, member.value_schema.as_object_mut()) {
                fields.insert("description".to_owned(), visible(text).into());
            }
            shown_properties.insert(name.clone(), member.value_schema);
        }
        let [properties_name, required_name] = names;
        said.insert(properties_name.to_owned(), Value::Object(shown_properties));
        let required = fields.get("required").and_then(Value::as_array);
        let mut required: Vec<&str> = required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        required.sort_unstable();
        if !required.is_empty() {
            said.insert(required_name.to_owned(), json!(required));
        }
        (said, is_lossy)
    }
}

fn without_null(schema: &Value) -> (Cow<'_, Value>, bool) {
    let Some(fields) = schema.as_object() else {
        return (Cow::Borrowed(schema), false);
    };
    if let Some(kinds) = fields.get("type").and_then(Value::as_array) {
        let others: Vec<&Value> = kinds.iter().filter(|kind| *kind != "null").collect();
        if let ([only], true) = (others.as_slice(), others.len() < kinds.len()) {
            let mut kept = fields.clone();
            kept.insert("type".to_owned(), (*only).clone());
            if let Some(values) = kept.get_mut("enum").and_then(Value::as_array_mut) {
                values.retain(|value| !value.is_null());
            }
            return (Cow::Owned(Value::Object(kept)), true);
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some([one, other]) = fields
            .get(keyword)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        else {
            continue;
        };
        let is_null = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "null");
        if fields
            .keys()
            .all(|name| name == keyword || ANNOTATIONS.contains(&name.as_str()))
        {
            match (is_null(one), is_null(other)) {
                (false, true) => return (Cow::Borrowed(one), true),
                (true, false) => return (Cow::Borrowed(other), true),
                _ => {}
            }
        }
    }
    (Cow::Borrowed(schema), false)
}

fn has_other(fields: &Map<String, Value>, said: &[&str]) -> bool {
    let is_known =
        |name: &str| name == "type" || said.contains(&name) || ANNOTATIONS.contains(&name);
    fields.keys().any(|name| !is_known(name))
}

fn extend(value: &mut Value, fields: Map<String, Value>) {
    if let Some(known) = value.as_object_mut() {
        known.extend(fields);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Translation;
    use crate::otc::OtcMode;

    fn translated(schema: &Value, mode: OtcMode) -> (Value, bool) {
        let root = json!({ "$defs": { "size": { "type": "integer" }, "loop": { "$ref": "#/$defs/loop" } } });
        let shown = Translation::new(&root, mode).value_schema(schema);
        (shown.value_schema, shown.is_lossy)
    }

    #[test]
    fn what_the_format_can_say_is_said_and_the_rest_is_lossy() {
        for (schema, expected, is_lossy) in [
            (
                json!({ "type": "string", "title": "T" }),
                json!({ "val_type": "string" }),
                false,
            ),
            (
                json!({ "type": "string", "minLength": 1 }),
                json!({ "val_type": "string" }),
                true,
            ),
            (
                json!({ "enum": ["a", "b"] }),
                json!({ "val_type": "string", "enum": ["a", "b"] }),
                false,
            ),
            (
                json!({ "const": "a" }),
                json!({ "val_type": "string", "enum": ["a"] }),
                false,
            ),
            (
                json!({ "type": "integer", "enum": [1, 2] }),
                json!({ "val_type": "integer" }),
                true,
            ),
            (
                json!({ "enum": [1, "b"] }),
                json!({ "val_type": "json" }),
                true,
            ),
            (
                json!({ "$ref": "#/$defs/size" }),
                json!({ "val_type": "integer" }),
                false,
            ),
            (
                json!({ "$ref": "#/$defs/loop" }),
                json!({ "val_type": "json" }),
                true,
            ),
            (
                json!({ "type": ["string", "null"] }),
                json!({ "val_type": "string" }),
                true,
            ),
            (
                json!({ "anyOf": [{ "type": "number" }, { "type": "null" }] }),
                json!({ "val_type": "number" }),
                true,
            ),
            (
                json!({ "anyOf": [{ "type": "number" }, { "type": "string" }] }),
                json!({ "val_type": "json" }),
                true,
            ),
            (
                json!({ "type": "object" }),
                json!({ "val_type": "json" }),
                false,
            ),
            (
                json!({ "type": "object", "properties": { "a": {} } }),
                json!({ "val_type": "json" }),
                true,
            ),
            (json!(true), json!({ "val_type": "json" }), false),
            (json!({}), json!({ "val_type": "json" }), false),
            (
                json!({ "type": "array" }),
                json!({ "val_type": "array", "inner_val_type": "json" }),
                false,
            ),
            (
                json!({ "type": "array", "items": { "type": "string" } }),
                json!({ "val_type": "array", "inner_val_type": "string" }),
                false,
            ),
            (
                json!({ "type": "array", "items": { "type": "array", "items": { "type": "string" } } }),
                json!({ "val_type": "array", "inner_val_type": "json" }),
                true,
            ),
            (
                json!({ "type": "array", "items": { "enum": ["a"] } }),
                json!({ "val_type": "array", "inner_val_type": "string" }),
                true,
            ),
        ] {
            assert_eq!(
                translated(&schema, OtcMode::Otc),
                (expected.clone(), is_lossy),
                "{schema}"
            );
            assert_eq!(
                translated(&schema, OtcMode::OtcSeed),
                (expected, is_lossy),
                "{schema}"
            );
        }
    }

    #[test]
    fn arcade_sees_into_objects_and_nulls() {
        let object = json!({
            "type": "object",
            "properties": { "n": { "type": ["integer", "null"], "description": "how\u{200b} many" }, "a": {} },
            "required": ["n", "a"],
        });
        let members = json!({
            "n": { "val_type": "integer", "nullable": true, "description": "how many" }, "a": { "val_type": "json" },
        });
        let expected =
            json!({ "val_type": "json", "properties": members, "required_keys": ["a", "n"] });
        assert_eq!(translated(&object, OtcMode::Arcade), (expected, false));
        let list = json!({ "type": "array", "items": object });
        let expected = json!({
            "val_type": "array", "inner_val_type": "json", "inner_properties": members,
            "inner_required_keys": ["a", "n"],
        });
        assert_eq!(translated(&list, OtcMode::Arcade), (expected, false));
    }

    #[test]
    fn a_schema_within_itself_ends() {
        let root = json!({ "type": "object", "properties": { "next": { "$ref": "#" } } });
        let shown = Translation::new(&root, OtcMode::Arcade).value_schema(&root);
        assert!(shown.is_lossy && shown.value_schema.to_string().len() < 2_000);
        let crowd = (0..50).map(|at| (format!("p{at}"), json!({ "$ref": "#" })));
        let root = json!({ "type": "object", "properties": Value::Object(crowd.collect()) });
        let shown = Translation::new(&root, OtcMode::Arcade).value_schema(&root);
        assert!(shown.is_lossy && shown.value_schema.to_string().len() < 200_000);
    }

    #[test]
    fn a_note_has_the_schema_or_says_that_there_is_one() {
        let schema = json!({ "type": "string", "pattern": "^a", "description": "d" });
        let root = json!({});
        let note = |schema: &Value| Translation::new(&root, OtcMode::Otc).note(schema);
        assert_eq!(
            note(&schema),
            r#"[must satisfy the JSON Schema {"type":"string","pattern":"^a"}]"#
        );
        let long = json!({ "enum": vec!["x".repeat(100); 20] });
        assert!(note(&long).contains("cannot express"));
    }
}
