//! Unions whose branches differ in the constant of one property, such as `action`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use toolcell_spec::TypedFields;

const CANDIDATES_MAX: usize = 64;
const VALUES_MAX: usize = 10_000;

/// The property that decides a value's branch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnionTag {
    pub(super) name: String,
    pub(super) values: Vec<Vec<Value>>,
}

impl UnionTag {
    /// Finds the property that has other constants in each branch, preferably a required one.
    pub(super) fn find<'s>(
        branches: &[&'s Map<String, Value>],
        resolved: &dyn Fn(&'s Value) -> &'s Value,
    ) -> Option<Self> {
        let first = branches.first().filter(|_| branches.len() > 1)?;
        let names = first
            .get("properties")?
            .as_object()?
            .keys()
            .take(CANDIDATES_MAX);
        let tags: Vec<Self> = names
            .filter_map(|name| Self::named(name, branches, resolved))
            .collect();
        let is_required = |tag: &&Self| branches.iter().all(|branch| requires(branch, &tag.name));
        tags.iter().find(is_required).or(tags.first()).cloned()
    }

    fn named<'s>(
        name: &str,
        branches: &[&'s Map<String, Value>],
        resolved: &dyn Fn(&'s Value) -> &'s Value,
    ) -> Option<Self> {
        let mut known = HashSet::new();
        let mut values = Vec::new();
        for branch in branches {
            let constants = choices(resolved(branch.get("properties")?.get(name)?))?;
            let differs = constants
                .iter()
                .all(|value| known.insert(value.to_string()));
            if constants.is_empty() || !differs || known.len() > VALUES_MAX {
                return None;
            }
            values.push(constants.to_vec());
        }
        Some(Self {
            name: name.to_owned(),
            values,
        })
    }

    pub(super) fn branch(&self, value: &Value) -> Option<usize> {
        self.values
            .iter()
            .position(|constants| constants.contains(value))
    }
}

/// `None` if `schema` does not list its values.
pub(super) fn choices(schema: &Value) -> Option<&[Value]> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(constant), _) => Some(std::slice::from_ref(constant)),
        (None, Some(Value::Array(values))) => Some(values),
        _ => None,
    }
}

pub(super) fn requires(schema: &Map<String, Value>, name: &str) -> bool {
    schema.list("required").iter().any(|one| one == name)
}

pub(super) fn shown(value: &Value) -> String {
    const CHARS_MAX: usize = 60;
    let text = match value {
        Value::String(text) if is_plain(text) => text.clone(),
        value => value.to_string(),
    };
    match text.char_indices().nth(CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
    }
}

pub(super) fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '$'))
}
