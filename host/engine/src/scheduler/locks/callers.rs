use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of callers without a call that are remembered, so that one that comes back costs no allocation.
const IDLE_MAX: usize = 256;
/// The number of all calls without a caller.
const NO_CALLER: u64 = 0;

/// A number for each caller that has calls in the queue.
#[derive(Debug, Default)]
pub(super) struct CallerNumbers {
    numbers: HashMap<Arc<str>, u64>,
    known: HashMap<u64, CallerEntry>,
    /// Callers that had no call when they were added, each once, oldest first.
    idle: VecDeque<u64>,
    last: u64,
}

#[derive(Debug)]
struct CallerEntry {
    name: Arc<str>,
    /// Number of its calls, running ones included.
    calls: usize,
    is_in_idle: bool,
}

impl CallerNumbers {
    /// Adds a call of the caller `name`. Returns the caller's number.
    pub(super) fn enter(&mut self, name: Option<&str>) -> u64 {
        let Some(name) = name else { return NO_CALLER };
        if let Some(number) = self.numbers.get(name) {
            if let Some(caller) = self.known.get_mut(number) {
                caller.calls += 1;
            }
            return *number;
        }
        self.last += 1;
        let name: Arc<str> = name.into();
        self.numbers.insert(Arc::clone(&name), self.last);
        self.known.insert(
            self.last,
            CallerEntry {
                name,
                calls: 1,
                is_in_idle: false,
            },
        );
        self.last
    }

    /// Removes a call of the caller with this number.
    pub(super) fn leave(&mut self, number: u64) {
        let Some(caller) = self.known.get_mut(&number) else {
            return;
        };
        caller.calls -= 1;
        if caller.calls > 0 || caller.is_in_idle {
            return;
        }
        caller.is_in_idle = true;
        self.idle.push_back(number);
        // The number of a library's callers is not limited.
        if self.idle.len() > IDLE_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(number) = self.idle.pop_front() else {
            return;
        };
        let Some(caller) = self.known.get_mut(&number) else {
            return;
        };
        caller.is_in_idle = false;
        if caller.calls == 0
            && let Some(caller) = self.known.remove(&number)
        {
            self.numbers.remove(&caller.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn callers_without_a_call_are_forgotten() {
        let mut callers = CallerNumbers::default();
        let kept = callers.enter(Some("kept"));
        for n in 0..10 * IDLE_MAX {
            let number = callers.enter(Some(&n.to_string()));
            callers.leave(number);
        }
        assert!(
            callers.known.len() <= IDLE_MAX + 1 && callers.numbers.len() == callers.known.len()
        );
        assert!(callers.idle.len() <= IDLE_MAX);
        assert_eq!(callers.enter(Some("kept")), kept);
        assert_eq!(callers.enter(None), NO_CALLER);
    }

    #[test]
    fn a_caller_that_comes_and_goes_is_remembered_once() {
        let mut callers = CallerNumbers::default();
        let first = callers.enter(Some("anna"));
        callers.leave(first);
        for _ in 0..10 * IDLE_MAX {
            assert_eq!(callers.enter(Some("anna")), first);
            callers.leave(first);
        }
        assert_eq!((callers.idle.len(), callers.known.len()), (1, 1));
    }

    #[test]
    fn many_callers_at_once_cost_each_of_them_little() {
        const CALLERS: usize = 100_000;
        /// Longer than this takes on a busy machine, and much shorter than a scan of all callers for each of them.
        const PATIENCE: Duration = Duration::from_secs(20);
        let began = Instant::now();
        let mut callers = CallerNumbers::default();
        let numbers: Vec<u64> = (0..CALLERS)
            .map(|n| callers.enter(Some(&n.to_string())))
            .collect();
        assert_eq!(callers.known.len(), CALLERS);
        numbers.into_iter().for_each(|number| callers.leave(number));
        assert_eq!(
            (callers.known.len(), callers.numbers.len()),
            (IDLE_MAX, IDLE_MAX)
        );
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    }
}
