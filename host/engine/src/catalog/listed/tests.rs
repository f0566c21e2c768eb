use std::time::Duration;

use serde_json::{Value, json};

use super::{ListedSchema, LoadBudget};

fn listed(schema: &Value) -> (Value, ListedSchema) {
    let listed = ListedSchema::from_schema(schema, &mut LoadBudget::new(Duration::MAX));
    (listed.schema().unwrap_or(schema).clone(), listed)
}

#[test]
fn a_plain_schema_is_listed_as_it_is() {
    let plain = json!({ "type": "object", "properties": { "a": { "anyOf": [{ "type": "string" }, { "type": "null" }] } } });
    let (schema, facts) = listed(&plain);
    assert!(
        schema == plain
            && facts.schema().is_none()
            && facts.is_possible()
            && facts.note().is_empty()
    );
}

#[test]
fn the_branches_of_a_union_become_one_object() {
    let branch = |action: &str, said: &str, required: Value, more: Value| {
        let mut properties =
            json!({ "action": { "const": action }, "sheet": { "type": "string" } });
        properties
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "description": said, "properties": properties, "required": required, "additionalProperties": false })
    };
    let (schema, facts) = listed(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sheets",
        "oneOf": [
            branch("read", "Reads. All of it.", json!(["action", "sheet", "range"]), json!({ "range": { "type": "string" } })),
            branch("write", "Writes", json!(["action", "sheet"]), json!({
                "range": { "type": "array" }, "raw": { "type": "boolean", "description": "As it is." },
            })),
        ],
    }));
    let expected = json!({
        "type": "object", "title": "Sheets",
        "properties": {
            "action": { "type": "string", "enum": ["read", "write"] },
            "sheet": { "type": "string" },
            "range": { "anyOf": [{ "type": "string" }, { "type": "array" }] },
            "raw": { "type": "boolean", "description": "As it is." },
        },
        "required": ["action", "sheet"], "additionalProperties": false,
    });
    assert_eq!(schema, expected);
    let note = "Arguments by `action` (in brackets: optional):\n- read: sheet, range - Reads\n\
                - write: sheet, [range], [raw] - Writes";
    assert_eq!(facts.note(), note);
}

#[test]
fn what_the_top_and_the_branches_say_of_one_argument_is_combined() {
    let (schema, facts) = listed(&json!({
        "type": "object", "required": ["kind"],
        "properties": { "kind": { "type": "string", "description": "Which." }, "n": { "type": "integer" } },
        "anyOf": [
            { "properties": { "kind": { "enum": ["a", "b"] }, "n": { "minimum": 1 } }, "required": ["n"] },
            { "properties": { "kind": { "const": "c" } } },
            { "type": "null" },
        ],
        "allOf": [{ "properties": { "all": { "type": "null" } }, "required": ["all"] }],
        "not": { "required": ["none"] },
    }));
    let kind = json!({ "type": "string", "description": "Which.", "enum": ["a", "b", "c"] });
    let properties = json!({ "kind": kind, "n": { "type": "integer" }, "all": { "type": "null" } });
    assert_eq!(
        (&schema["properties"], &schema["required"]),
        (&properties, &json!(["kind", "all"]))
    );
    assert!(
        ["anyOf", "allOf", "not"]
            .iter()
            .all(|word| schema.get(word).is_none()),
        "{schema}"
    );
    assert_eq!(
        facts.note(),
        "Arguments by `kind` (in brackets: optional):\n- a or b: n\n- c: no others\n\
         Further conditions apply; an error names the one that is not satisfied."
    );
}

#[test]
fn conditions_are_forms_too() {
    let when = |action: &str, then: Value| json!({ "if": { "properties": { "action": { "const": action } } }, "then": then });
    let (schema, facts) = listed(&json!({
        "properties": { "action": { "enum": ["read", "list"] } }, "required": ["action"],
        "allOf": [
            when("read", json!({ "properties": { "path": { "type": "string" } }, "required": ["path"] })),
            when("list", json!({ "required": ["folder"] })),
        ],
    }));
    assert_eq!(schema["properties"]["path"], json!({ "type": "string" }));
    assert_eq!(schema["required"], json!(["action"]));
    assert_eq!(
        facts.note(),
        "Arguments by `action` (in brackets: optional):\n- read: path\n- list: folder"
    );
}

#[test]
fn references_are_replaced_and_those_without_an_end_are_any_value() {
    let (schema, facts) = listed(&json!({
        "$ref": "#/$defs/Request", "$id": "https://example.com/a",
        "$defs": {
            "Request": { "type": "object", "properties": {
                "tree": { "$ref": "#/$defs/Node", "description": "All." },
                "$ref": { "type": "string" },
                "data": { "const": { "$ref": "#/nowhere" } },
            } },
            "Node": { "type": "object", "properties": { "inner": { "type": "array", "items": { "$ref": "#/$defs/Node" } } } },
        },
    }));
    let again = json!({ "type": "object", "description": "It has the same fields as the `Node` around it." });
    let expected = json!({ "type": "object", "properties": {
        "tree": { "type": "object", "properties": { "inner": { "type": "array", "items": again } }, "description": "All." },
        "$ref": { "type": "string" },
        "data": { "const": { "$ref": "#/nowhere" } },
    } });
    assert_eq!(schema, expected);
    assert!(!facts.is_cut());
}

#[test]
fn a_listing_is_bounded_whatever_refers_to_what() {
    let mut defs = json!({ "d0": { "type": "string", "description": "x".repeat(100) } });
    for n in 1..30 {
        let below = json!({ "$ref": format!("#/$defs/d{}", n - 1) });
        defs[format!("d{n}")] = json!({ "properties": { "a": below, "b": below } });
    }
    let (schema, facts) =
        listed(&json!({ "properties": { "a": { "$ref": "#/$defs/d29" } }, "$defs": defs }));
    assert!(
        facts.is_cut() && schema.to_string().len() < 1 << 20,
        "{}",
        schema.to_string().len()
    );
    let branches: Vec<Value> = (0..2_000)
        .map(|n| json!({ "properties": { "action": { "const": format!("action{n}") }, "value": { "minLength": n } } }))
        .collect();
    let (schema, facts) = listed(&json!({ "oneOf": branches }));
    assert_eq!(
        schema["properties"]["action"]["enum"]
            .as_array()
            .unwrap()
            .len(),
        2_000
    );
    assert!(schema["properties"]["value"].get("anyOf").is_none());
    assert!(facts.note().chars().count() < 2_100, "{}", facts.note());
}

#[test]
fn a_schema_without_an_object_cannot_be_listed() {
    for schema in [
        json!(false),
        json!({ "type": "string" }),
        json!({ "oneOf": [{ "type": "string" }, { "type": "null" }] }),
        json!({ "allOf": [{ "type": ["array", "null"] }] }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "const": 7 } } }),
    ] {
        let (shown, facts) = listed(&schema);
        assert!(!facts.is_possible(), "{schema}: {shown}");
    }
    for schema in [
        json!(true),
        json!({}),
        json!({ "oneOf": [{ "type": "string" }, {}] }),
    ] {
        let (_, facts) = listed(&schema);
        assert!(facts.is_possible(), "{schema}");
    }
}
