//! Several schemas of an object as one.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::REFUSED_AT_TOP;
use super::forms::{ArgumentForm, ArgumentForms};
use super::inline::{is_annotation, joined};
use crate::catalog::unions::{UnionTag, choices};
use toolcell_spec::TypedFields;

const DEPTH_MAX: usize = 16;
const ALTERNATIVES_MAX: usize = 16;
const DESCRIPTIONS_MAX: usize = 3;

#[derive(Default)]
pub(super) struct ObjectSchema {
    words: Map<String, Value>,
    properties: Map<String, Value>,
    required: Vec<String>,
    is_closed: bool,
    forms: Vec<ArgumentForm>,
    tag: Option<String>,
    /// `true` if the real schema asserts more.
    is_lossy: bool,
}

pub(super) fn takes_objects(schema: &Value) -> bool {
    match schema {
        Value::Bool(all) => *all,
        Value::Object(words) => match words.get("type") {
            Some(Value::String(kind)) => kind == "object",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
            _ => choices(schema).is_none_or(|values| values.iter().any(Value::is_object)),
        },
        _ => true,
    }
}

pub(super) fn object(schema: Value) -> Option<ObjectSchema> {
    at_depth(schema, 0)
}

fn at_depth(schema: Value, depth: usize) -> Option<ObjectSchema> {
    if !takes_objects(&schema) {
        return None;
    }
    let Value::Object(mut words) = schema else {
        return Some(ObjectSchema::default());
    };
    if depth > DEPTH_MAX {
        return Some(ObjectSchema {
            is_lossy: true,
            ..ObjectSchema::default()
        });
    }
    let mut parts = Map::new();
    for word in REFUSED_AT_TOP {
        if let Some(part) = words.shift_remove(word) {
            parts.insert(word.to_owned(), part);
        }
    }
    let mut object = ObjectSchema::from_keywords(words);
    object.is_closed |= parts.get("unevaluatedProperties") == Some(&Value::Bool(false));
    object.is_lossy |= ["not", "enum", "const"]
        .iter()
        .any(|word| parts.contains_key(*word));
    for part in listed(&mut parts, "allOf").into_iter().flatten() {
        object.require(at_depth(part, depth + 1)?);
    }
    for word in ["oneOf", "anyOf"] {
        if let Some(branches) = listed(&mut parts, word) {
            let branches: Vec<ObjectSchema> = branches
                .into_iter()
                .filter_map(|branch| at_depth(branch, depth + 1))
                .collect();
            if branches.is_empty() {
                return None;
            }
            object.choose(branches);
        }
    }
    object.condition(&mut parts, depth);
    Some(object)
}

fn listed(parts: &mut Map<String, Value>, word: &str) -> Option<Vec<Value>> {
    match parts.shift_remove(word) {
        Some(Value::Array(all)) if !all.is_empty() => Some(all),
        _ => None,
    }
}

impl ObjectSchema {
    fn from_keywords(mut words: Map<String, Value>) -> Self {
        words.shift_remove("type");
        let properties = match words.shift_remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        let required = match words.shift_remove("required") {
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        };
        let is_closed = words.get("additionalProperties") == Some(&Value::Bool(false));
        if is_closed {
            words.shift_remove("additionalProperties");
        }
        Self {
            words,
            properties,
            required,
            is_closed,
            ..Self::default()
        }
    }

    fn require(&mut self, other: Self) {
        for (name, schema) in other.properties {
            match self.properties.get_mut(&name) {
                Some(here) => *here = both(std::mem::take(here), schema),
                None => _ = self.properties.insert(name, schema),
            }
        }
        for name in other.required {
            self.need(name);
        }
        for (word, value) in other.words {
            let known = self.words.entry(word).or_insert_with(|| value.clone());
            self.is_lossy |= *known != value;
        }
        self.is_closed |= other.is_closed;
        self.is_lossy |= other.is_lossy;
        self.add_forms(other.forms, other.tag);
    }

    fn need(&mut self, name: String) {
        if !self.required.contains(&name) {
            self.required.push(name);
        }
    }

    fn add_forms(&mut self, forms: Vec<ArgumentForm>, tag: Option<String>) {
        if self.forms.is_empty() || (tag.is_some() && self.tag == tag) {
            self.forms.extend(forms);
            self.tag = tag.or(self.tag.take());
        } else {
            self.is_lossy |= !forms.is_empty();
        }
    }

