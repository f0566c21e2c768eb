//! The subschemas of one JSON Schema and their targets. A schema is one resource, because the evaluator compiles a
//! subschema for each path through other resources, and paths can explode.

use std::collections::HashMap;

use anyhow::{Context, bail, ensure};
use jsonschema_regex::to_rust_regex;
use referencing::{Draft, Registry, Resolver, Retrieve, Uri};
use serde_json::{Map, Value};

use super::survey::{SchemaSurvey, same_resource};
use toolcell_spec::TypedFields;
use toolcell_spec::regex_search as search;

const NODES_MAX: usize = 50_000;
const PATTERN_STATES_MAX: usize = 200_000;
/// Automaton steps per unit of work, for one byte of text.
const STATES_PER_UNIT: usize = 8;
/// For measuring, comparing, hashing or copying.
pub(super) const TEXT_BYTES_PER_UNIT: usize = 64;

const BASE: &str = "json-schema:///";

/// Hold one subschema for the value itself.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const IN_PLACE_NAMED: [&str; 2] = ["dependentSchemas", "dependencies"];
const EVERY_PROPERTY: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
const EVERY_ITEM: [&str; 4] = ["items", "additionalItems", "contains", "unevaluatedItems"];
const REFERENCES: [&str; 2] = ["$ref", "$dynamicRef"];

pub(super) type NodeId = usize;

/// The reachable subschemas, root first.
#[derive(Debug)]
pub(super) struct SchemaGraph {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) pattern_states: usize,
    /// JSON Pointers of all keywords, in bytes.
    pub(super) place_bytes: usize,
}

/// One subschema. Weights are in units of work, each at most about 50 ns.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    /// For errors at load time, not for messages of calls.
    parent: Option<NodeId>,
    step: String,
    pub(super) weight: u64,
    /// Work per byte of a string.
    pub(super) per_byte: u64,
    pub(super) per_name_byte: u64,
    /// Keywords that read a whole string: units for each [`TEXT_BYTES_PER_UNIT`].
    pub(super) text_words: u64,
    /// The allowed types, if limited; checked before everything else.
    pub(super) types: Option<u8>,
    pub(super) unique_items: bool,
    /// `true` if it depends on its neighbors' evaluations, which then run twice.
    pub(super) unevaluated: bool,
    pub(super) contains: bool,
    /// Applied to the value itself.
    pub(super) in_place: Vec<NodeId>,
    pub(super) properties: HashMap<String, NodeId>,
    pub(super) every_property: Vec<NodeId>,
    pub(super) every_item: Vec<NodeId>,
    pub(super) prefix: Vec<NodeId>,
    /// Applied to every property's name.
    pub(super) names: Vec<NodeId>,
}

impl SchemaNode {
    pub(super) fn is_leaf(&self) -> bool {
        self.children().next().is_none() && self.in_place.is_empty()
    }

    /// Lookups or copies of property names: units for each [`TEXT_BYTES_PER_UNIT`].
    pub(super) fn name_words(&self) -> u64 {
        u64::from(!self.properties.is_empty() || !self.every_property.is_empty())
            + u64::from(!self.names.is_empty())
    }

    /// Subschemas for parts of the value.
    pub(super) fn children(&self) -> impl Iterator<Item = NodeId> {
        let lists = [
            &self.every_property,
            &self.every_item,
            &self.prefix,
            &self.names,
        ];
        lists
            .into_iter()
            .flatten()
            .chain(self.properties.values())
            .copied()
    }
}

/// The bit in [`SchemaNode::types`].
pub(super) fn type_of(value: &Value) -> u8 {
    match value {
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Number(_) => 4,
        Value::String(_) => 8,
        Value::Array(_) => 16,
        Value::Object(_) => 32,
    }
}

fn types(value: &Value) -> Option<u8> {
    let bit = |name: &Value| match name.as_str() {
        Some("null") => Some(1),
        Some("boolean") => Some(2),
        Some("number" | "integer") => Some(4),
        Some("string") => Some(8),
        Some("array") => Some(16),
        Some("object") => Some(32),
        _ => None,
    };
    match value {
        Value::Array(names) => names.iter().try_fold(0, |all, name| Some(all | bit(name)?)),
        name => bit(name),
    }
}

