//! Which calls may run beside each other: those whose effects cannot meet.

mod claim;
mod index;
mod ranks;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub use claim::{Claim, NetworkUse};
use index::{Index, Stage};
use ranks::{Call, Order, Ranks};

/// How often a call that got its place too late is passed. After that, other callers wait until it has a place, because
/// a caller that uses all its places could otherwise be passed for ever.
const PASSES_MAX: u32 = 8;

/// The calls of one process that take turns, whatever door they come through. A call waits until no call runs that it
/// could disturb, and lets no earlier one wait that it would delay. Of the calls of several callers, those that wait are
/// in turn: the first of each, the second of each, and so on.
///
/// A call holds what it claims only while it runs. If its turn comes while its caller has no place for it, calls of other
/// callers pass it. So the calls of one caller that wait for a place delay no other caller. Clones share the queue.
///
/// ```
/// use toolcell_core::scheduler::ResourceLocks;
///
/// // Two hosts with clones of one queue keep their calls apart.
/// let locks = ResourceLocks::default();
/// let shared = locks.clone();
/// # let _ = shared;
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResourceLocks(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    entries: HashMap<u64, Entry>,
    ranks: Ranks,
    index: Index,
    /// All calls of lines: the line, and the id of the call.
    lined: BTreeSet<(u64, u64)>,
    /// Those of them that were not decided on.
    undecided: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct Entry {
    call: Call,
    line: Option<Line>,
    /// `None` until the call was decided on.
    claim: Option<Claim>,
    /// `None` until the call was decided on.
    stage: Option<Stage>,
    /// Whether another call kept it waiting.
    waited: bool,
    /// How often it got a place when calls that had passed it ran.
    passes: u32,
    /// `Some` while the call is awaited.
    news: Option<Arc<Notify>>,
}

/// Calls whose changes keep their order: one that changes something waits until all earlier calls of the line are
/// decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(u64);

impl ResourceLocks {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new line.
    pub fn line(&self) -> Line {
        Line(self.queue().number())
    }

    /// Gives a call of `caller` its place among the others, before it is known what it can reach.
    pub fn turn(&self, line: Option<Line>, caller: Option<&str>) -> Turn {
        let id = self.queue().enter(line, caller);
        Turn { locks: self.clone(), id }
    }
}

impl Queue {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn enter(&mut self, line: Option<Line>, caller: Option<&str>) -> u64 {
        let id = self.number();
        let call = self.ranks.enter(caller, id);
        if let Some(Line(line)) = line {
            self.lined.insert((line, id));
            self.undecided.insert((line, id));
        }
        let entry = Entry { call, line, claim: None, stage: None, waited: false, passes: 0, news: None };
        self.entries.insert(id, entry);
        id
    }

    /// Notes what the call can reach. Returns whether it runs from now on; `has_place`: whether it can.
    fn claim(&mut self, id: u64, claim: Claim, has_place: bool) -> bool {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.claim.is_none()) else { return false };
        entry.claim = Some(claim);
        let line = entry.line;
        let is_blocked = self.is_blocked(id);
        if has_place && !is_blocked {
            self.run(id);
        } else {
            self.shift(id, if is_blocked { self.stage_behind(id) } else { Stage::Waiting });
            self.note_wait(id, is_blocked);
        }
        self.decided(line, id);
        has_place && !is_blocked
    }

    fn note_wait(&mut self, id: u64, is_blocked: bool) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.waited |= is_blocked;
        }
    }

    /// Lets those changes go on that waited for the decision on the call `id`, which was made or is not needed any more.
    fn decided(&mut self, line: Option<Line>, id: u64) {
        let Some(Line(line)) = line else { return };
        let first = self.undecided.range((line, 0)..=(line, u64::MAX)).next().copied();
        self.undecided.remove(&(line, id));
        if first != Some((line, id)) {
            return;
        }
        let next = self.undecided.range((line, id)..=(line, u64::MAX)).next().map_or(u64::MAX, |(_, id)| *id);
        let freed = self.lined.range((line, id)..=(line, next)).map(|(_, id)| *id).collect();
        self.wake(freed);
    }

    /// Whether the call has to wait for its turn. A call that is gone, or runs, waits for nothing.
    fn is_blocked(&self, id: u64) -> bool {
        let Some(entry) = self.entries.get(&id).filter(|entry| entry.stage != Some(Stage::Running)) else {
            return false;
        };
        let Some(claim) = &entry.claim else { return true };
        let undecided = |Line(line): Line| self.undecided.range((line, 0)..(line, id)).next().is_some();
        let awaits_decisions = claim.changes() && entry.line.is_some_and(undecided);
        (awaits_decisions || self.index.holds_up(claim, entry.call)) && guard!("resource_locks")
    }

    /// The stage of a call that waits for its turn. One that waits for an earlier call of its caller that has no place
    /// can be passed like that one. Otherwise it would keep other callers waiting in its place.
    fn stage_behind(&self, id: u64) -> Stage {
        let Some(entry) = self.entries.get(&id) else { return Stage::Waiting };
        let follows = |claim: &Claim| self.index.follows_placeless(claim, entry.call);
        if entry.claim.as_ref().is_some_and(follows) { Stage::Placeless } else { Stage::Waiting }
    }

    fn shift(&mut self, id: u64, to: Stage) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(claim) = &entry.claim else { return };
        self.index.change(claim, entry.call, entry.stage, Some(to));
        entry.stage = Some(to);
    }

    fn run(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(claim) = &entry.claim else { return };
        if entry.stage.is_some() {
            self.index.change(claim, entry.call, entry.stage, None);
        }
        self.ranks.stop_waiting(entry.call);
        // A turn counts if it cost something: the call waited for it, or others wait because of it. So a caller that
        // works elsewhere meanwhile does not come later here.
        let last = Call { order: Order::LAST, ..entry.call };
        if entry.waited || (self.ranks.is_any_waiting() && self.index.holds_up(claim, last)) {
            self.ranks.charge(entry.call);
        }
        self.index.change(claim, entry.call, None, Some(Stage::Running));
        entry.stage = Some(Stage::Running);
    }

    /// Lets the call run, if it is still its turn. Returns whether it runs.
    fn begin(&mut self, id: u64) -> bool {
        let Some(stage) = self.entries.get(&id).map(|entry| entry.stage) else { return true };
        if stage == Some(Stage::Running) {
            return true;
        }
        if !self.is_blocked(id) {
            self.run(id);
            return true;
        }
        if stage == Some(Stage::Placeless)
            && let Some(entry) = self.entries.get_mut(&id)
        {
            entry.passes += 1;
        }
        self.shift(id, Stage::Waiting);
        self.note_wait(id, true);
        false
    }

    /// Lets calls of other callers pass one that has its turn, because its caller has no place for it.
    fn lack_place(&mut self, id: u64) {
        let Some(entry) = self.entries.get(&id).filter(|entry| entry.stage == Some(Stage::Waiting)) else { return };
        let can_be_passed = entry.passes < PASSES_MAX || !guard!("lock_passes");
        if can_be_passed && guard!("placeless_locks") {
            self.shift(id, Stage::Placeless);
            self.wake_behind(id);
        }
    }

    /// What is notified when the call `id` may run; `None` if it may.
    fn news(&mut self, id: u64) -> Option<Arc<Notify>> {
        let is_blocked = self.is_blocked(id);
        let stage = self.entries.get(&id)?.stage;
        if matches!(stage, Some(Stage::Waiting | Stage::Placeless)) {
            let to = if is_blocked { self.stage_behind(id) } else { Stage::Waiting };
            self.shift(id, to);
            if to == Stage::Placeless && stage == Some(Stage::Waiting) {
                self.wake_behind(id);
            }
        }
        if !is_blocked {
            // A call that waits for its place is not asked about when others leave.
            self.entries.get_mut(&id)?.news = None;
            return None;
        }
        self.note_wait(id, true);
        let entry = self.entries.get_mut(&id)?;
        Some(Arc::clone(entry.news.get_or_insert_with(Arc::default)))
    }

    /// Removes the call `id`, and lets those go on that waited for it. Returns its claim.
    fn leave(&mut self, id: u64) -> Option<Claim> {
        let entry = self.entries.remove(&id)?;
        if entry.stage != Some(Stage::Running) {
            self.ranks.stop_waiting(entry.call);
        }
        self.ranks.leave(entry.call);
        if let Some(Line(line)) = entry.line {
            self.lined.remove(&(line, id));
        }
        let Some(claim) = entry.claim else {
            self.decided(entry.line, id);
            return None;
        };
        self.index.change(&claim, entry.call, entry.stage, None);
        if self.ranks.is_any_waiting() {
            let behind = self.index.behind(&claim, entry.call.caller);
            self.wake(behind);
        }
        Some(claim)
    }

    /// The ids of all calls that the call may have been the last to hold up.
    fn behind(&self, id: u64) -> Vec<u64> {
        let Some(entry) = self.entries.get(&id) else { return Vec::new() };
        entry.claim.as_ref().map_or_else(Vec::new, |claim| self.index.behind(claim, entry.call.caller))
    }

    fn wake_behind(&mut self, id: u64) {
        let behind = self.behind(id);
        self.wake(behind);
    }

    /// Notifies those of the calls `ids` that wait for their turn and have it now, and those that waited for calls that
    /// can be passed from now on.
    fn wake(&mut self, mut ids: Vec<u64>) {
        while let Some(id) = ids.pop() {
            let Some(entry) = self.entries.get(&id) else { continue };
            if entry.news.is_none() && entry.stage != Some(Stage::Waiting) {
                continue;
            }
            if !self.is_blocked(id) {
                if let Some(news) = &entry.news {
                    news.notify_one();
                }
            } else if entry.stage == Some(Stage::Waiting) && self.stage_behind(id) == Stage::Placeless {
                self.shift(id, Stage::Placeless);
                ids.extend(self.behind(id));
            }
        }
    }
}

