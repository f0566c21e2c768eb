use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcell_system::pool::share;

/// Counts the calls that wait for their turn or for a place, so that a flood is refused instead of kept in memory.
#[derive(Debug)]
pub(super) struct WaitingRoom {
    total: usize,
    /// Maximum for each caller, so that the flood of one leaves room for the others.
    each: usize,
    waiting: Mutex<WaitingCalls>,
}

#[derive(Debug, Default)]
struct WaitingCalls {
    all: usize,
    of: HashMap<Option<Box<str>>, usize>,
}

/// The right of one call to wait, returned when dropped.
#[derive(Debug)]
pub struct WaitTicket {
    room: Arc<WaitingRoom>,
    caller: Option<Box<str>>,
}

impl WaitingRoom {
    /// Creates a room for `total` calls of `callers`.
    pub(super) fn new(total: usize, callers: usize) -> Arc<Self> {
        let each = if callers > 1 {
            share(total, callers)
        } else {
            total
        };
        Arc::new(Self {
            total,
            each,
            waiting: Mutex::default(),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingCalls> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call of `caller` wait; `None` if as many wait as may.
    pub(super) fn enter(self: &Arc<Self>, caller: Option<&str>) -> Option<WaitTicket> {
        let caller: Option<Box<str>> = caller.map(Into::into);
        let mut waiting = self.waiting();
        let of_caller = waiting.of.get(&caller).copied().unwrap_or_default();
        if waiting.all >= self.total || of_caller >= self.each {
            return None;
        }
        waiting.all += 1;
        waiting.of.insert(caller.clone(), of_caller + 1);
        Some(WaitTicket {
            room: Arc::clone(self),
            caller,
        })
    }
}

impl Drop for WaitTicket {
    fn drop(&mut self) {
        let mut waiting = self.room.waiting();
        waiting.all -= 1;
        match waiting.of.get_mut(&self.caller) {
            Some(count) if *count > 1 => *count -= 1,
            // Callers without a waiting call are removed, because the number of a library's callers is not limited.
            _ => _ = waiting.of.remove(&self.caller),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WaitingRoom;

    #[test]
    fn a_flood_is_refused_and_leaves_room_for_another_caller() {
        let room = WaitingRoom::new(16, 2);
        let of_anna: Vec<_> = std::iter::from_fn(|| room.enter(Some("anna")))
            .take(100)
            .collect();
        assert_eq!(of_anna.len(), 8);
        let of_bert = room.enter(Some("bert")).unwrap();
        drop(of_anna);
        assert!(room.enter(Some("anna")).is_some());
        drop(of_bert);
        assert!(room.waiting().of.is_empty() && room.waiting().all == 0);
    }

    #[test]
    fn all_callers_together_have_a_limit_too() {
        let room = WaitingRoom::new(3, 1);
        let names = ["a", "b", "c"].map(|name| room.enter(Some(name)).unwrap());
        assert!(room.enter(None).is_none());
        drop(names);
        assert!(room.enter(None).is_some());
    }
}
