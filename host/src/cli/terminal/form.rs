use serde_json::{Map, Value, json};

use crate::host::{Inquiry, Requested, Whitespace, visible};
use crate::record::{InputResponse, InputResponses};

use super::{Keyboard, write};

/// What a person types who does not want to say.
const DECLINE: &str = "/decline";

/// Asks for each field of each form, line by line. Nothing when nobody is there any more.
pub(super) fn fill(keyboard: &Keyboard, inquiry: &Inquiry) -> anyhow::Result<Option<InputResponses>> {
    let mut responses = InputResponses::new();
    for request in &inquiry.requests {
        write(&format!("{}\n  ({DECLINE} if you do not want to say)\n", request.text(&inquiry.tool_id)))?;
        let Some(response) = one(keyboard, request)? else { return Ok(None) };
        responses.insert(request.key().to_owned(), response);
    }
    Ok(Some(responses))
}

fn one(keyboard: &Keyboard, request: &Requested) -> anyhow::Result<Option<InputResponse>> {
    let fields: Vec<Field<'_>> = fields(request.schema());
    loop {
        let mut content = Map::new();
        for field in &fields {
            let Some(line) = keyboard.answer(&field.question())? else { return ended(keyboard) };
            if line == DECLINE {
                return Ok(Some(InputResponse::Decline));
            }
            if let Some(value) = field.value(&line) {
                content.insert(field.name.to_owned(), value);
            }
        }
        let filled = InputResponse::Accept { content };
        match request.check(&filled) {
            Ok(()) => return Ok(Some(filled)),
            Err(why) => write(&format!("{}; again:\n", visible(&why, Whitespace::WrittenOut)))?,
        }
    }
}

/// The end of the input closes the question; the call is over by itself.
fn ended(keyboard: &Keyboard) -> anyhow::Result<Option<InputResponse>> {
    write("\n")?;
    Ok((!keyboard.is_over()).then_some(InputResponse::Cancel))
}

/// One line of a form.
struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

fn fields(schema: &Value) -> Vec<Field<'_>> {
    let required = |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(|(name, schema)| Field { name, schema, required: required(name) }).collect()
}

impl Field<'_> {
    fn question(&self) -> String {
        let word = |key: &str| self.schema[key].as_str().map(str::to_owned);
        let mut about: Vec<String> = [word("title"), word("description")].into_iter().flatten().collect();
        about.push(match self.schema["type"].as_str() {
            Some("boolean") => "yes or no".to_owned(),
            Some("array") => format!("some of {}, with commas between", self.choices().join(", ")),
            Some(_) if !self.choices().is_empty() => format!("one of {}", self.choices().join(", ")),
            kind => kind.unwrap_or("string").to_owned(),
        });
        about.push(match (self.schema.get("default"), self.required) {
            (Some(default), _) => format!("empty: {default}"),
            (None, true) => "required".to_owned(),
            (None, false) => "may be empty".to_owned(),
        });
        format!("  {} ({}): ", self.name, about.join("; "))
    }

    fn choices(&self) -> Vec<String> {
        let schema = self.schema.get("items").unwrap_or(self.schema);
        let options = ["enum", "oneOf", "anyOf"].iter().find_map(|word| schema.get(word)?.as_array());
        let option = |option: &Value| option.get("const").unwrap_or(option).as_str().map(str::to_owned);
        options.into_iter().flatten().filter_map(option).collect()
    }

    /// What was typed, as the value that it means; what means none is left to the check of the whole form.
    fn value(&self, line: &str) -> Option<Value> {
        if line.is_empty() {
            return self.schema.get("default").cloned();
        }
        Some(match self.schema["type"].as_str() {
            Some("boolean") => match line.to_lowercase().as_str() {
                "y" | "yes" | "true" => json!(true),
                "n" | "no" | "false" => json!(false),
                _ => json!(line),
            },
            Some("number" | "integer") => serde_json::from_str(line).unwrap_or_else(|_| json!(line)),
            Some("array") => line.split(',').map(str::trim).collect(),
            _ => json!(line),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::fields;

    #[test]
    fn a_line_becomes_the_value_that_its_field_wants() {
        let schema = json!({ "required": ["name"], "properties": {
            "age": { "type": "integer" },
            "colour": { "type": "string", "oneOf": [{ "const": "r", "title": "Red" }] },
            "name": { "type": "string" },
            "sizes": { "type": "array", "items": { "enum": ["s", "m"] }, "default": ["s"] },
            "sure": { "type": "boolean" },
        } });
        let typed = ["7", "r", "7", "s, m", "Yes"];
        let values: Vec<Value> =
            fields(&schema).iter().zip(typed).filter_map(|(field, line)| field.value(line)).collect();
        assert_eq!(json!(values), json!([7, "r", "7", ["s", "m"], true]));
        let empty: Vec<Option<Value>> = fields(&schema).iter().map(|field| field.value("")).collect();
        assert_eq!(empty.iter().flatten().collect::<Vec<_>>(), [&json!(["s"])]);
        let questions: Vec<String> = fields(&schema).iter().map(super::Field::question).collect();
        assert_eq!(questions[1], "  colour (one of r; may be empty): ");
        assert_eq!(questions[3], "  sizes (some of s, m, with commas between; empty: [\"s\"]): ");
    }
}
