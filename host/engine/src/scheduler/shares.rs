//! Places that callers share: each has a guaranteed part, and busy ones borrow what others leave idle.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// This part of all places is not lent, so that a caller that comes back gets one at once.
const RESERVE_PART: usize = 8;

/// Places per caller, so that one caller leaves some to the others.
#[derive(Debug)]
pub struct CallerShares {
    each: usize,
    by_caller: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

impl CallerShares {
    pub fn new(each: usize) -> Self {
        Self {
            each: each.min(Semaphore::MAX_PERMITS),
            by_caller: Mutex::default(),
        }
    }

    fn places(&self, caller: &str) -> Arc<Semaphore> {
        let mut by_caller = self
            .by_caller
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = by_caller.get(caller) {
            return Arc::clone(places);
        }
        // Callers without a call are removed, because the number of a library's callers is not limited.
        by_caller.retain(|_, places| Arc::strong_count(places) > 1);
        let places = Arc::new(Semaphore::new(self.each));
        by_caller.insert(caller.into(), Arc::clone(&places));
        places
    }

    pub fn try_take(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        self.places(caller).try_acquire_owned().ok()
    }

    /// `None` only if the places are closed.
    pub async fn take(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        self.places(caller).acquire_owned().await.ok()
    }
}

/// Places of several callers. A caller has at least its guaranteed part of them before any other caller gets more than
/// that; beyond it, callers borrow what is free, the one with the fewest places first.
///
/// ```
/// use toolcell_engine::scheduler::SharedPlaces;
///
/// let places = SharedPlaces::new(16, 2);
/// let busy: Vec<_> = std::iter::from_fn(|| places.try_take(Some("anna"))).collect();
/// assert_eq!(busy.len(), 14, "8 are guaranteed to her, and 6 borrowed");
/// assert!(places.try_take(Some("bert")).is_some());
/// ```
#[derive(Clone, Debug)]
pub struct SharedPlaces(Arc<PlaceTable>);

#[derive(Debug)]
struct PlaceTable {
    total: usize,
    state: Mutex<PlaceState>,
}

#[derive(Clone, Copy, Debug)]
struct PlaceShares {
    guaranteed: usize,
    reserve: usize,
    /// `true` if all callers count as one, which may use every place.
    is_common: bool,
}

#[derive(Debug)]
struct PlaceState {
    shares: PlaceShares,
    free: usize,
    /// Callers with a place, or that wait for one.
    callers: HashMap<Arc<str>, CallerQueue>,
    /// Of all callers: mostly none, and then none is looked for.
    waiting: usize,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct CallerQueue {
    taken: usize,
    /// In order of arrival.
    waiting: VecDeque<(u64, oneshot::Sender<SharedPlace>)>,
}

/// Returned when dropped.
#[derive(Debug)]
pub struct SharedPlace {
    places: SharedPlaces,
    /// `None` if it was taken back.
    caller: Option<Arc<str>>,
    is_borrowed: bool,
}

impl SharedPlace {
    /// `true` if it was given beyond the part of its caller.
    pub fn is_borrowed(&self) -> bool {
        self.is_borrowed
    }
}

/// Leaves the queue when dropped.
struct Arrival<'a> {
    places: &'a SharedPlaces,
    caller: &'a str,
    number: u64,
}

impl PlaceShares {
    fn new(total: usize, callers: usize) -> Self {
        let guaranteed = (total / callers.max(1)).max(1);
        Self {
            guaranteed,
            reserve: (total / RESERVE_PART).max(1).min(total - guaranteed),
            is_common: callers <= 1,
        }
    }

    /// All without a name are one caller.
    fn known<'a>(&self, caller: Option<&'a str>) -> &'a str {
        caller.filter(|_| !self.is_common).unwrap_or_default()
    }
}

