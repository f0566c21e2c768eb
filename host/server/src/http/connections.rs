//! Admission of connections. All are accepted at once, and a silent one takes no place; of too many, the longest silent
//! one is closed. Strangers, which have not authenticated, take none of the principals' places, and one that has used
//! its time is evicted for the next. Each principal has its part, and borrows what others leave; a request beyond that
//! waits where nothing evicts its connection, so that it gets an answer. A connection without a request takes no place;
//! of too many, one of who has most is closed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcell_engine::scheduler::{SharedPlace, SharedPlaces};

use super::HttpLimits;

const PATIENT: Duration = Duration::from_secs(1);
const CROWDED: Duration = Duration::from_millis(100);
/// Accepted connections without a place, and their part of the files that this process may open.
const ARRIVED_MAX: usize = 1_024;
const ARRIVED_FILES: u64 = 4;
/// The end of a server looks so often for connections that are left.
const END_STEP: Duration = Duration::from_millis(10);

pub(super) struct Connections {
    /// `true` if the connection has said something.
    arrivals: Mutex<Crowd<bool>>,
    arrived_max: usize,
    /// Held by the stranger that gets the next place.
    turn: tokio::sync::Mutex<()>,
    /// Arrivals: a stranger can be evicted only some time after.
    strangers: Mutex<Crowd<Instant>>,
    strangers_max: usize,
    /// Notified when a stranger frees its place.
    room: Notify,
    /// Of requests by authenticated clients.
    busy: SharedPlaces,
    /// Authenticated connections without a request, and whose they are.
    idle: Mutex<Crowd<Arc<str>>>,
    idle_max: usize,
    /// Requests wait here for one of `busy`, or are told that there is none.
    waiting: SharedPlaces,
    wait: Duration,
    counts: ConnectionCounts,
}

/// Since the start, for metrics.
#[derive(Default)]
struct ConnectionCounts {
    arrivals_evicted: AtomicU64,
    strangers_evicted: AtomicU64,
    idle_evicted: AtomicU64,
    refused: AtomicU64,
}