impl SchemaGraph {
    pub(super) fn read(schema: &Value) -> anyhow::Result<Self> {
        let survey = SchemaSurvey::from_schema(schema)?;
        let id = schema.text("$id").unwrap_or(BASE);
        let base =
            referencing::uri::resolve_against(&referencing::uri::from_str(BASE)?.borrow(), id)?;
        let registry = Registry::new()
            .retriever(NoOther)
            .draft(Draft::Draft202012)
            .add(base.as_str(), schema)?;
        let registry = registry.prepare()?;
        let root = registry.resolver(base).lookup("#")?;
        let place_bytes = survey.place_bytes();
        let mut reader = GraphReader {
            survey,
            nodes: Vec::new(),
            known: HashMap::new(),
            open: Vec::new(),
            states: 0,
        };
        let (contents, resolver, _) = root.into_inner();
        reader.node(None, String::new(), contents, resolver)?;
        while let Some((id, contents, resolver)) = reader.open.pop() {
            reader
                .keywords(id, contents, &resolver)
                .with_context(|| format!("at {}", place(&reader.nodes, id)))?;
        }
        Ok(Self {
            nodes: reader.nodes,
            pattern_states: reader.states,
            place_bytes,
        })
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&SchemaNode> {
        self.nodes.get(id)
    }

    pub(super) fn place(&self, id: NodeId) -> String {
        place(&self.nodes, id)
    }
}

const STEPS_SHOWN: usize = 12;

fn place(nodes: &[SchemaNode], id: NodeId) -> String {
    let mut steps = Vec::new();
    let mut at = nodes.get(id);
    while let Some(node) = at.filter(|_| steps.len() < STEPS_SHOWN) {
        steps.push(node.step.as_str());
        at = node.parent.and_then(|parent| nodes.get(parent));
    }
    if at.is_some_and(|node| node.parent.is_some()) {
        steps.push("..");
    }
    let path: String = steps.iter().rev().copied().collect();
    if path.is_empty() {
        "the top".to_owned()
    } else {
        path
    }
}

/// Refuses every URI, so that no schema is fetched.
pub(super) struct NoOther;

impl Retrieve for NoOther {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} is not fetched").into())
    }
}

struct GraphReader<'s> {
    survey: SchemaSurvey<'s>,
    nodes: Vec<SchemaNode>,
    /// By address of the subschema.
    known: HashMap<*const Value, NodeId>,
    open: Vec<(NodeId, &'s Value, Resolver<'s>)>,
    states: usize,
}

impl<'s> GraphReader<'s> {
    fn node(
        &mut self,
        parent: Option<NodeId>,
        step: String,
        contents: &'s Value,
        resolver: Resolver<'s>,
    ) -> anyhow::Result<NodeId> {
        if let Some(known) = self.known.get(&std::ptr::from_ref(contents)) {
            return Ok(*known);
        }
        ensure!(
            self.nodes.len() < NODES_MAX,
            "it has more than {NODES_MAX} subschemas"
        );
        let id = self.nodes.len();
        self.nodes.push(SchemaNode {
            parent,
            step,
            weight: 1,
            ..SchemaNode::default()
        });
        self.known.insert(std::ptr::from_ref(contents), id);
        self.open.push((id, contents, resolver));
        Ok(id)
    }

    fn keywords(
        &mut self,
        id: NodeId,
        contents: &'s Value,
        resolver: &Resolver<'s>,
    ) -> anyhow::Result<()> {
        let Value::Object(fields) = contents else {
            return Ok(());
        };
        ensure!(
            !fields.contains_key("$recursiveRef"),
            "`$recursiveRef` is of an older draft; use `$dynamicRef`"
        );
        if id > 0 {
            // A reference can also lead to a value that the survey treats as data.
            same_resource(fields)?;
        }
        let resolver = resolver.in_subresource(Draft::Draft202012.create_resource_ref(contents))?;
        let mut node = self.asserted(fields)?;
        for word in IN_PLACE {
            node.in_place.extend(self.one(id, fields, word, &resolver)?);
        }
        for word in IN_PLACE_LISTS {
            node.in_place
                .extend(self.list(id, fields, word, &resolver)?);
        }
        for word in IN_PLACE_NAMED {
            node.in_place
                .extend(self.named(id, fields, word, &resolver)?.into_values());
        }
        for word in REFERENCES {
            if let Some(reference) = fields.text(word) {
                node.in_place
                    .push(self.target(id, word, reference, &resolver)?);
            }
        }
        node.properties = self.named(id, fields, "properties", &resolver)?;
        node.every_property = self
            .named(id, fields, "patternProperties", &resolver)?
            .into_values()
            .collect();
        for word in EVERY_PROPERTY {
            node.every_property
                .extend(self.one(id, fields, word, &resolver)?);
        }
        for word in EVERY_ITEM {
            node.every_item
                .extend(self.one(id, fields, word, &resolver)?);
        }
        // In older drafts, `items` may be a list.
        node.prefix = self.list(id, fields, "prefixItems", &resolver)?;
        node.prefix
            .extend(self.list(id, fields, "items", &resolver)?);
        node.names
            .extend(self.one(id, fields, "propertyNames", &resolver)?);
        node.weight += (node.properties.len() + node.prefix.len()) as u64;
        if let Some(slot) = self.nodes.get_mut(id) {
            let parent = slot.parent;
            let step = std::mem::take(&mut slot.step);
            *slot = SchemaNode {
                parent,
                step,
                ..node
            };
        }
        Ok(())
    }

