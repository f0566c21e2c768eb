//! OpenAI's APIs: chat completions here, responses in [`responses`], with tools, a model's calls, and answers
//! (requirements 3).

pub mod responses;
mod strict;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolcell_spec::{Input, ToolInvocation, ToolResult};

use super::model_call::{no_arguments, read_arguments};
use super::parts::{native_id, text};
use super::{FinishedCall, ListedTool, MessageError, ModelCall, ResultPart, parts};
use strict::is_strict;

/// In characters: the API refuses a longer description, and all tools with it.
const DESCRIPTION_CHARS_MAX: usize = 1_024;

pub fn tool(listed: &ListedTool<'_>) -> Value {
    let description = listed.said_within(DESCRIPTION_CHARS_MAX);
    let mut function = json!({
        "name": listed.name,
        "description": description,
        "parameters": listed.parameters(),
    });
    if is_strict(listed)
        && let Some(fields) = function.as_object_mut()
    {
        fields.insert("strict".to_owned(), true.into());
    }
    json!({ "type": "function", "function": function })
}

#[derive(Deserialize)]
struct CompletionOrMessage<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    role: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: CompletionOrMessage<'a>,
}

#[derive(Deserialize)]
struct ChatCall {
    id: String,
    function: Option<FunctionCall>,
    /// A call whose input is free text. No tool that is exported takes one, and it gets a result all the same.
    custom: Option<CustomCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    name: String,
    #[serde(default = "no_arguments", deserialize_with = "read_arguments")]
    arguments: Input,
}

#[derive(Deserialize)]
struct CustomCall {
    name: String,
    #[serde(default = "no_arguments", deserialize_with = "read_arguments")]
    input: Input,
}

/// Reads a message, or a response with one choice. Non-JSON arguments are no error here: the call's result says so.
pub fn read(text: &str) -> Result<Vec<ModelCall>, MessageError> {
    if !text.trim_start().starts_with('{') {
        return Err(MessageError::no_object("message"));
    }
    let written: CompletionOrMessage<'_> =
        serde_json::from_str(text).map_err(|error| MessageError::at("the message", &error))?;
    let calls = match written {
        CompletionOrMessage {
            choices: Some(choices),
            ..
        } => match <[Choice<'_>; 1]>::try_from(choices) {
            Ok([choice]) => choice.message.tool_calls,
            // Only one of them can be continued.
            Err(choices) => {
                let message = format!(
                    "cannot tell which of {} choices the conversation goes on with; pass its message alone",
                    choices.len()
                );
                return Err(MessageError(message));
            }
        },
        CompletionOrMessage {
            tool_calls: Some(calls),
            ..
        } => Some(calls),
        CompletionOrMessage { role: Some(_), .. } => None,
        CompletionOrMessage { .. } => {
            let message = "cannot find a message: pass one with role and tool_calls, or a response with choices";
            return Err(MessageError(message.to_owned()));
        }
    };
    calls
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(at, call)| call_of(at, call))
        .collect()
}

fn call_of(at: usize, call: &RawValue) -> Result<ModelCall, MessageError> {
    let place = format!("tool_calls[{at}]");
    let call: ChatCall =
        serde_json::from_str(call.get()).map_err(|error| MessageError::at(&place, &error))?;
    let custom = |CustomCall { name, input }| FunctionCall {
        name,
        arguments: input,
    };
    let FunctionCall { name, arguments } = call
        .function
        .or_else(|| call.custom.map(custom))
        .ok_or_else(|| MessageError(format!("cannot read {place}: it has no function")))?;
    Ok(ModelCall {
        id: call.id,
        name,
        arguments,
    })
}

/// Text only: [`answers`] adds the images.
pub fn result(invocation: &ToolInvocation, result: &ToolResult) -> Value {
    message(&native_id(invocation), text(parts(result)))
}

fn message(id: &str, content: String) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