impl SharedPlaces {
    /// `callers` is the number of those that can be told apart; one may use every place.
    pub fn new(total: usize, callers: usize) -> Self {
        let total = total.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(PlaceTable {
            total,
            state: Mutex::new(PlaceState {
                shares: PlaceShares::new(total, callers),
                free: total,
                callers: HashMap::new(),
                waiting: 0,
                arrivals: 0,
            }),
        }))
    }

    fn state(&self) -> MutexGuard<'_, PlaceState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on there are so many callers. Places that are taken stay so.
    pub fn divide(&self, callers: usize) {
        let mut state = self.state();
        state.shares = PlaceShares::new(self.0.total, callers);
        self.serve(&mut state);
    }

    pub fn taken(&self) -> usize {
        self.0.total - self.state().free
    }

    pub fn total(&self) -> usize {
        self.0.total
    }

    /// `true` if the caller has less than is guaranteed to it: the next place is its own.
    pub fn is_owed(&self, caller: Option<&str>) -> bool {
        let state = self.state();
        let taken = |queue: &CallerQueue| queue.taken;
        let taken = state
            .callers
            .get(state.shares.known(caller))
            .map_or(0, taken);
        state.shares.is_common || taken < state.shares.guaranteed
    }

    /// `None` if none is free for the caller, or another call of it waits.
    pub fn try_take(&self, caller: Option<&str>) -> Option<SharedPlace> {
        let mut state = self.state();
        let shares = state.shares;
        let caller = shares.known(caller);
        let known = state.callers.get(caller);
        let taken = known.map_or(0, |queue| queue.taken);
        let waits = known.is_some_and(|queue| !queue.waiting.is_empty());
        let needed = if taken < shares.guaranteed {
            0
        } else {
            shares.reserve
        };
        if waits || state.free <= needed {
            return None;
        }
        Some(self.give(&mut state, caller))
    }

    fn give(&self, state: &mut PlaceState, caller: &str) -> SharedPlace {
        let name = state.callers.get_key_value(caller);
        let name = name.map_or_else(|| Arc::from(caller), |(name, _)| Arc::clone(name));
        state.free = state.free.saturating_sub(1);
        let queue = state.callers.entry(Arc::clone(&name)).or_default();
        queue.taken += 1;
        SharedPlace {
            places: self.clone(),
            caller: Some(name),
            is_borrowed: queue.taken > state.shares.guaranteed,
        }
    }

    /// Waits for its turn. `None` only if the places are gone.
    pub async fn take(&self, caller: Option<&str>) -> Option<SharedPlace> {
        if let Some(place) = self.try_take(caller) {
            return Some(place);
        }
        let (sender, receiver) = oneshot::channel();
        let _arrival = {
            let mut state = self.state();
            let caller = state.shares.known(caller);
            let number = state.arrivals;
            state.arrivals += 1;
            let queue = state.callers.entry(Arc::from(caller)).or_default();
            queue.waiting.push_back((number, sender));
            state.waiting += 1;
            // A place may have become free since.
            self.serve(&mut state);
            Arrival {
                places: self,
                caller,
                number,
            }
        };
        receiver.await.ok()
    }

    /// Gives free places to those that wait.
    fn serve(&self, state: &mut PlaceState) {
        while let Some(caller) = self.next(state) {
            let Some(queue) = state.callers.get_mut(&caller) else {
                return;
            };
            let Some((_, sender)) = queue.waiting.pop_front() else {
                return;
            };
            state.waiting = state.waiting.saturating_sub(1);
            let place = self.give(state, &caller);
            if let Err(mut unwanted) = sender.send(place) {
                // Not by its drop, which would lock the state again.
                unwanted.caller = None;
                Self::put_back(state, &caller);
            }
        }
    }

    /// The caller whose call gets the next place.
    fn next(&self, state: &PlaceState) -> Option<Arc<str>> {
        if state.free == 0 || state.waiting == 0 {
            return None;
        }
        let waiting = state.callers.iter().filter_map(|(name, queue)| {
            let (number, _) = queue.waiting.front()?;
            let owed = queue.taken < state.shares.guaranteed;
            // Those below their guarantee in order of arrival, and then those with the fewest places.
            let order = (!owed, if owed { 0 } else { queue.taken }, *number);
            Some((order, name))
        });
        let ((borrows, ..), name) = waiting.min_by_key(|(order, _)| *order)?;
        (!borrows || state.free > state.shares.reserve).then(|| Arc::clone(name))
    }

    fn put_back(state: &mut PlaceState, caller: &str) {
        state.free += 1;
        if let Some(queue) = state.callers.get_mut(caller) {
            queue.taken = queue.taken.saturating_sub(1);
        }
        Self::forget(state, caller);
    }

    /// The number of a library's callers is not limited.
    fn forget(state: &mut PlaceState, caller: &str) {
        let is_idle = |queue: &CallerQueue| queue.taken == 0 && queue.waiting.is_empty();
        if state.callers.get(caller).is_some_and(is_idle) {
            state.callers.remove(caller);
        }
    }
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        if let Some(caller) = self.caller.take() {
            let mut state = self.places.state();
            SharedPlaces::put_back(&mut state, &caller);
            self.places.serve(&mut state);
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let mut state = self.places.state();
        if let Some(queue) = state.callers.get_mut(self.caller) {
            let before = queue.waiting.len();
            queue.waiting.retain(|(number, _)| *number != self.number);
            let left = before - queue.waiting.len();
            state.waiting = state.waiting.saturating_sub(left);
        }
        SharedPlaces::forget(&mut state, self.caller);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CallerShares, SharedPlace, SharedPlaces};

    fn all_of(places: &SharedPlaces, caller: &str) -> Vec<SharedPlace> {
        std::iter::from_fn(|| places.try_take(Some(caller))).collect()
    }

    #[test]
    fn a_busy_caller_borrows_what_is_idle_and_leaves_a_reserve() {
        let places = SharedPlaces::new(64, 10);
        let of_anna = all_of(&places, "anna");
        assert_eq!(of_anna.len(), 56);
        // Whoever comes has a place at once, and no more than is guaranteed to it.
        assert_eq!(all_of(&places, "bert").len(), 6);
        drop(of_anna);
        assert_eq!(places.taken(), 0);
        assert!(places.state().callers.is_empty());
    }

    #[test]
    fn another_number_of_callers_changes_what_is_guaranteed_from_then_on() {
        let places = SharedPlaces::new(8, 1);
        let hers: Vec<_> = std::iter::from_fn(|| places.try_take(Some("anna"))).collect();
        assert_eq!(hers.len(), 8, "she is alone");
        drop(hers);
        places.divide(2);
        let hers: Vec<_> = std::iter::from_fn(|| places.try_take(Some("anna"))).collect();
        assert_eq!(hers.len(), 7, "one is kept for another");
        assert!(places.is_owed(Some("bert")) && places.try_take(Some("bert")).is_some());
        places.divide(1);
        drop(hers);
        assert_eq!(places.taken(), 0);
    }

    #[tokio::test]
    async fn a_place_goes_first_to_whom_it_is_guaranteed() {
        let places = SharedPlaces::new(16, 2);
        let mut of_anna = all_of(&places, "anna");
        assert_eq!(of_anna.len(), 14);
        let more = tokio::spawn({
            let places = places.clone();
            async move { places.take(Some("anna")).await }
        });
        tokio::task::yield_now().await;
        // Bert has two at once, and each of hers that ends is his until he has his part.
        let mut of_bert = all_of(&places, "bert");
        assert_eq!(of_bert.len(), 2);
        while of_bert.len() < 8 {
            let his = tokio::spawn({
                let places = places.clone();
                async move { places.take(Some("bert")).await }
            });
            tokio::task::yield_now().await;
            drop(of_anna.pop());
            of_bert.extend(his.await.unwrap());
        }
        assert!(!more.is_finished() && places.try_take(Some("bert")).is_none());
        drop(of_bert);
        assert!(more.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn those_that_borrow_have_equally_many() {
        let places = SharedPlaces::new(8, 8);
        let of_anna = all_of(&places, "anna");
        assert_eq!(of_anna.len(), 7);
        let his = tokio::spawn({
            let places = places.clone();
            async move {
                let first = places.take(Some("bert")).await;
                (places.take(Some("bert")).await, first)
            }
        });
        let hers = tokio::spawn({
            let places = places.clone();
            async move { places.take(Some("anna")).await }
        });
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        let mut of_anna = of_anna;
        of_anna.truncate(5);
        let his = tokio::time::timeout(Duration::from_secs(5), his);
        assert!(his.await.unwrap().unwrap().0.is_some());
        assert!(!hers.is_finished(), "she has five, and he two");
    }

    #[tokio::test]
    async fn a_wait_that_ends_early_leaves_nothing_behind() {
        let places = SharedPlaces::new(2, 1);
        let held = [(); 2].map(|()| places.try_take(None).unwrap());
        for _ in 0..100 {
            let wait = tokio::time::timeout(Duration::from_millis(0), places.take(Some("x")));
            assert!(wait.await.is_err());
        }
        assert!(places.state().callers[""].waiting.is_empty());
        drop(held);
        assert!(places.take(None).await.is_some());
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn all_callers_together_have_a_limit_too() {
        let places = SharedPlaces::new(3, 1);
        let names = ["a", "b", "c"].map(|name| places.try_take(Some(name)).unwrap());
        assert!(places.try_take(None).is_none());
        drop(names);
        assert!(places.try_take(None).is_some());
        let endless = SharedPlaces::new(usize::MAX, 2);
        assert!(endless.try_take(Some("a")).is_some());
    }

    #[test]
    fn one_caller_takes_no_place_of_another_and_leaves_nothing_behind() {
        let shares = CallerShares::new(2);
        let of_anna = [(); 2].map(|()| shares.try_take("anna").unwrap());
        assert!(shares.try_take("anna").is_none());
        assert!(shares.try_take("bert").is_some());
        drop(of_anna);
        assert!(shares.try_take("anna").is_some());
        (0..100).for_each(|n| drop(shares.try_take(&n.to_string())));
        assert!(shares.by_caller.lock().unwrap().len() <= 2);
    }
}
