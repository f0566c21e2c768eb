use anyhow::{Context, anyhow};
use jsonschema::{Draft, PatternOptions, Validator};
use referencing::Registry;
use serde_json::Value;

use toolcell_spec::{Finding, TypedFields};

use super::cut;
use super::graph::NoOther;

/// A schema of the host's own records. It is trusted, so nothing is bounded: the caller bounds the value. It asserts
/// formats.
#[derive(Debug)]
pub struct RecordSchema(Validator);

impl RecordSchema {
    /// `schema` may refer only to `siblings`, by `$id`; nothing is fetched. Fails for a sibling without one, an invalid
    /// schema, or a reference that leads nowhere.
    pub fn compile(schema: &Value, siblings: &[Value]) -> anyhow::Result<Self> {
        let known: Vec<(&str, &Value)> =
            siblings.iter().map(named).collect::<anyhow::Result<_>>()?;
        let registry = Registry::new()
            .retriever(NoOther)
            .draft(Draft::Draft202012)
            .extend(known)?
            .prepare()?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_registry(&registry)
            .with_pattern_options(PatternOptions::regex())
            .should_validate_formats(true)
            .offline()
            .build(schema)
            .map_err(|error| anyhow!("{error}, at {:?}", error.instance_path().as_str()))?;
        Ok(Self(validator))
    }

    /// At most `max` violations, none if `value` is valid; takes some 300 bytes for each violating value.
    pub fn violations(&self, value: &Value, max: usize) -> Vec<Finding> {
        if self.0.is_valid(value) {
            return Vec::new();
        }
        let errors = self.0.iter_errors(value).take(max);
        errors
            .map(|error| {
                let message = cut(&error.masked_with("the value").to_string());
                Finding::new(error.instance_path().as_str(), &message)
            })
            .collect()
    }
}

fn named(schema: &Value) -> anyhow::Result<(&str, &Value)> {
    let id = schema.text("$id").context("a schema has no `$id`")?;
    Ok((id, schema))
}

#[cfg(test)]
mod tests {
    use super::RecordSchema;
    use serde_json::{Value, json};

    fn time() -> Value {
        json!({ "$id": "https://example.com/time.json", "type": "string", "format": "date-time" })
    }

    #[test]
    fn a_sibling_is_found_its_format_is_asserted_and_nothing_is_fetched() {
        let schema = json!({ "$id": "https://example.com/a.json", "properties": { "at": { "$ref": "time.json" } } });
        let compiled = RecordSchema::compile(&schema, &[time()]).unwrap();
        assert!(
            compiled
                .violations(&json!({ "at": "2026-01-02T03:04:05Z" }), 9)
                .is_empty()
        );
        let found = compiled.violations(&json!({ "at": "yesterday" }), 9);
        assert_eq!((found.len(), found[0].path.as_str()), (1, "/at"));
        let error = RecordSchema::compile(&schema, &[]).unwrap_err().to_string();
        assert!(error.contains("time.json"), "{error}");
        assert!(
            RecordSchema::compile(&schema, &[json!({})]).is_err(),
            "a sibling that nothing can refer to"
        );
    }

    #[test]
    fn no_more_violations_are_told_than_were_asked_for_and_none_acts_on_a_terminal() {
        let schema = json!({ "$id": "https://example.com/b.json", "properties": { "a": {} }, "additionalProperties": false });
        let compiled = RecordSchema::compile(&schema, &[]).unwrap();
        let found = compiled.violations(&json!({ "\u{1b}[2J": 1 }), 9);
        assert!(
            found.len() == 1 && found[0].message.contains("\\u{1b}[2J"),
            "{found:?}"
        );
        let schema = json!({ "$id": "https://example.com/c.json", "items": { "minimum": 9 } });
        let compiled = RecordSchema::compile(&schema, &[]).unwrap();
        assert_eq!(compiled.violations(&json!([1, 2, 3, 4]), 3).len(), 3);
    }
}
