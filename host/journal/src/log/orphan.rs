//! The end of a call whose process was killed.

use std::iter;

use serde_json::{Value, json};

use crate::of_no_call;
use toolcell_spec::{
    AbortReason, CallRecord, ErrorCode, EventId, EventType, Refusal, ResultMappings,
    ResultProvenance, Status, Timestamp, ToolEvent, ToolInvocation, ToolProgress, ToolResult,
    TraceContext, Trust, Writer,
};

use super::Start;
use super::call_lines::{self, EarlierLines, EndPayload, StartedCall};

/// The call was canceled by the end of its process. `None` if the start is unreadable.
pub(super) fn ended(id: &str, lines: &EarlierLines) -> Option<String> {
    let started = lines.start.as_deref()?;
    let start = Start::read(started).ok()?;
    let notes = lines.notes.iter().map(String::as_str);
    let mut events = call_lines::events(id, iter::once(started).chain(notes));
    let mut known = StartedCall::new(&start);
    known.events = events.len();
    let Start {
        changes,
        mut invocation,
        decisions,
        hooks,
        ..
    } = start;
    let message = "the process that ran this call ended before the call did; what the tool did until then is not known";
    let refusal =
        Refusal::new(ErrorCode::RuntimeShutdown, message).aborted(AbortReason::RuntimeShutdown);
    invocation
        .advance(Status::Canceled, Some("runtime_shutdown".to_owned()))
        .ok()?;
    invocation.aborted(AbortReason::RuntimeShutdown);
    invocation.evidence_refs = vec![invocation.evidence_ref()];
    let mut error = refusal.to_error();
    error.evidence_refs.clone_from(&invocation.evidence_refs);
    error.retry.safe &= !changes;
    let provenance = ResultProvenance {
        trust: Trust::Untrusted,
        written_by: Writer::Host,
        tool_id: Some(invocation.tool_id.clone()),
        component: None,
        hooks: Vec::new(),
    };
    let mut result = ToolResult::failed(invocation.invocation_id, error, provenance);
    result.evidence_refs.clone_from(&invocation.evidence_refs);
    result.policy_refs.clone_from(&invocation.policy_refs);
    let requested =
        json!({ "requested": invocation.tool_id, "native_call_id": invocation.native_call_id });
    let end = json!({
        "result_id": result.result_id, "status": invocation.status(), "error_class": refusal.class,
        "error_code": refusal.code, "abort_reason": AbortReason::RuntimeShutdown,
    });
    if events.is_empty() {
        events.push(event(
            &invocation,
            EventType::Planned,
            invocation.created_at(),
            requested,
        ));
    }
    let progress = events
        .iter()
        .filter_map(|event| serde_json::from_value(event.data.get("progress")?.clone()).ok());
    let progress: Vec<ToolProgress> = progress.collect();
    events.push(event(
        &invocation,
        EventType::Canceled,
        Timestamp::now(),
        end,
    ));
    let record = CallRecord {
        declaration: None,
        invocation,
        decisions,
        hooks,
        progress,
        result_mappings: ResultMappings::default(),
        persistence: Vec::new(),
        result,
        events,
    };
    serde_json::to_string(&EndPayload::new(&record, known.parts(&record))).ok()
}

/// Events in no line went with the process.
fn event(
    invocation: &ToolInvocation,
    event_type: EventType,
    time: Timestamp,
    data: Value,
) -> ToolEvent {
    let source = concat!("toolcell/", env!("CARGO_PKG_VERSION")).into();
    ToolEvent {
        event_id: EventId::at(time),
        subject: Some(invocation.evidence_ref().into()),
        time,
        invocation_id: Some(invocation.invocation_id),
        trace_refs: TraceContext::spans(invocation),
        ..of_no_call(&source, event_type, Some(&invocation.tool_id), data)
    }
}
