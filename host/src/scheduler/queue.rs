use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// Runs at most so many calls at once; the others wait in order of arrival.
#[derive(Clone, Debug)]
pub struct Scheduler {
    slots: Arc<Semaphore>,
}

/// The right to run, given back when dropped.
#[derive(Debug)]
pub struct Place {
    _slot: OwnedSemaphorePermit,
}

impl Scheduler {
    pub fn new(calls_at_once: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(calls_at_once.clamp(1, Semaphore::MAX_PERMITS))) }
    }

    /// A place, if one is free and nobody waits.
    pub fn try_place(&self) -> Option<Place> {
        match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => Some(Place { _slot: slot }),
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => None,
        }
    }

    /// Waits for a place. `None` only when the scheduler is gone.
    pub async fn place(&self) -> Option<Place> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        Some(Place { _slot: slot })
    }
}
