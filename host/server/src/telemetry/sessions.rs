//! The spans above calls: one for a batch, or for a session of a client.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use toolcell_dialect::agentool::StepType;
use toolcell_spec::{CallRecord, SpanId, Timestamp, ToolInvocation, TraceContext};

use super::otlp::{Attribute, Span, SpanEvent};
use super::span::EVENTS_MAX;
use super::steps::{INVOKE_AGENT, step_name};

/// A call of any other session begins a trace of its own.
const SESSIONS_MAX: usize = 256;
/// The span is sent then, because nothing says that a session is over; later work is sent as a further part of it.
const REST: Duration = Duration::from_secs(60);
/// A call counts as running at most so long, in case that it leaves no record.
const CALL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Default)]
pub(super) struct SessionSpans(Mutex<HashMap<String, SessionSpan>>);

struct SessionSpan {
    trace: TraceContext,
    span: SpanId,
    steps: Vec<SpanEvent>,
    steps_left_out: usize,
    began: Timestamp,
    last: Timestamp,
    calls: u64,
    running: u64,
}

impl SessionSpans {
    /// The call's place is `place`, below the span of the session, or of its earlier calls; a trace of its own if
    /// too many sessions are followed.
    pub(super) fn begin(&self, name: &str, place: TraceContext, now: Timestamp) -> TraceContext {
        let mut sessions = self.0.lock();
        if !sessions.contains_key(name) {
            let Some(span) = place.parent().filter(|_| sessions.len() < SESSIONS_MAX) else {
                return TraceContext::begin();
            };
            let session = SessionSpan {
                trace: place,
                span,
                steps: Vec::new(),
                steps_left_out: 0,
                began: now,
                last: now,
                calls: 0,
                running: 0,
            };
            sessions.insert(name.to_owned(), session);
        }
        let Some(session) = sessions.get_mut(name) else {
            return TraceContext::begin();
        };
        session.calls += 1;
        session.running += 1;
        session.last = now;
        session.trace.below(session.span)
    }

    pub(super) fn ended(&self, record: &CallRecord, now: Timestamp) {
        let parent =
            TraceContext::recorded(&record.invocation).and_then(|context| context.parent());
        let Some(parent) = parent else { return };
        if let Some(session) = self
            .0
            .lock()
            .values_mut()
            .find(|session| session.span == parent)
        {
            session.running = session.running.saturating_sub(1);
            session.last = now;
            session.add_steps(&record.invocation);
        }
    }

    pub(super) fn end(&self, name: &str, now: Timestamp, all: bool) -> Vec<Span> {
        let is_over = |session: &SessionSpan| {
            let rest = if session.running == 0 { REST } else { CALL_MAX };
            all || session.last.plus(rest) < now
        };
        let mut sessions = self.0.lock();
        sessions
            .extract_if(|_, session| is_over(session))
            .map(|(_, session)| session.span(name))
            .collect()
    }
}

impl SessionSpan {
    /// The call and its result are steps of the agent (AO-OT-01).
    fn add_steps(&mut self, call: &ToolInvocation) {
        let ended = call.ended_at().unwrap_or_else(|| call.created_at());
        for (at, kind) in [
            (call.created_at(), StepType::ToolCall),
            (ended, StepType::ToolResult),
        ] {
            if self.steps.len() < EVENTS_MAX {
                self.steps.push(SpanEvent::new(at, step_name(kind)));
            } else {
                self.steps_left_out += 1;
            }
        }
    }

    fn span(self, name: &str) -> Span {
        let mut span = Span::new(
            self.trace.trace_id(),
            self.span,
            None,
            name.to_owned(),
            (self.began, self.last),
        );
        span.attributes
            .push(Attribute::number("toolcell.calls", self.calls));
        if name == INVOKE_AGENT {
            let operation = Attribute::text("gen_ai.operation.name", INVOKE_AGENT);
            span.attributes.push(operation);
            span.events = self.steps;
            span.dropped_events_count = self.steps_left_out;
        }
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::span::tests::{record, reference};
    use crate::telemetry::steps::place;

    #[test]
    fn the_calls_of_a_session_are_below_its_span_until_it_rests() {
        let sessions = SessionSpans::default();
        let now = Timestamp::now();
        let begin = |name: &str| sessions.begin(name, place(name), now);
        let [one, other] = [(); 2].map(|()| begin("s"));
        assert_eq!(one, other);
        assert_ne!(begin("t").trace_id(), one.trace_id());
        // Two of its calls run.
        assert!(
            sessions
                .end(INVOKE_AGENT, now.plus(REST * 2), false)
                .is_empty()
        );
        let mut ended = reference("01");
        ended["parent_span_id"] = one.parent().unwrap().to_string().into();
        (0..2).for_each(|_| sessions.ended(&record(Some(ended.clone()), None), now));
        let over = sessions.end(INVOKE_AGENT, now.plus(REST * 2), false);
        assert_eq!(over.len(), 1, "{over:?}");
        assert_eq!(
            (&over[0].span_id, &over[0].trace_id),
            (&one.parent().unwrap().to_string(), &one.trace_id())
        );
        let names: Vec<&str> = over[0].events.iter().map(|event| event.name).collect();
        assert_eq!(
            names,
            ["agentool.tool_call", "agentool.tool_result"].repeat(2)
        );
        // One span for one trace, in however many parts it is sent.
        assert_eq!(begin("s"), one);
        assert_eq!(sessions.end(INVOKE_AGENT, now, true).len(), 2);
    }

    #[test]
    fn so_many_sessions_are_followed() {
        let sessions = SessionSpans::default();
        let now = Timestamp::now();
        let parents = (0..SESSIONS_MAX + 3).map(|at| {
            let name = at.to_string();
            sessions.begin(&name, place(&name), now).parent()
        });
        assert_eq!(parents.filter(Option::is_none).count(), 3);
        assert_eq!(sessions.end(INVOKE_AGENT, now, true).len(), SESSIONS_MAX);
    }
}
