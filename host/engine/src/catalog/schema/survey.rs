//! A pass over one JSON Schema before references are resolved: the document must be one resource, with JSON Pointers
//! short enough to be kept.

use std::collections::{HashMap, HashSet};

use anyhow::{bail, ensure};
use referencing::Draft;
use serde_json::{Map, Value};

use crate::catalog::words::{SubschemaKind, below};
use toolcell_spec::TypedFields;

/// JSON Pointers of one schema, in bytes: the evaluator keeps one per keyword, and a name of a megabyte is part of
/// every one below it.
const PLACE_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct SchemaSurvey<'s> {
    values: HashSet<*const Value>,
    named: HashMap<&'s str, *const Value>,
    place_bytes: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum SchemaPosition {
    Schema,
    /// A map or a list of schemas.
    Schemas,
    /// In `const`, `enum`, `default`, `examples` and unknown keywords, even if it looks like a schema.
    Data,
}

impl<'s> SchemaSurvey<'s> {
    pub(super) fn from_schema(schema: &'s Value) -> anyhow::Result<Self> {
        let mut survey = Self::default();
        survey.value(schema, SchemaPosition::Schema, 0)?;
        Ok(survey)
    }

    pub(super) fn holds(&self, value: &Value) -> bool {
        self.values.contains(&std::ptr::from_ref(value))
    }

    pub(super) fn place_bytes(&self) -> usize {
        self.place_bytes
    }

    /// `path` is the size of its JSON Pointer in bytes; 0 for the document.
    fn value(
        &mut self,
        value: &'s Value,
        position: SchemaPosition,
        path: usize,
    ) -> anyhow::Result<()> {
        self.values.insert(std::ptr::from_ref(value));
        let keywords = value.as_object().map_or(0, Map::len);
        self.place_bytes = self
            .place_bytes
            .saturating_add(path.saturating_mul(keywords + 1));
        ensure!(
            self.place_bytes <= PLACE_BYTES_MAX,
            "the places of its keywords together take more than {PLACE_BYTES_MAX} bytes; use shorter names of properties"
        );
        match value {
            Value::Object(fields) => {
                if position == SchemaPosition::Schema {
                    if path > 0 {
                        same_resource(fields)?;
                    }
                    self.names(value, fields)?;
                }
                for (name, inner) in fields {
                    let position = match position {
                        SchemaPosition::Schema => match below(name, inner) {
                            SubschemaKind::Named | SubschemaKind::Listed => SchemaPosition::Schemas,
                            SubschemaKind::One => SchemaPosition::Schema,
                            SubschemaKind::Other => SchemaPosition::Data,
                        },
                        SchemaPosition::Schemas => SchemaPosition::Schema,
                        SchemaPosition::Data => SchemaPosition::Data,
                    };
                    self.value(inner, position, path + 1 + name.len())?;
                }
            }
            Value::Array(items) => {
                let position = if position == SchemaPosition::Schemas {
                    SchemaPosition::Schema
                } else {
                    SchemaPosition::Data
                };
                for (at, inner) in items.iter().enumerate() {
                    let digits = at.checked_ilog10().map_or(1, |more| 1 + more as usize);
                    self.value(inner, position, path + 1 + digits)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A name denotes only one subschema, so that a dynamic reference has one target.
    fn names(&mut self, schema: &'s Value, fields: &'s Map<String, Value>) -> anyhow::Result<()> {
        let address = std::ptr::from_ref(schema);
        for word in ["$anchor", "$dynamicAnchor"] {
            let Some(name) = fields.text(word) else {
                continue;
            };
            let other = self
                .named
                .insert(name, address)
                .is_some_and(|other| other != address);
            if other {
                let shown: String = name.chars().take(100).collect();
                bail!(
                    "`{word}` gives two subschemas the name {shown:?}; give each a name of its own"
                );
            }
        }
        Ok(())
    }
}

/// Refuses a subschema that begins a resource, because the evaluator compiles it once for each path through other
/// resources, too many to count. Older drafts are refused too: another keyword begins a resource there.
pub(super) fn same_resource(fields: &Map<String, Value>) -> anyhow::Result<()> {
    let shown = |text: &str| text.chars().take(100).collect::<String>();
    if let Some(id) = fields.text("$id") {
        bail!(
            "`$id` {:?} inside of a schema is not supported; leave it out, and refer to `#/$defs/..`",
            shown(id)
        );
    }
    if let Some(draft) = fields.text("$schema") {
        ensure!(
            Draft::from_schema_uri(draft) == Draft::Draft202012,
            "`$schema` {:?} inside of a schema is not supported; leave it out: all of a schema is read as draft 2020-12",
            shown(draft)
        );
    }
    Ok(())
}
