//! Nulls for omitted arguments: models write them where a property is optional.

use serde_json::Value;

use toolcell_spec::{TypedFields, children};

const SCHEMAS_MAX: usize = 64;
const DEPTH_MAX: usize = 64;

/// Removes fields that are null, named, not required, and of another type; `None` if there are none. `schema` has no
/// references.
pub(super) fn left_out(schema: &Value, input: &Value) -> Option<Value> {
    if !has_null_field(input, 0) {
        return None;
    }
    let mut shorter = input.clone();
    take_out(&[schema], &mut shorter, 0).then_some(shorter)
}

fn has_null_field(value: &Value, depth: usize) -> bool {
    let is_null = |inner: &Value| value.is_object() && inner.is_null();
    depth <= DEPTH_MAX
        && children(value).any(|inner| is_null(inner) || has_null_field(inner, depth + 1))
}

fn take_out(schemas: &[&Value], value: &mut Value, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    let mut parts = Vec::new();
    schemas
        .iter()
        .for_each(|schema| spread(schema, &mut parts, 0));
    match value {
        Value::Object(fields) => {
            let before = fields.len();
            fields.retain(|name, field| !field.is_null() || !is_left_out(&parts, name));
            let mut changed = fields.len() < before;
            for (name, field) in fields
                .iter_mut()
                .filter(|(_, field)| field.is_object() || field.is_array())
            {
                let inner = described(&parts, name);
                changed |= !inner.is_empty() && take_out(&inner, field, depth + 1);
            }
            changed
        }
        Value::Array(items) => {
            let inner: Vec<&Value> = parts.iter().filter_map(|part| part.get("items")).collect();
            let mut changed = false;
            for item in items.iter_mut().filter(|_| !inner.is_empty()) {
                changed |= take_out(&inner, item, depth + 1);
            }
            changed
        }
        _ => false,
    }
}

fn spread<'s>(schema: &'s Value, parts: &mut Vec<&'s Value>, depth: usize) {
    if parts.len() >= SCHEMAS_MAX || depth > DEPTH_MAX {
        return;
    }
    parts.push(schema);
    for word in ["allOf", "anyOf", "oneOf"] {
        let inner = schema.list(word).iter();
        inner.for_each(|inner| spread(inner, parts, depth + 1));
    }
}

fn described<'s>(parts: &[&'s Value], name: &str) -> Vec<&'s Value> {
    parts
        .iter()
        .filter_map(|part| part.get("properties")?.get(name))
        .collect()
}

fn is_left_out(parts: &[&Value], name: &str) -> bool {
    let required = |part: &&Value| part.list("required").iter().any(|one| one == name);
    let described = described(parts, name);
    !described.is_empty()
        && !described.iter().any(|schema| accepts_null(schema, 0))
        && !parts.iter().any(required)
}

fn accepts_null(schema: &Value, depth: usize) -> bool {
    let Value::Object(words) = schema else {
        return schema != &Value::Bool(false);
    };
    if depth > DEPTH_MAX {
        return true;
    }
    let list = |word: &str| words.get(word).and_then(Value::as_array);
    let of_type = words.get("type").is_none_or(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "null"),
        kind => kind == "null",
    });
    let all = |word: &str| {
        list(word).is_none_or(|all| all.iter().all(|inner| accepts_null(inner, depth + 1)))
    };
    let any = |word: &str| {
        list(word).is_none_or(|all| all.iter().any(|inner| accepts_null(inner, depth + 1)))
    };
    of_type
        && words.get("const").is_none_or(Value::is_null)
        && list("enum").is_none_or(|values| values.contains(&Value::Null))
        && all("allOf")
        && any("anyOf")
        && any("oneOf")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::left_out;

    #[test]
    fn an_optional_field_of_another_type_is_left_out_and_no_other() {
        let schema = json!({ "required": ["needed"], "properties": {
            "needed": { "type": "string" },
            "text": { "type": "string" },
            "either": { "anyOf": [{ "type": "array" }, { "type": "object" }] },
            "maybe": { "type": ["string", "null"] },
            "any": {},
            "listed": { "enum": ["a", null] },
            "inner": { "properties": { "n": { "type": "integer" } } },
            "list": { "items": { "properties": { "n": { "type": "integer" } } } },
            "nested": { "oneOf": [{ "properties": { "a": { "const": 1 } } }, { "required": ["b"], "properties": { "b": { "const": 2 } } }] },
        } });
        let input = json!({
            "needed": null, "text": null, "either": null, "maybe": null, "any": null, "listed": null, "other": null,
            "inner": { "n": null, "m": null }, "list": [{ "n": null }, null], "nested": { "a": null, "b": null },
        });
        let shorter = left_out(&schema, &input).unwrap();
        let expected = json!({
            "needed": null, "maybe": null, "any": null, "listed": null, "other": null,
            "inner": { "m": null }, "list": [{}, null], "nested": { "b": null },
        });
        assert_eq!(shorter, expected);
        assert_eq!(left_out(&schema, &shorter), None);
        assert_eq!(left_out(&schema, &json!({ "text": "a" })), None);
    }
}
