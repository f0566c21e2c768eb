use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::memory::MemoryBudget;
use super::shares::{CallerPlace, SharedPlace, SharedPlaces};

/// Limits how many calls run at once, and their memory together; the others wait in order of arrival.
#[derive(Clone, Debug)]
pub struct Scheduler {
    places: SharedPlaces,
    memory: Option<MemoryBudget>,
    /// Bounds the calls that wait for their turn or for a place, so that a flood is refused instead of kept in memory.
    waiting: SharedPlaces,
    callers: usize,
}

/// The right to run, returned when dropped.
#[derive(Debug)]
pub struct RunPlace {
    _memory: Option<OwnedSemaphorePermit>,
    _place: SharedPlace,
}

/// Why there is no place.
#[derive(Debug)]
pub enum NoPlace {
    /// The memory was not free within the call's waiting time; `total` is the whole budget, in bytes.
    Memory { total: u64 },
    /// The scheduler is gone.
    Gone,
}

impl Scheduler {
    /// Creates a scheduler for `callers`, each of which may have its share of the places. Without a
    /// memory budget, only the number of calls is limited.
    pub fn new(calls_at_once: usize, callers: usize, memory: Option<MemoryBudget>) -> Self {
        let places = calls_at_once.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: SharedPlaces::new(places, callers),
            memory,
            waiting: SharedPlaces::new(usize::MAX, callers),
            callers,
        }
    }

    /// Sets how many calls may wait at once. Default: any number. With several callers, each may have its
    /// share.
    #[must_use]
    pub fn waiting(self, calls: usize) -> Self {
        Self {
            waiting: SharedPlaces::new(calls, self.callers),
            ..self
        }
    }

    /// Lets a call of `caller` wait, for its turn or for a place, until what it returns is dropped; `None` if as many
    /// wait as may.
    pub fn line_up(&self, caller: Option<&str>) -> Option<SharedPlace> {
        // All calls without a caller have one share.
        let of_caller = self.waiting.try_share(Some(caller.unwrap_or_default()))?;
        self.waiting.try_take(of_caller)
    }

    /// Returns a place for a call of `caller` that may use `bytes` of memory, if one is free and no other call waits.
    pub fn try_place(&self, caller: Option<&str>, bytes: u64) -> Option<RunPlace> {
        let place = self.places.try_take(self.try_caller_place(caller)?)?;
        let memory = match &self.memory {
            Some(memory) => Some(memory.try_reserve(bytes)?),
            None => None,
        };
        Some(RunPlace {
            _memory: memory,
            _place: place,
        })
    }

    /// Returns one of the places of `caller`, if one is free and no other call of the caller waits for one.
    pub fn try_caller_place(&self, caller: Option<&str>) -> Option<CallerPlace> {
        self.places.try_share(caller)
    }

    /// Waits for one of the places of `caller`.
    ///
    /// # Errors
    ///
    /// [`NoPlace::Gone`]
    pub async fn caller_place(&self, caller: Option<&str>) -> Result<CallerPlace, NoPlace> {
        self.places.share(caller).await.ok_or(NoPlace::Gone)
    }

    /// Waits for a place for a call that may use `bytes` of memory; for the memory at most `patience`. A call takes a
    /// place of its caller first, then a slot, then memory, so that calls that wait for a slot hold no memory that
    /// running calls need.
    ///
    /// # Errors
    ///
    /// [`NoPlace`], when the memory is not free in time.
    pub async fn place(
        &self,
        of_caller: CallerPlace,
        bytes: u64,
        patience: Duration,
    ) -> Result<RunPlace, NoPlace> {
        let place = self.places.take(of_caller).await.ok_or(NoPlace::Gone)?;
        let memory = match &self.memory {
            Some(memory) => {
                let total = memory.total();
                let reserved = tokio::time::timeout(patience, memory.reserve(bytes)).await;
                let reserved = reserved.map_err(|_| NoPlace::Memory { total })?;
                Some(reserved.ok_or(NoPlace::Gone)?)
            }
            None => None,
        };
        Ok(RunPlace {
            _memory: memory,
            _place: place,
        })
    }
}
