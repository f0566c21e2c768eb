//! One JSON Schema 2020-12, compiled: no remote references, patterns in linear time, and a bound on what a check costs.
//! The schema is a guest's, the value a caller's, and the evaluator can neither be stopped nor given a budget: so the
//! work is counted before it is done.

mod bounds;
mod estimate;
mod graph;

use std::fmt;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use bounds::Bounds;
use estimate::Over;
use graph::Graph;

use crate::search::PATTERN_BYTES_MAX;

/// Violations that one error names at the most.
const VIOLATIONS_MAX: usize = 5;
/// Units of work that one check may take: up to a quarter of a second.
const WORK_MAX: u64 = 4_000_000;
/// Units of work up to which all violations are collected: each takes memory.
const COLLECTED_MAX: u64 = 50_000;
/// Units of work that a caller may wait for in place: a millisecond.
const LIGHT_MAX: u64 = 20_000;
/// Subschemas that lie in each other in a check that is done in place.
const LIGHT_DEPTH_MAX: usize = 48;

/// A schema that was accepted.
#[derive(Debug)]
pub(super) struct Schema {
    validator: Validator,
    graph: Graph,
    bounds: Bounds,
}

/// Why a value was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsatisfied {
    /// What is wrong with the value.
    Mismatch(String),
    /// Finding that out would cost too much.
    Costly(String),
}

impl fmt::Display for Unsatisfied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch(message) | Self::Costly(message) => f.write_str(message),
        }
    }
}

impl Schema {
    /// Compiles `schema`. An error names the place of what is wrong, or the bound that it exceeds.
    pub(super) fn compile(schema: &Value) -> anyhow::Result<Self> {
        // First, because compiling a schema without bounds has none either.
        let graph = Graph::read(schema)?;
        let bounds = bounds::measure(&graph)?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
            .should_validate_formats(false)
            .offline()
            .build(schema)
            .map_err(|error| anyhow::anyhow!("{error}, at {}", pointer(error.instance_path().as_str())))?;
        Ok(Self { validator, graph, bounds })
    }

    /// Whether any value of at most `bytes` bytes of JSON text is checked in a millisecond, and with little stack.
    pub(super) fn is_light(&self, bytes: usize) -> bool {
        let Bounds { per_value, per_byte, depth } = self.bounds;
        let bytes = bytes as u64;
        let work =
            per_value.map(|work| work.saturating_mul(bytes / 2 + 2).saturating_add(per_byte.saturating_mul(bytes)));
        depth <= LIGHT_DEPTH_MAX && work.is_some_and(|work| work <= LIGHT_MAX)
    }

    /// What is wrong with `value`, whose JSON text has at most `bytes` bytes. Where it is not light, this takes up to
    /// a quarter of a second and the stack of a thread for checks.
    pub(super) fn check(&self, value: &Value, bytes: usize) -> Result<(), Unsatisfied> {
        let light = self.is_light(bytes);
        if !light && guard!("schema_work") {
            estimate::within(&self.graph, value, WORK_MAX, true).map_err(costly)?;
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if !light && guard!("schema_errors") && estimate::within(&self.graph, value, COLLECTED_MAX, false).is_err() {
            let message = "the value does not satisfy its schema; both are too large to say where";
            return Err(Unsatisfied::Mismatch(message.to_owned()));
        }
        Err(Unsatisfied::Mismatch(self.violations(value)))
    }

    /// The first violations, in words.
    fn violations(&self, value: &Value) -> String {
        let mut problems: Vec<String> = self
            .validator
            .iter_errors(value)
            .take(VIOLATIONS_MAX)
            .map(|error| {
                let at = pointer(error.instance_path().as_str()).to_owned();
                format!("{} (at {at})", cut(&error.masked_with("the value").to_string()))
            })
            .collect();
        problems.dedup();
        problems.join("; ")
    }
}

fn costly(over: Over) -> Unsatisfied {
    Unsatisfied::Costly(match over {
        Over::Work => format!(
            "checking the value against its schema takes more than {WORK_MAX} steps, so it was not checked; pass \
             smaller arguments, or simplify the schema"
        ),
        Over::Depth => "the value and its schema are nested too deep to be checked; pass a value that is less deep, \
                        or simplify the schema"
            .to_owned(),
    })
}

fn pointer(path: &str) -> &str {
    if path.is_empty() { "the top" } else { path }
}

fn cut(text: &str) -> String {
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests;
