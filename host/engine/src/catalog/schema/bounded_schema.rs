use std::time::Duration;

use serde_json::Value;

use super::{AcceptedSchema, CheckFailure, LoadBudget};

/// In bytes, for a thread that compiles or checks a [`BoundedSchema`]: a schema may apply itself a thousand times. Only
/// the used part takes memory.
pub const SCHEMA_STACK_BYTES: usize = 64 << 20;

/// A compiled schema that belongs to no tool, limited like a tool's: no outside references, bounded cost of compiling
/// and checking.
///
/// ```
/// use serde_json::json;
/// use toolcell_engine::catalog::BoundedSchema;
///
/// let schema = BoundedSchema::compile(&json!({ "type": "array", "maxItems": 1 }))?;
/// assert!(schema.check(&json!([7])).is_ok() && schema.check(&json!([7, 8])).is_err());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct BoundedSchema(AcceptedSchema);

impl BoundedSchema {
    /// Runs on a thread with a stack of [`SCHEMA_STACK_BYTES`]. The error is the place of a mistake, or the exceeded
    /// bound.
    pub fn compile(schema: &Value) -> anyhow::Result<Self> {
        AcceptedSchema::compile(schema, &mut LoadBudget::new(Duration::MAX)).map(Self)
    }

    /// Runs on a thread with a stack of [`SCHEMA_STACK_BYTES`], for up to a quarter of a second. Fails for an invalid
    /// value or too costly check.
    pub fn check(&self, value: &Value) -> Result<(), CheckFailure> {
        self.0.check(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{BoundedSchema, CheckFailure};

    #[test]
    fn a_schema_of_others_fetches_nothing_and_a_check_that_explodes_is_not_made() {
        let away = BoundedSchema::compile(&json!({ "$ref": "https://example.com/a.json" }));
        assert!(away.is_err(), "{away:?}");
        let schema = BoundedSchema::compile(&json!({
            "$ref": "#/$defs/n",
            "$defs": { "n": { "anyOf": [
                { "items": { "$ref": "#/$defs/n" }, "maxItems": 0 },
                { "items": { "$ref": "#/$defs/n" }, "maxItems": 9 },
            ] } },
        }));
        let nested = (0..100).fold(json!([]), |inner, _| json!([inner]));
        let checked = schema.unwrap().check(&nested);
        assert!(
            matches!(checked, Err(CheckFailure::Costly(_))),
            "{checked:?}"
        );
    }
}
