//! Describes violations so that the sender can fix them. A constant selects a union's branch.

use std::collections::HashMap;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde::de::IgnoredAny;
use serde_json::Value;
use toolcell_spec::escaped_step;

use super::{SHOWN_MAX, cut, pointer};
use crate::catalog::references::SubschemaTargets;
use crate::catalog::unions::{UnionTag, is_plain, shown};
use crate::catalog::words::{self, PointerStep, subschemas};

/// Remembered unions of one schema, and the bytes of their places.
const TAGS_MAX: usize = 2_000;
const PLACES_BYTES_MAX: usize = 1 << 20;
const LISTED_MAX: usize = 60;
const DEPTH_MAX: usize = 4;

/// One thing that is wrong with a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) said: String,
    /// Of the nearest value around it, if its own is too long.
    pub(super) pointer: String,
}

impl Violation {
    /// At the value of `error`, or at `name` below it.
    fn new(said: &str, error: &ValidationError<'_>, name: Option<&str>) -> Self {
        let mut pointer = error.instance_path().as_str().to_owned();
        if let Some(name) = name {
            pointer.push('/');
            pointer.push_str(&escaped_step(name));
        }
        while pointer.len() > SHOWN_MAX {
            let around = pointer.rfind('/').unwrap_or_default();
            pointer.truncate(around);
        }
        Self {
            said: placed(said, error),
            pointer,
        }
    }

    fn noted(self, note: &str) -> Self {
        Self {
            said: format!("{} ({note})", self.said),
            ..self
        }
    }
}

/// Unions whose branches differ in a constant, by the JSON Pointers of their keywords.
#[derive(Debug, Default)]
pub(super) struct UnionTags(HashMap<String, UnionTag>);

impl UnionTags {
    pub(super) fn from_schema(schema: &Value) -> Self {
        let mut search = TagSearch {
            targets: SubschemaTargets::new(schema),
            found: HashMap::new(),
            bytes: 0,
        };
        search.look(schema, &mut Vec::new());
        Self(search.found)
    }

    pub(super) fn describe(&self, error: &ValidationError<'_>) -> Vec<Violation> {
        self.at_depth(error, 0)
    }

    fn at_depth(&self, error: &ValidationError<'_>, depth: usize) -> Vec<Violation> {
        match error.kind() {
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context }
                if depth < DEPTH_MAX =>
            {
                self.of_union(error, context, depth)
            }
            _ => vec![Violation::new(&said(error), error, missing(error))],
        }
    }

    fn of_union(
        &self,
        error: &ValidationError<'_>,
        branches: &[Vec<ValidationError<'_>>],
        depth: usize,
    ) -> Vec<Violation> {
        let tag = self.0.get(error.schema_path().as_str());
        let value = error.instance();
        if let Some(tag) = tag.filter(|_| value.is_object()) {
            let name = named(&tag.name);
            let Some(given) = value.get(&tag.name) else {
                let said = format!("{name} is required: {}", one_of(tag));
                return vec![Violation::new(&said, error, Some(&tag.name))];
            };
            return match tag.branch(given) {
                None => {
                    let said = format!("{name} must be {}", one_of(tag));
                    vec![Violation::new(&said, error, Some(&tag.name))]
                }
                Some(at) => {
                    let branch = branches.get(at).into_iter().flatten();
                    let problems = branch.flat_map(|inner| self.at_depth(inner, depth + 1));
                    problems
                        .map(|problem| problem.noted(&format!("for {name} {}", shown(given))))
                        .collect()
                }
            };
        }
        // Without a constant, the branch for values of this type that has the fewest problems.
        let place = error.instance_path().as_str();
        let is_other_type = |inner: &ValidationError<'_>| {
            matches!(inner.kind(), ValidationErrorKind::Type { .. })
                && inner.instance_path().as_str() == place
        };
        let of_type = branches
            .iter()
            .filter(|branch| !branch.iter().any(is_other_type));
        let count = of_type.clone().count();
        let Some(closest) = of_type.min_by_key(|branch| branch.len()) else {
            return vec![Violation::new(&other_type(value, branches), error, None)];
        };
        let problems = closest
            .iter()
            .flat_map(|inner| self.at_depth(inner, depth + 1))
            .collect::<Vec<_>>();
        match count {
            1 => problems,
            _ => problems
                .into_iter()
                .map(|problem| problem.noted(&format!("in the closest of {count} forms")))
                .collect(),
        }
    }
}

