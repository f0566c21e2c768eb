//! Phase 11: execution_failed, where a hook's output breaks the tool's contract, or a blocking hook fails.

use serde_json::json;

use crate::catalog::Tool;
use toolcell_executor::hook::{HookOutput, Registration};
use toolcell_spec::{HookEvent, ResultId, Status};
use toolcell_system::BoxFuture;

use super::call_state::{CallState, phase_token};
use super::map_result::{Answered, MappedResult, remap};
use super::{hooks, terminal};

phase_token! {
    pub(super) PostHooked(Box<MappedResult>)
}

/// A tool that never ran has no hooks.
pub(super) async fn run(journey: &mut CallState<'_>, answered: Answered) -> PostHooked {
    let mut mapped = answered.open();
    let Some(tool) = journey.tool.clone().filter(|_| mapped.ran) else {
        return PostHooked(mapped);
    };
    let services = journey.services;
    let event = match mapped.error {
        None => HookEvent::PostToolUse,
        Some(_) => HookEvent::PostToolUseFailure,
    };
    let mut hearing = services.hooks.hearing(event, tool.declaration()).peekable();
    if hearing.peek().is_some() && event == HookEvent::PostToolUse {
        journey.pass_through(Status::PostHooksRunning, "hooks run after the tool");
    }
    for hook in hearing {
        if let Some(reason) = one(journey, &tool, hook, event, &mut mapped).await {
            // The tool has run already, so the stop can only be reported.
            journey
                .additional_context
                .push(json!({ "stop": reason, "hook": hook.id() }));
        }
    }
    PostHooked(mapped)
}

/// Returns the reason if the hook says stop.
pub(super) fn one<'a>(
    journey: &'a mut CallState<'_>,
    tool: &'a Tool,
    hook: &'a Registration,
    event: HookEvent,
    mapped: &'a mut MappedResult,
) -> BoxFuture<'a, Option<String>> {
    Box::pin(async move {
        journey.redact_records();
        let input = journey
            .invocation
            .call_input
            .as_deref()
            .cloned()
            .unwrap_or_default();
        let mut call = hooks::call(journey, tool, event, input);
        call.result = Some(terminal::envelope(
            journey,
            ResultId::new(),
            MappedResult::clone(mapped),
        ));
        match hooks::run(journey, hook, call).await {
            Ok(outputs) => apply(journey, tool, hook, outputs, mapped).await,
            Err(refusal) => {
                mapped.withhold(refusal);
                None
            }
        }
    })
}

async fn apply(
    journey: &mut CallState<'_>,
    tool: &Tool,
    hook: &Registration,
    outputs: Vec<HookOutput>,
    mapped: &mut MappedResult,
) -> Option<String> {
    let mut stop = None;
    for output in outputs {
        match output {
            HookOutput::UpdatedOutput(updated) => {
                remap(journey, tool, hook.id(), updated, mapped).await
            }
            HookOutput::Stop { reason } => stop = Some(reason),
            _ => {}
        }
    }
    stop
}
