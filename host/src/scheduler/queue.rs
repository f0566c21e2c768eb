use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::memory::{MemoryBudget, Reserved};

/// Runs at most so many calls at once, with so much memory together; the others wait in order of arrival.
#[derive(Clone, Debug)]
pub struct Scheduler {
    slots: Arc<Semaphore>,
    memory: Option<MemoryBudget>,
}

/// The right to run, given back when dropped.
#[derive(Debug)]
pub struct Place {
    _memory: Option<Reserved>,
    _slot: OwnedSemaphorePermit,
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
    /// Without a budget, calls are limited by their number alone.
    pub fn new(calls_at_once: usize, memory: Option<MemoryBudget>) -> Self {
        Self { slots: Arc::new(Semaphore::new(calls_at_once.clamp(1, Semaphore::MAX_PERMITS))), memory }
    }

    /// A place for a call that may use `bytes` of memory, if one is free and nobody waits.
    pub fn try_place(&self, bytes: u64) -> Option<Place> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let memory = match &self.memory {
            Some(memory) => Some(memory.try_reserve(bytes)?),
            None => None,
        };
        Some(Place { _memory: memory, _slot: slot })
    }

    /// Waits for a place for a call that may use `bytes` of memory; for the memory as long as `patience`. Calls wait for
    /// memory with a slot in their hands: those that wait for a slot keep no memory from those that run.
    ///
    /// # Errors
    ///
    /// [`NoPlace`], when the memory is not free in time.
    pub async fn place(&self, bytes: u64, patience: Duration) -> Result<Place, NoPlace> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| NoPlace::Gone)?;
        let memory = match &self.memory {
            Some(memory) => {
                let reserved = tokio::time::timeout(patience, memory.reserve(bytes)).await;
                Some(reserved.map_err(|_| NoPlace::Memory { total: memory.total() })?.ok_or(NoPlace::Gone)?)
            }
            None => None,
        };
        Ok(Place { _memory: memory, _slot: slot })
    }
}
