//! Phase 6: hook_blocked.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::hook::{self, Hook, HookCall, HookOutput};
use crate::record::{ErrorClass, EventType, Input, InputMutation, MutationSource, Refusal, Status};

use super::journey::{Journey, Prepared};

/// Runs the hooks in order; each sees what the one before it made of the input.
pub(super) async fn run(journey: &mut Journey<'_>, prepared: Prepared) -> Result<Prepared, Refusal> {
    let services = journey.services;
    if services.hooks.is_empty() {
        return Ok(prepared);
    }
    journey.advance(Status::PreHooksRunning)?;
    let Prepared { tool, mut input } = prepared;
    for hook in &services.hooks {
        journey.heed_cancellation()?;
        input = one(journey, hook, input).await?;
    }
    Ok(Prepared { tool, input })
}

async fn one(journey: &mut Journey<'_>, hook: &Arc<dyn Hook>, input: Input) -> Result<Input, Refusal> {
    let call = HookCall {
        invocation_id: journey.invocation.invocation_id,
        tool_id: journey.invocation.tool_id.clone(),
        input: journey.shown(&input),
    };
    journey.invocation.hook_refs.push(hook.id().to_owned());
    journey.trail.emit(EventType::PreHookStarted, json!({ "hook_id": hook.id() }));
    let answer = hook.pre_tool_use(&call).await;
    journey.trail.emit(EventType::PreHookCompleted, hook::summary(hook.as_ref(), &answer));
    let outputs = answer.map_err(|error| {
        let message = format!("the hook {} failed, and so the call may not go on", hook.id());
        Refusal::new(ErrorClass::HookBlocked, "hook_failed", message).detail(error)
    })?;
    apply(journey, hook.id(), outputs, input, &call.input)
}

fn apply(
    journey: &mut Journey<'_>,
    hook: &str,
    outputs: Vec<HookOutput>,
    input: Input,
    shown: &Value,
) -> Result<Input, Refusal> {
    let mut input = input;
    for output in outputs {
        match output {
            HookOutput::UpdatedInput(value) => {
                let value = match input.value() {
                    Ok(original) => Journey::restored(value, shown, original),
                    Err(_) => value,
                };
                let updated = Input::from_value(value);
                let id = journey.invocation.invocation_id;
                let reason = "updated_input of a hook";
                journey.mutated(InputMutation::new(id, MutationSource::Hook, hook, &input, &updated, reason));
                input = updated;
            }
            HookOutput::Stop { reason } => {
                let message = format!("the hook {hook} stopped the call: {reason}");
                return Err(Refusal::new(ErrorClass::HookBlocked, "hook_stop", message));
            }
            HookOutput::AdditionalContext(context) => journey.additional_context.push(context),
            HookOutput::Message(_) | HookOutput::UpdatedOutput(_) => {}
        }
    }
    Ok(input)
}
