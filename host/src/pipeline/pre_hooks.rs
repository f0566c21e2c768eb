//! Phase 6: hook_blocked.

use serde_json::Value;

use crate::catalog::Tool;
use crate::hook::{HookOutput, Registration};
use crate::record::{HookEvent, Input, InputMutation, MutationSource, Refusal, Status};

use super::hooks;
use super::journey::{Journey, Prepared};

const EVENT: HookEvent = HookEvent::PreToolUse;

/// Runs the hooks in order; each gets the input as the hook before it left it.
pub(super) async fn run(journey: &mut Journey<'_>, prepared: Prepared) -> Result<Prepared, Refusal> {
    let Prepared { tool, input } = prepared;
    let declaration = tool.declaration();
    let heard = journey.services.hooks.hearing(EVENT, &declaration.tool_id, &declaration.namespace).next().is_some();
    if !heard {
        return Ok(Prepared { tool, input });
    }
    journey.advance(Status::PreHooksRunning)?;
    // Boxed, to keep the future of a call without hooks small.
    let input = Box::pin(shape(journey, &tool, input, true)).await?;
    Ok(Prepared { tool, input })
}

/// Returns `input` as the hooks change it. Each change is recorded if it is `fresh`; otherwise it was recorded before.
pub(super) async fn shape(journey: &mut Journey<'_>, tool: &Tool, input: Input, fresh: bool) -> Result<Input, Refusal> {
    let (services, declaration) = (journey.services, tool.declaration());
    let mut input = input;
    for hook in services.hooks.hearing(EVENT, &declaration.tool_id, &declaration.namespace) {
        journey.heed_cancellation()?;
        let outputs = hooks::ask(journey, tool, hook, EVENT, &input).await?;
        let shown = journey.shown(&input).await?;
        let mut stopped = None;
        for output in outputs {
            match output {
                HookOutput::UpdatedInput(value) => input = update(journey, hook, input, value, &shown, fresh).await?,
                HookOutput::PermissionResult(result) => journey.hear(hook.id(), result),
                HookOutput::Stop { reason } => stopped = stopped.or(Some(reason)),
                _ => {}
            }
        }
        if let Some(reason) = stopped {
            return Err(hooks::stopped(hook, &reason));
        }
    }
    Ok(input)
}

/// The input that a hook wants instead of `input`, of which it saw the redacted copy `shown`.
async fn update(
    journey: &mut Journey<'_>,
    hook: &Registration,
    input: Input,
    value: Value,
    shown: &Value,
    fresh: bool,
) -> Result<Input, Refusal> {
    let value = match input.value() {
        Ok(original) => Journey::restored(value, shown, original),
        Err(_) => value,
    };
    if input.value() == Ok(&value) {
        return Ok(input);
    }
    let updated = input.with_value(value);
    journey.keep_shown(&updated).await?;
    if fresh {
        let id = journey.invocation.invocation_id;
        let reason = "updated_input of a hook";
        journey.mutated(InputMutation::new(id, MutationSource::Hook, hook.id(), &input, &updated, reason));
    }
    Ok(updated)
}
