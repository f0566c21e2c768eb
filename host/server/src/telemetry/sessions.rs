//! The span above the calls of an agent's session (AO-OT-01), as far as this process knows it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use toolcell_spec::{CallRecord, SpanId, Timestamp, TraceContext};

use super::otlp::{Attribute, Span, SpanEvent};
use super::span::EVENTS_MAX;
use super::steps::{INVOKE_AGENT, attributes, call_steps, place};

/// A call of any other session begins a trace of its own.
const SESSIONS_MAX: usize = 256;
/// The span is sent then, because nothing says that a session is over. After later calls it is sent again, whole.
const REST: Duration = Duration::from_secs(60);
/// A call counts as running at most so long, in case that it leaves no record.
const CALL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Default)]
pub(super) struct SessionSpans(Mutex<HashMap<String, SessionSpan>>);

struct SessionSpan {
    trace: TraceContext,
    span: SpanId,
    steps: Vec<(Timestamp, SpanEvent)>,
    steps_left_out: usize,
    began: Timestamp,
    last: Timestamp,
    calls: u64,
    running: u64,
    is_sent: bool,
}

impl SessionSpans {
    /// The call's place, below the span of the session; a trace of its own if too many sessions are followed.
    pub(super) fn begin(&self, name: &str, now: Timestamp) -> TraceContext {
        let mut sessions = self.0.lock();
        let Some(session) = follow(&mut sessions, name, now) else {
            return TraceContext::begin();
        };
        session.calls += 1;
        session.running += 1;
        (session.last, session.is_sent) = (now, false);
        session.trace.below(session.span)
    }

    /// A call that another process began counts, too.
    pub(super) fn ended(&self, record: &CallRecord, now: Timestamp) {
        let call = &record.invocation;
        let parent = TraceContext::recorded(call).and_then(|context| context.parent());
        let Some(parent) = parent else { return };
        let mut sessions = self.0.lock();
        if let Some(session) = sessions.values_mut().find(|session| session.span == parent) {
            session.running = session.running.saturating_sub(1);
            session.add(record, now);
        } else if let Some(name) = call.session_ref.as_deref()
            && place(name).parent() == Some(parent)
            && let Some(session) = follow(&mut sessions, name, call.created_at())
        {
            session.calls += 1;
            session.add(record, now);
        }
    }

    pub(super) fn end(&self, now: Timestamp, all: bool) -> Vec<Span> {
        let is_over = |session: &&mut SessionSpan| {
            let rest = if session.running == 0 { REST } else { CALL_MAX };
            !session.is_sent && (all || session.last.plus(rest) < now)
        };
        let mut sessions = self.0.lock();
        let over = sessions.values_mut().filter(is_over);
        over.map(SessionSpan::send).collect()
    }
}

/// Of too many sessions, the one that rests longest is forgotten.
fn follow<'s>(
    sessions: &'s mut HashMap<String, SessionSpan>,
    name: &str,
    now: Timestamp,
) -> Option<&'s mut SessionSpan> {
    // The map is looked into twice, because a session that is found ends the borrow only with the function.
    if sessions.contains_key(name) {
        return sessions.get_mut(name);
    }
    if sessions.len() >= SESSIONS_MAX {
        let sent = sessions.iter().filter(|(_, session)| session.is_sent);
        let oldest = sent.min_by_key(|(_, session)| session.last)?.0.clone();
        sessions.remove(&oldest);
    }
    let place = place(name);
    let session = SessionSpan {
        span: place.parent()?,
        trace: place,
        steps: Vec::new(),
        steps_left_out: 0,
        began: now,
        last: now,
        calls: 0,
        running: 0,
        is_sent: false,
    };
    Some(sessions.entry(name.to_owned()).or_insert(session))
}

impl SessionSpan {
    fn add(&mut self, record: &CallRecord, now: Timestamp) {
        (self.last, self.is_sent) = (now, false);
        for step in call_steps(record) {
            if self.steps.len() < EVENTS_MAX {
                self.steps.push(step);
            } else {
                self.steps_left_out += 1;
            }
        }
    }

