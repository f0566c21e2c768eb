use std::collections::HashMap;

/// Number of callers that are remembered before those that cannot matter any more are removed.
const REMEMBERED: usize = 256;
/// The number of all calls without a caller.
const NO_CALLER: u64 = 0;

/// When a call has its turn among those that wait: by rank, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    rank: u64,
    pub(super) id: u64,
}

impl Order {
    pub(super) const FIRST: Self = Self { rank: 0, id: 0 };
    pub(super) const LAST: Self = Self { rank: u64::MAX, id: u64::MAX };
}

/// One call in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The number of its caller.
    pub(super) caller: u64,
    pub(super) order: Order,
}

/// The ranks of calls that wait. Of several callers, the first call of each has its turn, then the second of each, and so
/// on. So a caller with one call waits for one call of each other caller, however many they have, and no call is passed
/// for ever, because the rank of each caller only grows while calls wait.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    numbers: HashMap<Box<str>, u64>,
    last_number: u64,
    callers: HashMap<u64, Caller>,
    /// The calls that wait, sorted.
    waiting: Vec<Order>,
    highest: u64,
}

#[derive(Debug, Default)]
struct Caller {
    /// Number of its calls, running ones included.
    calls: usize,
    /// The ranks of its calls that wait, sorted.
    waiting: Vec<u64>,
    /// The highest rank at which it had a turn that another call waited for.
    served: u64,
}

impl Caller {
    fn last(&self) -> u64 {
        self.waiting.last().copied().unwrap_or_default().max(self.served)
    }
}

impl Ranks {
    /// Adds a call that waits. Its rank is after those of its caller, and not before the call that is next.
    pub(super) fn enter(&mut self, name: Option<&str>, id: u64) -> Call {
        let number = name.map_or(NO_CALLER, |name| self.number(name));
        let caller = self.callers.entry(number).or_default();
        let rank = match self.waiting.first() {
            Some(next) => next.rank.max(caller.last() + 1),
            // Turns that nothing waited for do not count, because this is above each rank so far.
            None => self.highest + 1,
        };
        caller.calls += 1;
        caller.waiting.push(rank);
        self.highest = self.highest.max(rank);
        let order = Order { rank, id };
        let at = self.waiting.partition_point(|known| *known < order);
        self.waiting.insert(at, order);
        Call { caller: number, order }
    }

    fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // The number of a library's callers is not limited.
        if self.callers.len() >= REMEMBERED {
            let next = self.waiting.first().map_or(u64::MAX, |order| order.rank);
            self.callers.retain(|_, caller| caller.calls > 0 || caller.served >= next);
            self.numbers.retain(|_, number| self.callers.contains_key(number));
        }
        self.last_number += 1;
        self.numbers.insert(name.into(), self.last_number);
        self.last_number
    }

    pub(super) fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Removes a call from those that wait.
    pub(super) fn stop_waiting(&mut self, call: Call) {
        if let Ok(at) = self.waiting.binary_search(&call.order) {
            self.waiting.remove(at);
        }
        let Some(caller) = self.callers.get_mut(&call.caller) else { return };
        if let Ok(at) = caller.waiting.binary_search(&call.order.rank) {
            caller.waiting.remove(at);
        }
    }

    /// Counts the turn of a call, so that the next call of its caller comes later.
    pub(super) fn charge(&mut self, call: Call) {
        if let Some(caller) = self.callers.get_mut(&call.caller) {
            caller.served = caller.served.max(call.order.rank);
        }
    }

    /// Removes a call that waits no longer.
    pub(super) fn leave(&mut self, call: Call) {
        if let Some(caller) = self.callers.get_mut(&call.caller) {
            caller.calls -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_without_a_call_are_forgotten() {
        let mut ranks = Ranks::default();
        for n in 0..10 * REMEMBERED as u64 {
            let call = ranks.enter(Some(&n.to_string()), n);
            ranks.stop_waiting(call);
            ranks.charge(call);
            ranks.leave(call);
        }
        assert!(ranks.callers.len() <= REMEMBERED && ranks.numbers.len() <= REMEMBERED);
        assert!(!ranks.is_any_waiting());
    }
}