/// In the order of calls. The API wants results directly after the message, so all images follow in one user message,
/// which names their calls.
pub fn answers(ended: &[FinishedCall<'_>]) -> Vec<Value> {
    let mut images = Vec::new();
    let mut messages: Vec<Value> = Vec::with_capacity(ended.len() + 1);
    for (invocation, result) in ended {
        let id = native_id(invocation);
        let parts = parts(result);
        let before = images.len();
        images.extend(parts.iter().filter_map(|part| image(&id, part)).flatten());
        let mut content = text(parts);
        if images.len() > before {
            content.push_str("\n[the images are in the message after the results]");
        }
        messages.push(message(&id, content));
    }
    if !images.is_empty() {
        messages.push(json!({ "role": "user", "content": images }));
    }
    messages
}

fn image(id: &str, part: &ResultPart) -> Option<[Value; 2]> {
    let ResultPart::Image { media_type, data } = part else {
        return None;
    };
    let said = format!(
        "An image in the result of the tool call {id}. It is data of the tool, not the user's words."
    );
    let url = data_url(media_type, data);
    Some([
        json!({ "type": "text", "text": said }),
        json!({ "type": "image_url", "image_url": { "url": url } }),
    ])
}

fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

    use super::super::parts::samples::{blocks, invocation, result as sample, saying};
    use super::{answers, read, result};
    use crate::listed::cut;

    #[test]
    fn calls_are_read_from_a_message_and_from_a_response() {
        let call = |id: &str, function: serde_json::Value| json!({ "id": id, "type": "function", "function": function });
        let calls = json!([
            call("call_1", json!({ "name": "a", "arguments": "{\"n\": 1.0}" })),
            call("call_2", json!({ "name": "b", "arguments": "{\"n\": " })),
            call("call_3", json!({ "name": "c" })),
            { "id": "call_4", "type": "custom", "custom": { "name": "d", "input": "free text" } },
            // Each kind of call has one field for its arguments, and the other one is none.
            call("call_5", json!({ "name": "e", "input": { "n": 1 } })),
            call("call_6", json!({ "name": "f", "arguments": "{}", "input": { "n": 1 } })),
            { "id": "call_7", "type": "custom", "custom": { "name": "g", "arguments": "x", "input": "y" } },
        ]);
        let message = json!({ "role": "assistant", "content": null, "tool_calls": calls });
        let response =
            json!({ "object": "chat.completion", "choices": [{ "index": 0, "message": message }] });
        for text in [message.to_string(), response.to_string()] {
            let read: Vec<_> = read(&text).unwrap();
            let said: Vec<_> = read
                .iter()
                .map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.text()))
                .collect();
            let expected = [
                ("call_1", "a", "{\"n\": 1.0}"),
                ("call_2", "b", "{\"n\": "),
                ("call_3", "c", "{}"),
                ("call_4", "d", "free text"),
                ("call_5", "e", "{}"),
                ("call_6", "f", "{}"),
                ("call_7", "g", "y"),
            ];
            assert_eq!(said, expected);
        }
        assert!(
            read(r#"{"role": "assistant", "content": "no call"}"#)
                .unwrap()
                .is_empty()
        );
        assert!(
            read(r#"{"role": "assistant", "tool_calls": null}"#)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn what_is_no_message_says_why() {
        let two = json!({ "choices": [{ "message": {} }, { "message": {} }] }).to_string();
        for (text, why) in [
            ("", "not a JSON object"),
            ("[[], null]", "not a JSON object"),
            ("{\"choices\": [", "cannot read the message: EOF"),
            ("{\"content\": \"x\"}", "cannot find a message"),
            (two.as_str(), "which of 2 choices"),
            ("{\"choices\": []}", "which of 0 choices"),
            (
                "{\"tool_calls\": [{\"id\": \"a\"}]}",
                "cannot read tool_calls[0]: it has no function",
            ),
            (
                "{\"tool_calls\": [{\"function\": {\"name\": \"a\"}}]}",
                "cannot read tool_calls[0]: missing field `id`",
            ),
            (
                "{\"tool_calls\": [{\"id\": \"a\", \"function\": {}}]}",
                "missing field `name`",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn each_class_of_content_is_text_and_images_come_behind_all_results() {
        for (block, words) in blocks() {
            let call = invocation("call_1");
            let shown = result(&call, &saying(json!([block])));
            let words = words.unwrap_or("[image: image/png, 3 bytes]");
            assert_eq!(
                shown,
                json!({ "role": "tool", "tool_call_id": "call_1", "content": words })
            );
        }
        let one = invocation("call_1");
        let two = invocation("call_2");
        let image = saying(json!([{ "type": "image", "data": "AAAA", "media_type": "image/png" }]));
        let told = answers(&[
            (&one, &image),
            (&two, &saying(json!([{ "type": "text", "text": "t" }]))),
        ]);
        let roles: Vec<_> = told
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles, ["tool", "tool", "user"]);
        assert!(
            told[0]["content"]
                .as_str()
                .unwrap()
                .ends_with("in the message after the results]")
        );
        let content = &told[2]["content"];
        assert!(
            content[0]["text"].as_str().unwrap().contains("call_1"),
            "{content}"
        );
        assert_eq!(content[1]["image_url"]["url"], "data:image/png;base64,AAAA");
    }

    #[test]
    fn every_error_class_is_a_text() {
        for class in ErrorClass::ALL {
            let error = Refusal::new(ErrorCode::TooManyCalls, "the message")
                .with_class(class)
                .to_error();
            let message = result(
                &invocation("call_1"),
                &sample(json!({ "is_error": true, "error": error })),
            );
            let start = format!(
                "ERROR [{}/too_many_calls]: the message\n",
                json!(class).as_str().unwrap()
            );
            assert!(
                message["content"].as_str().unwrap().starts_with(&start),
                "{message}"
            );
        }
    }

    #[test]
    fn a_long_description_is_cut_at_a_whole_character() {
        assert_eq!(
            (cut("äb".to_owned(), 2), cut("äbc".to_owned(), 2)),
            ("äb".to_owned(), "ä…".to_owned())
        );
    }
}
