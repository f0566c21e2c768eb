//! A hook that follows the input of the call: `hook` holds a list of steps for each event.

mod attack;

use serde_json::{Value, json};

wit_bindgen::generate!({
    path: "../../../wit",
    world: "hook",
    generate_all,
});

use exports::toolcell::tool::hook_handler::{
    Behavior, Description, Guest, HookCall, HookEvent, HookOutput, HookProgress, PermissionResult,
    ToolOutput,
};

struct Scripted;

impl Guest for Scripted {
    fn describe() -> Description {
        Description {
            id: "scripted\u{1b}[2J".to_owned(),
            events: vec![
                HookEvent::PreToolUse,
                HookEvent::PostToolUse,
                HookEvent::PostToolUseFailure,
                HookEvent::PermissionRequest,
                HookEvent::PermissionDecision,
                HookEvent::ResultPersistence,
            ],
        }
    }

    fn handle(call: HookCall) -> Result<Vec<HookOutput>, String> {
        let input: Value = serde_json::from_str(&call.input).map_err(|error| error.to_string())?;
        let steps = input["hook"][word(call.event)]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut outputs = Vec::new();
        for step in &steps {
            let (name, value) = step
                .as_object()
                .and_then(|step| step.iter().next())
                .ok_or("a step has a name")?;
            match name.as_str() {
                "fail" => return Err(text(value)),
                "attack" => attack::run(value.as_str().unwrap_or_default(), &mut outputs),
                _ => outputs.push(output(name, value, &call)?),
            }
        }
        Ok(outputs)
    }
}

fn output(name: &str, value: &Value, call: &HookCall) -> Result<HookOutput, String> {
    Ok(match name {
        "message" => HookOutput::Message(text(value)),
        "progress" => HookOutput::Progress(HookProgress {
            message: text(value),
            percent: Some(50.0),
        }),
        "updated_input" => HookOutput::UpdatedInput(value.to_string()),
        "allow" => opinion(Behavior::Allow, value),
        "ask" => opinion(Behavior::Ask, value),
        "deny" => opinion(Behavior::Deny, value),
        "passthrough" => opinion(Behavior::Passthrough, value),
        "additional_context" => HookOutput::AdditionalContext(value.to_string()),
        "stop" => HookOutput::Stop(text(value)),
        "updated_output" => HookOutput::UpdatedOutput(ToolOutput {
            content: "[]".to_owned(),
            structured: Some(value.to_string()),
        }),
        // Everything that the host passed to the hook.
        "seen" => {
            let context: Value =
                serde_json::from_str(&call.context).map_err(|error| error.to_string())?;
            let seen = json!({
                "event": word(call.event),
                "invocation_id": call.invocation_id,
                "tool_id": call.tool_id,
                "input": call.input,
                "context": context,
            });
            HookOutput::Message(seen.to_string())
        }
        other => return Err(format!("there is no step {other}")),
    })
}

fn opinion(behavior: Behavior, reason: &Value) -> HookOutput {
    HookOutput::PermissionResult(PermissionResult {
        behavior,
        reason: text(reason),
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn word(event: HookEvent) -> &'static str {
    match event {
        HookEvent::PreToolUse => "pre_tool_use",
        HookEvent::PostToolUse => "post_tool_use",
        HookEvent::PostToolUseFailure => "post_tool_use_failure",
        HookEvent::PermissionRequest => "permission_request",
        HookEvent::PermissionDecision => "permission_decision",
        HookEvent::ResultPersistence => "result_persistence",
    }
}

export!(Scripted);
