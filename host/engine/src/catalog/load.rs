//! Limits on the cost of loading one component. Each schema has limits of its own, but a component may have hundreds of
//! tools, and all of them may refer to one interface.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

/// Maximum number of subschemas in all schemas of one component: five times the limit of one schema.
const SUBSCHEMAS_MAX: usize = 250_000;
/// Maximum number of automaton states of all patterns of one component, in schemas and in redaction rules: five times
/// the limit of one schema.
const PATTERN_STATES_MAX: usize = 1_000_000;
/// Maximum size of the JSON Pointers of all keywords of one component, in bytes: five times the limit of one schema.
const PLACE_BYTES_MAX: usize = 320 << 20;
/// Maximum size of what replaces references in the listings of one component, in bytes of JSON text.
const LISTED_BYTES_MAX: usize = 8 << 20;
/// Maximum number of examples of one component that may take long to check, each up to a quarter of a second.
const HEAVY_EXAMPLES_MAX: usize = 16;

/// The remaining budget for loading one component.
#[derive(Debug)]
pub(super) struct LoadBudget {
    subschemas: usize,
    pattern_states: usize,
    place_bytes: usize,
    listed_bytes: usize,
    heavy_examples: usize,
    wall: Duration,
    /// The deadline; `None` if it lies too far in the future for an `Instant`.
    until: Option<Instant>,
    exceeded: bool,
    /// `true` if the component was accepted before, within such a budget.
    accepted: bool,
}

impl LoadBudget {
    /// The budget of one component that is loaded now, for at most `wall`.
    pub(super) fn new(wall: Duration) -> Self {
        Self {
            subschemas: SUBSCHEMAS_MAX,
            pattern_states: PATTERN_STATES_MAX,
            place_bytes: PLACE_BYTES_MAX,
            listed_bytes: LISTED_BYTES_MAX,
            heavy_examples: HEAVY_EXAMPLES_MAX,
            wall,
            until: Instant::now().checked_add(wall),
            exceeded: false,
            accepted: false,
        }
    }

    /// The budget of a component that was accepted before: its schemas are compiled when they are first needed, and its
    /// examples are not checked again.
    pub(super) fn accepted() -> Self {
        Self {
            accepted: true,
            ..Self::new(Duration::MAX)
        }
    }

    /// Returns whether the component was accepted before.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Returns whether a limit was exceeded; the rest of the component is then not read.
    pub(super) fn is_exceeded(&self) -> bool {
        self.exceeded
    }

    /// Takes `count` subschemas.
    pub(super) fn take_subschemas(&mut self, count: usize) -> anyhow::Result<()> {
        self.subschemas = self.left(self.subschemas, count, || {
            format!(
                "all schemas of the component together have more than {SUBSCHEMAS_MAX} subschemas; simplify them, or make \
                 several components of it"
            )
        })?;
        self.in_time()
    }

    /// Takes `count` states of the automata of patterns.
    pub(super) fn take_pattern_states(&mut self, count: usize) -> anyhow::Result<()> {
        self.pattern_states = self.left(self.pattern_states, count, || {
            format!(
                "all patterns of the component together take more than {PATTERN_STATES_MAX} states; use smaller \
                 repetitions, or make several components of it"
            )
        })?;
        self.in_time()
    }

    /// Takes `count` bytes of the JSON Pointers of keywords.
    pub(super) fn take_place_bytes(&mut self, count: usize) -> anyhow::Result<()> {
        self.place_bytes = self.left(self.place_bytes, count, || {
            format!(
                "the places of all keywords of the component together take more than {PLACE_BYTES_MAX} bytes; use shorter \
                 names of properties"
            )
        })?;
        Ok(())
    }

    /// Takes `count` bytes of what replaces references in listings; `false` if they, or the time, are used up. The rest of
    /// the component is read nevertheless, because a listing can be shorter.
    pub(super) fn take_listed_bytes(&mut self, count: usize) -> bool {
        match self.listed_bytes.checked_sub(count) {
            Some(left) if self.until.is_none_or(|until| Instant::now() < until) => {
                self.listed_bytes = left;
                true
            }
            _ => false,
        }
    }

