//! The responses API.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolcell_spec::{Input, ToolInvocation, ToolResult};

use super::super::model_call::{calls, no_arguments, read_arguments};
use super::super::parts::{native_id, text};
use super::{ListedTool, MessageError, ModelCall, ResultPart, data_url, is_strict, parts};

const CALL: &str = "function_call";

/// The API's own search finds deferred tools.
pub fn tool(listed: &ListedTool<'_>, is_deferred: bool) -> Value {
    let mut tool = json!({
        "type": "function",
        "name": listed.name,
        "description": listed.said(),
        "parameters": listed.parameters(),
        // Without it, the API rewrites the schema into a strict one.
        "strict": is_strict(listed),
    });
    if let (true, Some(fields)) = (is_deferred, tool.as_object_mut()) {
        fields.insert("defer_loading".to_owned(), true.into());
    }
    tool
}

#[derive(Deserialize)]
struct ResponseOrItem<'a> {
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct FunctionCallItem {
    call_id: String,
    name: String,
    #[serde(default = "no_arguments", deserialize_with = "read_arguments")]
    arguments: Input,
}

impl From<FunctionCallItem> for ModelCall {
    fn from(item: FunctionCallItem) -> Self {
        Self {
            id: item.call_id,
            name: item.name,
            arguments: item.arguments,
        }
    }
}

/// Reads a response, a list of its items, or one item. Non-JSON arguments are no error here: the call's result says so.
pub fn read(text: &str) -> Result<Vec<ModelCall>, MessageError> {
    let fails = |error: serde_json::Error| MessageError::at("the response", &error);
    let items: Vec<&RawValue> = match text.trim_start().chars().next() {
        Some('[') => serde_json::from_str(text).map_err(fails)?,
        Some('{') => match serde_json::from_str::<ResponseOrItem<'_>>(text).map_err(fails)? {
            ResponseOrItem {
                output: Some(items),
                ..
            } => items,
            ResponseOrItem { kind: Some(_), .. } => {
                vec![serde_json::from_str(text).map_err(fails)?]
            }
            ResponseOrItem { .. } => {
                let message = "cannot find a response: pass one with output, a list of its items, or one item";
                return Err(MessageError(message.to_owned()));
            }
        },
        _ => return Err(MessageError::no_object("response")),
    };
    // Only a function call needs a result.
    calls::<FunctionCallItem>("output", items, Some(CALL))
}

pub fn result(invocation: &ToolInvocation, result: &ToolResult) -> Value {
    let parts = parts(result);
    let output = if parts
        .iter()
        .any(|part| matches!(part, ResultPart::Image { .. }))
    {
        parts.into_iter().map(content).collect()
    } else {
        Value::String(text(parts))
    };
    json!({ "type": "function_call_output", "call_id": native_id(invocation), "output": output })
}

fn content(part: ResultPart) -> Value {
    match part {
        ResultPart::Text(text) => json!({ "type": "input_text", "text": text }),
        ResultPart::Image { media_type, data } => {
            json!({ "type": "input_image", "image_url": data_url(media_type, &data), "detail": "auto" })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

    use super::super::super::parts::samples::{blocks, invocation, result as sample, saying};
    use super::{read, result};

    #[test]
    fn calls_are_read_from_a_response_a_list_and_an_item() {
        let call = json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "a", "arguments": "{" });
        let text = json!({ "type": "message", "role": "assistant", "content": [] });
        let response = json!({ "object": "response", "output": [text, call], "type": null });
        for given in [
            response.to_string(),
            json!([text, call]).to_string(),
            format!(" {call}"),
        ] {
            let calls = read(&given).unwrap();
            let [call] = calls.as_slice() else {
                panic!("{calls:?}")
            };
            assert_eq!(
                (call.id.as_str(), call.name.as_str(), call.arguments.text()),
                ("call_1", "a", "{")
            );
        }
        assert!(read(&text.to_string()).unwrap().is_empty());
        assert!(read("[\"text\", 7]").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_response_says_why() {
        for (text, why) in [
            ("", "not a JSON object"),
            ("\"text\"", "not a JSON object"),
            ("{\"output\": {}}", "cannot read the response: invalid type"),
            ("{\"role\": \"assistant\"}", "cannot find a response"),
            (
                "[{}, {\"type\": \"function_call\", \"name\": \"a\"}]",
                "cannot read output[1]: missing field `call_id`",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn each_class_of_content_is_text_or_an_image() {
        for (block, words) in blocks() {
            let item = result(&invocation("call_1"), &saying(json!([block])));
            let image = json!({
                "type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto",
            });
            let output = words.map_or_else(|| json!([image]), |words| json!(words));
            assert_eq!(
                item,
                json!({ "type": "function_call_output", "call_id": "call_1", "output": output })
            );
        }
    }

    #[test]
    fn every_error_class_is_a_text() {
        for class in ErrorClass::ALL {
            let error = Refusal::new(ErrorCode::TooManyCalls, "the message")
                .with_class(class)
                .to_error();
            let item = result(
                &invocation("call_1"),
                &sample(json!({ "is_error": true, "error": error })),
            );
            let start = format!(
                "ERROR [{}/too_many_calls]: the message\n",
                json!(class).as_str().unwrap()
            );
            assert!(
                item["output"].as_str().unwrap().starts_with(&start),
                "{item}"
            );
        }
    }
}
