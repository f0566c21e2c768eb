//! Runs one hook in any phase: bounded, recorded, with its failure's meaning for the call.

use std::future::pending;

use serde_json::{Value, json};

use crate::catalog::Tool;
use toolcell_executor::hook::{
    HookCall, HookFailure, HookOutput, HookProgress, HookRun, Registration,
};
use toolcell_executor::stopped as stopped_call;
use toolcell_spec::{
    ErrorCode, EventType, Extra, HookEvent, HookOutcome, Input, ProgressStatus, Refusal,
    SchemaVersion, ToolHook, ToolProgress,
};
use toolcell_system::BoxFuture;

use super::call_state::CallState;

pub(super) fn call(
    journey: &CallState<'_>,
    tool: &Tool,
    event: HookEvent,
    input: Value,
) -> HookCall {
    HookCall {
        event,
        invocation_id: journey.invocation.invocation_id,
        tool_id: journey.invocation.tool_id.clone(),
        actor_ref: journey.invocation.actor_ref.clone(),
        input,
        permission_profile: Some(tool.permission_profile().clone()),
        decision: None,
        result: None,
    }
}

/// Boxed, like [`super::post_hooks::one`], to keep a call without hooks small.
pub(super) fn ask<'a>(
    journey: &'a mut CallState<'_>,
    tool: &'a Tool,
    hook: &'a Registration,
    event: HookEvent,
    input: &'a Input,
) -> BoxFuture<'a, Result<Vec<HookOutput>, Refusal>> {
    Box::pin(async move {
        let shown = journey.redaction.shown(input).await?;
        let mut call = call(journey, tool, event, shown);
        if event == HookEvent::PermissionDecision {
            call.decision = journey.decisions.last().cloned();
        }
        run(journey, hook, call).await
    })
}

/// Runs and records one hook. Handles outputs that mean the same at every event, returns others. Fails if a blocking
/// hook fails, or the call is canceled.
pub(super) async fn run(
    journey: &mut CallState<'_>,
    hook: &Registration,
    call: HookCall,
) -> Result<Vec<HookOutput>, Refusal> {
    let event = call.event;
    if !journey
        .invocation
        .hook_refs
        .iter()
        .any(|id| id == hook.id())
    {
        journey.invocation.hook_refs.push(hook.id().to_owned());
    }
    let (started, completed) = event_types(event);
    journey.trail.emit(started, json!({ "hook_id": hook.id() }));
    let cancellation = journey.request.cancellation.clone();
    let ran = if event.is_before_the_tool() {
        hook.run(call, cancellation.cancelled()).await
    } else {
        // The caller must not bypass a hook that rewrites the output by canceling in time; the hook's own limit ends
        // it.
        hook.run(call, pending()).await
    };
    let record = record(journey, hook, event, &ran);
    let summary = json!({
        "hook_id": hook.id(),
        "outputs": record.outputs.len(),
        "messages": record.outputs.iter().filter(|output| output["type"] == "message").map(|output| &output["text"]).collect::<Vec<_>>(),
        "error": record.error,
        "outcome": record.outcome,
    });
    journey.trail.emit(completed, summary);
    journey.hook_runs.push(record);
    match ran.outputs {
        Ok(outputs) => Ok(outputs
            .into_iter()
            .filter_map(|output| common(journey, hook, event, output))
            .collect()),
        Err(HookFailure::Canceled) => Err(stopped_call(&cancellation)),
        Err(failure) if hook.blocks_at(event) => Err(blocked(hook, event, failure)),
        Err(_) => Ok(Vec::new()),
    }
}

pub(super) fn stopped(hook: &Registration, reason: &str) -> Refusal {
    let message = format!("the hook {} stopped the call: {reason}", hook.id());
    Refusal::new(ErrorCode::HookStop, message).by_policy(format!("hook:{}", hook.id()))
}

fn common(
    journey: &mut CallState<'_>,
    hook: &Registration,
    event: HookEvent,
    output: HookOutput,
) -> Option<HookOutput> {
    match output {
        HookOutput::Message(_) => None,
        HookOutput::Progress(progress) => {
            journey.trail.progress(attributed(hook, progress));
            None
        }
        HookOutput::AdditionalContext(context) => {
            journey.additional_context.push(context);
            None
        }
        other => other.counts_at(event).then_some(other),
    }
}

fn attributed(hook: &Registration, progress: HookProgress) -> ToolProgress {
    let mut extra = Extra::new();
    extra.insert("hook_id".to_owned(), hook.id().into());
    ToolProgress {
        message: Some(progress.message),
        percent: progress.percent,
        extra,
        ..ToolProgress::new(ProgressStatus::Running)
    }
}

