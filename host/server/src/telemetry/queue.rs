//! The spans that wait to be sent: bounded, whatever the collector does.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Waiting spans, and their bytes; others are dropped.
const SPANS_MAX: usize = 4_096;
const BYTES_MAX: usize = 8 << 20;
/// Limits of one request: spans, and bytes from which on no more are added.
const BATCH_SPANS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// The first span of a request waits so long for others.
const DELAY: Duration = Duration::from_millis(500);

/// Spans as JSON, between calls and the thread that sends.
#[derive(Default)]
pub(super) struct SpanQueue {
    state: Mutex<QueueState>,
    news: Condvar,
}

#[derive(Default)]
struct QueueState {
    spans: VecDeque<Box<str>>,
    bytes: usize,
    /// Taken, and neither sent nor dropped.
    on_way: u64,
    dropped: u64,
    is_closed: bool,
    is_over: bool,
}

pub(super) struct SpanBatch {
    pub(super) spans: Vec<Box<str>>,
    pub(super) is_last: bool,
}

impl SpanQueue {
    /// Drops a span without room. Never waits for the thread that sends.
    pub(super) fn push(&self, span: String) {
        let mut state = self.state.lock();
        let is_full =
            state.spans.len() >= SPANS_MAX || state.bytes.saturating_add(span.len()) > BYTES_MAX;
        if is_full || state.is_over {
            state.dropped += 1;
            return;
        }
        state.bytes += span.len();
        state.spans.push_back(span.into_boxed_str());
        let count = state.spans.len();
        drop(state);
        // Of one that waits for more, only a full request needs to be told.
        if count == 1 || count == BATCH_SPANS {
            self.news.notify_all();
        }
    }

    /// Returns once there are spans, `patience` is over, or the queue is closed.
    pub(super) fn take(&self, patience: Duration) -> SpanBatch {
        let idle = |state: &mut QueueState| state.spans.is_empty() && !state.is_closed;
        let few = |state: &mut QueueState| state.spans.len() < BATCH_SPANS && !state.is_closed;
        let mut state = self.state.lock();
        self.news.wait_while_for(&mut state, idle, patience);
        if !state.spans.is_empty() {
            self.news.wait_while_for(&mut state, few, DELAY);
        }
        let mut spans = Vec::new();
        let mut bytes = 0;
        while spans.len() < BATCH_SPANS && bytes < BATCH_BYTES {
            let Some(span) = state.spans.pop_front() else {
                break;
            };
            bytes += span.len();
            spans.push(span);
        }
        state.bytes -= bytes;
        state.on_way += count(&spans);
        SpanBatch {
            spans,
            is_last: state.is_closed && state.spans.is_empty(),
        }
    }

    /// `true` if the queue is closed before spans are sent again.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        self.news
            .wait_while_for(&mut state, |state| !state.is_closed, pause);
        state.is_closed
    }

    pub(super) fn sent(&self, spans: &[Box<str>]) {
        let mut state = self.state.lock();
        state.on_way = state.on_way.saturating_sub(count(spans));
    }

    pub(super) fn lost(&self, spans: &[Box<str>]) {
        self.sent(spans);
        self.state.lock().dropped += count(spans);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }

    pub(super) fn over(&self) {
        self.state.lock().is_over = true;
        self.news.notify_all();
    }

    /// Waits at most `patience`. Returns the number of spans that were not sent; `None` if it was closed before.
    pub(super) fn close(&self, patience: Duration) -> Option<u64> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_closed, true) {
            return None;
        }
        self.news.notify_all();
        self.news
            .wait_while_for(&mut state, |state| !state.is_over, patience);
        state.is_over = true;
        Some(state.dropped + state.on_way + u64::try_from(state.spans.len()).unwrap_or(u64::MAX))
    }
}

fn count(spans: &[Box<str>]) -> u64 {
    u64::try_from(spans.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let queue = SpanQueue::default();
        (0..SPANS_MAX + 5).for_each(|_| queue.push("{}".to_owned()));
        assert_eq!(queue.dropped(), 5);
        let large = SpanQueue::default();
        (0..9).for_each(|_| large.push("x".repeat(BYTES_MAX / 4)));
        assert_eq!(large.dropped(), 5);
        assert!(large.state.lock().bytes <= BYTES_MAX);
    }

    #[test]
    fn a_request_has_so_many_spans_and_a_closed_queue_is_emptied() {
        let queue = SpanQueue::default();
        (0..BATCH_SPANS + 3).for_each(|at| queue.push(at.to_string()));
        let first = queue.take(Duration::ZERO);
        assert_eq!((first.spans.len(), first.is_last), (BATCH_SPANS, false));
        queue.sent(&first.spans);
        let began = Instant::now();
        assert_eq!(queue.close(Duration::from_millis(20)), Some(3));
        assert!(began.elapsed() < Duration::from_secs(10) && queue.pause(Duration::from_secs(60)));
        let rest = queue.take(Duration::from_secs(60));
        assert_eq!((rest.spans.len(), rest.is_last), (3, true));
        assert_eq!(queue.close(Duration::ZERO), None, "said once");
    }

    #[test]
    fn spans_on_their_way_count_as_lost_until_they_are_sent() {
        let queue = SpanQueue::default();
        queue.push("{}".to_owned());
        let taken = queue.take(Duration::ZERO);
        assert_eq!(queue.dropped(), 0);
        queue.lost(&taken.spans);
        queue.push("{}".to_owned());
        let _ = queue.take(Duration::ZERO);
        assert_eq!(queue.close(Duration::ZERO), Some(2));
    }
}
