//! Admission of connections. A connection that has not authenticated is a stranger. Strangers have places of their own,
//! so that they take none of the principals', and one that has used its time is evicted for the next. Each principal
//! has a share; a connection beyond it has a place among those that wait, where nothing evicts it, so that it gets an
//! answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcell_core::scheduler::{Shares, share};

use super::HttpLimits;

/// How long a stranger keeps its place while others want it, before and after its first byte. A client sends its
/// request at once.
const SILENT: Duration = Duration::from_millis(100);
const SPOKEN: Duration = Duration::from_secs(1);

pub(super) struct Connections {
    strangers: Mutex<Strangers>,
    strangers_max: usize,
    /// Notified when a stranger frees its place.
    room: Notify,
    known: Arc<Semaphore>,
    shares: Shares,
    /// Places of connections that have authenticated, and wait for one of `known` or are told that there is none.
    waiting: Shares,
    wait: Duration,
}

#[derive(Default)]
struct Strangers {
    there: HashMap<u64, Stranger>,
    next: u64,
}

struct Stranger {
    /// When it can be evicted.
    until: Instant,
    leave: CancellationToken,
}

pub(super) struct Connection {
    connections: Arc<Connections>,
    id: u64,
    leave: CancellationToken,
    /// The principal and its places, once the client has authenticated.
    known: Mutex<Option<(Arc<str>, [OwnedSemaphorePermit; 2])>>,
    /// The place among those that wait, until it has one of those.
    waits: Mutex<Option<OwnedSemaphorePermit>>,
}

/// All places of the principal are taken.
pub(super) struct Full;

impl Connections {
    pub(super) fn new(limits: &HttpLimits, principals: usize) -> Arc<Self> {
        let (all, waiting) = (limits.connections as usize, limits.waiting as usize);
        let each = if guard!("principal_share") { share(all, principals) } else { all };
        Arc::new(Self {
            strangers: Mutex::default(),
            strangers_max: (limits.strangers as usize).max(1),
            room: Notify::new(),
            known: Arc::new(Semaphore::new(all)),
            shares: Shares::new(each),
            waiting: Shares::new(share(waiting, principals)),
            wait: limits.place_time,
        })
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits one more stranger. If all places are taken, waits until one is free or a stranger can be evicted.
    pub(super) async fn enter(self: &Arc<Self>) -> Connection {
        loop {
            let room = self.room.notified();
            let until = {
                let mut strangers = self.strangers();
                match strangers.there.len() < self.strangers_max || strangers.send_away() {
                    true => return self.add(&mut strangers),
                    false => strangers.first().map_or_else(Instant::now, |(_, until)| until),
                }
            };
            tokio::select! {
                () = room => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    fn add(self: &Arc<Self>, strangers: &mut Strangers) -> Connection {
        let (id, leave) = (strangers.next, CancellationToken::new());
        strangers.next += 1;
        strangers.there.insert(id, Stranger { until: Instant::now() + SILENT, leave: leave.clone() });
        Connection { connections: Arc::clone(self), id, leave, known: Mutex::default(), waits: Mutex::default() }
    }

    /// Waits until no authenticated connection is left.
    pub(super) async fn end(&self, limits: &HttpLimits) {
        let _ = self.known.acquire_many(limits.connections).await;
    }
}

impl Strangers {
    /// The stranger that can be evicted first.
    fn first(&self) -> Option<(u64, Instant)> {
        self.there.iter().map(|(id, stranger)| (*id, stranger.until)).min_by_key(|(_, until)| *until)
    }

    /// Evicts a stranger whose time is up. Returns whether there was one.
    fn send_away(&mut self) -> bool {
        let over = self.first().filter(|(_, until)| *until <= Instant::now() && guard!("stranger_places"));
        let over = over.and_then(|(id, _)| self.there.remove(&id));
        over.as_ref().inspect(|stranger| stranger.leave.cancel()).is_some()
    }
}

impl Connection {
    /// Waits until the connection is evicted.
    pub(super) async fn left(&self) {
        self.leave.cancelled().await;
    }

    /// Notes that the first byte has arrived.
    pub(super) fn speaks(&self) {
        self.keeps_until(Instant::now() + SPOKEN);
    }

    fn keeps_until(&self, until: Instant) {
        if let Some(stranger) = self.connections.strangers().there.get_mut(&self.id) {
            stranger.until = until;
        }
    }

    /// Takes one of the places of `principal`, unless the connection has one. Fails if none becomes free in time, or if too
    /// many connections of the principal wait already. The client can be told so: from now on nothing evicts it.
    pub(super) async fn belongs_to(&self, principal: &Arc<str>) -> Result<(), Full> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().as_ref().is_some_and(|(at, _)| at == principal) {
            return Ok(());
        }
        let Connections { shares, waiting, known: all, wait, .. } = &*self.connections;
        let waits = waiting.try_take(principal);
        let has_room = waits.is_some();
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = waits;
        if guard!("answered_waiting") {
            self.is_no_stranger();
        } else {
            self.keeps_until(Instant::now());
        }
        let all = Arc::clone(all);
        let places = async { Some([shares.take(principal).await?, all.acquire_owned().await.ok()?]) };
        let wait = if has_room { *wait } else { Duration::ZERO };
        let places = tokio::time::timeout(wait, places).await.ok().flatten().ok_or(Full)?;
        *known() = Some((Arc::clone(principal), places));
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.is_no_stranger();
        Ok(())
    }

    /// Gives the place of the principal back: what is left of the connection is its end.
    pub(super) fn is_over(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.is_no_stranger();
    }

    fn is_no_stranger(&self) {
        if self.connections.strangers().there.remove(&self.id).is_some() {
            self.connections.room.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.is_no_stranger();
    }
}
