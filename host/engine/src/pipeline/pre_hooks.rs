//! Phase 6: hook_blocked.

use serde_json::Value;

use crate::catalog::Tool;
use toolcell_executor::hook::{HookOutput, Registration};
use toolcell_policy::secret::REDACTED;
use toolcell_spec::{ErrorCode, HookEvent, Input, MutationSource, Refusal, Status};

use super::call_state::{CallState, PreparedCall, phase_token};
use super::hooks;
use super::observe::Observed;
use super::redaction::restored;

const EVENT: HookEvent = HookEvent::PreToolUse;

phase_token! {
    pub PreHooked(PreparedCall)
}

pub(super) async fn run(
    journey: &mut CallState<'_>,
    observed: Observed,
) -> Result<PreHooked, Refusal> {
    let PreparedCall { tool, input } = observed.open();
    if !journey.services.hooks.are_told(EVENT, tool.declaration()) {
        return Ok(PreHooked(PreparedCall { tool, input }));
    }
    // The record of a call that another process began has the changes already.
    let fresh = journey.resumed.is_none();
    if fresh {
        journey.advance(Status::PreHooksRunning)?;
    }
    // Boxed, to keep the future of a call without hooks small.
    let input = Box::pin(shape(journey, &tool, input, fresh)).await?;
    Ok(PreHooked(PreparedCall { tool, input }))
}

/// Changes are recorded only if `fresh`; otherwise they were before.
pub(super) async fn shape(
    journey: &mut CallState<'_>,
    tool: &Tool,
    input: Input,
    fresh: bool,
) -> Result<Input, Refusal> {
    let services = journey.services;
    let mut input = input;
    for hook in services.hooks.hearing(EVENT, tool.declaration()) {
        journey.heed_cancellation()?;
        let outputs = hooks::ask(journey, tool, hook, EVENT, &input).await?;
        let shown = journey.redaction.shown(&input).await?;
        let mut stopped = None;
        for output in outputs {
            match output {
                HookOutput::UpdatedInput(value) => {
                    input = update(journey, (tool, hook), input, value, &shown, fresh).await?;
                }
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

/// The hook saw the redacted copy `shown`.
async fn update(
    journey: &mut CallState<'_>,
    (tool, hook): (&Tool, &Registration),
    input: Input,
    value: Value,
    shown: &Value,
    fresh: bool,
) -> Result<Input, Refusal> {
    let value = match input.value() {
        Ok(original) => restored(value, shown, original),
        Err(_) => value,
    };
    if input.value() == Ok(&value) {
        return Ok(input);
    }
    let from = input.value().map_err(Refusal::host_fault)?;
    if let Some(why) = tool.contract().forbids(MutationSource::Hook, from, &value) {
        let message = format!("the hook {} changed the arguments, and {why}", hook.id());
        let refusal = Refusal::new(ErrorCode::MutationForbidden, message);
        return Err(refusal.by_policy(format!("hook:{}", hook.id())));
    }
    let updated = input.with_value(value);
    record(journey, &updated).await?;
    if fresh {
        let source = (MutationSource::Hook, hook.id());
        let change = [&input, &updated];
        journey
            .replaced(source, change, "updated_input of a hook")
            .await?;
    }
    Ok(updated)
}

async fn record(journey: &mut CallState<'_>, updated: &Input) -> Result<(), Refusal> {
    if journey.redaction.active().is_none() {
        return Ok(());
    }
    let (shown, done) = match journey.redaction.shown(updated).await {
        Ok(shown) => (shown, Ok(())),
        Err(refusal) => (Value::String(REDACTED.to_owned()), Err(refusal)),
    };
    if let Some(run) = journey
        .hook_runs
        .last_mut()
        .filter(|run| run.updated_input.is_some())
    {
        run.updated_input = Some(shown);
    }
    done
}
