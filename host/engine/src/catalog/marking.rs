//! The host's part of a contract: a schema that says which fields are internal-only, and who may fill them (AT-IN-11).

use serde_json::{Map, Value, json};
use toolcell_spec::pointer_steps;

use super::listing::{SchemaField, each_towards, forget_name};

/// Marks a field in its schema.
const VISIBILITY: &str = "visibility";
const SOURCE: &str = "mutation_source";

/// Marks the fields `internal` as ones that `sources` may fill, and adds those that the schema lacks. With `optional`,
/// none is required: a model fills none of them.
pub(super) fn mark(schema: &mut Value, internal: &[String], sources: &[&str], optional: bool) {
    for field in internal {
        let steps: Vec<String> = field
            .strip_prefix('/')
            .map(pointer_steps)
            .unwrap_or_default();
        let (named, name) = match steps.as_slice() {
            [] => (SchemaField::Anywhere(field), Some(field)),
            [only] => (SchemaField::At(&steps), Some(only)),
            _ => (SchemaField::At(&steps), None),
        };
        if within(schema, named, sources, optional) {
            continue;
        }
        if let (Some(words), Some(name)) = (schema.as_object_mut(), name)
            && let Value::Object(properties) =
                words.entry("properties").or_insert_with(|| json!({}))
        {
            properties.insert(name.clone(), marked(Value::Object(Map::new()), sources));
        }
    }
}

/// Returns whether `schema` describes `field` anywhere.
fn within(schema: &mut Value, field: SchemaField<'_>, sources: &[&str], optional: bool) -> bool {
    let Value::Object(words) = schema else {
        return false;
    };
    let mut found = false;
    for (word, value) in words.iter_mut() {
        match (word.as_str(), &mut *value) {
            ("properties", Value::Object(properties)) => {
                if let Some(inner) = field.here().and_then(|name| properties.get_mut(name)) {
                    *inner = marked(inner.take(), sources);
                    found = true;
                }
            }
            ("required", Value::Array(names)) if optional => forget_name(names, field),
            // What must not be there stays as it is.
            ("not", _) => continue,
            _ => {}
        }
        each_towards(word, value, field, &mut |inner, field| {
            found |= within(inner, field, sources, optional)
        });
    }
    found
}

fn marked(schema: Value, sources: &[&str]) -> Value {
    let mut words = match schema {
        Value::Object(words) => words,
        Value::Bool(false) => Map::from_iter([("not".to_owned(), json!({}))]),
        _ => Map::new(),
    };
    words.insert(VISIBILITY.to_owned(), "internal".into());
    words.insert(SOURCE.to_owned(), json!(sources));
    Value::Object(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::mark;

    #[test]
    fn every_internal_field_is_marked_where_it_is_described_or_becomes_a_property() {
        let mut schema = json!({
            "properties": { "a": { "properties": { "zz": { "type": "string" } } }, "zz": true },
            "required": ["a", "zz"],
        });
        mark(
            &mut schema,
            &["/a/zz".to_owned(), "other".to_owned()],
            &["hook"],
            true,
        );
        let mark_of =
            |kind| json!({ "type": kind, "visibility": "internal", "mutation_source": ["hook"] });
        assert_eq!(
            schema["properties"]["a"]["properties"]["zz"],
            mark_of("string")
        );
        assert_eq!(
            schema["properties"]["zz"],
            json!(true),
            "only the pointer is internal"
        );
        assert_eq!(schema["properties"]["other"]["visibility"], "internal");
        mark(&mut schema, &["zz".to_owned()], &["hook"], true);
        assert_eq!(
            (
                &schema["properties"]["zz"]["visibility"],
                &schema["required"]
            ),
            (&json!("internal"), &json!(["a"]))
        );
    }
}
