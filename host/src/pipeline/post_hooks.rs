//! Phase 11: execution_failed, where a hook's output breaks the tool's contract. A failing hook leaves a note only.

use serde_json::json;

use crate::hook::{self, Hook, HookCall, HookOutput};
use crate::record::{ErrorClass, EventType, Refusal, Status};

use super::journey::Journey;
use super::map_result::Mapped;
use super::terminal;

/// Runs the hooks for success or for failure of a tool that ran; a tool that never ran has none.
pub(super) async fn run(journey: &mut Journey<'_>, mapped: Mapped) -> Mapped {
    let services = journey.services;
    if services.hooks.is_empty() || !mapped.ran {
        return mapped;
    }
    let succeeded = mapped.error.is_none();
    if succeeded {
        journey.pass_through(Status::PostHooksRunning, "hooks run after the tool");
    }
    let mut mapped = mapped;
    for hook in &services.hooks {
        one(journey, hook.as_ref(), succeeded, &mut mapped).await;
    }
    mapped
}

async fn one(journey: &mut Journey<'_>, hook: &dyn Hook, succeeded: bool, mapped: &mut Mapped) {
    let (started, completed) = match succeeded {
        true => (EventType::PostHookStarted, EventType::PostHookCompleted),
        false => (EventType::FailureHookStarted, EventType::FailureHookCompleted),
    };
    let call = HookCall {
        invocation_id: journey.invocation.invocation_id,
        tool_id: journey.invocation.tool_id.clone(),
        input: journey.invocation.call_input.clone().unwrap_or_default(),
    };
    let result = terminal::envelope(journey, mapped.clone());
    journey.trail.emit(started, json!({ "hook_id": hook.id() }));
    let answer = match succeeded {
        true => hook.post_tool_use(&call, &result).await,
        false => hook.post_tool_use_failure(&call, &result).await,
    };
    journey.trail.emit(completed, hook::summary(hook, &answer));
    for output in answer.unwrap_or_default() {
        match output {
            HookOutput::UpdatedOutput(value) => {
                let checked = journey.tool.as_ref().map_or(Ok(()), |tool| tool.contract().check_output(&value));
                if let Err(mismatch) = checked {
                    let message =
                        format!("the hook {} changed the output, and broke its schema: {mismatch}", hook.id());
                    mapped.error = Some(Refusal::new(ErrorClass::ExecutionFailed, "result_mapping_failed", message));
                } else {
                    // Mapped a second time, by the hook that owns this update (AT-PIPE-10).
                    mapped.content.retain(|block| !block.is_model_facing());
                    mapped.structured_content = Some(value);
                    mapped.empty_result = false;
                }
            }
            HookOutput::AdditionalContext(context) => journey.additional_context.push(context),
            HookOutput::Stop { reason } => {
                journey.additional_context.push(json!({ "stop": reason, "hook": hook.id() }))
            }
            HookOutput::Message(_) | HookOutput::UpdatedInput(_) => {}
        }
    }
}
