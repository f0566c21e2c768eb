use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places that each caller may have of those that all callers share, so that one caller leaves some to the others.
#[derive(Debug)]
pub struct CallerShares {
    each: usize,
    /// By caller.
    by_caller: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

impl CallerShares {
    /// Creates shares in which each caller has `each` places.
    pub fn new(each: usize) -> Self {
        Self {
            each,
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

    /// Takes one of the places of `caller`, if one is free.
    pub fn try_take(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        self.places(caller).try_acquire_owned().ok()
    }

    /// Waits for one of the places of `caller`. `None` only if the places are closed.
    pub async fn take(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        self.places(caller).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::CallerShares;

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