fn blocked(hook: &Registration, event: HookEvent, failure: HookFailure) -> Refusal {
    let id = hook.id();
    let (code, what, detail) = match failure {
        HookFailure::NotLoaded(why) => (
            ErrorCode::HookNotLoaded,
            "could not be loaded".to_owned(),
            Some(why),
        ),
        HookFailure::TimedOut => (
            ErrorCode::HookTimedOut,
            format!("did not answer within {} ms", hook.wall().as_millis()),
            None,
        ),
        HookFailure::Failed(why) => (ErrorCode::HookFailed, "failed".to_owned(), Some(why)),
        HookFailure::Canceled => (ErrorCode::HookFailed, "was canceled".to_owned(), None),
    };
    let refusal = if event.is_before_the_tool() {
        let message = format!("the hook {id} {what}, and so the call may not go on");
        Refusal::new(code, message)
    } else {
        let message =
            format!("the hook {id} {what} after the tool ran, and so the output is withheld");
        Refusal::new(ErrorCode::PostHookFailed, message)
    };
    Refusal { detail, ..refusal }.by_policy(format!("hook:{id}"))
}

/// The record of one run (`tool_hook`).
fn record(
    journey: &CallState<'_>,
    hook: &Registration,
    event: HookEvent,
    ran: &HookRun,
) -> ToolHook {
    let mut record = ToolHook {
        schema_version: SchemaVersion::default(),
        hook_id: hook.id().to_owned(),
        hook_event: event,
        invocation_id: journey.invocation.invocation_id,
        tool_id: journey.invocation.tool_id.clone(),
        matcher: hook.matcher().to_value(),
        outputs: Vec::new(),
        permission_result: None,
        updated_input: None,
        additional_context: Vec::new(),
        stop: None,
        updated_output: None,
        started_at: ran.started_at,
        ended_at: ran.ended_at,
        outcome: HookOutcome::Completed,
        error: None,
        logs: ran.logs.clone(),
        extra: Extra::new(),
    };
    match &ran.outputs {
        Ok(outputs) => outputs
            .iter()
            .for_each(|output| say(&mut record, event, output)),
        Err(failure) => {
            record.outcome = failure.outcome();
            record.error = match failure {
                HookFailure::Failed(why) | HookFailure::NotLoaded(why) => Some(why.clone()),
                HookFailure::TimedOut => {
                    Some(format!("no answer within {} ms", hook.wall().as_millis()))
                }
                HookFailure::Canceled => Some("the call was canceled".to_owned()),
            };
        }
    }
    record
}

fn say(record: &mut ToolHook, event: HookEvent, output: &HookOutput) {
    record.outputs.push(output.summary(event));
    match output {
        HookOutput::Message(_) | HookOutput::Progress(_) => {}
        HookOutput::UpdatedInput(value) => record.updated_input = Some(value.clone()),
        HookOutput::PermissionResult(result) => record.permission_result = Some(result.clone()),
        HookOutput::AdditionalContext(Value::Object(context)) => {
            record
                .additional_context
                .push(Value::Object(context.clone()));
        }
        // The specification requires objects here.
        HookOutput::AdditionalContext(context) => record
            .additional_context
            .push(json!({ "context": context })),
        HookOutput::Stop { reason } => record.stop = Some(json!({ "reason": reason })),
        HookOutput::UpdatedOutput(updated) => {
            record.updated_output =
                Some(json!({ "content": updated.content, "structured": updated.structured }));
        }
    }
}

fn event_types(event: HookEvent) -> (EventType, EventType) {
    match event {
        HookEvent::PreToolUse => (EventType::PreHookStarted, EventType::PreHookCompleted),
        HookEvent::PermissionRequest => (
            EventType::PermissionRequestHookStarted,
            EventType::PermissionRequestHookCompleted,
        ),
        HookEvent::PermissionDecision => (
            EventType::PermissionDecisionHookStarted,
            EventType::PermissionDecisionHookCompleted,
        ),
        HookEvent::PostToolUse => (EventType::PostHookStarted, EventType::PostHookCompleted),
        HookEvent::PostToolUseFailure => (
            EventType::FailureHookStarted,
            EventType::FailureHookCompleted,
        ),
        HookEvent::ResultPersistence => (
            EventType::PersistenceHookStarted,
            EventType::PersistenceHookCompleted,
        ),
    }
}
