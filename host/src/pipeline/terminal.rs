//! Phase 13: no refusal. Ends the invocation, once, and returns its complete record.

use serde_json::{Value, json};

use crate::record::{
    CallRecord, ErrorClass, EventType, Extra, Refusal, ResultId, ResultProvenance, ResultStatus, SchemaVersion, Status,
    Timestamp, ToolError, ToolResult, Trust, Writer,
};

use super::journey::Journey;
use super::map_result::{Mapped, model_facing};
use super::persist::Persisted;

/// Emits the terminal status and events, and returns the record with the result.
pub(super) fn emit(mut journey: Journey<'_>, persisted: Persisted) -> CallRecord {
    let Persisted { result_id, mapped, resource_refs } = persisted;
    journey.redact_records();
    let status = terminal_status(&journey, &mapped);
    let reason = mapped.error.as_ref().map(|error| error.code.to_owned());
    // `terminal_status` gives a status that can be reached.
    let _ = journey.invocation.advance(status, reason);
    if let Some(detail) = mapped.error.as_ref().and_then(|error| error.detail.clone()) {
        journey.invocation.extra.insert("error_detail".to_owned(), Value::String(detail));
    }
    if let Some(reason) = journey.request.cancellation.requested().filter(|_| status != Status::Canceled) {
        journey.trail.cancel_failed(reason);
    }
    let mut result = envelope(&journey, mapped);
    result.result_id = result_id;
    result.resource_refs = resource_refs;
    journey.trail.emit(EventType::ResultCreated, json!({ "result_id": result_id, "status": result.status }));
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

/// The status that the error asks for, or the nearest one that can be reached from the current status.
fn terminal_status(journey: &Journey<'_>, mapped: &Mapped) -> Status {
    let now = journey.invocation.status();
    let wanted = match mapped.error.as_ref() {
        None => Status::Succeeded,
        Some(error) if mapped.ran => error.class.ran_status(),
        Some(error) => error.class.refused_status(),
    };
    [wanted, Status::Failed, Status::Blocked, Status::Denied, Status::Canceled]
        .into_iter()
        .find(|status| now.may_become(*status))
        .or_else(|| resumed(now))
        .unwrap_or(wanted)
}

/// `Canceled` for every status that is not terminal, so that no call is left open.
fn resumed(now: Status) -> Option<Status> {
    (!now.is_terminal()).then_some(Status::Canceled)
}

/// Emits one event of the listed classes for every end, and a finer one beside it if there is one.
fn emit_end(journey: &Journey<'_>, status: Status, result: &ToolResult) {
    let (listed, finer) = match status {
        Status::Succeeded => (EventType::Succeeded, None),
        Status::Canceled => (EventType::Canceled, None),
        Status::TimedOut => (EventType::TimedOut, None),
        Status::Denied => (EventType::Failed, Some(EventType::Denied)),
        Status::Blocked => (EventType::Failed, Some(EventType::Blocked)),
        _ => (EventType::Failed, None),
    };
    let data = json!({
        "result_id": result.result_id,
        "status": status,
        "error_class": result.error_class(),
        "error_code": result.error.as_ref().map(|error| &error.error_code),
    });
    if let Some(finer) = finer {
        journey.trail.emit(finer, data.clone());
    }
    journey.trail.emit(listed, data);
}

/// Provenance of the result. What a guest says about it is data inside the result.
fn provenance(journey: &Journey<'_>, mapped: &Mapped) -> ResultProvenance {
    let said = !mapped.content.is_empty() || mapped.structured_content.is_some() || mapped.ui_facing_summary.is_some();
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

/// The record of an error. A call that could have changed something is not safe to repeat (AT-ERR-09).
fn error_of(journey: &Journey<'_>, refusal: &Refusal) -> ToolError {
    let mut error = refusal.to_error();
    error.retry.safe &= !journey.changes;
    error
}

/// The result record for `mapped`.
pub(super) fn envelope(journey: &Journey<'_>, mapped: Mapped) -> ToolResult {
    let status = match &mapped.error {
        None => ResultStatus::Succeeded,
        // Only a guest's own partial output is a partial success, although any usable output is kept.
        Some(error) if error.class == ErrorClass::PartialFailure => ResultStatus::PartialSucceeded,
        Some(error) => error.class.result_status(),
    };
    let provenance = provenance(journey, &mapped);
    ToolResult {
        schema_version: SchemaVersion::default(),
        result_id: ResultId::new(),
        invocation_id: journey.invocation.invocation_id,
        status,
        is_error: mapped.error.is_some(),
        model_facing_content: model_facing(&mapped),
        content: mapped.content,
        structured_content: mapped.structured_content,
        empty_result: mapped.empty_result,
        ui_facing_summary: mapped.ui_facing_summary,
        resource_refs: Vec::new(),
        artifact_refs: Vec::new(),
        policy_refs: Vec::new(),
        persistence_refs: journey.persistence.iter().map(|decision| decision.decision_id).collect(),
        redaction_state: journey.redaction.state().to_owned(),
        error: mapped.error.as_ref().map(|error| error_of(journey, error)),
        provenance,
        input_mutations: journey.mutations.clone(),
        additional_context: journey.additional_context.clone(),
        usage: mapped.usage,
        created_at: Timestamp::now(),
        extra: Extra::new(),
    }
}
