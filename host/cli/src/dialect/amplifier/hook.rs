use serde_json::{Map, Value};
use toolcell_core::hook::{HookOutput, UpdatedOutput};
use toolcell_core::record::{Behavior, ErrorClass, HookEvent, PermissionResult, Refusal};

use super::received::received;

/// Converts the `HookResult` of an Amplifier hook at `event` (AM-18). `approval_default` and the options of its
/// question have no place: the operator's policy says what becomes of a call without an answer.
///
/// # Errors
///
/// Fails if the action is unknown, or says nothing that can be followed. A hook that fails blocks the call, or is
/// reported, as the operator chose.
pub fn hook_outputs(event: HookEvent, result: &Value) -> Result<Vec<HookOutput>, Refusal> {
    let fields = result.as_object().ok_or_else(|| unusable("it is not an object"))?;
    let mut outputs = match text(fields, "action") {
        None if !fields.contains_key("action") => Vec::new(),
        Some("continue") => Vec::new(),
        Some("deny") => vec![refusal(event, Behavior::Deny, text(fields, "reason").unwrap_or("denied by a hook"))],
        Some("ask_user") => {
            let prompt = text(fields, "approval_prompt").or(text(fields, "reason"));
            vec![refusal(event, Behavior::Ask, prompt.unwrap_or("a hook asks for an approval"))]
        }
        Some("modify") => vec![modified(event, fields.get("data"))?],
        Some("inject_context") => {
            let context = text(fields, "context_injection").filter(|context| !context.is_empty());
            let context = context.ok_or_else(|| unusable("`inject_context` has no `context_injection`"))?;
            vec![HookOutput::AdditionalContext(context.into())]
        }
        _ => return Err(unusable("its `action` is unknown")),
    };
    outputs.extend(text(fields, "user_message").map(|message| HookOutput::Message(message.to_owned())));
    Ok(outputs)
}

/// An opinion on the decision where there still is one to make. Elsewhere the call stops, because a refusal must not be
/// without effect.
fn refusal(event: HookEvent, behavior: Behavior, reason: &str) -> HookOutput {
    let opinion = HookOutput::PermissionResult(PermissionResult { behavior, reason: reason.to_owned() });
    if opinion.counts_at(event) { opinion } else { HookOutput::Stop { reason: reason.to_owned() } }
}

/// `data` is the data of the event as the hook changed it, in the keys of either page.
fn modified(event: HookEvent, data: Option<&Value>) -> Result<HookOutput, Refusal> {
    let field = |upstream: &str, seed: &str| data.and_then(|data| data.get(upstream).or_else(|| data.get(seed)));
    let output = HookOutput::UpdatedInput(Value::Null);
    if output.counts_at(event) {
        let input = field("tool_input", "input").filter(|input| input.is_object());
        let input = input.ok_or_else(|| unusable("`modify` has no object `tool_input` or `input` in `data`"))?;
        return Ok(HookOutput::UpdatedInput(input.clone()));
    }
    let updated = HookOutput::UpdatedOutput(UpdatedOutput::default());
    if !updated.counts_at(event) {
        return Err(unusable("`modify` has no effect at this event"));
    }
    let result = field("tool_result", "result");
    let result = result.ok_or_else(|| unusable("`modify` has no `tool_result` or `result` in `data`"))?;
    let (content, structured) = received(result)?.output();
    Ok(HookOutput::UpdatedOutput(UpdatedOutput { content, structured }))
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

fn unusable(why: &str) -> Refusal {
    let message = format!("cannot follow the result of the Amplifier hook: {why}");
    Refusal::new(ErrorClass::HookBlocked, "bad_hook_result", message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_core::hook::{HookOutput, UpdatedOutput};
    use toolcell_core::record::{Behavior, Content, HookEvent, PermissionResult};

    use super::hook_outputs;

    fn opinion(behavior: Behavior, reason: &str) -> HookOutput {
        HookOutput::PermissionResult(PermissionResult { behavior, reason: reason.to_owned() })
    }

    #[test]
    fn every_action_has_its_output_before_the_tool() {
        for (result, outputs) in [
            (json!({}), vec![]),
            (json!({ "action": "continue", "user_message": "m" }), vec![HookOutput::Message("m".to_owned())]),
            (json!({ "action": "deny", "reason": "no" }), vec![opinion(Behavior::Deny, "no")]),
            (json!({ "action": "deny" }), vec![opinion(Behavior::Deny, "denied by a hook")]),
            (
                json!({ "action": "ask_user", "approval_prompt": "sure?", "approval_default": "allow" }),
                vec![opinion(Behavior::Ask, "sure?")],
            ),
            (
                json!({ "action": "modify", "data": { "tool_input": { "a": 1 }, "input": { "a": 0 } } }),
                vec![HookOutput::UpdatedInput(json!({ "a": 1 }))],
            ),
            (
                json!({ "action": "modify", "data": { "input": { "a": 2 } } }),
                vec![HookOutput::UpdatedInput(json!({ "a": 2 }))],
            ),
            (
                json!({ "action": "inject_context", "context_injection": "c", "context_injection_role": "system" }),
                vec![HookOutput::AdditionalContext(json!("c"))],
            ),
        ] {
            assert_eq!(hook_outputs(HookEvent::PreToolUse, &result).unwrap(), outputs, "{result}");
        }
    }

    #[test]
    fn after_the_tool_a_refusal_stops_and_a_change_replaces_the_output() {
        let deny = json!({ "action": "deny", "reason": "no" });
        let stop = HookOutput::Stop { reason: "no".to_owned() };
        assert_eq!(hook_outputs(HookEvent::PostToolUse, &deny).unwrap(), [stop]);
        let change = |result: Value| json!({ "action": "modify", "data": result });
        let updated = |content, structured| vec![HookOutput::UpdatedOutput(UpdatedOutput { content, structured })];
        let text = change(json!({ "result": { "output": "new" } }));
        assert_eq!(hook_outputs(HookEvent::PostToolUse, &text).unwrap(), updated(vec![Content::text("new")], None));
        let value = change(json!({ "tool_result": { "output": [1] } }));
        assert_eq!(hook_outputs(HookEvent::PostToolUse, &value).unwrap(), updated(vec![], Some(json!([1]))));
    }

    #[test]
    fn what_cannot_be_followed_is_a_failure_of_the_hook() {
        for (event, result, why) in [
            (HookEvent::PreToolUse, json!(null), "not an object"),
            (HookEvent::PreToolUse, json!({ "action": "allow" }), "unknown"),
            (HookEvent::PreToolUse, json!({ "action": 7 }), "unknown"),
            (HookEvent::PreToolUse, json!({ "action": "modify" }), "`modify` has no object"),
            (HookEvent::PreToolUse, json!({ "action": "modify", "data": { "input": 1 } }), "`modify` has no object"),
            (HookEvent::PermissionRequest, json!({ "action": "modify", "data": { "input": {} } }), "no effect"),
            (HookEvent::PostToolUse, json!({ "action": "modify", "data": {} }), "no `tool_result`"),
            (HookEvent::PreToolUse, json!({ "action": "inject_context" }), "`context_injection`"),
        ] {
            let refusal = hook_outputs(event, &result).unwrap_err();
            assert!(refusal.message.contains(why), "{result}: {}", refusal.message);
        }
    }
}
