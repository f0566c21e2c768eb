//! Finds arguments that must not be recorded: those that the contract names, and those sent in another shape, whose
//! contents nobody knows.

use serde_json::Value;

use toolcell_spec::{TypedFields, children, decoded};

use super::fields::{below, same_name};

/// Schemas per input; after that, all of it counts as unnamed.
const SCHEMAS_MAX: usize = 100_000;

/// Calls `seen` with each field that `schema` does not name beside others, and its JSON Pointer: the name may be
/// misspelt. `known` are names missing from the schema.
pub(super) fn unnamed(
    schema: &Value,
    known: &[String],
    value: &mut Value,
    seen: &mut dyn FnMut(&str, &mut Value),
) {
    let mut walk = FieldWalk {
        root: schema,
        known,
        left: SCHEMAS_MAX,
    };
    let mut schemas = Vec::new();
    walk.add(schema, &mut schemas);
    walk.visit(&schemas, value, &mut String::new(), seen);
    if walk.left == 0 {
        seen("", value);
    }
}

pub(super) fn encoded(
    names: &[String],
    value: &mut Value,
    at: &mut String,
    seen: &mut dyn FnMut(&str, &mut Value),
) {
    match value {
        Value::String(text) if decoded(text).is_some_and(|inner| has_name(&inner, names)) => {
            seen(at, value)
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                below(at, &index.to_string(), |at| encoded(names, item, at, seen));
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                below(at, key, |at| encoded(names, field, at, seen));
            }
        }
        _ => {}
    }
}

fn has_name(value: &Value, names: &[String]) -> bool {
    let is_meant = |key: &String| names.iter().any(|name| same_name(name, key));
    let text = value.as_str().and_then(decoded);
    value
        .as_object()
        .is_some_and(|fields| fields.keys().any(is_meant))
        || text
            .iter()
            .chain(children(value))
            .any(|inner| has_name(inner, names))
}

struct FieldWalk<'s> {
    root: &'s Value,
    known: &'s [String],
    left: usize,
}

impl<'s> FieldWalk<'s> {
    fn add(&mut self, schema: &'s Value, to: &mut Vec<&'s Value>) {
        if to.iter().any(|other| std::ptr::eq(*other, schema)) || self.left == 0 {
            return;
        }
        self.left -= 1;
        to.push(schema);
        if let Some(reference) = schema.text("$ref")
            && let Some(target) = reference
                .strip_prefix('#')
                .and_then(|pointer| self.root.pointer(pointer))
        {
            self.add(target, to);
        }
        for list in ["allOf", "anyOf", "oneOf"] {
            let schemas = schema.list(list).iter();
            schemas.for_each(|schema| self.add(schema, to));
        }
        for one in ["if", "then", "else"] {
            schema
                .get(one)
                .into_iter()
                .for_each(|schema| self.add(schema, to));
        }
        let dependent = schema.fields("dependentSchemas");
        dependent
            .into_iter()
            .flat_map(|schemas| schemas.values())
            .for_each(|schema| self.add(schema, to));
    }

    fn visit(
        &mut self,
        schemas: &[&'s Value],
        value: &mut Value,
        at: &mut String,
        seen: &mut dyn FnMut(&str, &mut Value),
    ) {
        match value {
            Value::Object(fields) => {
                let properties = |schema: &&'s Value| schema.fields("properties");
                let names_any = schemas
                    .iter()
                    .filter_map(properties)
                    .any(|named| !named.is_empty());
                for (key, field) in fields {
                    let mut inner = Vec::new();
                    for &schema in schemas {
                        self.field(schema, key, &mut inner);
                    }
                    let is_named = !inner.is_empty() || self.known.iter().any(|known| known == key);
                    below(at, key, |at| {
                        if names_any && !is_named {
                            seen(at, field)
                        } else {
                            self.visit(&inner, field, at, seen)
                        }
                    });
                }
            }
            Value::Array(items) => {
                let mut inner = Vec::new();
                for &schema in schemas {
                    let each = schema
                        .get("items")
                        .into_iter()
                        .chain(schema.get("contains"));
                    let first = schema.list("prefixItems").iter();
                    each.chain(first)
                        .for_each(|schema| self.add(schema, &mut inner));
                }
                for (index, item) in items.iter_mut().enumerate() {
                    below(at, &index.to_string(), |at| {
                        self.visit(&inner, item, at, seen)
                    });
                }
            }
            _ => {}
        }
    }

    fn field(&mut self, schema: &'s Value, key: &str, to: &mut Vec<&'s Value>) {
        if let Some(named) = schema
            .get("properties")
            .and_then(|properties| properties.get(key))
        {
            return self.add(named, to);
        }
        let patterns = schema.fields("patternProperties");
        patterns
            .into_iter()
            .flat_map(|schemas| schemas.values())
            .for_each(|schema| self.add(schema, to));
        for rest in ["additionalProperties", "unevaluatedProperties"] {
            // `true` says that there may be others, and nothing of them.
            schema
                .get(rest)
                .filter(|schema| schema.is_object())
                .into_iter()
                .for_each(|schema| self.add(schema, to));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{encoded, unnamed};

    fn places(schema: &Value, value: &Value) -> Vec<String> {
        let mut places = Vec::new();
        unnamed(
            schema,
            &["inner".to_owned()],
            &mut value.clone(),
            &mut |at, _| places.push(at.to_owned()),
        );
        places
    }

    #[test]
    fn fields_that_a_schema_does_not_name_are_found_where_it_names_others() {
        let schema = json!({
            "properties": {
                "a": { "type": "string" },
                "list": { "type": "array", "items": { "$ref": "#/$defs/item" } },
                "map": { "additionalProperties": { "properties": { "b": {} } } },
                "free": { "type": "object" },
            },
            "anyOf": [{ "properties": { "c": true } }, { "properties": { "d": true } }],
            "$defs": { "item": { "properties": { "x": true, "next": { "$ref": "#/$defs/item" } } } },
        });
        assert!(
            places(
                &schema,
                &json!({ "a": 1, "c": 2, "d": { "any": 1 }, "free": { "any": 1 }, "inner": 1 })
            )
            .is_empty()
        );
        assert!(
            places(
                &schema,
                &json!({ "list": [{ "next": { "x": 1 } }], "map": { "any": { "b": 1 } } })
            )
            .is_empty()
        );
        let found = places(
            &schema,
            &json!({ "A": 1, "list": [{ "next": { "y": 1 } }], "map": { "any": { "e": 1 } } }),
        );
        assert_eq!(found, ["/A", "/list/0/next/y", "/map/any/e"]);
        assert!(places(&json!({ "type": "object" }), &json!({ "a": 1 })).is_empty());
        // A schema that refers to itself ends.
        assert_eq!(
            places(
                &json!({ "$ref": "#", "properties": { "a": true } }),
                &json!({ "b": 1 })
            ),
            ["/b"]
        );
    }

    #[test]
    fn a_sensitive_field_in_a_text_is_found() {
        let twice = json!({ "token": "t" }).to_string();
        let value = json!({ "a": twice, "b": [json!({ "c": json!({ "To_Ken": 1 }).to_string() }).to_string()], "d": "{token}" });
        let mut places = Vec::new();
        encoded(
            &["token".to_owned()],
            &mut value.clone(),
            &mut String::new(),
            &mut |at, _| places.push(at.to_owned()),
        );
        assert_eq!(places, ["/a", "/b/0"]);
    }
}