    /// Adds alternative forms, at least one.
    fn choose(&mut self, branches: Vec<Self>) {
        let is_closed = branches.iter().all(|branch| branch.is_closed);
        self.is_lossy |= branches
            .iter()
            .any(|branch| branch.is_lossy || !branch.forms.is_empty());
        let required: Vec<HashSet<&str>> = branches
            .iter()
            .map(|branch| branch.required.iter().map(String::as_str).collect())
            .collect();
        let first = branches
            .first()
            .map(|branch| branch.required.clone())
            .unwrap_or_default();
        let common: Vec<String> = first
            .into_iter()
            .filter(|name| required.iter().all(|all| all.contains(name.as_str())))
            .collect();
        let (forms, tag) = forms(&branches);
        let count = branches.len();
        let mut found: Map<String, Value> = Map::new();
        for (name, schema) in branches.into_iter().flat_map(|branch| branch.properties) {
            if let Value::Array(all) = found.entry(name).or_insert_with(|| json!([])) {
                all.push(schema);
            }
        }
        for (name, schemas) in found {
            let Value::Array(schemas) = schemas else {
                continue;
            };
            let is_everywhere = schemas.len() == count;
            match self.properties.get_mut(&name) {
                Some(here) if is_everywhere => *here = both(std::mem::take(here), any_of(schemas)),
                Some(_) => {}
                // The host refuses it: a closed schema knows its own properties alone.
                None if self.is_closed && !self.words.contains_key("patternProperties") => {}
                None => _ = self.properties.insert(name, any_of(schemas)),
            }
        }
        common.into_iter().for_each(|name| self.need(name));
        self.is_closed |= is_closed;
        self.add_forms(forms, tag);
    }

    /// Adds the properties of `then` and `else`, and their requirements for a constant in `if`.
    fn condition(&mut self, parts: &mut Map<String, Value>, depth: usize) {
        let Some(condition) = parts.shift_remove("if") else {
            return;
        };
        let mut branch = |word: &str| at_depth(parts.shift_remove(word)?, depth + 1);
        let then = branch("then");
        let otherwise = branch("else");
        let decides = condition.fields("properties").filter(|all| all.len() == 1);
        let decides = decides
            .and_then(|all| all.iter().next())
            .and_then(|(name, schema)| Some((name, choices(schema)?)));
        match (&then, decides) {
            (Some(then), Some((name, values))) => {
                let mut form = ArgumentForm::with_arguments(
                    &then.required,
                    then.properties.keys(),
                    name,
                    None,
                );
                form.values = values.to_vec();
                self.add_forms(vec![form], Some(name.clone()));
                self.is_lossy |= otherwise.is_some();
            }
            _ => self.is_lossy = true,
        }
        for (name, schema) in [then, otherwise]
            .into_iter()
            .flatten()
            .flat_map(|branch| branch.properties)
        {
            self.properties.entry(name).or_insert(schema);
        }
    }

    pub(super) fn into_schema(self) -> (Value, Option<ArgumentForms>) {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        let (said, rest): (Map<_, _>, Map<_, _>) = self
            .words
            .into_iter()
            .partition(|(word, _)| is_annotation(word));
        schema.extend(said);
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), json!(self.required));
        }
        schema.extend(rest);
        if self.is_closed {
            schema.insert("additionalProperties".to_owned(), false.into());
        }
        let forms = ArgumentForms {
            tag: self.tag,
            forms: self.forms,
            is_lossy: self.is_lossy,
        };
        let says = !forms.forms.is_empty() || forms.is_lossy;
        (Value::Object(schema), says.then_some(forms))
    }
}

fn forms(branches: &[ObjectSchema]) -> (Vec<ArgumentForm>, Option<String>) {
    if branches.len() < 2 {
        return (Vec::new(), None);
    }
    let schemas: Vec<Map<String, Value>> = branches.iter().map(ObjectSchema::shape).collect();
    let tag = UnionTag::find(&schemas.iter().collect::<Vec<_>>(), &|schema| schema);
    let name = tag
        .as_ref()
        .map(|tag| tag.name.as_str())
        .unwrap_or_default();
    let form = |(at, branch): (usize, &ObjectSchema)| {
        let said = branch.words.text("description");
        let of_tag = branch
            .properties
            .get(name)
            .and_then(|schema| schema.get("description")?.as_str());
        let mut form = ArgumentForm::with_arguments(
            &branch.required,
            branch.properties.keys(),
            name,
            said.or(of_tag),
        );
        form.values = tag
            .as_ref()
            .and_then(|tag| tag.values.get(at))
            .cloned()
            .unwrap_or_default();
        form
    };
    let forms = branches.iter().enumerate().map(form).collect();
    (forms, tag.map(|tag| tag.name))
}

