//! What it would cost to check one value, counted before it is done: the evaluator cannot be stopped. Each subschema is
//! counted once for each value, so that the count is quick where the check would not be.

use std::collections::HashMap;

use serde_json::Value;

use super::graph::{Graph, Node, NodeId, type_of};

/// Steps that a count takes.
const STEPS_MAX: u64 = 4_000_000;
/// Pairs of a subschema and a value that a count remembers.
const PAIRS_MAX: usize = 400_000;
/// Subschemas that lie in each other while a value is checked. The threads for checks have stack for this many.
const DEPTH_MAX: u32 = 1_000;
/// Integers that are this far from zero may have the same hash as others.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Integers beyond [`EXACT_MAX`] that have the same hash, halved.
const SAME_HASH: u64 = 1_024;

/// What an estimate exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Work,
    Depth,
}

/// Whether a check of `value` by the whole of `graph` takes at most `units` of work. With `fail_fast` a subschema of
/// another type costs nothing more: that is how validity is checked, and not how errors are collected.
pub(super) fn within(graph: &Graph, value: &Value, units: u64, fail_fast: bool) -> Result<(), Over> {
    let mut count = Count { graph, known: HashMap::new(), steps: 0, units, fail_fast };
    count.of(0, value, 0).map(|_| ())
}

#[derive(Clone, Copy, Default)]
struct Work {
    check: u64,
    mark: u64,
    /// Subschemas that lie in each other.
    height: u32,
}

struct Count<'s> {
    graph: &'s Graph,
    /// By subschema, and by the address of the value.
    known: HashMap<(NodeId, *const Value), Work>,
    steps: u64,
    units: u64,
    fail_fast: bool,
}

impl Count<'_> {
    fn of(&mut self, id: NodeId, value: &Value, depth: u32) -> Result<Work, Over> {
        let Some(node) = self.graph.get(id) else { return Ok(Work::default()) };
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Over::Work);
        }
        let own = self.own(node, value);
        if own > self.units {
            return Err(Over::Work);
        }
        let applies = node.types.is_none_or(|types| types & type_of(value) != 0);
        if node.is_leaf() || (self.fail_fast && !applies) {
            return Ok(Work { check: own, mark: 0, height: 1 });
        }
        if depth >= DEPTH_MAX {
            return Err(Over::Depth);
        }
        let key = (id, std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&key) {
            return if depth + known.height > DEPTH_MAX { Err(Over::Depth) } else { Ok(*known) };
        }
        let work = self.whole(node, own, value, depth + 1)?;
        if work.check > self.units || self.known.len() >= PAIRS_MAX {
            return Err(Over::Work);
        }
        self.known.insert(key, work);
        Ok(work)
    }

    /// The work of `node` with everything that it applies.
    fn whole(&mut self, node: &Node, own: u64, value: &Value, depth: u32) -> Result<Work, Over> {
        let mut work = Work { check: own, mark: own, height: 1 };
        for inner in &node.in_place {
            let inner = self.of(*inner, value, depth)?;
            work.height = work.height.max(inner.height + 1);
            work.check = work.check.saturating_add(inner.check);
            work.mark = work.mark.saturating_add(inner.check).saturating_add(inner.mark);
            if work.check > self.units {
                return Err(Over::Work);
            }
        }
        let (parts, height) = self.parts(node, value, depth)?;
        work.height = work.height.max(height + 1);
        work.check = work.check.saturating_add(parts);
        if node.contains || node.unevaluated {
            work.mark = work.mark.saturating_add(parts);
        }
        if node.unevaluated {
            work.check = work.check.saturating_add(work.mark);
        }
        Ok(work)
    }

    /// The work of everything that `node` applies to parts of `value`, and how high that is.
    fn parts(&mut self, node: &Node, value: &Value, depth: u32) -> Result<(u64, u32), Over> {
        let (mut work, mut height): (u64, u32) = (0, 0);
        let mut add = |inner: Work| {
            work = work.saturating_add(inner.check);
            height = height.max(inner.height);
        };
        match value {
            Value::Object(fields) => {
                for (name, inner) in fields {
                    let named = node.properties.get(name);
                    for id in named.into_iter().chain(&node.every_property) {
                        add(self.of(*id, inner, depth)?);
                    }
                    for id in &node.names {
                        add(self.name(*id, name)?);
                    }
                    self.steps += 1;
                }
            }
            Value::Array(items) => {
                for (at, inner) in items.iter().enumerate() {
                    for id in node.prefix.get(at).into_iter().chain(&node.every_item) {
                        add(self.of(*id, inner, depth)?);
                    }
                    self.steps += 1;
                }
            }
            _ => {}
        }
        if work > self.units { Err(Over::Work) } else { Ok((work, height)) }
    }

    /// The work of a subschema for the name of a property. Not remembered: the name has no place of its own.
    fn name(&mut self, id: NodeId, name: &str) -> Result<Work, Over> {
        let mut count =
            Count { graph: self.graph, known: HashMap::new(), steps: self.steps, units: self.units, fail_fast: false };
        let work = count.of(id, &Value::String(name.to_owned()), DEPTH_MAX / 2)?;
        self.steps = count.steps;
        Ok(work)
    }

    /// The work of `node` alone.
    fn own(&mut self, node: &Node, value: &Value) -> u64 {
        let bytes = match value {
            Value::String(text) => node.per_byte.saturating_mul(text.len() as u64),
            Value::Object(fields) if node.per_name_byte > 0 => {
                let bytes: usize = fields.keys().map(String::len).sum();
                node.per_name_byte.saturating_mul((bytes + fields.len()) as u64)
            }
            Value::Array(items) if node.unique_items => {
                let (values, far) = items.iter().fold((0, false), |so_far, item| sized(item, so_far));
                self.steps += values / 8;
                // Items that have the same hash are compared with each other.
                let each = if far { SAME_HASH.min(items.len() as u64) } else { 8 };
                values.saturating_mul(each) / 8
            }
            _ => 0,
        };
        node.weight.saturating_add(bytes)
    }
}

/// How many values lie in `value`, and whether a far integer is among them.
fn sized(value: &Value, (values, far): (u64, bool)) -> (u64, bool) {
    match value {
        Value::Array(items) => items.iter().fold((values + 1, far), |so_far, item| sized(item, so_far)),
        Value::Object(fields) => fields.values().fold((values + 1, far), |so_far, item| sized(item, so_far)),
        Value::Number(number) => (values + 1, far || number.as_f64().is_none_or(|number| number.abs() >= EXACT_MAX)),
        Value::String(text) => (values + 1 + (text.len() / 64) as u64, far),
        _ => (values + 1, far),
    }
}
