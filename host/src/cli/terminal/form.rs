use serde_json::{Map, Value, json};

use crate::host::{Inquiry, Requested, Sheet, legible};
use crate::record::{InputResponse, InputResponses};

use super::{Display, Keyboard, write};

/// Rows of what a tool says of one field.
const FIELD_ROWS_MAX: usize = 6;
/// Characters of a field's name, and of its default, in the row that is answered.
const NAME_CHARS_MAX: usize = 30;

/// What a person types who does not want to say.
const DECLINE: &str = "/decline";

/// Asks for each field of each form, line by line. Nothing when nobody is there any more.
pub(super) fn fill(keyboard: &Keyboard, inquiry: &Inquiry) -> anyhow::Result<Option<InputResponses>> {
    let display = Display::of_terminal();
    if !display.is_wide_enough() {
        write("(this terminal is too narrow for the question of a tool)\n")?;
        return Ok(None);
    }
    let mut responses = InputResponses::new();
    for request in &inquiry.requests {
        let text = request.text(&inquiry.tool_id, display.columns);
        write(&format!("{text}({DECLINE} if you do not want to say)\n"))?;
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
            write(&field.about(Display::of_terminal().columns))?;
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
            Err(why) => {
                let mut sheet = Sheet::new(Display::of_terminal().columns);
                sheet.host("these answers cannot be used:");
                sheet.lines(&why, FIELD_ROWS_MAX);
                sheet.host("once more, from the first field:");
                write(&sheet.into_text())?;
            }
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
    /// What the tool says of the field, and what can be chosen.
    fn about(&self, columns: usize) -> String {
        let mut sheet = Sheet::new(columns);
        let word = |key: &str| self.schema[key].as_str().map(str::to_owned);
        let mut said: Vec<String> = [word("title"), word("description")].into_iter().flatten().collect();
        if !self.choices().is_empty() {
            let several = self.schema["type"] == "array";
            let how = if several { "some of, with commas between" } else { "one of" };
            said.push(format!("{how}: {}", self.choices().join(", ")));
        }
        if !said.is_empty() {
            sheet.lines(&format!("{}: {}", self.name, said.join("; ")), FIELD_ROWS_MAX);
        }
        sheet.into_text()
    }

    /// The row that is answered: the host's words, but for names that are too short to say anything else.
    fn question(&self) -> String {
        let short = |text: &str| {
            let cut: String = text.chars().take(NAME_CHARS_MAX).collect();
            legible(&if cut.len() < text.len() { format!("{cut}..") } else { cut })
        };
        let kind = match self.schema["type"].as_str() {
            Some("boolean") => "yes or no",
            Some("array") => "a list",
            Some(_) if !self.choices().is_empty() => "a choice",
            kind => kind.unwrap_or("string"),
        };
        let empty = match (self.schema.get("default"), self.required) {
            (Some(default), _) => format!("empty: {}", short(&default.to_string())),
            (None, true) => "required".to_owned(),
            (None, false) => "may be empty".to_owned(),
        };
        format!("  {} ({kind}; {empty}): ", short(self.name))
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
        assert_eq!(questions[1], "  colour (a choice; may be empty): ");
        assert_eq!(questions[3], "  sizes (a list; empty: [\"s\"]): ");
        assert_eq!(fields(&schema)[3].about(80), "| sizes: some of, with commas between: s, m\n");
    }
}
