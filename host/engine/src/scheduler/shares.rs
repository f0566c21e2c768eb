use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolcell_system::pool::share;

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

/// Common places, of which each caller may have its [`share`].
#[derive(Clone, Debug)]
pub(super) struct SharedPlaces {
    all: Arc<Semaphore>,
    total: usize,
    /// `None` for one caller, which may use every place.
    shares: Option<Arc<CallerShares>>,
}

/// The first part of a [`SharedPlace`], returned when dropped.
#[derive(Debug)]
pub struct CallerPlace {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Returned when dropped.
#[derive(Debug)]
pub struct SharedPlace {
    _place: OwnedSemaphorePermit,
    _of_caller: CallerPlace,
}

impl SharedPlaces {
    pub(super) fn new(total: usize, callers: usize) -> Self {
        let shares = || Arc::new(CallerShares::new(share(total, callers)));
        let places = total.min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(places)),
            total: places,
            shares: (callers > 1).then(shares),
        }
    }

    pub(super) fn taken(&self) -> usize {
        self.total.saturating_sub(self.all.available_permits())
    }

    fn share_of<'a>(&'a self, caller: Option<&'a str>) -> Option<(&'a CallerShares, &'a str)> {
        Some((self.shares.as_deref()?, caller?))
    }

    /// `None` if none is free or another call of the caller waits.
    pub(super) fn try_share(&self, caller: Option<&str>) -> Option<CallerPlace> {
        let permit = match self.share_of(caller) {
            Some((shares, caller)) => Some(shares.try_take(caller)?),
            None => None,
        };
        Some(CallerPlace { _permit: permit })
    }

    /// `None` only if the places are closed, as in [`Self::take`].
    pub(super) async fn share(&self, caller: Option<&str>) -> Option<CallerPlace> {
        let permit = match self.share_of(caller) {
            Some((shares, caller)) => Some(shares.take(caller).await?),
            None => None,
        };
        Some(CallerPlace { _permit: permit })
    }

    /// `None` if none is free or someone waits.
    pub(super) fn try_take(&self, of_caller: CallerPlace) -> Option<SharedPlace> {
        let place = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(SharedPlace {
            _place: place,
            _of_caller: of_caller,
        })
    }

    pub(super) async fn take(&self, of_caller: CallerPlace) -> Option<SharedPlace> {
        let place = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(SharedPlace {
            _place: place,
            _of_caller: of_caller,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{CallerShares, SharedPlace, SharedPlaces, share};

    fn taken(places: &SharedPlaces, caller: Option<&str>) -> Option<SharedPlace> {
        places.try_take(places.try_share(caller)?)
    }

    #[test]
    fn a_flood_is_refused_and_leaves_room_for_another_caller() {
        let places = SharedPlaces::new(16, 2);
        let of_anna: Vec<_> = std::iter::from_fn(|| taken(&places, Some("anna")))
            .take(100)
            .collect();
        assert_eq!(of_anna.len(), 8);
        let of_bert = taken(&places, Some("bert")).unwrap();
        drop(of_anna);
        assert!(taken(&places, Some("anna")).is_some());
        drop(of_bert);
        assert_eq!(places.all.available_permits(), 16);
    }

    #[test]
    fn all_callers_together_have_a_limit_too() {
        let places = SharedPlaces::new(3, 1);
        let names = ["a", "b", "c"].map(|name| taken(&places, Some(name)).unwrap());
        assert!(taken(&places, None).is_none());
        drop(names);
        assert!(taken(&places, None).is_some());
        let endless = SharedPlaces::new(usize::MAX, 2);
        assert!(taken(&endless, Some("a")).is_some());
    }

    #[test]
    fn up_to_eight_callers_have_places_of_their_own() {
        assert_eq!(
            (share(192, 1), share(192, 2), share(192, 100), share(1, 2)),
            (192, 96, 24, 1)
        );
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