    fn send(&mut self) -> Span {
        self.is_sent = true;
        let mut span = Span::new(
            self.trace.trace_id(),
            self.span,
            None,
            INVOKE_AGENT.to_owned(),
            (self.began, self.last),
        );
        span.attributes = attributes(self.steps.len() + self.steps_left_out).into();
        span.attributes
            .push(Attribute::number("toolcell.calls", self.calls));
        // Stable, so that what a result proposes stays behind it.
        self.steps.sort_by_key(|(at, _)| *at);
        span.events = self.steps.iter().map(|(_, step)| step.clone()).collect();
        span.dropped_events_count = self.steps_left_out;
        span
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::telemetry::span::tests::{record, reference};

    /// A call that ended below `place`.
    fn ended(place: &TraceContext) -> CallRecord {
        let mut noted: Value = reference("01");
        noted["trace_id"] = place.trace_id().into();
        noted["parent_span_id"] = place.parent().unwrap().to_string().into();
        record(Some(noted), None)
    }

    fn names(span: &Span) -> Vec<&str> {
        span.events.iter().map(|event| event.name).collect()
    }

    #[test]
    fn the_calls_of_a_session_are_below_its_span_whenever_it_rests() {
        let sessions = SessionSpans::default();
        let now = Timestamp::now();
        let [one, other] = [(); 2].map(|()| sessions.begin("s", now));
        assert_eq!(one, other);
        assert_ne!(sessions.begin("t", now).trace_id(), one.trace_id());
        // Two of its calls run.
        let later = now.plus(REST * 2);
        assert!(sessions.end(later, false).is_empty());
        (0..2).for_each(|_| sessions.ended(&ended(&one), now));
        let over = sessions.end(later, false);
        assert_eq!(over.len(), 1, "{over:?}");
        assert_eq!(
            (&over[0].span_id, &over[0].trace_id),
            (&one.parent().unwrap().to_string(), &one.trace_id())
        );
        let mut of_two = names(&over[0]);
        of_two.sort_unstable();
        let [call, result] = ["agentool.tool_call", "agentool.tool_result"];
        assert_eq!(of_two, [call, call, result, result]);
        assert!(sessions.end(later, false).is_empty(), "it is sent once");
        // Whole, after another call.
        assert_eq!(sessions.begin("s", later), one);
        sessions.ended(&ended(&one), later);
        let all = sessions.end(later, true);
        assert_eq!(all.len(), 2);
        let again = all.iter().find(|span| span.trace_id == one.trace_id());
        assert_eq!(names(again.unwrap()).len(), 6);
        assert!(sessions.end(later, true).is_empty());
    }

    #[test]
    fn a_call_that_another_process_began_is_a_step_of_its_session() {
        let sessions = SessionSpans::default();
        let now = Timestamp::now();
        let mut resumed = ended(&place("s"));
        sessions.ended(&resumed, now);
        assert!(sessions.end(now, true).is_empty(), "it has no session");
        resumed.invocation.session_ref = Some("s".into());
        sessions.ended(&resumed, now);
        let over = sessions.end(now, true);
        assert_eq!(names(&over[0]).len(), 2);
        assert_eq!(over[0].trace_id, place("s").trace_id());
    }

    #[test]
    fn what_a_result_proposes_is_a_step_behind_it() {
        let sessions = SessionSpans::default();
        let now = Timestamp::now();
        let mut proposing = ended(&sessions.begin("s", now));
        let result = &mut proposing.result;
        let handoff = json!({ "type": "handoff_ref", "to_agent": "b" });
        result.model_facing_content = vec![serde_json::from_value(handoff).unwrap()];
        let modifier = json!({ "key": "k", "value": 1 });
        result.context_modifiers = vec![serde_json::from_value(modifier).unwrap()];
        sessions.ended(&proposing, now);
        let over = sessions.end(now, true);
        let steps = ["tool_call", "tool_result", "handoff", "memory_write"];
        assert_eq!(
            names(&over[0]),
            steps.map(|step| format!("agentool.{step}"))
        );
        assert_eq!(over[0].events[1].attributes, over[0].events[0].attributes);
        let id = proposing.invocation.invocation_id.to_string();
        assert_eq!(
            over[0].events[0].attributes,
            [Attribute::text("gen_ai.tool.call.id", id)]
        );
    }

    #[test]
    fn so_many_sessions_are_followed() {
        let sessions = SessionSpans::default();
        let now = Timestamp::now();
        let begin = |at: usize| sessions.begin(&at.to_string(), now).parent();
        let parents = (0..SESSIONS_MAX + 3).map(begin);
        assert_eq!(parents.filter(Option::is_none).count(), 3);
        assert_eq!(sessions.end(now, true).len(), SESSIONS_MAX);
        assert!(begin(SESSIONS_MAX).is_some(), "the others rest");
    }
}
