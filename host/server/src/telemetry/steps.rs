//! The span of a session (AO-OT-01), with the steps of its trace as events: a pure function.

use toolcell_dialect::agentool::{ReasoningTrace, StepType, TraceStep, consequences, traceparent};
use toolcell_spec::{CallRecord, Timestamp, TraceContext};

use super::otlp::{Attribute, Span, SpanEvent};
use super::span::{CALL_ID_BYTES_MAX, EVENTS_MAX, call_id, cut, word};

/// Name of the span above the calls and steps of an agent.
pub(super) const INVOKE_AGENT: &str = "invoke_agent";

/// Ids below the session's span: each process that takes part in the session knows its ids.
pub(super) fn place(session: &str) -> TraceContext {
    TraceContext::parse(&traceparent(session), None).unwrap_or_else(TraceContext::begin)
}

/// The words of a step are never in the span: no contract tells which part is sensitive, so nothing could redact it.
pub(super) fn trace_span(trace: &ReasoningTrace) -> Option<Span> {
    let place = place(&trace.session_id);
    let time = |text: &str| serde_json::from_value::<Timestamp>(text.into()).ok();
    let from = time(&trace.started_at)?;
    let last = trace.steps.last().map(|step| step.timestamp.as_str());
    let to = trace.finished_at.as_deref().or(last).and_then(time);
    let times = (from, to.unwrap_or(from));
    let mut span = Span::new(
        place.trace_id(),
        place.parent()?,
        None,
        INVOKE_AGENT.to_owned(),
        times,
    );
    let tokens = Attribute::number("agentool.tokens", trace.metrics.total_tokens);
    span.attributes = attributes(trace.steps.len()).into();
    span.attributes.push(tokens);
    let status = trace.status.map(word);
    span.attributes
        .extend(status.map(|status| Attribute::text("agentool.status", status)));
    let dated = trace
        .steps
        .iter()
        .filter_map(|step| Some(event(time(&step.timestamp)?, step)));
    span.events = dated.take(EVENTS_MAX).collect();
    span.dropped_events_count = trace.steps.len() - span.events.len();
    Some(span)
}

pub(super) fn attributes(steps: usize) -> [Attribute; 2] {
    let steps = u64::try_from(steps).unwrap_or(u64::MAX);
    [
        Attribute::text("gen_ai.operation.name", INVOKE_AGENT),
        Attribute::number("agentool.steps", steps),
    ]
}

fn event(at: Timestamp, step: &TraceStep) -> SpanEvent {
    let call = step.tool_call.as_ref().map(|call| call.id.as_str());
    let answered = step.tool_result.as_ref().map(|one| one.call_id.as_str());
    let mut made = step_event(at, step.kind, call.or(answered));
    let tokens = step.context_tokens();
    made.attributes
        .extend(tokens.map(|tokens| Attribute::number("agentool.tokens", tokens)));
    made
}

/// The steps of one call. A whole trace would copy its arguments and its output.
pub(super) fn call_steps(record: &CallRecord) -> impl Iterator<Item = (Timestamp, SpanEvent)> {
    let call = &record.invocation;
    let begun = call.created_at();
    let ended = call.ended_at().unwrap_or(record.result.created_at);
    let id = call_id(call);
    let of_call = [(begun, StepType::ToolCall), (ended, StepType::ToolResult)]
        .map(|(at, kind)| (at, step_event(at, kind, Some(&id))));
    let others = consequences(&record.result);
    let others = others.map(move |kind| (ended, step_event(ended, kind, None)));
    of_call.into_iter().chain(others)
}

fn step_event(at: Timestamp, kind: StepType, call: Option<&str>) -> SpanEvent {
    let mut made = SpanEvent::new(at, step_name(kind));
    let id = call.map(|id| cut(id, CALL_ID_BYTES_MAX));
    made.attributes
        .extend(id.map(|id| Attribute::text("gen_ai.tool.call.id", id)));
    made
}

fn step_name(kind: StepType) -> &'static str {
    match kind {
        StepType::Reasoning => "agentool.reasoning",
        StepType::ToolCall => "agentool.tool_call",
        StepType::ToolResult => "agentool.tool_result",
        StepType::Handoff => "agentool.handoff",
        StepType::MemoryRead => "agentool.memory_read",
        StepType::MemoryWrite => "agentool.memory_write",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_dialect::agentool::{Detectors, TraceBuilder, TracePost};

    use super::*;

    const SAID: &str = "not for a collector";

    fn trace(posts: Value) -> Option<ReasoningTrace> {
        let mut builder = TraceBuilder::new("review", Detectors::default());
        for post in posts.as_array().unwrap() {
            builder.post(TracePost::read(post.clone(), Timestamp::now()).unwrap());
        }
        builder.finish()
    }

    #[test]
    fn each_step_is_an_event_that_says_nothing_of_its_content() {
        let trace = trace(json!([
            { "type": "start", "input": SAID, "agent_id": SAID, "timestamp": "2026-01-01T00:00:00Z" },
            { "type": "reasoning", "content": SAID, "context_tokens": 1200, "x": SAID, "timestamp": "2026-01-01T00:00:01Z" },
            { "type": "memory_read", "query": SAID, "results": [SAID], "timestamp": "2026-01-01T00:00:02Z" },
            { "type": "memory_write", "content": SAID, "key": SAID, "timestamp": "2026-01-01T00:00:03Z" },
            { "type": "handoff", "to_agent": SAID, "message": SAID, "timestamp": "2026-01-01T00:00:04Z" },
            { "type": "end", "output": SAID, "status": "success", "total_tokens": 3200, "timestamp": "2026-01-01T00:00:05Z" },
        ]))
        .unwrap();
        let made = serde_json::to_value(trace_span(&trace).unwrap()).unwrap();
        assert!(!made.to_string().contains(SAID), "{made:#}");
        let names: Vec<&str> = made["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        let kinds = ["reasoning", "memory_read", "memory_write", "handoff"];
        assert_eq!(names, kinds.map(|kind| format!("agentool.{kind}")));
        assert_eq!(made["name"], "invoke_agent");
        let id = made["traceId"].as_str().unwrap();
        assert_eq!(trace.trace_id, format!("tr_{}", &id[..16]));
        assert_eq!(
            made["spanId"],
            json!(place("review").parent().unwrap().to_string())
        );
        let lasted = [&made["startTimeUnixNano"], &made["endTimeUnixNano"]]
            .map(|time| time.as_str().unwrap().parse::<u64>());
        let [from, to] = lasted.map(Result::unwrap);
        assert_eq!(to - from, 5_000_000_000);
        let tokens = json!([{ "key": "agentool.tokens", "value": { "intValue": "1200" } }]);
        assert_eq!(made["events"][0]["attributes"], tokens);
    }

    #[test]
    fn a_span_has_so_many_steps() {
        let many = trace(json!(vec![
            json!({ "type": "reasoning", "content": "c" });
            EVENTS_MAX + 3
        ]));
        let made = trace_span(&many.unwrap()).unwrap();
        assert_eq!(
            (made.events.len(), made.dropped_events_count),
            (EVENTS_MAX, 3)
        );
    }
}
