use std::sync::OnceLock;

use serde_json::Value;

use super::{AcceptedSchema, CheckFailure, LoadBudget};

/// A schema compiled at its component's first load, later when first needed: most tools are not called.
#[derive(Debug)]
pub(in crate::catalog) struct LazySchema {
    /// `null` once it is compiled at load.
    source: Value,
    compiled: OnceLock<Result<AcceptedSchema, String>>,
}

impl LazySchema {
    pub(in crate::catalog) fn new(schema: Value, budget: &mut LoadBudget) -> anyhow::Result<Self> {
        if budget.is_accepted() {
            return Ok(Self {
                source: schema,
                compiled: OnceLock::new(),
            });
        }
        let compiled = AcceptedSchema::compile(&schema, budget)?;
        Ok(Self {
            source: Value::Null,
            compiled: OnceLock::from(Ok(compiled)),
        })
    }

    /// Returns whether [`Self::check`] takes at most 1 ms and little stack. `false` until the schema is compiled,
    /// because that takes time and stack too.
    pub(in crate::catalog) fn is_light(&self, value: &Value) -> bool {
        self.compiled
            .get()
            .and_then(|compiled| compiled.as_ref().ok())
            .is_some_and(|schema| schema.is_light(value))
    }

    pub(in crate::catalog) fn compiled(&self) -> &Result<AcceptedSchema, String> {
        self.compiled.get_or_init(|| {
            AcceptedSchema::compile(&self.source, &mut LoadBudget::accepted())
                .map_err(|error| format!("{error:#}"))
        })
    }

    /// As [`AcceptedSchema::check`].
    pub(in crate::catalog) fn check(&self, value: &Value) -> Result<(), CheckFailure> {
        match self.compiled() {
            Ok(schema) => schema.check(value),
            Err(error) => Err(CheckFailure::Costly(format!(
                "the schema of the tool cannot be compiled: {error}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{LazySchema, LoadBudget};

    #[test]
    fn a_schema_that_was_accepted_is_compiled_by_its_first_check() {
        let schema = json!({ "type": "object", "required": ["n"] });
        let eager = LazySchema::new(schema.clone(), &mut LoadBudget::new(Duration::MAX)).unwrap();
        let lazy = LazySchema::new(schema, &mut LoadBudget::accepted()).unwrap();
        let good = json!({ "n": 1 });
        let bad = json!({});
        assert!(eager.is_light(&good) && !lazy.is_light(&good));
        for schema in [&eager, &lazy] {
            schema.check(&good).unwrap();
            schema.check(&bad).unwrap_err();
            assert!(schema.is_light(&good));
        }
    }

    #[test]
    fn what_cannot_be_compiled_accepts_nothing() {
        let broken = json!({ "type": 7 });
        LazySchema::new(broken.clone(), &mut LoadBudget::new(Duration::MAX)).unwrap_err();
        let lazy = LazySchema::new(broken, &mut LoadBudget::accepted()).unwrap();
        assert!(
            lazy.check(&json!({}))
                .unwrap_err()
                .to_string()
                .contains("cannot be compiled")
        );
        assert!(!lazy.is_light(&json!({})));
    }
}
