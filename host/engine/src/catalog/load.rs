//! Limits for loading one component, which may have hundreds of tools, all referring to one interface.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

/// Five times the limit of one schema.
const SUBSCHEMAS_MAX: usize = 250_000;
/// For schemas and redaction rules together: five times the limit of one schema.
const PATTERN_STATES_MAX: usize = 1_000_000;
/// JSON Pointers of all keywords, in bytes: five times the limit of one schema.
const PLACE_BYTES_MAX: usize = 320 << 20;
/// In bytes of JSON text that replaces references.
const LISTED_BYTES_MAX: usize = 8 << 20;
/// Each takes up to a quarter of a second to check.
const HEAVY_EXAMPLES_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct LoadBudget {
    subschemas: usize,
    pattern_states: usize,
    place_bytes: usize,
    listed_bytes: usize,
    heavy_examples: usize,
    wall: Duration,
    /// `None` if it lies too far ahead for an `Instant`.
    until: Option<Instant>,
    exceeded: bool,
    accepted: bool,
}

impl LoadBudget {
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

    /// Schemas of an accepted component are compiled when first needed, and its examples are not checked again.
    pub(super) fn accepted() -> Self {
        Self {
            accepted: true,
            ..Self::new(Duration::MAX)
        }
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Stops reading the component.
    pub(super) fn is_exceeded(&self) -> bool {
        self.exceeded
    }

    pub(super) fn take_subschemas(&mut self, count: usize) -> anyhow::Result<()> {
        self.subschemas = self.left(self.subschemas, count, || {
            format!(
                "all schemas of the component together have more than {SUBSCHEMAS_MAX} subschemas; simplify them, or make \
                 several components of it"
            )
        })?;
        self.in_time()
    }

    pub(super) fn take_pattern_states(&mut self, count: usize) -> anyhow::Result<()> {
        self.pattern_states = self.left(self.pattern_states, count, || {
            format!(
                "all patterns of the component together take more than {PATTERN_STATES_MAX} states; use smaller \
                 repetitions, or make several components of it"
            )
        })?;
        self.in_time()
    }

    pub(super) fn take_place_bytes(&mut self, count: usize) -> anyhow::Result<()> {
        self.place_bytes = self.left(self.place_bytes, count, || {
            format!(
                "the places of all keywords of the component together take more than {PLACE_BYTES_MAX} bytes; use shorter \
                 names of properties"
            )
        })?;
        Ok(())
    }

    /// `false` if the bytes or the time are used up; reading continues, because a listing can be shorter.
    pub(super) fn take_listed_bytes(&mut self, count: usize) -> bool {
        match self.listed_bytes.checked_sub(count) {
            Some(left) if self.until.is_none_or(|until| Instant::now() < until) => {
                self.listed_bytes = left;
                true
            }
            _ => false,
        }
    }

    pub(super) fn take_heavy_example(&mut self) -> anyhow::Result<()> {
        self.heavy_examples = self.left(self.heavy_examples, 1, || {
            format!(
                "more than {HEAVY_EXAMPLES_MAX} examples of the component are too large for their schemas; give smaller ones"
            )
        })?;
        Ok(())
    }

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
