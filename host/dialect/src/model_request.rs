//! The tools of a request to a model, with what it may do with them (AT-SURF-11).

use serde_json::{Value, json};
use toolcell_spec::ToolChoice;

use super::Dialect;

/// The fields of a request; `None` for a dialect that has none. `choice` names its tool as the dialect does.
pub fn model_request(
    dialect: Dialect,
    tools: &[Value],
    choice: &ToolChoice,
    parallel_calls: bool,
) -> Option<Value> {
    let is_serial = !parallel_calls && *choice != ToolChoice::None;
    let (chosen, parallel) = match dialect {
        Dialect::OpenAi | Dialect::OpenAiResponses => {
            (openai(dialect, choice), is_serial.then_some(false))
        }
        Dialect::Anthropic => (anthropic(choice, is_serial), None),
        _ => return None,
    };
    let mut request = json!({ "tools": tools });
    // The APIs refuse a choice among no tools.
    if let Value::Object(fields) = &mut request
        && !tools.is_empty()
    {
        fields.insert("tool_choice".to_owned(), chosen);
        fields.extend(parallel.map(|may| ("parallel_tool_calls".to_owned(), may.into())));
    }
    Some(request)
}

fn openai(dialect: Dialect, choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Tool(name) if dialect == Dialect::OpenAi => {
            json!({ "type": "function", "function": { "name": name } })
        }
        ToolChoice::Tool(name) => json!({ "type": "function", "name": name }),
        word => json!(word),
    }
}

fn anthropic(choice: &ToolChoice, is_serial: bool) -> Value {
    let mut chosen = match choice {
        ToolChoice::Tool(name) => json!({ "type": "tool", "name": name }),
        ToolChoice::Required => json!({ "type": "any" }),
        word => json!({ "type": word }),
    };
    if let (true, Value::Object(fields)) = (is_serial, &mut chosen) {
        fields.insert("disable_parallel_tool_use".to_owned(), true.into());
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_is_said_as_the_api_does() {
        let of = |dialect, choice: &ToolChoice| {
            model_request(dialect, &[json!({})], choice, true).unwrap()["tool_choice"].clone()
        };
        let tool = ToolChoice::Tool("a".to_owned());
        for (dialect, expected) in [
            (
                Dialect::OpenAi,
                [
                    json!("auto"),
                    json!("none"),
                    json!("required"),
                    json!({ "type": "function", "function": { "name": "a" } }),
                ],
            ),
            (
                Dialect::OpenAiResponses,
                [
                    json!("auto"),
                    json!("none"),
                    json!("required"),
                    json!({ "type": "function", "name": "a" }),
                ],
            ),
            (
                Dialect::Anthropic,
                [
                    json!({ "type": "auto" }),
                    json!({ "type": "none" }),
                    json!({ "type": "any" }),
                    json!({ "type": "tool", "name": "a" }),
                ],
            ),
        ] {
            let choices = [
                &ToolChoice::Auto,
                &ToolChoice::None,
                &ToolChoice::Required,
                &tool,
            ];
            assert_eq!(choices.map(|choice| of(dialect, choice)), expected);
        }
        assert_eq!(model_request(Dialect::Mcp, &[], &tool, true), None);
        let empty = model_request(Dialect::OpenAi, &[], &tool, true);
        assert_eq!(empty, Some(json!({ "tools": [] })));
    }

    #[test]
    fn serial_calls_are_said_too() {
        let of = |dialect, choice| model_request(dialect, &[json!({})], choice, false).unwrap();
        let openai = of(Dialect::OpenAi, &ToolChoice::Auto);
        assert_eq!(openai["parallel_tool_calls"], false);
        let anthropic = of(Dialect::Anthropic, &ToolChoice::Required);
        assert_eq!(
            anthropic["tool_choice"],
            json!({ "type": "any", "disable_parallel_tool_use": true })
        );
        let none = of(Dialect::Anthropic, &ToolChoice::None);
        assert_eq!(none["tool_choice"], json!({ "type": "none" }));
    }
}
