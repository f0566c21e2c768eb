//! One compiled JSON Schema 2020-12: no remote references, patterns in linear time, bounded checks. Schema and value
//! are untrusted and the evaluator cannot be stopped, so the work is counted before it is done.

mod bounded_schema;
mod bounds;
mod differ;
mod estimate;
mod graph;
mod lazy;
mod record_schema;
mod survey;
mod violation;

use std::fmt;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use estimate::{CheckBudget, DEPTH_MAX, ExceededLimit};
use graph::SchemaGraph;
use violation::{UnionTags, Violation};

use super::load::LoadBudget;
use toolcell_spec::regex_search::ENGINE_BYTES_MAX;

pub use bounded_schema::{BoundedSchema, SCHEMA_STACK_BYTES};
pub(super) use lazy::LazySchema;
pub use record_schema::RecordSchema;
pub(super) use violation::json_text;

const VIOLATIONS_MAX: usize = 5;
/// In units: up to a quarter of a second.
const WORK_MAX: u64 = 4_000_000;
/// In units of work, for checks that collect all violations: each takes memory.
const COLLECTED_MAX: u64 = 50_000;
/// In bytes: each violation's JSON Pointer holds the names of everything above it.
const PLACES_BYTES_MAX: u64 = 32 << 20;
/// In characters.
const SHOWN_MAX: usize = 300;
/// In units, for a check on the caller's thread: 1 ms.
const LIGHT_MAX: u64 = 20_000;
/// For a check on the caller's thread.
const LIGHT_DEPTH_MAX: u32 = 48;

#[derive(Debug)]
pub(super) struct AcceptedSchema {
    validator: Validator,
    graph: SchemaGraph,
    tags: UnionTags,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckFailure {
    Mismatch(Violations),
    /// The check would cost too much.
    Costly(String),
}

/// Violations of a schema, and their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations {
    pub message: String,
    /// JSON Pointers, of a missing property its own.
    pub pointers: Vec<String>,
}

impl CheckFailure {
    /// Says of the whole value that it is wrong.
    pub fn whole(message: impl Into<String>) -> Self {
        Self::Mismatch(Violations {
            message: message.into(),
            pointers: vec![String::new()],
        })
    }

    /// JSON Pointers of what is wrong, as far as known; otherwise of the whole value.
    pub fn pointers(&self) -> &[String] {
        const WHOLE: &[String] = &[String::new()];
        match self {
            Self::Mismatch(violations) => &violations.pointers,
            Self::Costly(_) => WHOLE,
        }
    }
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch(Violations { message, .. }) | Self::Costly(message) => {
                f.write_str(message)
            }
        }
    }
}

impl AcceptedSchema {
    pub(super) fn compile(schema: &Value, budget: &mut LoadBudget) -> anyhow::Result<Self> {
        // The bounds come first, because compiling a schema without bounds is not bounded either.
        let graph = SchemaGraph::read(schema)?;
        budget.take_subschemas(graph.nodes.len())?;
        budget.take_pattern_states(graph.pattern_states)?;
        budget.take_place_bytes(graph.place_bytes)?;
        bounds::measure(&graph)?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex().size_limit(ENGINE_BYTES_MAX))
            .should_validate_formats(false)
            .offline()
            .build(schema)
            .map_err(|error| {
                anyhow::anyhow!(
                    "{error}, at {}",
                    cut(pointer(error.instance_path().as_str()))
                )
            })?;
        Ok(Self {
            validator,
            graph,
            tags: UnionTags::from_schema(schema),
        })
    }

    /// Returns whether a check takes at most 1 ms and little stack. The estimate takes no longer.
    pub(super) fn is_light(&self, value: &Value) -> bool {
        self.takes_at_most(value, LIGHT_MAX)
    }

    pub(super) fn takes_at_most(&self, value: &Value, units: u64) -> bool {
        let budget = CheckBudget {
            units,
            depth: LIGHT_DEPTH_MAX,
            fail_fast: false,
        };
        estimate::within(&self.graph, value, budget).is_ok()
    }

    /// A check that is not light takes up to a quarter of a second and the stack of a thread for checks.
    pub(super) fn check(&self, value: &Value) -> Result<(), CheckFailure> {
        if guard!("schema_work") {
            let budget = CheckBudget {
                units: WORK_MAX,
                depth: DEPTH_MAX,
                fail_fast: true,
            };
            estimate::within(&self.graph, value, budget).map_err(costly)?;
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if !self.may_collect(value) {
            let message = "the value does not satisfy its schema; both are too large to say where";
            return Err(CheckFailure::whole(message));
        }
        Err(CheckFailure::Mismatch(self.violations(value)))
    }

    /// Returns whether collecting violations takes little memory: the evaluator builds a JSON Pointer for each.
    fn may_collect(&self, value: &Value) -> bool {
        let budget = CheckBudget {
            units: COLLECTED_MAX,
            depth: DEPTH_MAX,
            fail_fast: false,
        };
        estimate::within(&self.graph, value, budget)
            .is_ok_and(|work| work.saturating_mul(longest_place(value)) <= PLACES_BYTES_MAX)
    }

    fn violations(&self, value: &Value) -> Violations {
        let errors = self.validator.iter_errors(value).take(VIOLATIONS_MAX);
        let mut problems: Vec<Violation> = errors
            .flat_map(|error| self.tags.describe(&error))
            .collect();
        problems.dedup();
        problems.truncate(VIOLATIONS_MAX);
        let (said, mut pointers): (Vec<_>, Vec<_>) = problems
            .into_iter()
            .map(|problem| (problem.said, problem.pointer))
            .unzip();
        pointers.dedup();
        Violations {
            message: said.join("; "),
            pointers,
        }
    }
}

fn costly(over: ExceededLimit) -> CheckFailure {
    CheckFailure::Costly(match over {
        ExceededLimit::Work => format!(
            "checking the value against its schema takes more than {WORK_MAX} steps, so it was not checked; pass \
             smaller arguments, or simplify the schema"
        ),
        ExceededLimit::Depth => "the value and its schema are nested too deep to be checked; pass a value that is less deep, \
                        or simplify the schema"
            .to_owned(),
    })
}

fn pointer(path: &str) -> &str {
    if path.is_empty() { "the top" } else { path }
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// Upper bound, in bytes.
fn longest_place(value: &Value) -> u64 {
    // An index has at most six digits, because there are no more values.
    const INDEX_BYTES: u64 = 8;
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| INDEX_BYTES + longest_place(item))
            .max()
            .unwrap_or(0),
        Value::Object(fields) => {
            // A `~` or a `/` in a name is escaped with two bytes.
            let below = fields
                .iter()
                .map(|(name, inner)| 1 + 2 * name.len() as u64 + longest_place(inner));
            below.max().unwrap_or(0)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
