//! The cost of a check, counted before it, because the evaluator cannot be stopped. Each subschema counts once per
//! value, so that the count is fast where the check is not.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::differ;
use super::graph::{NodeId, SchemaGraph, SchemaNode, TEXT_BYTES_PER_UNIT, type_of};

/// Pairs of a subschema and a value that a count remembers; a check that needs more is too costly.
const PAIRS_MAX: usize = 400_000;
/// Threads for checks have stack for this many nested subschemas.
pub(super) const DEPTH_MAX: u32 = 1_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct CheckBudget {
    /// Units of work of the check, and steps of the count: it never takes more steps than it finds work.
    pub(super) units: u64,
    pub(super) depth: u32,
    /// `true` if subschemas for other types are free: when checking validity, not when collecting errors.
    pub(super) fail_fast: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    Work,
    Depth,
}

pub(super) fn within(
    graph: &SchemaGraph,
    value: &Value,
    budget: CheckBudget,
) -> Result<u64, ExceededLimit> {
    let mut count = WorkCounter {
        graph,
        known: HashMap::new(),
        steps: 0,
        budget,
    };
    count.estimate(0, value, 0).map(|work| work.check)
}

#[derive(Clone, Copy, Default)]
struct EstimatedWork {
    check: u64,
    mark: u64,
    height: u32,
}

struct WorkCounter<'s> {
    graph: &'s SchemaGraph,
    /// By subschema and address of the value.
    known: HashMap<(NodeId, *const Value), EstimatedWork>,
    steps: u64,
    budget: CheckBudget,
}

impl WorkCounter<'_> {
    fn estimate(
        &mut self,
        id: NodeId,
        value: &Value,
        depth: u32,
    ) -> Result<EstimatedWork, ExceededLimit> {
        let Some(node) = self.graph.get(id) else {
            return Ok(EstimatedWork::default());
        };
        self.step(1)?;
        let applies = node.types.is_none_or(|types| types & type_of(value) != 0);
        let alone = node.is_leaf() || (self.budget.fail_fast && !applies);
        let key = (id, std::ptr::from_ref(value));
        let known = if alone {
            None
        } else {
            self.known.get(&key).copied()
        };
        if let Some(known) = known {
            return if depth + known.height > self.budget.depth {
                Err(ExceededLimit::Depth)
            } else {
                Ok(known)
            };
        }
        let own = self.own(node, value)?;
        if alone {
            return Ok(EstimatedWork {
                check: own,
                mark: 0,
                height: 1,
            });
        }
        if depth >= self.budget.depth {
            return Err(ExceededLimit::Depth);
        }
        let work = self.whole(node, own, value, depth + 1)?;
        if work.check > self.budget.units || self.known.len() >= PAIRS_MAX {
            return Err(ExceededLimit::Work);
        }
        self.known.insert(key, work);
        Ok(work)
    }

    fn step(&mut self, steps: u64) -> Result<(), ExceededLimit> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.budget.units {
            Err(ExceededLimit::Work)
        } else {
            Ok(())
        }
    }

    fn whole(
        &mut self,
        node: &SchemaNode,
        own: u64,
        value: &Value,
        depth: u32,
    ) -> Result<EstimatedWork, ExceededLimit> {
        let mut work = EstimatedWork {
            check: own,
            mark: own,
            height: 1,
        };
        for inner in &node.in_place {
            let inner = self.estimate(*inner, value, depth)?;
            work.height = work.height.max(inner.height + 1);
            work.check = work.check.saturating_add(inner.check);
            work.mark = work
                .mark
                .saturating_add(inner.check)
                .saturating_add(inner.mark);
            if work.check > self.budget.units {
                return Err(ExceededLimit::Work);
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

    fn parts(
        &mut self,
        node: &SchemaNode,
        value: &Value,
        depth: u32,
    ) -> Result<(u64, u32), ExceededLimit> {
        let mut work: u64 = 0;
        let mut height: u32 = 0;
        let mut add = |inner: EstimatedWork| {
            work = work.saturating_add(inner.check);
            height = height.max(inner.height);
        };
        match value {
            // The names were counted as the node's own work.
            Value::Object(fields) if node.name_words() > 0 => {
                for (name, inner) in fields {
                    let named = node.properties.get(name);
                    for id in named.into_iter().chain(&node.every_property) {
                        add(self.estimate(*id, inner, depth)?);
                    }
                    for id in &node.names {
                        add(self.name(*id, name, depth)?);
                    }
                }
            }
            Value::Array(items) => {
                for (id, inner) in node.prefix.iter().zip(items) {
                    add(self.estimate(*id, inner, depth)?);
                }
                for id in &node.every_item {
                    for inner in items {
                        add(self.estimate(*id, inner, depth)?);
                    }
                }
            }
            _ => {}
        }
        if work > self.budget.units {
            Err(ExceededLimit::Work)
        } else {
            Ok((work, height))
        }
    }

    /// Not remembered, because a property's name has no stable address.
    fn name(&mut self, id: NodeId, name: &str, depth: u32) -> Result<EstimatedWork, ExceededLimit> {
        let budget = CheckBudget {
            fail_fast: false,
            ..self.budget
        };
        let mut count = WorkCounter {
            graph: self.graph,
            known: HashMap::new(),
            steps: self.steps,
            budget,
        };
        let work = count.estimate(id, &Value::String(name.to_owned()), depth)?;
        self.steps = count.steps;
        Ok(work)
    }

    fn own(&mut self, node: &SchemaNode, value: &Value) -> Result<u64, ExceededLimit> {
        let more = match value {
            Value::String(text) => {
                let bytes = text.len() as u64;
                let measured = node.text_words.saturating_mul(units(bytes));
                node.per_byte.saturating_mul(bytes).saturating_add(measured)
            }
            Value::Object(fields) if node.name_words() > 0 => self.names(node, fields)?,
            Value::Array(items) if node.unique_items => {
                let work = differ::work(items, self.budget.units);
                self.step(work)?;
                work
            }
            _ => 0,
        };
        let own = node.weight.saturating_add(more);
        if own > self.budget.units {
            Err(ExceededLimit::Work)
        } else {
            Ok(own)
        }
    }

    /// Counted before any name is read, because names may be long.
    fn names(
        &mut self,
        node: &SchemaNode,
        fields: &Map<String, Value>,
    ) -> Result<u64, ExceededLimit> {
        let bytes: u64 = fields.keys().map(|name| name.len() as u64).sum();
        let count = fields.len() as u64;
        let read = units(bytes)
            .saturating_mul(node.name_words())
            .saturating_add(count);
        self.step(read)?;
        Ok(node
            .per_name_byte
            .saturating_mul(bytes + count)
            .saturating_add(read))
    }
}

fn units(bytes: u64) -> u64 {
    bytes / TEXT_BYTES_PER_UNIT as u64
}
