//! A thread beside calls, which removes segments and folds new lines, so that the first question after many calls need
//! not do it all.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::{CallLog, Inner};

const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a folding, as a multiple of its time: calls need the processor more.
const PAUSES: u32 = 4;
const STACK_BYTES: usize = 1 << 20;

/// Apart from the log, so that the waiting thread keeps no segment locked.
#[derive(Default)]
pub(super) struct Upkeep {
    due: Mutex<DueWork>,
    more: Condvar,
}

#[derive(Default)]
struct DueWork {
    folding: bool,
    /// `true` from a full segment until the removal of others has ended.
    pruning: bool,
    is_served: bool,
    /// The least time until the next folding.
    pause: Duration,
}

impl Upkeep {
    fn lock(&self) -> MutexGuard<'_, DueWork> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_pruning(&self) -> bool {
        self.lock().pruning
    }

    /// Waits for more lines to fold, unless segments are to be removed. Returns whether lines are to be folded, and whether
    /// segments are to be removed.
    fn wait(&self) -> (bool, bool) {
        let due = self.lock();
        let pause = due.pause.max(PAUSE);
        let can_wait = |due: &mut DueWork| !due.pruning;
        let waited = self.more.wait_timeout_while(due, pause, can_wait);
        let (mut due, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut due.folding), due.pruning)
    }

    /// Works until nothing is left to do.
    fn serve(&self, log: &Weak<Inner>) {
        loop {
            let (is_folding, is_pruning) = self.wait();
            let Some(log) = log.upgrade() else { return };
            let began = Instant::now();
            if is_pruning {
                // With a failure, they go when the next segment is full.
                let _ = log.prune_beside();
                self.lock().pruning = false;
            }
            if is_folding {
                // A question says why the index cannot be written.
                let _ = log.index();
            }
            let mut due = self.lock();
            due.pause = began.elapsed() * PAUSES;
            due.is_served = due.folding || due.pruning;
            if !due.is_served {
                return;
            }
        }
    }
}

impl CallLog {
    /// Updates the index soon, and removes segments now if one was full.
    pub(super) fn keep_up(&self, is_full: bool) {
        let mut due = self.0.upkeep.lock();
        due.folding = true;
        due.pruning |= is_full;
        if is_full {
            self.0.upkeep.more.notify_one();
        }
        if !due.is_served {
            let upkeep = Arc::clone(&self.0.upkeep);
            let log = Arc::downgrade(&self.0);
            let thread = thread::Builder::new()
                .name("journal".to_owned())
                .stack_size(STACK_BYTES);
            due.is_served = thread.spawn(move || upkeep.serve(&log)).is_ok();
        }
    }
}
