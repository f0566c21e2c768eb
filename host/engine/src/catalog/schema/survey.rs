//! A pass over the document of one JSON Schema before its references are resolved. It checks that the document is one
//! resource, and that its JSON Pointers are short enough to be kept.

use std::collections::{HashMap, HashSet};

use anyhow::{bail, ensure};
use referencing::Draft;
use serde_json::{Map, Value};

use crate::catalog::words::{SubschemaKind, below};
use toolcell_spec::TypedFields;

/// Maximum size of the JSON Pointers of all keywords of one schema, in bytes. The evaluator keeps one for each keyword,
/// and a name of a megabyte is part of every pointer below it.
const PLACE_BYTES_MAX: usize = 64 << 20;

/// The result of the pass over a document.
#[derive(Debug, Default)]
pub(super) struct SchemaSurvey<'s> {
    /// The address of every value.
    values: HashSet<*const Value>,
    /// The subschemas that have an anchor, by its name.
    named: HashMap<&'s str, *const Value>,
    /// Size of the JSON Pointers of all keywords, in bytes.
    place_bytes: usize,
}

/// The position of a value in a schema.
#[derive(Clone, Copy, PartialEq)]
enum SchemaPosition {
    Schema,
    /// A map or a list of schemas.
    Schemas,
    /// Data, even if it looks like a schema: in `const`, `enum`, `default`, `examples` and unknown keywords.
    Data,
}

impl<'s> SchemaSurvey<'s> {
    /// Visits every value of `schema` once.
    pub(super) fn from_schema(schema: &'s Value) -> anyhow::Result<Self> {
        let mut survey = Self::default();
        survey.value(schema, SchemaPosition::Schema, 0)?;
        Ok(survey)
    }

    /// Returns whether `value` is part of the document.
    pub(super) fn holds(&self, value: &Value) -> bool {
        self.values.contains(&std::ptr::from_ref(value))
    }

    /// Size of the JSON Pointers of all keywords, in bytes.
    pub(super) fn place_bytes(&self) -> usize {
        self.place_bytes
    }

    /// Visits `value`. `path` is the size of the JSON Pointer to it, in bytes; 0 for the whole document.
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

    /// Collects anchors. Each name must denote one subschema, so that a dynamic reference has one target.
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

/// Refuses `fields` of a subschema that begins a resource of its own. The evaluator compiles a subschema once for each
/// path to it through other resources, and a few resources have too many paths to count. Subschemas of older drafts are
/// refused too, because those begin a resource with another keyword.
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
