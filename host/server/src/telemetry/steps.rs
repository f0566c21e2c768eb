//! The span of the steps that an agent added to the trace of its session (AO-OT-01): a pure function.

use toolcell_dialect::agentool::{PostContent, StepType, TracePost};
use toolcell_spec::{InvocationId, SpanId, Timestamp, TraceContext};

use super::otlp::{Attribute, Span, SpanEvent};
use super::span::EVENTS_MAX;

const NAME: &str = "invoke_agent";

/// The words of a step are never in the span: no contract tells which part is sensitive, so nothing could redact it.
pub(super) fn steps_span(posts: &[TracePost], place: &TraceContext) -> Option<Span> {
    let times = (
        posts.iter().map(|post| post.at).min()?,
        posts.iter().map(|post| post.at).max()?,
    );
    if !place.is_sampled() {
        return None;
    }
    let id = SpanId::from_invocation(InvocationId::at(Timestamp::now()));
    let mut span = Span::new(place.trace_id(), id, place.parent(), NAME.to_owned(), times);
    span.trace_state = place.state().map(str::to_owned);
    span.attributes = vec![
        Attribute::text("gen_ai.operation.name", NAME),
        Attribute::number(
            "toolcell.steps",
            u64::try_from(posts.len()).unwrap_or(u64::MAX),
        ),
    ];
    span.events = posts.iter().take(EVENTS_MAX).map(event).collect();
    span.dropped_events_count = posts.len() - span.events.len();
    Some(span)
}

fn event(post: &TracePost) -> SpanEvent {
    let (name, tokens) = match &post.what {
        PostContent::Start(_) => ("agentool.start", None),
        PostContent::Step(step) => {
            let name = match step.kind {
                StepType::Reasoning => "agentool.reasoning",
                StepType::Handoff => "agentool.handoff",
                StepType::MemoryRead => "agentool.memory_read",
                StepType::MemoryWrite => "agentool.memory_write",
                // No caller adds one.
                StepType::ToolCall | StepType::ToolResult => "agentool.step",
            };
            (name, step.context_tokens())
        }
        PostContent::End(end) => ("agentool.end", end.total_tokens),
    };
    let mut made = SpanEvent::new(post.at, name);
    made.attributes
        .extend(tokens.map(|tokens| Attribute::number("agentool.tokens", tokens)));
    made
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SAID: &str = "not for a collector";

    fn posts(steps: Value) -> Vec<TracePost> {
        let read = |step: &Value| TracePost::read(step.clone(), Timestamp::now()).unwrap();
        steps.as_array().unwrap().iter().map(read).collect()
    }

    #[test]
    fn each_step_is_an_event_that_says_nothing_of_its_content() {
        let posts = posts(json!([
            { "type": "start", "input": SAID, "agent_id": SAID, "timestamp": "2026-01-01T00:00:00Z" },
            { "type": "reasoning", "content": SAID, "context_tokens": 1200, "x": SAID, "timestamp": "2026-01-01T00:00:01Z" },
            { "type": "memory_read", "query": SAID, "results": [SAID], "timestamp": "2026-01-01T00:00:02Z" },
            { "type": "memory_write", "content": SAID, "key": SAID, "timestamp": "2026-01-01T00:00:03Z" },
            { "type": "handoff", "to_agent": SAID, "message": SAID, "timestamp": "2026-01-01T00:00:04Z" },
            { "type": "end", "output": SAID, "status": "success", "total_tokens": 3200, "timestamp": "2026-01-01T00:00:05Z" },
        ]));
        let place = TraceContext::begin();
        let made = serde_json::to_value(steps_span(&posts, &place).unwrap()).unwrap();
        assert!(!made.to_string().contains(SAID), "{made:#}");
        let names: Vec<&str> = made["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        let kinds = [
            "start",
            "reasoning",
            "memory_read",
            "memory_write",
            "handoff",
            "end",
        ];
        assert_eq!(names, kinds.map(|kind| format!("agentool.{kind}")));
        assert_eq!(
            (&made["name"], &made["traceId"]),
            (&json!("invoke_agent"), &json!(place.trace_id()))
        );
        let lasted = [&made["startTimeUnixNano"], &made["endTimeUnixNano"]]
            .map(|time| time.as_str().unwrap().parse::<u64>());
        let [from, to] = lasted.map(Result::unwrap);
        assert_eq!(to - from, 5_000_000_000);
        let tokens = json!([{ "key": "agentool.tokens", "value": { "intValue": "1200" } }]);
        assert_eq!(made["events"][1]["attributes"], tokens);
    }

    #[test]
    fn a_span_has_so_many_steps_and_none_is_made_of_nothing() {
        let many = posts(json!(vec![
            json!({ "type": "reasoning", "content": "c" });
            EVENTS_MAX + 3
        ]));
        let made = steps_span(&many, &TraceContext::begin()).unwrap();
        assert_eq!(
            (made.events.len(), made.dropped_events_count),
            (EVENTS_MAX, 3)
        );
        assert!(steps_span(&[], &TraceContext::begin()).is_none());
        let parent = TraceContext::parse(
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
            None,
        )
        .unwrap();
        assert!(
            steps_span(&many, &parent).is_none(),
            "its caller does not record it"
        );
    }
}