    /// Takes one example that may take long to check.
    pub(super) fn take_heavy_example(&mut self) -> anyhow::Result<()> {
        self.heavy_examples = self.left(self.heavy_examples, 1, || {
            format!(
                "more than {HEAVY_EXAMPLES_MAX} examples of the component are too large for their schemas; give smaller ones"
            )
        })?;
        Ok(())
    }

    /// Fails once the time for loading is over.
    pub(super) fn in_time(&mut self) -> anyhow::Result<()> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            self.exceeded = true;
            let wall = self.wall.as_millis();
            bail!(
                "loading the component takes longer than {wall} ms; give it fewer tools, or smaller schemas"
            );
        }
        Ok(())
    }

    fn left(
        &mut self,
        left: usize,
        count: usize,
        over: impl FnOnce() -> String,
    ) -> anyhow::Result<usize> {
        match left.checked_sub(count) {
            Some(left) => Ok(left),
            None => {
                self.exceeded = true;
                Err(anyhow!(over()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use toolcell_spec::dialect::agent_tool::toolkit;

    use super::super::{ComponentFacts, Tool};
    use super::{HEAVY_EXAMPLES_MAX, LoadBudget, PLACE_BYTES_MAX, SUBSCHEMAS_MAX};

    #[test]
    fn a_budget_ends_with_its_time() {
        let mut budget = LoadBudget::new(Duration::ZERO);
        let problem = budget.take_subschemas(1).unwrap_err().to_string();
        assert!(
            problem.contains("longer than 0 ms") && budget.is_exceeded(),
            "{problem}"
        );
        LoadBudget::new(Duration::MAX).in_time().unwrap();
    }

    #[test]
    fn each_part_of_a_budget_is_for_all_schemas() {
        let new = || LoadBudget::new(Duration::MAX);
        let mut budget = new();
        budget.take_subschemas(SUBSCHEMAS_MAX - 1).unwrap();
        assert!(!budget.is_exceeded());
        budget.take_subschemas(2).unwrap_err();
        assert!(budget.is_exceeded());
        new().take_place_bytes(PLACE_BYTES_MAX + 1).unwrap_err();
        let mut budget = new();
        (0..HEAVY_EXAMPLES_MAX).for_each(|_| budget.take_heavy_example().unwrap());
        budget.take_heavy_example().unwrap_err();
    }

    #[test]
    fn errors_of_contracts_are_placed_in_the_short_form() {
        let bad = json!({ "type": "object", "properties": { "p": { "pattern": "(" } } });
        let broken = json!({ "namespace": "n", "tools": [
            { "name": "a", "description": "A.", "input": {} },
            { "name": "t", "description": "Does it.", "input": bad },
        ] });
        let described = toolkit(&broken.to_string()).unwrap();
        let placing = described.placing();
        let facts = ComponentFacts {
            component: "sha256:0".into(),
            ..ComponentFacts::default()
        };
        let loaded = Tool::from_toolkit(
            described.toolkit,
            &described.notes,
            &facts,
            Duration::from_secs(60),
        );
        let errors = placing(loaded.unwrap_err());
        assert_eq!(
            errors
                .iter()
                .map(|error| error.path.as_str())
                .collect::<Vec<_>>(),
            ["/tools/1"],
            "{errors:?}"
        );
    }

    #[test]
    fn the_examples_of_the_short_form_load_as_tools() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../schemas/toolkit-short.schema.json"
        );
        let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let facts = ComponentFacts {
            component: "sha256:0".into(),
            ..ComponentFacts::default()
        };
        for example in schema["examples"].as_array().unwrap() {
            let read = toolkit(&example.to_string()).unwrap();
            let tools =
                Tool::from_toolkit(read.toolkit, &read.notes, &facts, Duration::from_secs(60));
            assert_eq!(
                tools.unwrap().len(),
                example["tools"].as_array().unwrap().len(),
                "{example}"
            );
        }
    }
}
