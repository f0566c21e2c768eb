//! Moves records inside of declarations, which the specification allows, into their lists.

use serde_json::{Map, Value, json};

use crate::SchemaVersion;

use super::names;
use super::references::LISTS;

/// Contract, and the field that a lone `schema` stands for.
const SCHEMAS: [(&str, &str); 2] = [
    ("input_contract", "model_input_schema"),
    ("output_contract", "structured_schema"),
];

/// Duplicates stay, so that they are reported.
pub(super) fn lift(toolkit: &mut Value) {
    let mut lifted = LISTS.map(|(list, ..)| (list, Vec::new()));
    let declarations = toolkit
        .get_mut("declarations")
        .and_then(Value::as_array_mut);
    for declaration in declarations.into_iter().flatten() {
        let tool_id = names::tool_id(declaration);
        let Some(fields) = declaration.as_object_mut() else {
            continue;
        };
        for (contract, name) in SCHEMAS {
            if let Some(Value::Object(contract)) = fields.get_mut(contract)
                && !contract.contains_key(name)
                && let Some(schema) = contract.shift_remove("schema")
            {
                contract.insert(name.to_owned(), schema);
            }
        }
        // An interface stands in its list alone.
        let profiles = LISTS.into_iter().zip(&mut lifted).skip(1);
        for ((list, id, reference), (_, records)) in profiles {
            let field = list.trim_end_matches('s');
            if fields.get(reference).is_some_and(|given| !given.is_null())
                || !fields.get(field).is_some_and(Value::is_object)
            {
                continue;
            }
            let Some(Value::Object(mut record)) = fields.shift_remove(field) else {
                continue;
            };
            complete(
                &mut record,
                id,
                &format!("{tool_id}.{}", field.trim_end_matches("_profile")),
            );
            fields.insert(
                reference.to_owned(),
                record.get(id).cloned().unwrap_or_default(),
            );
            records.push(Value::Object(record));
        }
    }
    let Some(lists) = toolkit.as_object_mut() else {
        return;
    };
    for (list, records) in lifted
        .into_iter()
        .filter(|(_, records)| !records.is_empty())
    {
        if let Value::Array(known) = lists.entry(list).or_insert_with(|| json!([])) {
            known.extend(records);
        }
    }
}

fn complete(record: &mut Map<String, Value>, id: &str, own: &str) {
    for (field, value) in [(id, own), ("schema_version", SchemaVersion::CURRENT)] {
        record.entry(field).or_insert_with(|| value.into());
    }
    if id == "execution_profile_id" {
        record
            .entry("execution_kind")
            .or_insert_with(|| "embedded_runtime".into());
    }
}
