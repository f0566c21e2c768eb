use serde_json::{Map, Value, json};

use super::super::load::LoadBudget;
use super::super::references::{REFERENCES, SubschemaTargets};
use super::super::words::{SubschemaKind, below, subschemas};

/// In bytes of JSON text, per schema: a model reads all of it with each request.
const INLINED_BYTES_MAX: usize = 128 << 10;
/// In levels of subschemas.
const DEPTH_MAX: usize = 32;
const NAME_CHARS_MAX: usize = 60;
/// Keywords that are useless once nothing refers to a schema or is defined in it.
const DROPPED: [&str; 7] = [
    "$schema",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$vocabulary",
    "$defs",
    "definitions",
];
const ANNOTATIONS: [&str; 8] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];

pub(super) fn has_references(schema: &Value) -> bool {
    let Value::Object(words) = schema else {
        return false;
    };
    let mut known = DROPPED.iter().chain(&REFERENCES);
    known.any(|word| words.contains_key(*word))
        || subschemas(words).any(|(_, _, inner)| has_references(inner))
}

pub(super) fn is_annotation(word: &str) -> bool {
    ANNOTATIONS.contains(&word)
}

pub(super) struct Inliner<'s, 'b> {
    root: &'s Value,
    targets: SubschemaTargets<'s>,
    /// The schemas around the current one: a reference to one of them would never end.
    open: Vec<*const Value>,
    left: usize,
    budget: &'b mut LoadBudget,
    is_cut: bool,
}

impl<'s, 'b> Inliner<'s, 'b> {
    pub(super) fn new(root: &'s Value, budget: &'b mut LoadBudget) -> Self {
        let left = INLINED_BYTES_MAX;
        Self {
            root,
            targets: SubschemaTargets::new(root),
            open: Vec::new(),
            left,
            budget,
            is_cut: false,
        }
    }

    pub(super) fn whole(&mut self) -> Value {
        self.schema(self.root)
    }

    /// Returns whether a too large target was replaced by any value.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn schema(&mut self, schema: &'s Value) -> Value {
        let Value::Object(words) = schema else {
            return schema.clone();
        };
        self.open.push(std::ptr::from_ref(schema));
        let mut copy = Map::new();
        for (word, value) in words {
            if DROPPED.contains(&word.as_str()) || REFERENCES.contains(&word.as_str()) {
                continue;
            }
            let value = match (below(word, value), value) {
                (SubschemaKind::Named, Value::Object(named)) => named
                    .iter()
                    .map(|(name, inner)| (name.clone(), self.schema(inner)))
                    .collect(),
                (SubschemaKind::Listed, Value::Array(all)) => {
                    all.iter().map(|inner| self.schema(inner)).collect()
                }
                (SubschemaKind::One, inner) => self.schema(inner),
                (_, value) => value.clone(),
            };
            copy.insert(word.clone(), value);
        }
        let references = REFERENCES
            .iter()
            .filter_map(|word| words.get(*word)?.as_str());
        let mut copy = Value::Object(copy);
        for reference in references {
            copy = joined(self.target(reference), copy);
        }
        self.open.pop();
        copy
    }

    fn target(&mut self, reference: &str) -> Value {
        let name = reference.rsplit(['/', '#']).next().unwrap_or_default();
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        let Some(target) = self.targets.find(reference) else {
            return any(None, "Any value: its schema is not in this listing.");
        };
        if self.open.contains(&std::ptr::from_ref(target)) {
            let note = match name.as_str() {
                "" => "It has the same fields as the value around it.".to_owned(),
                name => format!("It has the same fields as the `{name}` around it."),
            };
            return any(Some(target), &note);
        }
        let bytes = bytes(target, self.left);
        if self.open.len() >= DEPTH_MAX
            || bytes >= self.left
            || !self.budget.take_listed_bytes(bytes)
        {
            self.is_cut = true;
            return any(
                Some(target),
                "Any value: its schema is too large for this listing.",
            );
        }
        self.left -= bytes;
        self.schema(target)
    }
}

/// A schema for anything, or for any object if `target` accepts only objects, with a note.
fn any(target: Option<&Value>, note: &str) -> Value {
    let is_object = target
        .and_then(|target| target.get("type"))
        .is_some_and(|kind| kind == "object");
    if is_object {
        json!({ "type": "object", "description": note })
    } else {
        json!({ "description": note })
    }
}

/// The schema of a value that satisfies both, in the words of `beside`.
pub(super) fn joined(target: Value, beside: Value) -> Value {
    match (target, beside) {
        (target, Value::Object(words)) if words.is_empty() => target,
        (target, Value::Bool(true)) => target,
        (Value::Bool(true), beside) => beside,
        (Value::Object(mut target), Value::Object(words)) => {
            let fits = |(word, value): (&String, &Value)| {
                is_annotation(word) || target.get(word).is_none_or(|there| there == value)
            };
            if words.iter().all(fits) {
                target.extend(words);
                return Value::Object(target);
            }
            let (said, asserted): (Map<_, _>, Map<_, _>) =
                words.into_iter().partition(|(word, _)| is_annotation(word));
            let mut both = said;
            both.insert("allOf".to_owned(), json!([target, asserted]));
            Value::Object(both)
        }
        (target, beside) => json!({ "allOf": [target, beside] }),
    }
}

fn bytes(value: &Value, max: usize) -> usize {
    let mut total: usize = 8;
    match value {
        Value::String(text) => total += text.len(),
        Value::Array(items) => {
            for item in items {
                total += bytes(item, max.saturating_sub(total));
                if total >= max {
                    break;
                }
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields
                .iter()
                .filter(|(name, _)| !DROPPED.contains(&name.as_str()))
            {
                total += name.len() + bytes(field, max.saturating_sub(total));
                if total >= max {
                    break;
                }
            }
        }
        _ => {}
    }
    total
}
