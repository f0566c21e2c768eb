//! Phase 13: no refusal. Ends the invocation, once, with its complete record.

use serde_json::json;

use toolcell_spec::{
    CallRecord, ErrorClass, EventType, Extra, ProgressStatus, Refusal, ResultId, ResultProvenance,
    ResultStatus, SchemaVersion, Status, ToolError, ToolResult, Trust, Writer,
};

use super::call_state::CallState;
use super::map_result::{MappedResult, model_facing};
use super::persist::{Persisted, StoredResult};
use super::{refs, workspace};

pub(super) fn emit(mut journey: Box<CallState<'_>>, persisted: Persisted) -> CallRecord {
    let StoredResult {
        result_id,
        mapped,
        resource_refs,
        artifact_refs,
    } = persisted.open();
    journey.redact_records();
    let status = terminal_status(&journey, &mapped);
    hand_over(&mut journey, status);
    let reason = mapped.error.as_ref().map(|error| error.code.to_string());
    // `terminal_status` gives a status that can be reached.
    let _ = journey.invocation.advance(status, reason);
    if let Some(reason) = mapped.error.as_ref().and_then(Refusal::why_aborted) {
        journey.invocation.aborted(reason);
    }
    refs::of_invocation(&mut journey, &mapped);
    if let Some(detail) = mapped.error.as_ref().and_then(|error| error.detail.clone()) {
        journey.invocation.note("error_detail", detail);
    }
    if let Some(reason) = journey
        .request
        .cancellation
        .requested()
        .filter(|_| status != Status::Canceled)
    {
        journey.trail.cancel_failed(reason);
    }
    journey.trail.reached(match status {
        Status::Succeeded => ProgressStatus::Completed,
        Status::Canceled => ProgressStatus::Canceled,
        _ => ProgressStatus::Failed,
    });
    let mut result = envelope(&journey, result_id, *mapped);
    result.resource_refs = resource_refs;
    if !artifact_refs.is_empty() {
        journey
            .invocation
            .note("artifact_refs", artifact_refs.clone());
    }
    result.artifact_refs = artifact_refs;
    refs::of_result(&journey, &mut result);
    workspace::note(&mut journey, &mut result);
    let created = json!({ "result_id": result_id, "status": result.status });
    journey.trail.emit(EventType::ResultCreated, created);
    emit_end(&journey, status, &result);
    let trailed = journey.trail.finish();
    CallRecord {
        declaration: journey.tool.map(|tool| tool.declaration().clone()),
        invocation: journey.invocation,
        decisions: journey.decisions,
        hooks: journey.hook_runs,
        progress: trailed.progress,
        result_mappings: journey.mappings,
        persistence: journey.persistence,
        result,
        events: trailed.events,
    }
}

/// Hands the outcome to the batch. The status graph lacks this step for a call that timed out or never ran: of
/// such a call, only the event tells its place.
fn hand_over(journey: &mut CallState<'_>, status: Status) {
    let Some(order) = journey.request.order else {
        return;
    };
    if Status::Yielded.may_become(status) {
        // Not from every status.
        let _ = journey.invocation.advance(Status::Yielded, None);
    }
    journey
        .trail
        .emit(EventType::Yielded, json!({ "order": order }));
}

/// The error's status, or the nearest reachable one.
fn terminal_status(journey: &CallState<'_>, mapped: &MappedResult) -> Status {
    let now = journey.invocation.status();
    let wanted = match mapped.error.as_ref() {
        None => Status::Succeeded,
        Some(error) if mapped.ran => error.class.ran_status(),
        Some(error) => error.class.refused_status(),
    };
    [
        wanted,
        Status::Failed,
        Status::Blocked,
        Status::Denied,
        Status::Canceled,
    ]
    .into_iter()
    .find(|status| now.may_become(*status))
    .or_else(|| resumed(now))
    .unwrap_or(wanted)
}

/// `Canceled` for every status that is not terminal, so that no call stays open.
fn resumed(now: Status) -> Option<Status> {
    (!now.is_terminal()).then_some(Status::Canceled)
}

