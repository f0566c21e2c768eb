use std::time::Duration;

use tokio::sync::Semaphore;

use super::memory::{MemoryBudget, ReservedMemory};
use super::shares::{SharedPlace, SharedPlaces};

/// Limits calls at once and their memory; others wait in order of arrival.
#[derive(Clone, Debug)]
pub struct Scheduler {
    places: SharedPlaces,
    memory: Option<MemoryBudget>,
    /// Bounds waiting calls, so that a flood is refused instead of kept in memory.
    waiting: SharedPlaces,
    callers: usize,
}

/// Places and memory that calls take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerUsage {
    /// Calls that can run at once.
    pub calls_max: usize,
    pub calls_running: usize,
    /// Calls that wait for a place.
    pub calls_waiting: usize,
    /// Reserved by running calls.
    pub memory_bytes: u64,
    /// Most that calls can reserve together; 0 if it is not limited.
    pub memory_bytes_max: u64,
}

/// Returned when dropped.
#[derive(Debug)]
pub struct RunPlace {
    _memory: Option<ReservedMemory>,
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
    /// Each of `callers` has its part, and borrows what others leave. Without `memory`, only the number of calls is limited.
    pub fn new(calls_at_once: usize, callers: usize, memory: Option<MemoryBudget>) -> Self {
        let places = calls_at_once.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: SharedPlaces::new(places, callers),
            memory,
            waiting: SharedPlaces::new(usize::MAX, callers),
            callers,
        }
    }

    /// Bounds waiting calls, likewise. Default: any number.
    #[must_use]
    pub fn waiting(self, calls: usize) -> Self {
        Self {
            waiting: SharedPlaces::new(calls, self.callers),
            ..self
        }
    }

    /// Lasts until dropped; `None` if too many wait.
    pub fn line_up(&self, caller: Option<&str>) -> Option<SharedPlace> {
        self.waiting.try_take(caller)
    }

    pub fn usage(&self) -> SchedulerUsage {
        let memory = self.memory.as_ref();
        SchedulerUsage {
            calls_max: self.places.total(),
            calls_running: self.places.taken(),
            calls_waiting: self.in_line(),
            memory_bytes: memory.map_or(0, MemoryBudget::taken),
            memory_bytes_max: memory.map_or(0, MemoryBudget::total),
        }
    }

    pub fn in_line(&self) -> usize {
        self.waiting.taken()
    }

    /// `None` if none is free or another call waits; `bytes` is the call's memory.
    pub fn try_place(&self, caller: Option<&str>, bytes: u64) -> Option<RunPlace> {
        let place = self.try_slot(caller)?;
        let memory = match &self.memory {
            Some(memory) => Some(memory.try_reserve(bytes, place.is_borrowed())?),
            None => None,
        };
        Some(RunPlace {
            _memory: memory,
            _place: place,
        })
    }

    /// `None` if none is free for the caller, or another call of it waits.
    pub fn try_slot(&self, caller: Option<&str>) -> Option<SharedPlace> {
        self.places.try_take(caller)
    }

    /// `true` if the caller has less than its part, so that the next slot is its own.
    pub fn is_owed(&self, caller: Option<&str>) -> bool {
        self.places.is_owed(caller)
    }

    /// Fails with [`NoPlace::Gone`].
    pub async fn slot(&self, caller: Option<&str>) -> Result<SharedPlace, NoPlace> {
        self.places.take(caller).await.ok_or(NoPlace::Gone)
    }

    /// Waits at most `patience` for memory, which comes after the slot, so that calls waiting for a slot hold no memory.
    /// Fails with [`NoPlace`].
    pub async fn place(
        &self,
        slot: SharedPlace,
        bytes: u64,
        patience: Duration,
    ) -> Result<RunPlace, NoPlace> {
        let memory = match &self.memory {
            Some(memory) => {
                let total = memory.total();
                let reserved = memory.reserve(bytes, slot.is_borrowed());
                let reserved = tokio::time::timeout(patience, reserved).await;
                let reserved = reserved.map_err(|_| NoPlace::Memory { total })?;
                Some(reserved.ok_or(NoPlace::Gone)?)
            }
            None => None,
        };
        Ok(RunPlace {
            _memory: memory,
            _place: slot,
        })
    }
}
