//! Calls in a provider's response, and answering messages: an orchestrator's work between two model requests.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolcell_spec::{ToolInvocation, ToolResult};

use super::event::events;
use super::result::{AmplifierMode, result};
use crate::model_call::calls;
use crate::parts::native_id;
use crate::{MessageError, ModelCall};

const CALL: &str = "tool_call";

/// A `ChatResponse`, or an assistant's `Message`.
#[derive(Deserialize)]
struct AmplifierResponse<'a> {
    #[serde(borrow)]
    tool_calls: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Calls from `tool_calls`, or else from blocks of `content`. Fails for a text that is no response.
pub fn read(text: &str) -> Result<Vec<ModelCall>, MessageError> {
    if !text.trim_start().starts_with('{') {
        return Err(MessageError::no_object("message"));
    }
    let fails = |error: serde_json::Error| MessageError::at("the message", &error);
    let AmplifierResponse {
        tool_calls,
        content,
    } = serde_json::from_str(text).map_err(fails)?;
    let (place, items) = match (tool_calls, content) {
        (Some(calls), _) if !calls.is_empty() => ("tool_calls", calls),
        // A message that is one text calls nothing.
        (_, Some(content)) if content.get().starts_with('"') => return Ok(Vec::new()),
        (_, Some(content)) => (
            "content",
            serde_json::from_str(content.get()).map_err(fails)?,
        ),
        (Some(_), None) => return Ok(Vec::new()),
        (None, None) => {
            let message = "cannot find a message: pass a response with content and tool_calls, or a message with content";
            return Err(MessageError(message.to_owned()));
        }
    };
    // A block that calls a tool has `input`, a `ToolCall` has `arguments`.
    calls::<ModelCall>(place, items, (place == "content").then_some(CALL))
}

/// `metadata` has the `ToolResult` of `amplifier-core` and the call's events.
pub fn answer(invocation: &ToolInvocation, ended: &ToolResult) -> Value {
    message(invocation, ended, AmplifierMode::Upstream)
}

pub fn seed_answer(invocation: &ToolInvocation, ended: &ToolResult) -> Value {
    message(invocation, ended, AmplifierMode::Seed)
}

fn message(invocation: &ToolInvocation, ended: &ToolResult, mode: AmplifierMode) -> Value {
    let name = name(invocation);
    json!({
        "role": "tool",
        "tool_call_id": native_id(invocation),
        "name": name,
        "content": content(&result(invocation, ended, AmplifierMode::Upstream)),
        "metadata": {
            "tool_result": result(invocation, ended, mode),
            "events": events(invocation, ended, &name, mode),
        },
    })
}

/// A result's blocks if it has images, else `get_serialized_output` of `amplifier-core`.
fn content(answer: &Value) -> Value {
    match (answer.get("content"), answer.get("output")) {
        (Some(blocks), _) => blocks.clone(),
        (None, Some(Value::String(text))) => text.as_str().into(),
        (None, None | Some(Value::Null)) => "Success".into(),
        (None, Some(value)) => value.to_string().into(),
    }
}

/// The model's name for the tool.
fn name(invocation: &ToolInvocation) -> String {
    let mappings = invocation.extra.get("external_mappings");
    let mapped = mappings.and_then(|mappings| mappings.get(0)?.get("function_name")?.as_str());
    mapped.unwrap_or(&invocation.tool_id).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{answer, read, seed_answer};
    use crate::parts::samples::{blocks, invocation, result as sample};

    #[test]
    fn calls_are_read_from_a_response_and_from_the_blocks_of_a_message() {
        let listed = r#"{"content": [{"type": "tool_call", "id": "c", "name": "a", "input": {}}],
            "tool_calls": [{"id": "call_1", "name": "a", "arguments": {"n":  1.0}}]}"#;
        let block = r#"{"role": "assistant", "tool_calls": null, "content": [{"type": "text", "text": "I look"},
            {"type": "tool_call", "id": "call_1", "name": "a", "input": {"n":  1.0}}]}"#;
        for text in [listed, block] {
            let calls = read(text).unwrap();
            let [call] = calls.as_slice() else {
                panic!("{calls:?}")
            };
            let said = (call.id.as_str(), call.name.as_str(), call.arguments.text());
            assert_eq!(said, ("call_1", "a", "{\"n\":  1.0}"));
        }
        for text in [
            r#"{"role": "assistant", "content": "only text"}"#,
            r#"{"tool_calls": []}"#,
            r#"{"content": []}"#,
        ] {
            assert!(read(text).unwrap().is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_says_why() {
        for (text, why) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{}", "cannot find a message"),
            (
                r#"{"tool_calls": 7}"#,
                "cannot read the message: invalid type",
            ),
            (
                r#"{"tool_calls": [{"id": "a"}]}"#,
                "cannot read tool_calls[0]: missing field `name`",
            ),
            (
                r#"{"content": [{"type": "text"}, {"type": "tool_call", "id": "a"}]}"#,
                "cannot read content[1]",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_message_has_what_a_model_reads_and_the_result_and_the_events_of_its_call() {
        let call = invocation("call_1");
        let said = sample(json!({ "model_facing_content": [{ "type": "text", "text": "t" }] }));
        let empty = sample(json!({ "empty_result": true }));
        let [one, nothing] = [&said, &empty].map(|ended| answer(&call, ended));
        assert_eq!(
            (&one["role"], &one["tool_call_id"], &one["content"]),
            (&json!("tool"), &json!("call_1"), &json!("t"))
        );
        assert_eq!(nothing["content"], "Success");
        let metadata = &one["metadata"];
        assert_eq!(
            (
                &metadata["tool_result"]["success"],
                &metadata["tool_result"]["error"]
            ),
            (&json!(true), &json!(null))
        );
        let events: Vec<_> = metadata["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| &event["event"])
            .collect();
        assert_eq!(events, ["tool:pre", "tool:post"]);
        for (block, _) in blocks() {
            let is_image = block["type"] == "image";
            let with = sample(json!({ "model_facing_content": [block] }));
            let message = answer(&call, &with);
            assert_eq!(message["content"].is_array(), is_image, "{message:#}");
            assert!(seed_answer(&call, &with)["metadata"]["tool_result"]["output"].is_string());
        }
    }
}