/// For metrics: connections now, by what they are, and how many were closed or refused since the start.
pub(super) struct ConnectionStates {
    pub(super) open: [(&'static str, usize); 5],
    pub(super) evicted: [(&'static str, u64); 3],
    pub(super) refused: u64,
}

struct Crowd<T> {
    there: BTreeMap<u64, (T, CancellationToken)>,
    next: u64,
}

impl<T> Crowd<T> {
    fn new() -> Mutex<Self> {
        Mutex::new(Self {
            there: BTreeMap::new(),
            next: 0,
        })
    }

    fn add(&mut self, known: T) -> (u64, CancellationToken) {
        let leave = CancellationToken::new();
        (self.join(known, leave.clone()), leave)
    }

    fn join(&mut self, known: T, leave: CancellationToken) -> u64 {
        let id = self.next;
        self.next += 1;
        self.there.insert(id, (known, leave));
        id
    }

    /// `false` if none `may_leave`.
    fn evict(&mut self, may_leave: impl Fn(&T) -> bool) -> bool {
        let mut all = self.there.iter();
        let first = all.find(|(_, (known, _))| may_leave(known));
        let id = first.map(|(id, _)| *id);
        let gone = id.and_then(|id| self.there.remove(&id));
        gone.inspect(|(_, leave)| leave.cancel()).is_some()
    }
}

impl Crowd<Arc<str>> {
    /// The owner of the most; of several, of the oldest.
    fn most(&self) -> Option<Arc<str>> {
        let mut counts = HashMap::<&Arc<str>, usize>::new();
        for (whose, _) in self.there.values() {
            *counts.entry(whose).or_default() += 1;
        }
        let most = counts.values().max().copied();
        let mut all = self.there.values().map(|(whose, _)| whose);
        let first = all.find(|whose| counts.get(whose).copied() == most);
        first.map(Arc::clone)
    }
}

pub(super) struct UnplacedConnection {
    connections: Arc<Connections>,
    id: u64,
    leave: CancellationToken,
}

pub(super) struct ClientConnection {
    connections: Arc<Connections>,
    id: u64,
    leave: CancellationToken,
    /// The principal that authenticated last.
    principal: Mutex<Option<Arc<str>>>,
    /// Of its request.
    busy: Mutex<Option<SharedPlace>>,
    /// The place among those that wait.
    waits: Mutex<Option<SharedPlace>>,
    /// The place among those that are idle.
    rests: Mutex<Option<u64>>,
}

pub(super) struct PlacesTaken;

impl Connections {
    pub(super) fn new(limits: &HttpLimits, principals: usize) -> Arc<Self> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / ARRIVED_FILES;
        Arc::new(Self {
            arrivals: Crowd::new(),
            arrived_max: usize::try_from(files)
                .unwrap_or(usize::MAX)
                .clamp(1, ARRIVED_MAX),
            turn: tokio::sync::Mutex::default(),
            strangers: Crowd::new(),
            strangers_max: (limits.strangers as usize).max(1),
            room: Notify::new(),
            busy: SharedPlaces::new(limits.requests as usize, principals),
            idle: Crowd::new(),
            // All that were at work can rest at once: a client may be about to use the one that is closed.
            idle_max: limits.requests.saturating_add(limits.waiting) as usize,
            waiting: SharedPlaces::new(limits.waiting as usize, principals),
            wait: limits.place_time,
            counts: ConnectionCounts::default(),
        })
    }

    /// Evicts a connection if too many have no place.
    pub(super) fn arrive(self: &Arc<Self>) -> UnplacedConnection {
        let mut arrivals = self.arrivals.lock();
        if arrivals.there.len() >= self.arrived_max {
            // The one that has been silent for longest, or else the oldest.
            let is_gone = arrivals.evict(|has_spoken| !has_spoken) || arrivals.evict(|_| true);
            count(&self.counts.arrivals_evicted, is_gone);
        }
        let (id, leave) = arrivals.add(false);
        UnplacedConnection {
            connections: Arc::clone(self),
            id,
            leave,
        }
    }

    /// Waits until a place is free or a stranger can be evicted.
    async fn enter(self: &Arc<Self>) -> ClientConnection {
        let _turn = self.turn.lock().await;
        loop {
            let room = self.room.notified();
            let spoken = {
                let arrivals = self.arrivals.lock();
                let known = arrivals.there.values();
                known.filter(|(has_spoken, _)| *has_spoken).count()
            };
            let time = if spoken > self.strangers_max {
                CROWDED
            } else {
                PATIENT
            };
            {
                let mut strangers = self.strangers.lock();
                let is_full = strangers.there.len() >= self.strangers_max;
                let is_gone = is_full && strangers.evict(|since| since.elapsed() >= time);
                count(&self.counts.strangers_evicted, is_gone);
                if is_gone || !is_full {
                    let (id, leave) = strangers.add(Instant::now());
                    return ClientConnection {
                        connections: Arc::clone(self),
                        id,
                        leave,
                        principal: Mutex::default(),
                        busy: Mutex::default(),
                        waits: Mutex::default(),
                        rests: Mutex::default(),
                    };
                }
            }
            // A crowd can form now.
            let _ = tokio::time::timeout(CROWDED / 4, room).await;
        }
    }

    /// From now on there are so many principals.
    pub(super) fn divide(&self, principals: usize) {
        self.busy.divide(principals);
        self.waiting.divide(principals);
    }

    /// Waits until no authenticated connection is left: one without a request may still have bytes to send.
    pub(super) async fn end(&self) {
        while self.busy.taken() > 0 || !self.idle.lock().there.is_empty() {
            tokio::time::sleep(END_STEP).await;
        }
    }

    /// The longest idle connection of who has most of them is closed if there are too many.
    fn rest(&self, principal: &Arc<str>, leave: CancellationToken) -> u64 {
        let mut idle = self.idle.lock();
        let id = idle.join(Arc::clone(principal), leave);
        if idle.there.len() > self.idle_max {
            let most = idle.most();
            let is_gone = idle.evict(|whose| Some(whose) == most.as_ref());
            count(&self.counts.idle_evicted, is_gone);
        }
        id
    }

    pub(super) fn states(&self) -> ConnectionStates {
        let Self { counts, busy, .. } = self;
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let idle = self.idle.lock().there.len();
        ConnectionStates {
            open: [
                ("arrived", self.arrivals.lock().there.len()),
                ("unauthenticated", self.strangers.lock().there.len()),
                ("waiting", self.waiting.taken()),
                ("busy", busy.taken()),
                ("idle", idle),
            ],
            evicted: [
                ("arrived", number(&counts.arrivals_evicted)),
                ("unauthenticated", number(&counts.strangers_evicted)),
                ("idle", number(&counts.idle_evicted)),
            ],
            refused: number(&counts.refused),
        }
    }
}

impl UnplacedConnection {
    pub(super) async fn left(&self) {
        self.leave.cancelled().await;
    }

    pub(super) async fn enter(&self) -> ClientConnection {
        {
            let mut arrivals = self.connections.arrivals.lock();
            if let Some((has_spoken, _)) = arrivals.there.get_mut(&self.id) {
                *has_spoken = true;
            }
        }
        self.connections.enter().await
    }
}

impl Drop for UnplacedConnection {
    fn drop(&mut self) {
        self.connections.arrivals.lock().there.remove(&self.id);
    }
}

impl ClientConnection {
    pub(super) async fn left(&self) {
        self.leave.cancelled().await;
    }

    /// Its request is the principal's. Fails if no place becomes free in time, or too many wait already. The client can be
    /// told so: from now on nothing evicts it.
    pub(super) async fn belongs_to(&self, principal: &Arc<str>) -> Result<(), PlacesTaken> {
        let Connections {
            busy,
            waiting,
            wait,
            counts,
            ..
        } = &*self.connections;
        let waits = waiting.try_take(Some(principal));
        let has_room = waits.is_some();
        *self.waits.lock() = waits;
        *self.principal.lock() = Some(Arc::clone(principal));
        self.is_no_stranger();
        let place = match busy.try_take(Some(principal)) {
            Some(place) => Some(place),
            None => {
                let wait = if has_room { *wait } else { Duration::ZERO };
                let place = busy.take(Some(principal));
                tokio::time::timeout(wait, place).await.ok().flatten()
            }
        };
        count(&counts.refused, place.is_none());
        *self.busy.lock() = Some(place.ok_or(PlacesTaken)?);
        self.leave_idle();
        self.waits.lock().take();
        Ok(())
    }

    fn leave_idle(&self) {
        let id = self.rests.lock().take();
        if let Some(id) = id {
            self.connections.idle.lock().there.remove(&id);
        }
    }

    /// Its last request has ended.
    pub(super) fn rests(&self) {
        self.busy.lock().take();
        let principal = self.principal.lock().clone();
        let mut rests = self.rests.lock();
        // A request without a token leaves it among the idle ones, so that it is counted.
        if let Some(principal) = principal
            && rests.is_none()
            && !self.leave.is_cancelled()
        {
            *rests = Some(self.connections.rest(&principal, self.leave.clone()));
        }
    }

    /// Gives the place back: only the connection's end is left.
    pub(super) fn is_over(&self) {
        self.leave_idle();
        self.busy.lock().take();
        self.is_no_stranger();
    }

    fn is_no_stranger(&self) {
        if self
            .connections
            .strangers
            .lock()
            .there
            .remove(&self.id)
            .is_some()
        {
            self.connections.room.notify_one();
        }
    }
}

fn count(counter: &AtomicU64, happened: bool) {
    counter.fetch_add(u64::from(happened), Ordering::Relaxed);
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.leave_idle();
        self.is_no_stranger();
    }
}

#[cfg(test)]
mod tests {
    use super::super::HttpLimits;
    use super::Connections;

    #[tokio::test]
    async fn of_too_many_connections_without_a_place_the_one_that_was_silent_for_longest_leaves() {
        let connections = Connections::new(&HttpLimits::default(), 1);
        let mut there = vec![connections.arrive()];
        let first = there[0].enter().await;
        there.extend((1..connections.arrived_max).map(|_| connections.arrive()));
        let more = [connections.arrive(), connections.arrive()];
        let left: Vec<usize> = (0..there.len())
            .filter(|at| there[*at].leave.is_cancelled())
            .collect();
        assert_eq!(left, [1, 2], "the first has spoken");
        drop((there, more, first));
        assert!(connections.arrivals.lock().there.is_empty());
    }
}
