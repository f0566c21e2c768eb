//! The spans above calls: one for a batch, or for a session of a client.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use toolcell_spec::{CallRecord, InvocationId, SpanId, Timestamp, TraceContext};

use super::otlp::{Attribute, Span};

/// A call of any other session begins a trace of its own.
const SESSIONS_MAX: usize = 256;
/// Later work of the session is another trace: one that lasts for days cannot be read.
const REST: Duration = Duration::from_secs(60);
/// A call counts as running at most so long, in case that it leaves no record.
const CALL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Default)]
pub(super) struct SessionSpans(Mutex<HashMap<String, SessionSpan>>);

struct SessionSpan {
    trace: TraceContext,
    span: SpanId,
    began: Timestamp,
    last: Timestamp,
    calls: u64,
    running: u64,
}

impl SessionSpans {
    /// A trace of its own if too many sessions are followed.
    pub(super) fn begin(&self, name: &str, now: Timestamp) -> TraceContext {
        let mut sessions = self.0.lock();
        if !sessions.contains_key(name) {
            if sessions.len() >= SESSIONS_MAX {
                return TraceContext::begin();
            }
            let trace = TraceContext::begin();
            let span = SpanId::from_invocation(InvocationId::at(now));
            let session = SessionSpan {
                trace,
                span,
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
    fn span(&self, name: &str) -> Span {
        let mut span = Span::new(
            self.trace.trace_id(),
            self.span,
            None,
            name.to_owned(),
            (self.began, self.last),
        );
        span.attributes
            .push(Attribute::number("toolcell.calls", self.calls));
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::span::tests::{record, reference};

    #[test]
    fn the_calls_of_a_session_are_below_its_span_until_it_rests() {
        let sessions = SessionSpans::default();
        let now = Timestamp::now();
        let [one, other] = [(); 2].map(|()| sessions.begin("s", now));
        assert_eq!(one, other);
        assert_ne!(sessions.begin("t", now).trace_id(), one.trace_id());
        // Two of its calls run.
        assert!(
            sessions
                .end("session", now.plus(REST * 2), false)
                .is_empty()
        );
        let mut ended = reference("01");
        ended["parent_span_id"] = one.parent().unwrap().to_string().into();
        (0..2).for_each(|_| sessions.ended(&record(Some(ended.clone()), None), now));
        let over = sessions.end("session", now.plus(REST * 2), false);
        assert_eq!(over.len(), 1, "{over:?}");
        assert_eq!(
            (&over[0].span_id, &over[0].trace_id),
            (&one.parent().unwrap().to_string(), &one.trace_id())
        );
        assert_ne!(sessions.begin("s", now).trace_id(), one.trace_id());
        assert_eq!(sessions.end("session", now, true).len(), 2);
    }

    #[test]
    fn so_many_sessions_are_followed() {
        let sessions = SessionSpans::default();
        let now = Timestamp::now();
        let parents = (0..SESSIONS_MAX + 3).map(|at| sessions.begin(&at.to_string(), now).parent());
        assert_eq!(parents.filter(Option::is_none).count(), 3);
        assert_eq!(sessions.end("session", now, true).len(), SESSIONS_MAX);
    }
}
