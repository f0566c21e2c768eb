//! Which words of JSON Schema hold other schemas.

use serde_json::Value;

/// What stands below one word of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// Schemas by the names of properties or definitions.
    Named,
    /// Schemas, one after the other.
    Listed,
    One,
    /// No schema.
    Other,
}

/// What `value` is, which stands below `word` in a schema.
pub(super) fn below(word: &str, value: &Value) -> Below {
    match (word, value) {
        (
            "properties" | "patternProperties" | "dependentSchemas" | "dependentRequired" | "dependencies" | "$defs"
            | "definitions",
            Value::Object(_),
        ) => Below::Named,
        ("items" | "prefixItems" | "allOf" | "anyOf" | "oneOf", Value::Array(_)) => Below::Listed,
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
        ) => Below::One,
        _ => Below::Other,
    }
}
