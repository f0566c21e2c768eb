use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::memory::MemoryBudget;
use super::shares::{CallerPlace, SharedPlace, SharedPlaces};

/// Limits calls at once and their memory; others wait in order of arrival.
#[derive(Clone, Debug)]
pub struct Scheduler {
    places: SharedPlaces,
    memory: Option<MemoryBudget>,
    /// Bounds waiting calls, so that a flood is refused instead of kept in memory.
    waiting: SharedPlaces,
    callers: usize,
}

/// Returned when dropped.
#[derive(Debug)]
pub struct RunPlace {
    _memory: Option<OwnedSemaphorePermit>,
    _place: SharedPlace,
}

#[derive(Debug)]
pub enum NoPlace {
    /// Not free within the call's waiting time; `total` is the budget in bytes.
    Memory {
        total: u64,
    },
    Gone,
}

impl Scheduler {
    /// Each of `callers` may have its share. Without `memory`, only the number of calls is limited.
    pub fn new(calls_at_once: usize, callers: usize, memory: Option<MemoryBudget>) -> Self {
        let places = calls_at_once.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: SharedPlaces::new(places, callers),
            memory,
            waiting: SharedPlaces::new(usize::MAX, callers),
            callers,
        }
    }

    /// Bounds waiting calls; each of several callers has its share. Default: any number.
    #[must_use]
    pub fn waiting(self, calls: usize) -> Self {
        Self {
            waiting: SharedPlaces::new(calls, self.callers),
            ..self
        }
    }

    /// Lasts until dropped; `None` if too many wait.
    pub fn line_up(&self, caller: Option<&str>) -> Option<SharedPlace> {
        // All calls without a caller have one share.
        let of_caller = self.waiting.try_share(Some(caller.unwrap_or_default()))?;
        self.waiting.try_take(of_caller)
    }

    pub fn in_line(&self) -> usize {
        self.waiting.taken()
    }

    /// `None` if none is free or another call waits; `bytes` is the call's memory.
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

    /// `None` if none is free or another call of the caller waits.
    pub fn try_caller_place(&self, caller: Option<&str>) -> Option<CallerPlace> {
        self.places.try_share(caller)
    }

    /// Fails with [`NoPlace::Gone`].
    pub async fn caller_place(&self, caller: Option<&str>) -> Result<CallerPlace, NoPlace> {
        self.places.share(caller).await.ok_or(NoPlace::Gone)
    }

    /// Waits at most `patience` for memory. The caller's place comes first, then a slot, then memory, so that calls
    /// waiting for a slot hold no memory. Fails with [`NoPlace`].
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
