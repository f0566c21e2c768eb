//! The events of one host, numbered, for those who follow them in the same process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use crate::record::{Timestamp, ToolEvent};

/// Maximum number of events that are kept for followers.
const EVENTS_MAX: usize = 4_096;
/// Maximum size of these events, in bytes; the latest event is kept in any case.
const BYTES_MAX: usize = 16 << 20;
/// Maximum size of the events that are kept while there is no follower, in bytes. They stay until the next event, and
/// a host that is idle has none.
const LINGER_BYTES_MAX: usize = 1 << 20;
/// How long events are kept after the last follower left, in milliseconds, so that one can come back.
const LINGER_MS: i64 = 30_000;

/// Numbers every event of a host, and keeps the latest ones while they are followed. A call never waits for a follower.
#[derive(Clone)]
pub struct EventBus(Arc<Inner>);

struct Inner {
    shared: Arc<BusState>,
    /// Wakes followers. Dropped with the bus, so that they end.
    news: watch::Sender<()>,
}

struct BusState {
    /// The sequence of the next event.
    next: AtomicU64,
    followers: AtomicUsize,
    /// Until when events are kept without a follower, in milliseconds since 1970; 0 if they are not.
    until: AtomicI64,
    kept: Mutex<RecentEvents>,
}

/// The latest events, oldest first.
#[derive(Default)]
struct RecentEvents {
    events: VecDeque<(u64, usize, Arc<ToolEvent>)>,
    bytes: usize,
}

/// An event or a gap.
///
/// ```
/// use toolcell_core::journal::BusEvent;
///
/// fn line(followed: &BusEvent) -> String {
///     match followed {
///         BusEvent::Event { sequence, event } => format!("{sequence} {}", event.event_type.as_str()),
///         BusEvent::Missed(count) => format!("{count} events came too fast"),
///     }
/// }
/// assert_eq!(line(&BusEvent::Missed(3)), "3 events came too fast");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum BusEvent {
    /// The next event.
    Event {
        /// Its number: from 1, without gaps, for each host of each process.
        sequence: u64,
        /// The event, redacted.
        event: Arc<ToolEvent>,
    },
    /// So many events are not kept any more: the follower was too slow, or began too late.
    Missed(u64),
}

/// Follows the events of a host from one sequence on. Its host does not wait for it.
///
/// ```
/// use toolcell_core::journal::{BusEvent, Follower};
///
/// /// Counts events until the host is dropped, and what was missed.
/// async fn count(mut follower: Follower) -> (u64, u64) {
///     let (mut seen, mut missed) = (0, 0);
///     while let Some(followed) = follower.next().await {
///         match followed {
///             BusEvent::Event { .. } => seen += 1,
///             BusEvent::Missed(count) => missed += count,
///         }
///     }
///     (seen, missed)
/// }
/// ```
pub struct Follower {
    shared: Arc<BusState>,
    news: watch::Receiver<()>,
    at: u64,
}

impl Default for EventBus {
    fn default() -> Self {
        let next = AtomicU64::new(1);
        let followers = AtomicUsize::new(0);
        let until = AtomicI64::new(0);
        let shared = Arc::new(BusState {
            next,
            followers,
            until,
            kept: Mutex::default(),
        });
        Self(Arc::new(Inner {
            shared,
            news: watch::Sender::new(()),
        }))
    }
}

impl EventBus {
    /// `true` while events are kept.
    pub(super) fn is_followed(&self) -> bool {
        self.0.shared.followers.load(Ordering::Relaxed) > 0
    }

    /// Numbers `event`, and keeps it for followers if there are any.
    pub(crate) fn publish(&self, event: &ToolEvent) {
        let Inner { shared, news } = &*self.0;
        if !self.is_followed() && !shared.lingers(event.time) {
            shared.next.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let event = Arc::new(event.clone());
        let bytes = size(&event.data);
        {
            // Numbered under the lock, so that what is kept is in order.
            let mut kept = shared.lock();
            let sequence = shared.next.fetch_add(1, Ordering::Relaxed);
            kept.push(sequence, bytes, event);
            kept.cut(self.is_followed());
        }
        news.send_replace(());
    }

    /// Follows the events from the sequence `from` on, as far as they are kept; `None` for those that come.
    pub fn follow(&self, from: Option<u64>) -> Follower {
        let Inner { shared, news } = &*self.0;
        let at = {
            let _kept = shared.lock();
            shared.followers.fetch_add(1, Ordering::Relaxed);
            let next = shared.next.load(Ordering::Relaxed);
            from.map_or(next, |from| from.clamp(1, next))
        };
        Follower {
            shared: Arc::clone(shared),
            news: news.subscribe(),
            at,
        }
    }
}

impl BusState {
    fn lock(&self) -> MutexGuard<'_, RecentEvents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `true` if events are kept without a follower. Forgets them when that time is over.
    fn lingers(&self, now: Timestamp) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 || now.unix_millis() <= until {
            return until != 0;
        }
        let mut kept = self.lock();
        // One may have come meanwhile.
        if self.followers.load(Ordering::Relaxed) > 0 {
            return true;
        }
        self.until.store(0, Ordering::Relaxed);
        *kept = RecentEvents::default();
        false
    }
}

