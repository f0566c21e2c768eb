//! Tools that the API may hold a model to: `strict` is a subset of JSON Schema, and the API refuses a whole request for
//! one tool outside of it.

use serde_json::{Map, Value};
use toolcell_spec::TypedFields;

use super::ListedTool;

const DEPTH_MAX: usize = 10;
/// Keywords with any value.
const PLAIN: [&str; 13] = [
    "type",
    "description",
    "title",
    "enum",
    "const",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];

/// Requires support by the model, a strict contract, and a schema in the subset: objects require all their properties,
/// and allow no others.
pub(super) fn is_strict(listed: &ListedTool<'_>) -> bool {
    let contract = listed
        .declaration
        .input_contract
        .as_ref()
        .is_some_and(|contract| contract.strict);
    let interface = listed
        .interface
        .is_some_and(|interface| interface.strict == Some(true));
    let is_object = listed
        .input_schema
        .get("type")
        .is_some_and(|kind| kind == "object");
    listed.strict_schemas
        && (contract || interface)
        && is_object
        && fits(listed.input_schema, DEPTH_MAX)
}

fn fits(schema: &Value, depth: usize) -> bool {
    let (Some(fields), Some(depth)) = (schema.as_object(), depth.checked_sub(1)) else {
        return false;
    };
    let kind = fields.get("type");
    let kinds = kind.and_then(Value::as_array).map_or(
        kind.map(std::slice::from_ref).unwrap_or_default(),
        Vec::as_slice,
    );
    let is_object = kinds.iter().any(|kind| kind == "object") || fields.contains_key("properties");
    let known = |(name, value): (&String, &Value)| match name.as_str() {
        "properties" => value
            .as_object()
            .is_some_and(|all| all.values().all(|schema| fits(schema, depth))),
        "items" => fits(value, depth),
        "anyOf" => value
            .as_array()
            .is_some_and(|all| all.iter().all(|schema| fits(schema, depth))),
        "required" | "additionalProperties" => is_object,
        name => PLAIN.contains(&name),
    };
    fields.iter().all(known) && (!is_object || is_closed(fields))
}

fn is_closed(fields: &Map<String, Value>) -> bool {
    let required = fields.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|all| all.iter().any(|one| one == name));
    let properties = fields.fields("properties");
    fields.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_none_or(|properties| properties.keys().all(is_required))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DEPTH_MAX, fits};

    #[test]
    fn a_strict_schema_names_and_requires_everything() {
        let closed = |properties: Value, required: Value| {
            json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            })
        };
        let text = json!({ "type": "string", "pattern": "^a" });
        assert!(fits(&closed(json!({ "a": text }), json!(["a"])), DEPTH_MAX));
        assert!(fits(
            &closed(
                json!({ "a": { "type": "array", "items": text } }),
                json!(["a"])
            ),
            DEPTH_MAX
        ));
        assert!(fits(&closed(json!({}), json!([])), DEPTH_MAX));
        for open in [
            closed(json!({ "a": text }), json!([])),
            closed(
                json!({ "a": { "type": "string", "default": "x" } }),
                json!(["a"]),
            ),
            closed(
                json!({ "a": { "type": "object", "properties": {} } }),
                json!(["a"]),
            ),
            closed(json!({ "a": true }), json!(["a"])),
            json!({ "type": "object", "properties": { "a": text }, "required": ["a"] }),
            json!({ "type": "object", "additionalProperties": false, "$schema": "x" }),
            json!({ "type": ["object", "null"] }),
            json!(true),
        ] {
            assert!(!fits(&open, DEPTH_MAX), "{open}");
        }
        let mut deep = text;
        for _ in 0..DEPTH_MAX {
            deep = json!({ "type": "array", "items": deep });
        }
        assert!(!fits(&deep, DEPTH_MAX));
    }
}
