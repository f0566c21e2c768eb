//! The end of a call whose process was killed.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::record::{
    AbortReason, CallRecord, ErrorCode, EventId, EventType, Extra, Refusal, ResultMappings,
    ResultProvenance, SchemaVersion, Status, Timestamp, ToolEvent, ToolInvocation, ToolProgress,
    ToolResult, TraceContext, Trust, Writer,
};

use super::fold::{self, RecordedStart};

#[derive(Deserialize)]
struct ReadNote {
    first: usize,
    events: Vec<ToolEvent>,
}

/// Returns the record of the call `id` that `started` and did not end: canceled by the end of its process. Of its events
/// and its progress, those that were noted are known. `None` if the start cannot be read.
pub(super) fn ended(id: &str, started: &str, notes: &[String]) -> Option<String> {
    let RecordedStart {
        changes,
        mut invocation,
        decisions,
        hooks,
        ..
    } = fold::begun(id, started).ok()?;
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
        "error_code": refusal.code,
    });
    let mut events = noted(notes);
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
    serde_json::to_string(&record.undeclared()).ok()
}

/// The first events of the call without a gap, from its notes.
pub(super) fn noted(notes: &[String]) -> Vec<ToolEvent> {
    let mut events: Vec<ToolEvent> = Vec::new();
    for note in notes {
        let Ok(ReadNote {
            first,
            events: more,
        }) = serde_json::from_str(note)
        else {
            break;
        };
        if first > events.len() {
            break;
        }
        let known = events.len() - first;
        events.extend(more.into_iter().skip(known));
    }
    events
}

/// An event of the call. Those of its trail that were not noted went with its process.
fn event(
    invocation: &ToolInvocation,
    event_type: EventType,
    time: Timestamp,
    data: Value,
) -> ToolEvent {
    ToolEvent {
        schema_version: SchemaVersion::default(),
        event_id: EventId::at(time),
        event_type,
        source: concat!("toolcell/", env!("CARGO_PKG_VERSION")).into(),
        subject: Some(invocation.evidence_ref().into()),
        time,
        invocation_id: Some(invocation.invocation_id),
        tool_id: Some(invocation.tool_id.as_str().into()),
        data: data.into(),
        trace_refs: TraceContext::spans(invocation),
        extra: Extra::new(),
    }
}