impl RecentEvents {
    fn push(&mut self, sequence: u64, bytes: usize, event: Arc<ToolEvent>) {
        self.events.push_back((sequence, bytes, event));
        self.bytes += bytes;
    }

    /// Removes the oldest events until the rest is as small as it has to be.
    fn cut(&mut self, is_followed: bool) {
        let (bytes_max, least) = if is_followed {
            (BYTES_MAX, 1)
        } else {
            (LINGER_BYTES_MAX, 0)
        };
        let is_over = |kept: &Self| {
            kept.events.len() > EVENTS_MAX || (kept.bytes > bytes_max && kept.events.len() > least)
        };
        while is_over(self) && guard!("bus_events") {
            let Some((_, bytes, _)) = self.events.pop_front() else {
                return;
            };
            self.bytes -= bytes;
        }
    }
}

impl Follower {
    /// Waits for the next event; `None` once the host is dropped and every event that is kept was read.
    pub async fn next(&mut self) -> Option<BusEvent> {
        loop {
            self.news.mark_unchanged();
            if let Some(followed) = self.try_next() {
                return Some(followed);
            }
            if self.news.changed().await.is_err() {
                return self.try_next();
            }
        }
    }

    /// Returns the next event if it is there already.
    pub fn try_next(&mut self) -> Option<BusEvent> {
        let kept = self.shared.lock();
        let at = kept
            .events
            .partition_point(|(sequence, ..)| *sequence < self.at);
        let (next, event) = match kept.events.get(at) {
            Some((sequence, _, event)) => (*sequence, Some(event)),
            None => (self.shared.next.load(Ordering::Relaxed), None),
        };
        if next > self.at {
            let missed = next - self.at;
            self.at = next;
            return Some(BusEvent::Missed(missed));
        }
        let event = Arc::clone(event?);
        self.at += 1;
        Some(BusEvent::Event {
            sequence: next,
            event,
        })
    }

    /// The sequence of the event that comes next: where another follower can go on.
    pub fn position(&self) -> u64 {
        self.at
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut kept = self.shared.lock();
        if self.shared.followers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.shared.until.store(
                Timestamp::now().unix_millis() + LINGER_MS,
                Ordering::Relaxed,
            );
            kept.cut(false);
            kept.events.shrink_to_fit();
        }
    }
}

