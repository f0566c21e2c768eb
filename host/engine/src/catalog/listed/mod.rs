//! The schema of arguments as model APIs take it: one object at the top, no references. Arguments are checked against
//! the real schema, so a loss here costs only a refused call.

mod forms;
mod inline;
mod merge;

use serde_json::{Map, Value};

use super::load::LoadBudget;

pub use forms::{ArgumentForm, ArgumentForms};
use inline::Inliner;

/// An API refuses the whole request for these.
const REFUSED_AT_TOP: [&str; 10] = [
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "enum",
    "const",
    "unevaluatedProperties",
];

/// How a tool's arguments are listed.
///
/// ```
/// use toolcell_engine::catalog::ListedSchema;
///
/// fn says(listed: &ListedSchema) -> String {
///     if listed.is_possible() { listed.note() } else { "no arguments are possible".to_owned() }
/// }
/// ```
#[derive(Debug, Default)]
pub struct ListedSchema {
    /// `None` if the real one can be listed unchanged.
    schema: Option<Value>,
    forms: Option<ArgumentForms>,
    is_possible: bool,
    is_cut: bool,
}

impl ListedSchema {
    /// The references in `real` all lead somewhere.
    pub(super) fn from_schema(real: &Value, budget: &mut LoadBudget) -> Self {
        let has_union = |fields: &Map<String, Value>| {
            REFUSED_AT_TOP.iter().any(|word| fields.contains_key(*word))
        };
        let flattens = real.as_object().is_none_or(has_union);
        if !flattens && !inline::has_references(real) {
            let is_possible = merge::takes_objects(real);
            return Self {
                is_possible,
                ..Self::default()
            };
        }
        let mut inliner = Inliner::new(real, budget);
        let inlined = inliner.whole();
        let is_cut = inliner.is_cut();
        let is_union = inlined.as_object().is_none_or(has_union);
        if !is_union {
            let is_possible = merge::takes_objects(&inlined);
            return Self {
                schema: Some(inlined),
                forms: None,
                is_possible,
                is_cut,
            };
        }
        match merge::object(inlined) {
            Some(object) => {
                let (schema, forms) = object.into_schema();
                Self {
                    schema: Some(schema),
                    forms,
                    is_possible: true,
                    is_cut,
                }
            }
            None => Self {
                schema: Some(Value::Object(Map::new())),
                forms: None,
                is_possible: false,
                is_cut,
            },
        }
    }

    /// `None` if it is the real one.
    pub(super) fn schema(&self) -> Option<&Value> {
        self.schema.as_ref()
    }

    pub fn forms(&self) -> Option<&ArgumentForms> {
        self.forms.as_ref()
    }

    /// Facts for the model that the schema lacks; can be empty.
    pub fn note(&self) -> String {
        self.forms().map(ArgumentForms::note).unwrap_or_default()
    }

    /// Returns whether the schema accepts an object: without one, the tool cannot be called.
    pub fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Returns whether a too large argument is listed as any value.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests;