impl ObjectSchema {
    /// Properties that tell branches apart: the constant and the required ones.
    fn shape(&self) -> Map<String, Value> {
        let constants = self
            .properties
            .iter()
            .filter(|(_, schema)| choices(schema).is_some());
        let constants: Map<String, Value> = constants
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect();
        let mut shape = Map::new();
        shape.insert("properties".to_owned(), Value::Object(constants));
        shape.insert("required".to_owned(), json!(self.required));
        shape
    }
}

fn both(one: Value, other: Value) -> Value {
    if one == other {
        one
    } else {
        joined(other, one)
    }
}

fn any_of(schemas: Vec<Value>) -> Value {
    if let Some(values) = constants(&schemas) {
        return values;
    }
    let mut different: Vec<Value> = Vec::new();
    for schema in schemas {
        let known = different
            .iter()
            .position(|known| asserts_the_same(known, &schema));
        if let Some(known) = known.and_then(|at| different.get_mut(at)) {
            join_descriptions(known, &schema);
        } else if different.len() < ALTERNATIVES_MAX {
            different.push(schema);
        } else {
            return json!({ "description": "Which values it takes depends on the other arguments." });
        }
    }
    match different.len() {
        1 => different.remove(0),
        _ => json!({ "anyOf": different }),
    }
}

/// All constants as one schema, if each of `schemas` lists its values.
fn constants(schemas: &[Value]) -> Option<Value> {
    let mut known = HashSet::new();
    let mut values = Vec::new();
    for schema in schemas {
        for value in choices(schema)? {
            if known.insert(value.to_string()) {
                values.push(value.clone());
            }
        }
    }
    let mut merged = Map::new();
    let same = |word: &str| {
        let first = schemas.first()?.get(word)?;
        schemas
            .iter()
            .all(|schema| schema.get(word) == Some(first))
            .then(|| first.clone())
    };
    let is_text = values.iter().all(Value::is_string);
    if let Some(kind) = same("type").or(is_text.then(|| "string".into())) {
        merged.insert("type".to_owned(), kind);
    }
    if let Some(description) = same("description") {
        merged.insert("description".to_owned(), description);
    }
    merged.insert("enum".to_owned(), Value::Array(values));
    Some(Value::Object(merged))
}

fn asserts_the_same(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else {
        return one == other;
    };
    let asserted =
        |words: &Map<String, Value>| words.keys().filter(|word| !is_annotation(word)).count();
    let same =
        |(word, value): (&String, &Value)| is_annotation(word) || other.get(word) == Some(value);
    asserted(one) == asserted(other) && one.iter().all(same)
}

fn join_descriptions(schema: &mut Value, other: &Value) {
    let (Value::Object(schema), Some(said)) = (schema, other.text("description")) else {
        return;
    };
    match schema.get_mut("description") {
        Some(Value::String(text))
            if text.contains(said) || text.matches("; or: ").count() + 1 >= DESCRIPTIONS_MAX => {}
        Some(Value::String(text)) => *text = format!("{}; or: {said}", text.trim_end_matches('.')),
        _ => _ = schema.insert("description".to_owned(), said.into()),
    }
}

impl ArgumentForm {
    /// Excludes the argument that decides.
    fn with_arguments<'n>(
        required: &[String],
        names: impl Iterator<Item = &'n String>,
        tag: &str,
        said: Option<&str>,
    ) -> Self {
        let needs: Vec<String> = required
            .iter()
            .filter(|name| *name != tag)
            .cloned()
            .collect();
        let may = names
            .filter(|name| *name != tag && !required.contains(name))
            .cloned()
            .collect();
        Self {
            values: Vec::new(),
            required: needs,
            optional: may,
            said: said.map(str::to_owned),
        }
    }
}