/// The place of one call; dropping it lets the others go on.
#[derive(Debug)]
pub struct Turn {
    locks: ResourceLocks,
    id: u64,
}

impl Turn {
    /// Says what the call can reach, once. With a place to run, the call runs at once if it may. Returns whether it does.
    pub fn claim(&self, claim: Claim, has_place: bool) -> bool {
        self.locks.queue().claim(self.id, claim, has_place)
    }

    /// Waits until the call may run. It can be dropped and awaited again.
    pub async fn come(&self) {
        loop {
            let news = self.locks.queue().news(self.id);
            let Some(news) = news else { return };
            news.notified().await;
        }
    }

    /// Says that the call may run and that its caller has no place for it now. Until it has one, calls of other callers
    /// pass it.
    pub fn lack_place(&self) {
        self.locks.queue().lack_place(self.id);
    }

    /// Lets the call run, which has a place now. Returns `false` if it has to give the place up and wait for its turn,
    /// because another call came first.
    pub fn begin(&self) -> bool {
        self.locks.queue().begin(self.id)
    }

    /// Leaves the queue, unless the call runs: a lock is held until the record of the call is complete.
    pub fn give_up(&self) {
        let mut queue = self.locks.queue();
        if queue.entries.get(&self.id).is_some_and(|entry| entry.stage != Some(Stage::Running)) {
            queue.leave(self.id);
        }
    }

    /// Gives up the place of a call that waits for something else, and returns its claim, for its next turn.
    pub fn leave(&self) -> Option<Claim> {
        self.locks.queue().leave(self.id)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.locks.queue().leave(self.id);
    }
}

#[cfg(test)]
mod tests;
