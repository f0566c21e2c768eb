//! Keywords of JSON Schema that hold other schemas.

use serde_json::{Map, Value};
use toolcell_spec::escaped_step;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubschemaKind {
    /// By the name of a property or definition.
    Named,
    Listed,
    One,
    /// No schema.
    Other,
}

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

/// A step of a JSON Pointer, made a text only where shown or kept: a name may take megabytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum PointerStep<'s> {
    Name(&'s str),
    At(usize),
}

pub(super) fn subschemas<'s>(
    words: &'s Map<String, Value>,
) -> impl Iterator<Item = (&'s str, Option<PointerStep<'s>>, &'s Value)> {
    words.iter().flat_map(|(word, value)| {
        let held: Vec<(Option<PointerStep<'s>>, &Value)> = match (below(word, value), value) {
            (SubschemaKind::Named, Value::Object(named)) => {
                let named = named.iter();
                named
                    .map(|(name, inner)| (Some(PointerStep::Name(name)), inner))
                    .collect()
            }
            (SubschemaKind::Listed, Value::Array(all)) => {
                let all = all.iter().enumerate();
                all.map(|(at, inner)| (Some(PointerStep::At(at)), inner))
                    .collect()
            }
            (SubschemaKind::One, inner) => vec![(None, inner)],
            _ => Vec::new(),
        };
        held.into_iter()
            .map(move |(step, inner)| (word.as_str(), step, inner))
    })
}

/// `steps` as a JSON Pointer (RFC 6901).
pub(super) fn pointer(steps: &[PointerStep<'_>]) -> String {
    let mut pointer = String::new();
    for step in steps {
        pointer.push('/');
        match step {
            PointerStep::Name(name) => {
                pointer.push_str(&escaped_step(name));
            }
            PointerStep::At(at) => pointer.push_str(&at.to_string()),
        }
    }
    pointer
}
