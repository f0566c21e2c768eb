//! The schemas of an OpenAPI document, without references.

use serde_json::{Map, Value, json};

/// Values of all schemas of a document, written out. A long text counts as several, as [`size`] says.
const VALUES_MAX: usize = 60_000;
/// Of the schemas of one operation.
const OPERATION_VALUES_MAX: usize = 6_000;
const DEPTH_MAX: usize = 40;
const TEXT_BYTES_OF_VALUE: usize = 1 << 10;
/// References from one to the next.
const REFERENCES_MAX: usize = 16;

/// Say nothing that JSON Schema could check, or are of the document that they are in.
const LEFT_OUT: [&str; 10] = [
    "discriminator",
    "xml",
    "externalDocs",
    "example",
    "examples",
    "nullable",
    "$schema",
    "$id",
    "$defs",
    "$anchor",
];
/// Hold schemas by name, in a list, or one schema.
const BY_NAME: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
const IN_LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Leaves out what is only in answers.
    Input,
    Output,
}

pub(super) struct SchemaReader<'d> {
    document: &'d Value,
    left: usize,
    /// The references that are being written out.
    open: Vec<String>,
}

impl<'d> SchemaReader<'d> {
    pub(super) fn new(document: &'d Value) -> Self {
        Self {
            document,
            left: VALUES_MAX,
            open: Vec::new(),
        }
    }

    /// The value that a reference leads to, or the value itself.
    pub(super) fn resolved<'v>(&self, value: &'v Value) -> Result<&'v Value, String>
    where
        'd: 'v,
    {
        let mut value = value;
        for _ in 0..REFERENCES_MAX {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => value = self.target(reference)?,
                None => return Ok(value),
            }
        }
        Err("its references lead in a circle".to_owned())
    }

    fn target(&self, reference: &str) -> Result<&'d Value, String> {
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!(
                "it refers to {reference:?}, which is outside of the document"
            ));
        };
        let found = self.document.pointer(pointer);
        found.ok_or_else(|| format!("it refers to {reference:?}, which the document does not have"))
    }

    pub(super) fn read(&mut self, schema: &Value, direction: Direction) -> Result<Value, String> {
        let before = self.left;
        self.left = before.min(OPERATION_VALUES_MAX);
        let given = self.left;
        let read = self.schema(schema, direction, 0);
        self.left = before.saturating_sub(given.saturating_sub(self.left));
        self.open.clear();
        read
    }

    /// Counts a text that becomes a part of a tool as its schemas do.
    pub(super) fn text<'v>(&mut self, value: Option<&'v Value>) -> Result<&'v str, String> {
        let text = super::text(value);
        self.take(text_size(text))?;
        Ok(text)
    }

    fn take(&mut self, values: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(values).ok_or_else(|| {
            format!(
                "its schemas have more than {OPERATION_VALUES_MAX} values, or all of the document more than {VALUES_MAX}"
            )
        })?;
        Ok(())
    }

    fn schema(
        &mut self,
        schema: &Value,
        direction: Direction,
        depth: usize,
    ) -> Result<Value, String> {
        self.take(1)?;
        if depth > DEPTH_MAX {
            return Err(format!("its schemas are nested more than {DEPTH_MAX} deep"));
        }
        let Some(fields) = schema.as_object() else {
            return self.plain(schema);
        };
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            // A schema that holds itself accepts anything from there on: the server checks it.
            if self.open.iter().any(|open| open == reference) {
                return Ok(json!({}));
            }
            let target = self.target(reference)?;
            self.open.push(reference.to_owned());
            let read = self.schema(target, direction, depth + 1);
            self.open.pop();
            let mut read = read?;
            if let (Some(said), Some(read)) = (fields.get("description"), read.as_object_mut()) {
                read.insert("description".to_owned(), self.plain(said)?);
            }
            return Ok(read);
        }
        let mut read = Map::new();
        for (word, value) in fields {
            if LEFT_OUT.contains(&word.as_str()) || word.starts_with("x-") {
                continue;
            }
            let value = self.word(word, value, direction, depth)?;
            read.insert(word.clone(), value);
        }
        if direction == Direction::Input {
            without_answers(&mut read);
        }
        bounds(&mut read);
        Ok(if fields.get("nullable").is_some_and(|it| it == true) {
            nullable(read)
        } else {
            read.into()
        })
    }

    fn word(
        &mut self,
        word: &str,
        value: &Value,
        direction: Direction,
        depth: usize,
    ) -> Result<Value, String> {
        let depth = depth + 1;
        if BY_NAME.contains(&word)
            && let Some(schemas) = value.as_object()
        {
            let mut read = Map::new();
            for (name, schema) in schemas {
                self.take(text_size(name))?;
                read.insert(name.clone(), self.schema(schema, direction, depth)?);
            }
            return Ok(read.into());
        }
        if IN_LIST.contains(&word)
            && let Some(schemas) = value.as_array()
        {
            let schemas = schemas
                .iter()
                .map(|schema| self.schema(schema, direction, depth));
            return Ok(schemas.collect::<Result<Vec<_>, _>>()?.into());
        }
        if ONE.contains(&word) {
            return self.schema(value, direction, depth);
        }
        self.plain(value)
    }

    fn plain(&mut self, value: &Value) -> Result<Value, String> {
        self.take(size(value))?;
        Ok(value.clone())
    }
}

/// In values. A document is nested less deep than its reader allows.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text_size(text),
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| text_size(name) + size(value);
            1 + fields.iter().map(field).sum::<usize>()
        }
        _ => 1,
    }
}

fn text_size(text: &str) -> usize {
    1 + text.len() / TEXT_BYTES_OF_VALUE
}

/// A server makes them itself.
fn without_answers(schema: &mut Map<String, Value>) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let is_answer = |schema: &Value| schema.get("readOnly").is_some_and(|it| it == true);
    let dropped: Vec<String> = properties
        .iter()
        .filter(|(_, schema)| is_answer(schema))
        .map(|(name, _)| name.clone())
        .collect();
    properties.retain(|_, schema| !is_answer(schema));
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !dropped.iter().any(|dropped| name == dropped.as_str()));
    }
}

/// OpenAPI 3.0 says whether a bound is exclusive beside it.
fn bounds(schema: &mut Map<String, Value>) {
    for (exclusive, bound) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        match schema.get(exclusive).and_then(Value::as_bool) {
            Some(true) => match schema.remove(bound) {
                Some(value) => drop(schema.insert(exclusive.to_owned(), value)),
                None => drop(schema.remove(exclusive)),
            },
            Some(false) => drop(schema.remove(exclusive)),
            None => {}
        }
    }
}

fn nullable(mut schema: Map<String, Value>) -> Value {
    match schema.get_mut("type") {
        Some(Value::String(kind)) => {
            let kind = std::mem::take(kind);
            schema.insert("type".to_owned(), json!([kind, "null"]));
            if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut)
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
            schema.into()
        }
        _ => json!({ "anyOf": [schema, { "type": "null" }] }),
    }
}