/// One event of the listed classes per end, and a finer one beside it if any.
fn emit_end(journey: &CallState<'_>, status: Status, result: &ToolResult) {
    let (listed, finer) = match status {
        Status::Succeeded => (EventType::Succeeded, None),
        Status::Canceled => (EventType::Canceled, None),
        Status::TimedOut => (EventType::TimedOut, None),
        Status::Denied => (EventType::Failed, Some(EventType::Denied)),
        Status::Blocked => (EventType::Failed, Some(EventType::Blocked)),
        _ => (EventType::Failed, None),
    };
    let error = result.error.as_ref();
    let mut data = json!({
        "result_id": result.result_id,
        "status": status,
        "error_class": result.error_class(),
        "error_code": error.map(|error| &error.error_code),
    });
    if let Some(fields) = data.as_object_mut() {
        if let Some(needed) = error.and_then(|error| error.needs_authorization.as_ref()) {
            fields.insert("needs_authorization".to_owned(), json!(needed));
        }
        if status == Status::Canceled {
            fields.insert("abort_reason".to_owned(), json!(result.abort_reason));
        }
    }
    if let Some(finer) = finer {
        journey.trail.emit(finer, data.clone());
    }
    journey.trail.emit(listed, data);
}

fn provenance(journey: &CallState<'_>, mapped: &MappedResult) -> ResultProvenance {
    let said = !mapped.content.is_empty()
        || mapped.structured_content.is_some()
        || mapped.ui_facing_summary.is_some();
    // A tool's own failure and an empty output are written by the tool, too.
    let by_tool = said || mapped.error.as_ref().map_or(mapped.ran, Refusal::is_guests);
    let tool = journey.tool.as_deref();
    ResultProvenance {
        trust: Trust::Untrusted,
        written_by: if by_tool { Writer::Tool } else { Writer::Host },
        tool_id: tool.map(|tool| tool.declaration().tool_id.clone()),
        component: tool.map(|tool| tool.component().to_string()),
        hooks: journey.mappings.hooks.clone(),
    }
}

/// A call with possible changes is not safe to repeat (AT-ERR-09).
fn error_of(journey: &CallState<'_>, refusal: &Refusal) -> ToolError {
    let mut error = refusal.to_error();
    error.retry.safe &= !journey.changes;
    error
}

/// The author's text for lost output (AT-OUT-09).
fn fallback(journey: &CallState<'_>, mapped: &MappedResult) -> Option<String> {
    let error = mapped
        .error
        .as_ref()
        .filter(|error| mapped.ran && !error.is_guests())?;
    if !matches!(
        error.class,
        ErrorClass::ResultTooLarge | ErrorClass::ResultRedacted
    ) || mapped.has_output()
    {
        return None;
    }
    let mut summary = journey.tool.as_deref()?.fallback_summary()?;
    if let Some(redactor) = journey.redaction.active() {
        redactor.redact_text(&mut summary);
    }
    Some(summary)
}

pub(super) fn envelope(
    journey: &CallState<'_>,
    result_id: ResultId,
    mapped: MappedResult,
) -> ToolResult {
    let status = match &mapped.error {
        None => ResultStatus::Succeeded,
        // Only a guest's own partial output is a partial success, although any usable output is kept.
        Some(error) if error.class == ErrorClass::PartialFailure => ResultStatus::PartialSucceeded,
        Some(error) => error.class.result_status(),
    };
    let provenance = provenance(journey, &mapped);
    let summary = fallback(journey, &mapped);
    let tool = journey.tool.as_deref();
    let boundary = tool
        .map(|tool| tool.rendering_boundary())
        .unwrap_or_default();
    ToolResult {
        schema_version: SchemaVersion::default(),
        result_id,
        invocation_id: journey.invocation.invocation_id,
        status,
        is_error: mapped.error.is_some(),
        model_facing_content: model_facing(&mapped, summary.as_deref(), boundary),
        content: mapped.content,
        structured_content: mapped.structured_content,
        empty_result: mapped.empty_result,
        ui_facing_summary: mapped.ui_facing_summary,
        summary,
        resource_refs: Vec::new(),
        artifact_refs: Vec::new(),
        evidence_refs: Vec::new(),
        policy_refs: Vec::new(),
        telemetry_refs: Vec::new(),
        persistence_refs: journey
            .persistence
            .iter()
            .map(|decision| decision.decision_id)
            .collect(),
        redaction_state: journey.redaction.state().to_owned(),
        abort_reason: mapped.error.as_ref().and_then(Refusal::why_aborted),
        error: mapped.error.as_ref().map(|error| error_of(journey, error)),
        provenance,
        input_mutations: journey.mutations.clone(),
        additional_context: journey.additional_context.clone(),
        // A call that failed changes nothing, whatever its tool or a hook said before.
        context_modifiers: if mapped.error.is_none() {
            mapped.context_modifiers
        } else {
            Vec::new()
        },
        usage: mapped.usage,
        created_at: journey.trail.now(),
        extra: Extra::new(),
    }
}