struct TagSearch<'s> {
    targets: SubschemaTargets<'s>,
    found: HashMap<String, UnionTag>,
    bytes: usize,
}

impl<'s> TagSearch<'s> {
    fn look(&mut self, schema: &'s Value, steps: &mut Vec<PointerStep<'s>>) {
        let Value::Object(words) = schema else { return };
        for word in ["oneOf", "anyOf"] {
            if let Some(Value::Array(branches)) = words.get(word) {
                self.union(branches, steps, word);
            }
        }
        for (word, step, inner) in subschemas(words) {
            // Only what holds other schemas can hold a union.
            if inner.is_object() && self.bytes <= PLACES_BYTES_MAX {
                let length = steps.len();
                steps.push(PointerStep::Name(word));
                steps.extend(step);
                self.look(inner, steps);
                steps.truncate(length);
            }
        }
    }

    fn union(&mut self, branches: &'s [Value], steps: &[PointerStep<'s>], word: &str) {
        let resolved = branches
            .iter()
            .map(|branch| self.targets.resolved(branch).as_object());
        let Some(branches) = resolved.collect::<Option<Vec<_>>>() else {
            return;
        };
        let targets = &self.targets;
        let Some(tag) = UnionTag::find(&branches, &|schema| targets.resolved(schema)) else {
            return;
        };
        let place = format!("{}/{word}", words::pointer(steps));
        self.bytes = self.bytes.saturating_add(place.len());
        if self.found.len() < TAGS_MAX && self.bytes <= PLACES_BYTES_MAX {
            self.found.insert(place, tag);
        }
    }
}

fn said(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("{} is required", property.as_str().map_or_else(|| property.to_string(), named))
        }
        ValidationErrorKind::Type { kind } => {
            let text = cut(&error.masked_with("the value").to_string());
            match json_text(error.instance(), &types(kind)) {
                Some(hint) => format!("{text}: {hint}"),
                None => text,
            }
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            "the value fits more than one of the forms in oneOf; add a field that only one of them has".to_owned()
        }
        _ => cut(&error.masked_with("the value").to_string()),
    }
}

fn missing<'e>(error: &'e ValidationError<'_>) -> Option<&'e str> {
    match error.kind() {
        ValidationErrorKind::Required { property } => property.as_str(),
        _ => None,
    }
}

fn placed(said: &str, error: &ValidationError<'_>) -> String {
    match error.instance_path().as_str() {
        "" => said.to_owned(),
        place => format!("{said} (at {})", cut(pointer(place))),
    }
}

fn other_type(value: &Value, branches: &[Vec<ValidationError<'_>>]) -> String {
    let mut accepted: Vec<&str> = Vec::new();
    for error in branches.iter().flatten() {
        if let ValidationErrorKind::Type { kind } = error.kind() {
            for name in types(kind) {
                if !accepted.contains(&name) {
                    accepted.push(name);
                }
            }
        }
    }
    let hint = json_text(value, &accepted)
        .map(|hint| format!(": {hint}"))
        .unwrap_or_default();
    format!("the value is not of type {}{hint}", accepted.join(" or "))
}

fn types(kind: &TypeKind) -> Vec<&'static str> {
    match kind {
        TypeKind::Single(one) => vec![one.as_str()],
        TypeKind::Multiple(several) => several.iter().map(JsonType::as_str).collect(),
    }
}

/// For a string with the JSON of an array or object that `accepted` allows.
pub(in crate::catalog) fn json_text(value: &Value, accepted: &[&str]) -> Option<String> {
    let text = value.as_str()?.trim();
    let kind = match text.chars().next()? {
        '[' => "array",
        '{' => "object",
        _ => return None,
    };
    let is_json = accepted.contains(&kind) && serde_json::from_str::<IgnoredAny>(text).is_ok();
    is_json.then(|| format!("you sent JSON text; send the {kind} itself"))
}

fn named(name: &str) -> String {
    if is_plain(name) {
        cut(name)
    } else {
        cut(&format!("{name:?}"))
    }
}

fn one_of(tag: &UnionTag) -> String {
    let mut values: Vec<String> = tag
        .values
        .iter()
        .flatten()
        .take(LISTED_MAX)
        .map(shown)
        .collect();
    let more = tag.values.iter().flatten().count() - values.len();
    if more > 0 {
        values.push(format!("{more} more"));
    }
    format!("one of {}", values.join(", "))
}
