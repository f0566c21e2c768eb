use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::memory::{MemoryBudget, Reserved};
use super::shares::{Shares, share};

/// Runs at most so many calls at once, with so much memory together; the others wait in order of arrival.
#[derive(Clone, Debug)]
pub struct Scheduler {
    slots: Arc<Semaphore>,
    /// Nothing where there is one caller: every place is its own.
    shares: Option<Arc<Shares>>,
    memory: Option<MemoryBudget>,
}

/// The right to run, given back when dropped.
#[derive(Debug)]
pub struct Place {
    _memory: Option<Reserved>,
    _slot: OwnedSemaphorePermit,
    _of_caller: Option<OwnedSemaphorePermit>,
}

/// Why there is no place.
#[derive(Debug)]
pub enum NoPlace {
    /// The host's memory was in use for as long as the call may wait; bytes of the whole budget.
    Memory { total: u64 },
    /// The scheduler is gone.
    Gone,
}

impl Scheduler {
    /// For `callers`, of which each may have its [`share`] of the places. Without a budget of memory, calls are limited by
    /// their number alone.
    pub fn new(calls_at_once: usize, callers: usize, memory: Option<MemoryBudget>) -> Self {
        let places = calls_at_once.clamp(1, Semaphore::MAX_PERMITS);
        let shares = (callers > 1 && guard!("caller_share")).then(|| Arc::new(Shares::new(share(places, callers))));
        Self { slots: Arc::new(Semaphore::new(places)), shares, memory }
    }

    /// A place for a call of `caller` that may use `bytes` of memory, if one is free and nobody waits.
    pub fn try_place(&self, caller: Option<&str>, bytes: u64) -> Option<Place> {
        let of_caller = match (&self.shares, caller) {
            (Some(shares), Some(caller)) => Some(shares.try_take(caller)?),
            _ => None,
        };
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let memory = match &self.memory {
            Some(memory) => Some(memory.try_reserve(bytes)?),
            None => None,
        };
        Some(Place { _memory: memory, _slot: slot, _of_caller: of_caller })
    }

    /// Waits for a place for a call of `caller` that may use `bytes` of memory; for the memory as long as `patience`. Calls
    /// wait for what all share with a place of their caller's in their hands, and for memory with a slot: those that wait
    /// for a slot keep no memory from those that run.
    ///
    /// # Errors
    ///
    /// [`NoPlace`], when the memory is not free in time.
    pub async fn place(&self, caller: Option<&str>, bytes: u64, patience: Duration) -> Result<Place, NoPlace> {
        let of_caller = match (&self.shares, caller) {
            (Some(shares), Some(caller)) => Some(shares.take(caller).await.ok_or(NoPlace::Gone)?),
            _ => None,
        };
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| NoPlace::Gone)?;
        let memory = match &self.memory {
            Some(memory) => {
                let reserved = tokio::time::timeout(patience, memory.reserve(bytes)).await;
                Some(reserved.map_err(|_| NoPlace::Memory { total: memory.total() })?.ok_or(NoPlace::Gone)?)
            }
            None => None,
        };
        Ok(Place { _memory: memory, _slot: slot, _of_caller: of_caller })
    }
}
