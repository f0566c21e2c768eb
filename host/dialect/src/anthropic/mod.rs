//! Anthropic's messages API: tools, a model's calls, and answers (requirements 3).

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolcell_spec::{Input, ToolInvocation, ToolResult};

use super::model_call::{calls, no_arguments, read_arguments};
use super::parts::native_id;
use super::{FinishedCall, ListedTool, MessageError, ModelCall, ResultPart, parts};

const CALL: &str = "tool_use";

/// The API's own search finds deferred tools. None is `strict`, because the API takes few of those in one request.
pub fn tool(listed: &ListedTool<'_>, is_deferred: bool) -> Value {
    let mut tool = json!({
        "name": listed.name,
        "description": listed.said(),
        "input_schema": listed.parameters(),
    });
    if let (true, Some(fields)) = (is_deferred, tool.as_object_mut()) {
        fields.insert("defer_loading".to_owned(), true.into());
    }
    tool
}

#[derive(Deserialize)]
struct MessageOrBlock<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolUse {
    id: String,
    name: String,
    #[serde(default = "no_arguments", deserialize_with = "read_arguments")]
    input: Input,
}

impl From<ToolUse> for ModelCall {
    fn from(block: ToolUse) -> Self {
        Self {
            id: block.id,
            name: block.name,
            arguments: block.input,
        }
    }
}

/// Reads a message, a list of its blocks, or one block. Fails for other text.
pub fn read(text: &str) -> Result<Vec<ModelCall>, MessageError> {
    let fails = |error: serde_json::Error| MessageError::at("the message", &error);
    let blocks: Vec<&RawValue> = match text.trim_start().chars().next() {
        Some('[') => serde_json::from_str(text).map_err(fails)?,
        Some('{') => match serde_json::from_str::<MessageOrBlock<'_>>(text).map_err(fails)? {
            MessageOrBlock {
                kind: Some(kind), ..
            } if kind == CALL => vec![serde_json::from_str(text).map_err(fails)?],
            MessageOrBlock { kind, content } => match (content, kind) {
                // A message that is one text calls nothing.
                (Some(content), _) if content.get().starts_with('"') => Vec::new(),
                (Some(content), _) => serde_json::from_str(content.get()).map_err(fails)?,
                (None, Some(_)) => Vec::new(),
                (None, None) => {
                    let message = "cannot find a message: pass one with content, a list of its blocks, or one block";
                    return Err(MessageError(message.to_owned()));
                }
            },
        },
        _ => return Err(MessageError::no_object("message")),
    };
    // Server tools, which the API runs, have another type.
    calls::<ToolUse>("content", blocks, Some(CALL))
}

/// An error's block may have only text.
pub fn result(invocation: &ToolInvocation, result: &ToolResult) -> Value {
    let block = |part: ResultPart| match part {
        ResultPart::Image { media_type, data } if !result.is_error => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": media_type, "data": data } })
        }
        part => json!({ "type": "text", "text": part.into_text() }),
    };
    json!({
        "type": "tool_result",
        "tool_use_id": native_id(invocation),
        "is_error": result.is_error,
        "content": parts(result).into_iter().map(block).collect::<Vec<_>>(),
    })
}

/// In the order of calls: the API wants all results in one message. Empty without a call.
pub fn answers(ended: &[FinishedCall<'_>]) -> Vec<Value> {
    let blocks: Vec<Value> = ended
        .iter()
        .map(|(invocation, ended)| result(invocation, ended))
        .collect();
    if blocks.is_empty() {
        Vec::new()
    } else {
        vec![json!({ "role": "user", "content": blocks })]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

    use super::super::parts::samples::{blocks, invocation, result as sample, saying};
    use super::{answers, read, result};

    #[test]
    fn calls_are_read_from_a_message_a_list_and_a_block() {
        let call = r#"{"type": "tool_use", "id": "toolu_1", "name": "a", "input": {"n":  1.0}}"#;
        let text = r#"{"type": "text", "text": "I look"}"#;
        let message =
            format!(r#"{{"type": "message", "role": "assistant", "content": [{text}, {call}]}}"#);
        for given in [message, format!("[{text}, {call}]"), call.to_owned()] {
            let calls = read(&given).unwrap();
            let [call] = calls.as_slice() else {
                panic!("{calls:?}")
            };
            let said = (call.id.as_str(), call.name.as_str(), call.arguments.text());
            assert_eq!(said, ("toolu_1", "a", "{\"n\":  1.0}"));
        }
        let other =
            |fields: &str| format!(r#"{{"type": "tool_use", "id": "a", "name": "t", {fields}}}"#);
        for (fields, arguments) in [
            (r#""arguments": {"n": 1}"#, "{}"),
            (r#""arguments": {"n": 1}, "input": {"n": 2}"#, r#"{"n": 2}"#),
        ] {
            let calls = read(&other(fields)).unwrap();
            assert_eq!(calls[0].arguments.text(), arguments, "`input` alone counts");
        }
        assert!(read(text).unwrap().is_empty());
        assert!(
            read(r#"{"role": "assistant", "content": "only text"}"#)
                .unwrap()
                .is_empty()
        );
        assert!(answers(&[]).is_empty());
    }

    #[test]
    fn what_is_no_message_says_why() {
        for (text, why) in [
            ("", "not a JSON object"),
            ("null", "not a JSON object"),
            ("{}", "cannot find a message"),
            ("{\"content\": {}}", "cannot read the message: invalid type"),
            (
                "[{\"type\": \"tool_use\", \"id\": \"a\"}]",
                "cannot read content[0]: missing field `name`",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn each_class_of_content_is_text_or_an_image_and_text_in_an_error() {
        for (block, words) in blocks() {
            let call = invocation("toolu_1");
            let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } });
            let expected = words.map_or(image, |words| json!({ "type": "text", "text": words }));
            let shown = result(&call, &saying(json!([block])));
            assert_eq!(
                (&shown["content"], &shown["is_error"]),
                (&json!([expected]), &json!(false))
            );
            assert_eq!(
                (&shown["type"], &shown["tool_use_id"]),
                (&json!("tool_result"), &json!("toolu_1"))
            );
            let error = Refusal::new(ErrorCode::FilesNotKept, "half is missing").to_error();
            let partial = sample(
                json!({ "is_error": true, "error": error, "model_facing_content": [block] }),
            );
            let shown = result(&call, &partial);
            let kinds: Vec<_> = shown["content"]
                .as_array()
                .unwrap()
                .iter()
                .map(|part| &part["type"])
                .collect();
            assert_eq!(kinds, ["text", "text"], "{shown}");
        }
    }

    #[test]
    fn every_error_class_is_an_error() {
        for class in ErrorClass::ALL {
            let error = Refusal::new(ErrorCode::TooManyCalls, "the message")
                .with_class(class)
                .to_error();
            let block = result(
                &invocation("toolu_1"),
                &sample(json!({ "is_error": true, "error": error })),
            );
            let start = format!(
                "ERROR [{}/too_many_calls]: the message\n",
                json!(class).as_str().unwrap()
            );
            assert!(
                block["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .starts_with(&start),
                "{block}"
            );
            assert_eq!(block["is_error"], json!(true));
        }
    }
}
