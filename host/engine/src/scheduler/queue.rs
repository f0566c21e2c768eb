use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::memory::{MemoryBudget, ReservedMemory};
use super::shares::CallerShares;
use super::waiting::{WaitTicket, WaitingRoom};
use toolcell_system::pool::share;

/// Limits how many calls run at once, and their memory together; the others wait in order of arrival.
#[derive(Clone, Debug)]
pub struct Scheduler {
    slots: Arc<Semaphore>,
    /// `None` if there is one caller, which may use every place.
    shares: Option<Arc<CallerShares>>,
    memory: Option<MemoryBudget>,
    waiting: Arc<WaitingRoom>,
    callers: usize,
}

/// The right to run, returned when dropped.
#[derive(Debug)]
pub struct RunPlace {
    _memory: Option<ReservedMemory>,
    _slot: OwnedSemaphorePermit,
    _of_caller: CallerPlace,
}

/// One of the places that a caller may have, returned when dropped: the first part of a [`RunPlace`].
#[derive(Debug)]
pub struct CallerPlace {
    _permit: Option<OwnedSemaphorePermit>,
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
    /// Creates a scheduler for `callers`, each of which may have its [`share`] of the places. Without a memory budget,
    /// only the number of calls is limited.
    pub fn new(calls_at_once: usize, callers: usize, memory: Option<MemoryBudget>) -> Self {
        let places = calls_at_once.clamp(1, Semaphore::MAX_PERMITS);
        let shares = (callers > 1).then(|| Arc::new(CallerShares::new(share(places, callers))));
        let waiting = WaitingRoom::new(usize::MAX, callers);
        Self {
            slots: Arc::new(Semaphore::new(places)),
            shares,
            memory,
            waiting,
            callers,
        }
    }

    /// Sets how many calls may wait at once. Default: any number. With several callers, each may have its [`share`].
    #[must_use]
    pub fn waiting(self, calls: usize) -> Self {
        Self {
            waiting: WaitingRoom::new(calls, self.callers),
            ..self
        }
    }

    /// Lets a call of `caller` wait, for its turn or for a place; `None` if as many wait as may.
    pub fn line_up(&self, caller: Option<&str>) -> Option<WaitTicket> {
        self.waiting.enter(caller)
    }

    /// Returns a place for a call of `caller` that may use `bytes` of memory, if one is free and no other call waits.
    pub fn try_place(&self, caller: Option<&str>, bytes: u64) -> Option<RunPlace> {
        let of_caller = self.try_caller_place(caller)?;
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let memory = match &self.memory {
            Some(memory) => Some(memory.try_reserve(bytes)?),
            None => None,
        };
        Some(RunPlace {
            _memory: memory,
            _slot: slot,
            _of_caller: of_caller,
        })
    }

    /// Returns one of the places of `caller`, if one is free and no other call of the caller waits for one.
    pub fn try_caller_place(&self, caller: Option<&str>) -> Option<CallerPlace> {
        match (&self.shares, caller) {
            (Some(shares), Some(caller)) => Some(CallerPlace {
                _permit: Some(shares.try_take(caller)?),
            }),
            _ => Some(CallerPlace { _permit: None }),
        }
    }

    /// Waits for one of the places of `caller`.
    ///
    /// # Errors
    ///
    /// [`NoPlace::Gone`]
    pub async fn caller_place(&self, caller: Option<&str>) -> Result<CallerPlace, NoPlace> {
        match (&self.shares, caller) {
            (Some(shares), Some(caller)) => Ok(CallerPlace {
                _permit: Some(shares.take(caller).await.ok_or(NoPlace::Gone)?),
            }),
            _ => Ok(CallerPlace { _permit: None }),
        }
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
        let slot = Arc::clone(&self.slots)
            .acquire_owned()
            .await
            .map_err(|_| NoPlace::Gone)?;
        let memory = match &self.memory {
            Some(memory) => {
                let reserved = tokio::time::timeout(patience, memory.reserve(bytes)).await;
                Some(
                    reserved
                        .map_err(|_| NoPlace::Memory {
                            total: memory.total(),
                        })?
                        .ok_or(NoPlace::Gone)?,
                )
            }
            None => None,
        };
        Ok(RunPlace {
            _memory: memory,
            _slot: slot,
            _of_caller: of_caller,
        })
    }
}
