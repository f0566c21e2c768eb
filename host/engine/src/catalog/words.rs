//! Keywords of JSON Schema that hold other schemas.

use serde_json::Value;

/// Kind of subschemas in a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubschemaKind {
    /// Schemas by the name of a property or a definition.
    Named,
    /// A list of schemas.
    Listed,
    One,
    /// No schema.
    Other,
}

/// Returns what `value` holds, which is the value of the keyword `word` in a schema.
pub(super) fn below(word: &str, value: &Value) -> SubschemaKind {
    match (word, value) {
        (
            "properties" | "patternProperties" | "dependentSchemas" | "dependentRequired"
            | "dependencies" | "$defs" | "definitions",
            Value::Object(_),
        ) => SubschemaKind::Named,
        ("items" | "prefixItems" | "allOf" | "anyOf" | "oneOf", Value::Array(_)) => {
            SubschemaKind::Listed
        }
        (
            "additionalProperties"
            | "unevaluatedProperties"
            | "items"
            | "contains"
            | "additionalItems"
            | "unevaluatedItems"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contentSchema"
            | "propertyNames",
            _,
        ) => SubschemaKind::One,
        _ => SubschemaKind::Other,
    }
}
