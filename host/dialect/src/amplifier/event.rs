use serde_json::{Map, Value, json};
use toolcell_spec::{Timestamp, ToolInvocation, ToolResult};

use super::result::{AmplifierMode, result};
use crate::agentool::arguments;

/// Events reach logs.
const IMAGE_OMITTED: &str = "[image omitted from the event]";

/// `tool:pre`, then `tool:post` or `tool:error` (AM-12..14), also for a refused call, with the keys of the contract's
/// page and `amplifier-core`. `tool_name` is the mounted name.
pub fn events(
    invocation: &ToolInvocation,
    ended: &ToolResult,
    tool_name: &str,
    mode: AmplifierMode,
) -> Vec<Value> {
    let began = invocation
        .started_at()
        .unwrap_or_else(|| invocation.created_at());
    let input = arguments(invocation).clone();
    let common = [
        ("tool_name", json!(tool_name)),
        ("tool_call_id", json!(invocation.native_call_id)),
        ("invocation_id", json!(invocation.invocation_id)),
        ("session_id", json!(invocation.session_ref)),
        ("input", input.clone()),
        ("tool_input", input),
    ];
    let event = |name: &str, at: Timestamp, own: Vec<(&str, Value)>| {
        let fields = common
            .iter()
            .cloned()
            .chain(own)
            .map(|(key, value)| (key.to_owned(), value));
        let mut data: Map<String, Value> = fields.collect();
        data.insert("timestamp".to_owned(), json!(at));
        json!({ "event": name, "data": data })
    };
    let mut answer = result(invocation, ended, mode);
    omit_images(&mut answer);
    let at = invocation.ended_at().unwrap_or(ended.created_at);
    let error = answer.get("error").cloned().unwrap_or_default();
    let own = [("result", answer.clone()), ("tool_result", answer)];
    let last = if ended.is_error {
        let own = [("error", error)].into_iter().chain(own).collect();
        event("tool:error", at, own)
    } else {
        event("tool:post", at, own.into())
    };
    vec![event("tool:pre", began, Vec::new()), last]
}

fn omit_images(answer: &mut Value) {
    let blocks = answer.get_mut("content").and_then(Value::as_array_mut);
    for block in blocks
        .into_iter()
        .flatten()
        .filter(|block| block.get("type").is_some_and(|kind| kind == "image"))
    {
        *block = json!({ "type": "text", "text": IMAGE_OMITTED });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_spec::{
        Content, ErrorClass, ErrorCode, Input, Refusal, ToolInvocation, ToolResult,
    };

    use super::events;
    use crate::amplifier::AmplifierMode;

    fn call() -> ToolInvocation {
        let mut invocation =
            ToolInvocation::planned("files.read", &Input::from_text(r#"{"path":"a"}"#));
        invocation.native_call_id = Some("call-1".to_owned());
        invocation
    }

    fn failed(invocation: &ToolInvocation, class: ErrorClass) -> ToolResult {
        let provenance =
            serde_json::from_value(json!({ "trust": "untrusted", "written_by": "host" })).unwrap();
        let error = Refusal::new(ErrorCode::TooManyCalls, "the message")
            .with_class(class)
            .to_error();
        ToolResult::failed(invocation.invocation_id, error, provenance)
    }

    fn names(events: &[Value]) -> Vec<&str> {
        events
            .iter()
            .map(|event| event["event"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn a_call_that_works_is_before_and_after_with_the_keys_of_both_pages() {
        let image = json!({ "data": "AAAA", "media_type": "image/png" });
        let call = call();
        let mut result = failed(&call, ErrorClass::Canceled);
        (result.is_error, result.error) = (false, None);
        result.model_facing_content = vec![Content::text("said"), Content::new("image", image)];
        let events = events(&call, &result, "read", AmplifierMode::Upstream);
        assert_eq!(names(&events), ["tool:pre", "tool:post"]);
        for event in &events {
            let data = &event["data"];
            assert_eq!(
                (&data["tool_name"], &data["tool_call_id"]),
                (&json!("read"), &json!("call-1"))
            );
            assert_eq!(
                (&data["input"], &data["tool_input"]),
                (&json!({ "path": "a" }), &json!({ "path": "a" }))
            );
        }
        let data = &events[1]["data"];
        assert_eq!(data["result"], data["tool_result"]);
        assert_eq!(data["result"]["content"][0]["text"], "said");
        assert_eq!(data["result"]["content"][1]["text"], super::IMAGE_OMITTED);
        assert!(data.get("error").is_none() && !data.to_string().contains("AAAA"));
    }

    #[test]
    fn a_call_of_every_error_class_is_before_and_error() {
        for class in ErrorClass::ALL {
            let call = call();
            let result = failed(&call, class);
            let upstream = events(&call, &result, "read", AmplifierMode::Upstream);
            assert_eq!(names(&upstream), ["tool:pre", "tool:error"], "{class:?}");
            assert_eq!(upstream[1]["data"]["error"]["class"], json!(class));
            assert_eq!(upstream[1]["data"]["error"]["message"], "the message");
            let seed = events(&call, &result, "read", AmplifierMode::Seed);
            assert!(
                seed[1]["data"]["error"]
                    .as_str()
                    .unwrap()
                    .starts_with("the message ["),
                "{class:?}"
            );
        }
    }
}
