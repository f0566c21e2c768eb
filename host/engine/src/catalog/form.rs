use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use toolcell_spec::{TypedFields, read_json};

use super::load::LoadBudget;
use super::schema::AcceptedSchema;

const FIELDS_MAX: usize = 32;
const VALUES_MAX: usize = 2_000;
const CONTENT_BYTES_MAX: usize = 64 << 10;
/// In units of work: up to 10 ms.
const CHECK_WORK_MAX: u64 = 200_000;
/// As MCP elicitation defines them: a form cannot show what other keywords mean.
const WORDS: [&str; 19] = [
    "type",
    "title",
    "description",
    "default",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "enum",
    "enumNames",
    "oneOf",
    "anyOf",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "const",
];

const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// The input that a tool asks of a person: a flat object of strings, numbers, booleans and choices.
#[derive(Clone, Debug)]
pub struct InputForm {
    schema: Value,
    compiled: Arc<AcceptedSchema>,
}

impl InputForm {
    /// An error names what a form does not support.
    pub fn read(schema: &str) -> Result<Self, String> {
        let schema: Value = read_json(schema, VALUES_MAX)
            .map_err(|error| format!("its schema is not JSON: {error}"))?;
        let shape = schema
            .as_object()
            .filter(|shape| shape.get("type").is_some_and(|kind| kind == "object"));
        let fields = shape.and_then(|shape| shape.get("properties")?.as_object());
        let fields = fields.ok_or("its schema is not an object with properties")?;
        if fields.is_empty() || fields.len() > FIELDS_MAX {
            return Err(format!("a form has 1 to {FIELDS_MAX} fields"));
        }
        for (name, field) in fields {
            check_field(field).map_err(|what| format!("its field {name:?} {what}"))?;
        }
        let words = [
            "type",
            "properties",
            "required",
            "title",
            "description",
            "$schema",
            "additionalProperties",
        ];
        if let Some(word) =
            shape.and_then(|shape| shape.keys().find(|word| !words.contains(&word.as_str())))
        {
            return Err(format!("its schema says {word:?}, which no form can"));
        }
        // A budget of its own, because a form is small and compiled once.
        let mut budget = LoadBudget::new(Duration::MAX);
        let compiled = AcceptedSchema::compile(&schema, &mut budget)
            .map_err(|error| format!("its schema is not valid: {error:#}"))?;
        Ok(Self {
            schema,
            compiled: Arc::new(compiled),
        })
    }

    pub fn schema(&self) -> &Value {
        &self.schema
    }

    pub fn check(&self, content: &Map<String, Value>) -> Result<(), String> {
        let content = Value::Object(content.clone());
        let bytes = content.to_string().len();
        if bytes > CONTENT_BYTES_MAX {
            let most = CONTENT_BYTES_MAX;
            return Err(format!(
                "the answers are too large: {bytes} bytes, more than {most}; give shorter ones"
            ));
        }
        // Forms are checked on the calling thread, because people answer seldom; so the work must be small.
        if !self.compiled.takes_at_most(&content, CHECK_WORK_MAX) {
            return Err("checking the answers takes too long; give shorter ones".to_owned());
        }
        self.compiled
            .check(&content)
            .map_err(|problem| problem.to_string())
    }
}

fn check_field(field: &Value) -> Result<(), &'static str> {
    let field = field.as_object().ok_or("is not a schema")?;
    let format = field.text("format");
    if !field.keys().all(|word| WORDS.contains(&word.as_str()))
        || format.is_some_and(|word| !FORMATS.contains(&word))
    {
        return Err("says what no form can");
    }
    match field.text("type") {
        Some("string" | "number" | "integer" | "boolean") if !field.contains_key("items") => Ok(()),
        Some("array") if field.get("items").is_some_and(is_choice) => Ok(()),
        _ => Err("is not a string, number, integer, boolean or list of choices"),
    }
}

fn is_choice(items: &Value) -> bool {
    ["enum", "anyOf", "oneOf"]
        .iter()
        .any(|word| items.get(word).is_some_and(Value::is_array))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::InputForm;

    #[test]
    fn a_form_is_flat_and_holds_what_it_is_filled_with_to_its_schema() {
        let form = InputForm::read(
            &json!({ "type": "object", "required": ["age"], "properties": {
                "age": { "type": "integer", "minimum": 0 },
                "colours": { "type": "array", "items": { "type": "string", "enum": ["red", "blue"] } },
            } })
            .to_string(),
        )
        .unwrap();
        let filled = |value: serde_json::Value| form.check(value.as_object().unwrap());
        filled(json!({ "age": 3, "colours": ["red"] })).unwrap();
        filled(json!({ "age": 3, "colours": ["green"] })).unwrap_err();
        filled(json!({ "age": -1 })).unwrap_err();
        filled(json!({})).unwrap_err();
    }

    #[test]
    fn answers_are_as_long_as_a_form_may_hold_whatever_it_asks_of_them() {
        let form = InputForm::read(
            &json!({ "type": "object", "properties": {
                "text": { "type": "string", "minLength": 1, "maxLength": 100_000 },
                "colours": { "type": "array", "uniqueItems": true, "items": { "enum": ["red", "blue"] } },
                "key": { "type": "string", "pattern": "^[a-c]*[a-b][a-d]{800}$" },
            } })
            .to_string(),
        )
        .unwrap();
        let filled = |value: serde_json::Value| form.check(value.as_object().unwrap());
        filled(json!({ "colours": ["red", "blue"], "text": "a".repeat(60_000) })).unwrap();
        let twice = filled(json!({ "colours": ["red", "red"] })).unwrap_err();
        assert!(twice.contains("/colours"), "{twice}");
        let long = filled(json!({ "text": "a".repeat(70_000) })).unwrap_err();
        assert!(long.contains("more than 65536"), "{long}");
        let slow = filled(json!({ "key": "a".repeat(60_000) })).unwrap_err();
        assert!(slow.contains("takes too long"), "{slow}");
    }

    #[test]
    fn what_no_form_can_show_is_refused() {
        for schema in [
            json!("text"),
            json!({ "type": "string" }),
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": {} }),
            json!({ "type": "object", "properties": { "a": true } }),
            json!({ "type": "object", "properties": { "a": { "type": "object", "properties": {} } } }),
            json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/a.json" } } }),
            json!({ "type": "object", "properties": { "a": { "type": "string", "not": {} } } }),
            json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "string" } } } }),
            json!({ "type": "object", "properties": { "a": { "type": "string", "format": "regex" } } }),
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "allOf": [] }),
            json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(" } } }),
        ] {
            InputForm::read(&schema.to_string()).unwrap_err();
        }
        InputForm::read("{").unwrap_err();
    }
}
