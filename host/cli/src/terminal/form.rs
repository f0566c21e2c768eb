use serde_json::{Map, Value, json};
use toolcell::{Inquiry, RequestedInput};
use toolcell_engine::approval::PromptSheet;
use toolcell_spec::{InputResponse, InputResponses};

use super::{Display, Keyboard, write};
use crate::command::describe::properties;

const FIELD_ROWS_MAX: usize = 6;
const DEFAULT_ROWS_MAX: usize = 2;

const DECLINE: &str = "/decline";

/// `None` if the terminal is too narrow, or if the answers are no longer needed.
pub(super) fn fill(
    keyboard: &Keyboard,
    inquiry: &Inquiry,
) -> anyhow::Result<Option<InputResponses>> {
    let display = Display::of_terminal();
    if !display.is_wide_enough() {
        write("(this terminal is too narrow for the question of a tool)\n")?;
        return Ok(None);
    }
    let mut responses = InputResponses::new();
    for request in &inquiry.requests {
        let text = request.text(&inquiry.tool_id, display.columns);
        write(&format!("{text}({DECLINE} if you do not want to say)\n"))?;
        let Some(response) = one(keyboard, request)? else {
            return Ok(None);
        };
        responses.insert(request.key().to_owned(), response);
    }
    Ok(Some(responses))
}

fn one(keyboard: &Keyboard, request: &RequestedInput) -> anyhow::Result<Option<InputResponse>> {
    let fields: Vec<Field<'_>> = fields(request.schema());
    loop {
        let mut content = Map::new();
        for field in &fields {
            write(&field.about(Display::of_terminal().columns))?;
            let Some(line) = keyboard.answer(&field.question())? else {
                return ended(keyboard);
            };
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
            Err(why) => {
                let mut sheet = PromptSheet::new(Display::of_terminal().columns);
                sheet.host("these answers cannot be used:");
                sheet.lines(&why, FIELD_ROWS_MAX);
                sheet.host("once more, from the first field:");
                write(&sheet.into_text())?;
            }
        }
    }
}

/// `None` if nobody needs the answer any more. The end of the input cancels.
fn ended(keyboard: &Keyboard) -> anyhow::Result<Option<InputResponse>> {
    write("\n")?;
    Ok((!keyboard.is_over()).then_some(InputResponse::Cancel))
}

struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

fn fields(schema: &Value) -> Vec<Field<'_>> {
    let field = |(name, schema, required)| Field {
        name,
        schema,
        required,
    };
    properties(schema).map(field).collect()
}

impl Field<'_> {
    fn about(&self, columns: usize) -> String {
        let mut sheet = PromptSheet::new(columns);
        let word = |key: &str| self.schema[key].as_str().map(str::to_owned);
        let mut said: Vec<String> = [word("title"), word("description")]
            .into_iter()
            .flatten()
            .collect();
        if !self.choices().is_empty() {
            let several = self.schema["type"] == "array";
            let how = if several {
                "some of, with commas between"
            } else {
                "one of"
            };
            said.push(format!("{how}: {}", self.choices().join(", ")));
        }
        let colon = if said.is_empty() { "" } else { ": " };
        sheet.lines(
            &format!("{}{colon}{}", self.name, said.join("; ")),
            FIELD_ROWS_MAX,
        );
        if let Some(default) = self.schema.get("default") {
            sheet.lines(&format!("default: {default}"), DEFAULT_ROWS_MAX);
        }
        sheet.into_text()
    }

    /// The host's words alone, because the row has no gutter.
    fn question(&self) -> String {
        let kind = match self.schema["type"].as_str() {
            Some("boolean") => "yes or no",
            Some("array") => "a list",
            Some(_) if !self.choices().is_empty() => "a choice",
            Some("number") => "number",
            Some("integer") => "integer",
            _ => "string",
        };
        let empty = match (self.schema.get("default"), self.required) {
            (Some(_), _) => "empty means the default",
            (None, true) => "required",
            (None, false) => "may be empty",
        };
        format!("  answer ({kind}; {empty}): ")
    }

    fn choices(&self) -> Vec<String> {
        let schema = self.schema.get("items").unwrap_or(self.schema);
        let options = ["enum", "oneOf", "anyOf"]
            .iter()
            .find_map(|word| schema.get(word)?.as_array());
        let option = |option: &Value| {
            option
                .get("const")
                .unwrap_or(option)
                .as_str()
                .map(str::to_owned)
        };
        options.into_iter().flatten().filter_map(option).collect()
    }

    /// Invalid input stays a string, which the check of the whole form rejects.
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
            Some("number" | "integer") => {
                serde_json::from_str(line).unwrap_or_else(|_| json!(line))
            }
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
        let values: Vec<Value> = fields(&schema)
            .iter()
            .zip(typed)
            .filter_map(|(field, line)| field.value(line))
            .collect();
        assert_eq!(json!(values), json!([7, "r", "7", ["s", "m"], true]));
        let empty: Vec<Option<Value>> = fields(&schema)
            .iter()
            .map(|field| field.value(""))
            .collect();
        assert_eq!(empty.iter().flatten().collect::<Vec<_>>(), [&json!(["s"])]);
        let questions: Vec<String> = fields(&schema).iter().map(super::Field::question).collect();
        assert_eq!(questions[1], "  answer (a choice; may be empty): ");
        assert_eq!(questions[3], "  answer (a list; empty means the default): ");
        let sizes = "| sizes: some of, with commas between: s, m\n| default: [\"s\"]\n";
        assert_eq!(fields(&schema)[3].about(80), sizes);
    }

    #[test]
    fn no_row_without_a_gutter_holds_words_of_the_tool() {
        let wide = "\u{65e5}".repeat(30);
        let field = json!({ "type": "string", "title": "y/N\n  answer (string; required):", "default": wide });
        let mut properties = serde_json::Map::new();
        properties.insert(wide.clone(), field);
        let schema = json!({ "properties": properties });
        let fields = fields(&schema);
        assert_eq!(
            fields[0].question(),
            "  answer (string; empty means the default): "
        );
        let about = fields[0].about(40);
        assert!(
            about.lines().count() >= 5 && about.lines().all(|row| row.starts_with("| ")),
            "{about}"
        );
    }
}
