//! Phase 6: hook_blocked.

use serde_json::Value;

use crate::hook::{HookOutput, Registration};
use crate::record::{HookEvent, Input, InputMutation, MutationSource, Refusal, Status};

use super::hooks;
use super::journey::{Journey, Prepared};

/// Runs the hooks in order; each sees what the one before it made of the input.
pub(super) async fn run(journey: &mut Journey<'_>, prepared: Prepared) -> Result<Prepared, Refusal> {
    let Prepared { tool, mut input } = prepared;
    let (services, declaration) = (journey.services, tool.declaration());
    let event = HookEvent::PreToolUse;
    let mut hearing = services.hooks.hearing(event, &declaration.tool_id, &declaration.namespace).peekable();
    if hearing.peek().is_some() {
        journey.advance(Status::PreHooksRunning)?;
    }
    for hook in hearing {
        journey.heed_cancellation()?;
        let outputs = hooks::ask(journey, &tool, hook, event, &input).await?;
        let shown = journey.shown(&input);
        input = apply(journey, hook, outputs, input, &shown)?;
    }
    Ok(Prepared { tool, input })
}

fn apply(
    journey: &mut Journey<'_>,
    hook: &Registration,
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
                if input.value() == Ok(&value) {
                    continue;
                }
                let updated = Input::from_value(value);
                let id = journey.invocation.invocation_id;
                let reason = "updated_input of a hook";
                journey.mutated(InputMutation::new(id, MutationSource::Hook, hook.id(), &input, &updated, reason));
                input = updated;
            }
            HookOutput::PermissionResult(result) => journey.hear(hook.id(), result),
            HookOutput::Stop { reason } => return Err(hooks::stopped(hook, &reason)),
            _ => {}
        }
    }
    Ok(input)
}