    fn asserted(&mut self, fields: &Map<String, Value>) -> anyhow::Result<SchemaNode> {
        let mut node = SchemaNode {
            weight: 1 + fields.len() as u64,
            ..SchemaNode::default()
        };
        node.types = fields.get("type").and_then(types);
        node.unique_items = fields.get("uniqueItems") == Some(&Value::Bool(true));
        node.contains = fields.contains_key("contains");
        node.unevaluated =
            fields.contains_key("unevaluatedProperties") || fields.contains_key("unevaluatedItems");
        for word in [
            "enum",
            "const",
            "required",
            "dependentRequired",
            "dependencies",
        ] {
            node.weight = node
                .weight
                .saturating_add(fields.get(word).map_or(0, compared));
        }
        // Each name is looked up, even in a value that lacks it.
        for word in ["properties", "patternProperties", "dependentSchemas"] {
            let names = fields.fields(word).into_iter().flat_map(Map::keys);
            node.weight = node
                .weight
                .saturating_add(names.map(|name| text_units(name)).sum());
        }
        let measured = ["minLength", "maxLength", "enum", "const"]
            .iter()
            .filter(|word| fields.contains_key(**word));
        node.text_words = measured.count() as u64;
        if let Some(pattern) = fields.text("pattern") {
            node.per_byte = self.pattern(pattern)?;
        }
        for pattern in fields
            .fields("patternProperties")
            .into_iter()
            .flat_map(Map::keys)
        {
            node.per_name_byte += self.pattern(pattern)?;
        }
        Ok(node)
    }

    fn one(
        &mut self,
        id: NodeId,
        fields: &'s Map<String, Value>,
        word: &str,
        resolver: &Resolver<'s>,
    ) -> anyhow::Result<Option<NodeId>> {
        match fields.get(word) {
            Some(inner @ (Value::Object(_) | Value::Bool(_))) => self
                .node(Some(id), format!("/{word}"), inner, resolver.clone())
                .map(Some),
            _ => Ok(None),
        }
    }

    fn list(
        &mut self,
        id: NodeId,
        fields: &'s Map<String, Value>,
        word: &str,
        resolver: &Resolver<'s>,
    ) -> anyhow::Result<Vec<NodeId>> {
        let items = fields.list(word).iter().enumerate();
        items
            .map(|(at, inner)| {
                self.node(Some(id), format!("/{word}/{at}"), inner, resolver.clone())
            })
            .collect()
    }

    fn named(
        &mut self,
        id: NodeId,
        fields: &'s Map<String, Value>,
        word: &str,
        resolver: &Resolver<'s>,
    ) -> anyhow::Result<HashMap<String, NodeId>> {
        let mut named = HashMap::new();
        for (name, inner) in fields.fields(word).into_iter().flatten() {
            // `dependencies` may hold lists of names.
            if inner.is_object() || inner.is_boolean() {
                let short: String = name.chars().take(64).collect();
                let step = format!("/{word}/{}", short.replace('~', "~0").replace('/', "~1"));
                named.insert(
                    name.clone(),
                    self.node(Some(id), step, inner, resolver.clone())?,
                );
            }
        }
        Ok(named)
    }

    /// A dynamic reference has a plain one's target, because the schema is one resource.
    fn target(
        &mut self,
        id: NodeId,
        word: &str,
        reference: &str,
        resolver: &Resolver<'s>,
    ) -> anyhow::Result<NodeId> {
        let shown: String = reference.chars().take(100).collect();
        let found = resolver
            .lookup(reference)
            .with_context(|| format!("{word} {shown:?} leads nowhere"))?;
        let (contents, target, _) = found.into_inner();
        // The meta-schemas of JSON Schema are built in, and their recursion cannot be bounded well.
        let own = self.survey.holds(contents);
        ensure!(
            own,
            "{word} {shown:?} leads out of the schema; copy what it refers to into `$defs`"
        );
        self.node(Some(id), format!("/{word}"), contents, target)
    }

    fn pattern(&mut self, pattern: &str) -> anyhow::Result<u64> {
        let shown: String = pattern.chars().take(100).collect();
        let Ok(translated) = to_rust_regex(pattern) else {
            bail!("the pattern {shown:?} is not supported")
        };
        let states = search::states(&translated)
            .with_context(|| format!("the pattern {shown:?} is too large or not valid"))?;
        self.states = self.states.saturating_add(states);
        ensure!(
            self.states <= PATTERN_STATES_MAX,
            "its patterns together take more than {PATTERN_STATES_MAX} states; the last one is {shown:?}"
        );
        Ok(states.div_ceil(STATES_PER_UNIT) as u64)
    }
}

fn text_units(text: &str) -> u64 {
    (text.len() / TEXT_BYTES_PER_UNIT) as u64
}

fn compared(options: &Value) -> u64 {
    match options {
        Value::String(text) => 1 + text_units(text),
        Value::Array(items) => 1 + items.iter().map(compared).sum::<u64>(),
        Value::Object(fields) => {
            1 + fields
                .iter()
                .map(|(name, value)| text_units(name) + compared(value))
                .sum::<u64>()
        }
        _ => 1,
    }
}
