//! Admission of connections. All are accepted at once, and a silent one takes no place; of too many, the longest silent
//! one is closed. Strangers, which have not authenticated, take none of the principals' places, and one that has used
//! its time is evicted for the next. Each principal has a share; a connection beyond it waits where nothing evicts it,
//! so that it gets an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcell_engine::scheduler::CallerShares;
use toolcell_system::pool::share;

use super::HttpLimits;

const PATIENT: Duration = Duration::from_secs(1);
const CROWDED: Duration = Duration::from_millis(100);
/// Accepted connections without a place, and their part of the files that this process may open.
const ARRIVED_MAX: usize = 1_024;
const ARRIVED_FILES: u64 = 4;

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
    known: Arc<Semaphore>,
    shares: CallerShares,
    /// Authenticated connections wait here for one of `known` or are told that there is none.
    waiting: CallerShares,
    wait: Duration,
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
        let id = self.next;
        let leave = CancellationToken::new();
        self.next += 1;
        self.there.insert(id, (known, leave.clone()));
        (id, leave)
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

pub(super) struct UnplacedConnection {
    connections: Arc<Connections>,
    id: u64,
    leave: CancellationToken,
}

pub(super) struct ClientConnection {
    connections: Arc<Connections>,
    id: u64,
    leave: CancellationToken,
    /// Set once the client has authenticated.
    known: Mutex<Option<(Arc<str>, [OwnedSemaphorePermit; 2])>>,
    /// The place among those that wait.
    waits: Mutex<Option<OwnedSemaphorePermit>>,
}

pub(super) struct PlacesTaken;

impl Connections {
    pub(super) fn new(limits: &HttpLimits, principals: usize) -> Arc<Self> {
        let all = limits.connections as usize;
        let waiting = limits.waiting as usize;
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
            known: Arc::new(Semaphore::new(all)),
            shares: CallerShares::new(share(all, principals)),
            waiting: CallerShares::new(share(waiting, principals)),
            wait: limits.place_time,
        })
    }

    /// Evicts a connection if too many have no place.
    pub(super) fn arrive(self: &Arc<Self>) -> UnplacedConnection {
        let mut arrivals = self.arrivals.lock();
        if arrivals.there.len() >= self.arrived_max {
            // The one that has been silent for longest, or else the oldest.
            _ = arrivals.evict(|has_spoken| !has_spoken) || arrivals.evict(|_| true);
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
                if strangers.there.len() < self.strangers_max
                    || strangers.evict(|since| since.elapsed() >= time)
                {
                    let (id, leave) = strangers.add(Instant::now());
                    return ClientConnection {
                        connections: Arc::clone(self),
                        id,
                        leave,
                        known: Mutex::default(),
                        waits: Mutex::default(),
                    };
                }
            }
            // A crowd can form now.
            let _ = tokio::time::timeout(CROWDED / 4, room).await;
        }
    }

    /// Waits until no authenticated connection is left.
    pub(super) async fn end(&self, limits: &HttpLimits) {
        let _ = self.known.acquire_many(limits.connections).await;
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

    /// Fails if no place becomes free in time, or too many wait already. The client can be told so: from now on nothing
    /// evicts it.
    pub(super) async fn belongs_to(&self, principal: &Arc<str>) -> Result<(), PlacesTaken> {
        let known = || self.known.lock();
        if known().as_ref().is_some_and(|(at, _)| at == principal) {
            return Ok(());
        }
        let Connections {
            shares,
            waiting,
            known: all,
            wait,
            ..
        } = &*self.connections;
        let waits = waiting.try_take(principal);
        let has_room = waits.is_some();
        *self.waits.lock() = waits;
        self.is_no_stranger();
        let all = Arc::clone(all);
        let places = async {
            Some([
                shares.take(principal).await?,
                all.acquire_owned().await.ok()?,
            ])
        };
        let wait = if has_room { *wait } else { Duration::ZERO };
        let places = tokio::time::timeout(wait, places)
            .await
            .ok()
            .flatten()
            .ok_or(PlacesTaken)?;
        *known() = Some((Arc::clone(principal), places));
        self.waits.lock().take();
        Ok(())
    }

    /// Gives the principal's place back: only the connection's end is left.
    pub(super) fn is_over(&self) {
        self.known.lock().take();
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

impl Drop for ClientConnection {
    fn drop(&mut self) {
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