/// Approximate size of a value, in bytes, without serializing it.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => text.len() + 16,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 16,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, value)| name.len() + size(value) + 16)
                .sum::<usize>()
                + 16
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::{EventId, EventType, Extra, SchemaVersion};

    fn event(data: Value, time: Timestamp) -> ToolEvent {
        ToolEvent {
            schema_version: SchemaVersion::default(),
            event_id: EventId::at(time),
            event_type: EventType::Progress,
            source: "toolcell/test".into(),
            subject: None,
            time,
            invocation_id: None,
            tool_id: None,
            data: data.into(),
            trace_refs: Vec::new(),
            extra: Extra::new(),
        }
    }

    fn publish(bus: &EventBus, count: usize) {
        (0..count).for_each(|_| bus.publish(&event(json!({}), Timestamp::now())));
    }

    /// All that is there: the sequences of events, and what was missed.
    fn read(follower: &mut Follower) -> (Vec<u64>, Vec<u64>) {
        let mut seen = Vec::new();
        let mut missed = Vec::new();
        while let Some(followed) = follower.try_next() {
            match followed {
                BusEvent::Event { sequence, .. } => seen.push(sequence),
                BusEvent::Missed(count) => missed.push(count),
            }
        }
        (seen, missed)
    }

    #[test]
    fn events_are_numbered_although_nobody_follows_and_none_is_kept_then() {
        let bus = EventBus::default();
        publish(&bus, 3);
        assert!(bus.0.shared.lock().events.is_empty());
        let mut late = bus.follow(None);
        let mut early = bus.follow(Some(2));
        publish(&bus, 2);
        assert_eq!(read(&mut late), (vec![4, 5], vec![]));
        assert_eq!(read(&mut early), (vec![4, 5], vec![2]));
    }

    #[test]
    fn a_slow_follower_is_told_how_many_it_missed_and_keeps_nobody_waiting() {
        let bus = EventBus::default();
        let mut slow = bus.follow(None);
        let mut quick = bus.follow(None);
        let mut seen = 0;
        for _ in 0..EVENTS_MAX + 100 {
            publish(&bus, 1);
            seen += read(&mut quick).0.len();
        }
        assert_eq!(seen, EVENTS_MAX + 100);
        let (events, missed) = read(&mut slow);
        assert_eq!(
            (events.len(), events[0], missed),
            (EVENTS_MAX, 101, vec![100])
        );
    }

    #[test]
    fn large_events_take_a_bounded_memory() {
        let bus = EventBus::default();
        let mut slow = bus.follow(None);
        let large = event(
            json!({ "text": "x".repeat(BYTES_MAX / 4) }),
            Timestamp::now(),
        );
        (0..9).for_each(|_| bus.publish(&large));
        assert!(bus.0.shared.lock().bytes <= BYTES_MAX);
        assert_eq!(read(&mut slow), (vec![7, 8, 9], vec![6]));
        // One that is too large by itself is still told.
        bus.publish(&event(
            json!({ "text": "x".repeat(BYTES_MAX + 1) }),
            Timestamp::now(),
        ));
        assert_eq!(read(&mut slow), (vec![10], vec![]));
    }

    #[test]
    fn a_follower_can_come_back_to_its_position_for_a_while() {
        let bus = EventBus::default();
        let mut first = bus.follow(None);
        publish(&bus, 2);
        assert_eq!(read(&mut first).0, [1, 2]);
        let position = first.position();
        drop(first);
        publish(&bus, 2);
        let mut second = bus.follow(Some(position));
        assert_eq!(read(&mut second), (vec![3, 4], vec![]));
        drop(second);
        let later = Timestamp::now().plus(std::time::Duration::from_secs(60));
        bus.publish(&event(json!({}), later));
        assert!(bus.0.shared.lock().events.is_empty());
        assert_eq!(read(&mut bus.follow(Some(5))), (vec![], vec![1]));
    }

    #[test]
    fn little_is_kept_without_a_follower_even_if_no_event_follows() {
        let bus = EventBus::default();
        let kept_bytes = || bus.0.shared.lock().bytes;
        let quarter = event(
            json!({ "text": "x".repeat(LINGER_BYTES_MAX / 4) }),
            Timestamp::now(),
        );
        let follower = bus.follow(None);
        (0..20).for_each(|_| bus.publish(&quarter));
        assert!(kept_bytes() > 4 * LINGER_BYTES_MAX);
        drop(follower);
        assert!(kept_bytes() <= LINGER_BYTES_MAX);
        assert!(bus.0.shared.lock().events.capacity() < 20);
        (0..9).for_each(|_| bus.publish(&quarter));
        assert!(kept_bytes() <= LINGER_BYTES_MAX);
        assert_eq!(read(&mut bus.follow(Some(1))), (vec![27, 28, 29], vec![26]));
        bus.publish(&event(
            json!({ "text": "x".repeat(LINGER_BYTES_MAX) }),
            Timestamp::now(),
        ));
        assert_eq!(kept_bytes(), 0, "not even one that is too large by itself");
    }

    #[tokio::test]
    async fn a_follower_waits_for_events_and_ends_with_the_bus() {
        let bus = EventBus::default();
        let mut follower = bus.follow(None);
        let (followed, ()) = tokio::join!(follower.next(), async { publish(&bus, 2) });
        assert!(
            matches!(followed, Some(BusEvent::Event { sequence: 1, .. })),
            "{followed:?}"
        );
        drop(bus);
        assert!(matches!(
            follower.next().await,
            Some(BusEvent::Event { sequence: 2, .. })
        ));
        assert_eq!(follower.next().await, None);
    }
}
