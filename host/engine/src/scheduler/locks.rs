//! Which calls may run beside each other: those whose effects cannot meet.

mod callers;
mod claim;
mod index;
mod order;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use callers::CallerNumbers;
pub use claim::{NetworkUse, ResourceClaim};
use index::{ClaimIndex, ClaimStage};
use order::{QueuedCall, TurnOrder};

/// How often a call that got its place too late is passed. After that, other calls that meet it wait until it has a place,
/// because a caller that uses all its places could otherwise be passed for ever.
const PASSES_MAX: u32 = 8;

/// The calls of one process that take turns, whatever door they come through. A call waits until no call runs that it
/// could disturb, and lets no call wait that has been in line for longer and that it would delay.
///
/// A call is in line from its arrival on, or from when the last earlier call of its caller runs that it has to wait for.
/// So a caller with many calls for one folder has one of them in line: of several callers, the first call of each runs,
/// the second of each, and so on. A call that waits for one folder changes nothing for those that wait for another.
///
/// A call holds what it claims only while it runs. If its turn comes while its caller has no place for it, calls of other
/// callers pass it. So the calls of one caller that wait for a place delay no other caller. Clones share the queue.
///
/// ```
/// use toolcell_engine::scheduler::ResourceLocks;
///
/// // Two hosts with clones of one queue keep their calls apart.
/// let locks = ResourceLocks::default();
/// let shared = locks.clone();
/// # let _ = shared;
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResourceLocks(Arc<Mutex<CallQueue>>);

#[derive(Debug, Default)]
struct CallQueue {
    next: u64,
    entries: HashMap<u64, QueueEntry>,
    callers: CallerNumbers,
    index: ClaimIndex,
    /// Number of the calls that were decided on and do not run.
    waiting: usize,
    /// All calls of lines: the line, and the id of the call.
    lined: BTreeSet<(u64, u64)>,
    /// Those of them that were not decided on.
    undecided: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct QueueEntry {
    call: QueuedCall,
    caller: Option<Arc<str>>,
    line: Option<ChangeLine>,
    /// `None` until the call was decided on.
    claim: Option<ResourceClaim>,
    /// `None` until the call was decided on.
    stage: Option<ClaimStage>,
    /// How often it got a place when calls that had passed it ran.
    passes: u32,
    /// `Some` while the call is awaited.
    news: Option<Arc<Notify>>,
}

/// Calls whose changes keep their order: one that changes something waits until all earlier calls of the line are
/// decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLine(u64);

impl ResourceLocks {
    fn queue(&self) -> MutexGuard<'_, CallQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new line.
    pub fn line(&self) -> ChangeLine {
        ChangeLine(self.queue().number())
    }

    /// Gives a call of `caller` its place among the others, before it is known what it can reach.
    pub fn turn(&self, line: Option<ChangeLine>, caller: Option<&str>) -> QueueTurn {
        let id = self.queue().enter(line, caller);
        QueueTurn {
            locks: self.clone(),
            id,
        }
    }
}

impl CallQueue {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn enter(&mut self, line: Option<ChangeLine>, caller: Option<&str>) -> u64 {
        let id = self.number();
        let (number, caller) = self.callers.enter(caller);
        let call = QueuedCall {
            caller: number,
            order: TurnOrder::since(id, id),
        };
        if let Some(ChangeLine(line)) = line {
            self.lined.insert((line, id));
            self.undecided.insert((line, id));
        }
        let entry = QueueEntry {
            call,
            caller,
            line,
            claim: None,
            stage: None,
            passes: 0,
            news: None,
        };
        self.entries.insert(id, entry);
        id
    }

    /// Notes what the call can reach. Returns whether it runs from now on; `has_place`: whether it can.
    fn claim(&mut self, id: u64, claim: ResourceClaim, has_place: bool) -> bool {
        let Some(entry) = self
            .entries
            .get_mut(&id)
            .filter(|entry| entry.claim.is_none())
        else {
            return false;
        };
        entry.claim = Some(claim);
        let line = entry.line;
        let is_blocked = self.is_blocked(id);
        if has_place && !is_blocked {
            self.run(id);
        } else {
            self.line_up(id, is_blocked);
        }
        self.decided(line, id);
        has_place && !is_blocked
    }

    /// Adds a call to those that wait: behind the earlier calls of its caller that it meets, and before the later ones.
    fn line_up(&mut self, id: u64, is_blocked: bool) {
        if self.follows_own(id) {
            self.reorder(id, TurnOrder::not_in_line(id));
        }
        self.shift(id, self.stage_of(id, is_blocked));
        // Calls of a batch are not decided on in their order.
        for later in self.successors(id) {
            if self
                .entries
                .get(&later)
                .is_some_and(|entry| entry.call.order.is_in_line())
            {
                self.reorder(later, TurnOrder::not_in_line(later));
                self.wake_behind(later);
            }
        }
    }

    /// The resources that a call claims, once it was decided on.
    fn claimed(&self, id: u64) -> Option<(&ResourceClaim, QueuedCall)> {
        let entry = self.entries.get(&id)?;
        Some((entry.claim.as_ref()?, entry.call))
    }

    /// Returns whether an earlier call of the same caller that conflicts with it does not run yet.
    fn follows_own(&self, id: u64) -> bool {
        self.claimed(id)
            .is_some_and(|(claim, call)| self.index.follows_own(claim, call))
    }

    /// The ids of the next calls of the same caller that meet the call, and do not run yet.
    fn successors(&self, id: u64) -> Vec<u64> {
        self.claimed(id)
            .map_or_else(Vec::new, |(claim, call)| self.index.successors(claim, call))
    }

    fn reorder(&mut self, id: u64, order: TurnOrder) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let from = entry.call;
        entry.call.order = order;
        if let (Some(claim), Some(_)) = (&entry.claim, entry.stage) {
            self.index.change(claim, from, entry.stage, None);
            self.index.change(claim, entry.call, None, entry.stage);
        }
    }

    /// Puts a call in line from now on, unless it is, or still follows another call of its caller.
    fn enter_line(&mut self, id: u64) {
        let is_outside =
            |entry: &QueueEntry| entry.claim.is_some() && !entry.call.order.is_in_line();
        if self.entries.get(&id).is_some_and(is_outside) && !self.follows_own(id) {
            let now = self.number();
            self.reorder(id, TurnOrder::since(now, id));
        }
    }

    /// Lets those changes go on that waited for the decision on the call `id`, which was made or is not needed any more.
    fn decided(&mut self, line: Option<ChangeLine>, id: u64) {
        let Some(ChangeLine(line)) = line else { return };
        let first = self
            .undecided
            .range((line, 0)..=(line, u64::MAX))
            .next()
            .copied();
        self.undecided.remove(&(line, id));
        if first != Some((line, id)) {
            return;
        }
        let next = self
            .undecided
            .range((line, id)..=(line, u64::MAX))
            .next()
            .map_or(u64::MAX, |(_, id)| *id);
        let freed = self
            .lined
            .range((line, id)..=(line, next))
            .map(|(_, id)| *id)
            .collect();
        self.wake(freed);
    }

    /// Returns whether the call must wait for its turn. A call that ended or runs waits for nothing.
    fn is_blocked(&self, id: u64) -> bool {
        let Some(entry) = self
            .entries
            .get(&id)
            .filter(|entry| entry.stage != Some(ClaimStage::Running))
        else {
            return false;
        };
        let Some(claim) = &entry.claim else {
            return true;
        };
        let undecided = |ChangeLine(line): ChangeLine| {
            self.undecided.range((line, 0)..(line, id)).next().is_some()
        };
        let awaits_decisions = claim.changes() && entry.line.is_some_and(undecided);
        awaits_decisions || self.index.holds_up(claim, entry.call)
    }

    /// The stage of a call that does not run. One that waits for a call without a place can be passed like that one.
    /// Otherwise it would keep calls waiting that do not meet the call without a place.
    fn stage_of(&self, id: u64, is_blocked: bool) -> ClaimStage {
        let follows =
            |(claim, call): (&ResourceClaim, _)| self.index.follows_placeless(claim, call);
        if is_blocked && self.claimed(id).is_some_and(follows) {
            ClaimStage::Placeless
        } else {
            ClaimStage::Waiting
        }
    }

    fn shift(&mut self, id: u64, to: ClaimStage) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let Some(claim) = &entry.claim else { return };
        self.index.change(claim, entry.call, entry.stage, Some(to));
        if entry.stage.is_none() {
            self.waiting += 1;
        }
        entry.stage = Some(to);
    }

    fn run(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let Some(claim) = &entry.claim else { return };
        let waited = entry.stage.is_some();
        self.index
            .change(claim, entry.call, entry.stage, Some(ClaimStage::Running));
        entry.stage = Some(ClaimStage::Running);
        if waited {
            self.waiting -= 1;
            self.successors(id)
                .into_iter()
                .for_each(|next| self.enter_line(next));
        }
    }

    /// Lets the call run, if it is still its turn. Returns whether it runs.
    fn begin(&mut self, id: u64) -> bool {
        let Some(stage) = self.entries.get(&id).map(|entry| entry.stage) else {
            return true;
        };
        if stage == Some(ClaimStage::Running) {
            return true;
        }
        self.enter_line(id);
        if !self.is_blocked(id) {
            self.run(id);
            return true;
        }
        if stage == Some(ClaimStage::Placeless)
            && let Some(entry) = self.entries.get_mut(&id)
        {
            entry.passes += 1;
        }
        self.shift(id, ClaimStage::Waiting);
        false
    }

    /// Lets calls of other callers pass one that has its turn, because its caller has no place for it. One that was passed
    /// too often keeps its turn. What waits for it can be passed then, so that it delays no call that it does not meet.
    fn lack_place(&mut self, id: u64) {
        let Some(entry) = self
            .entries
            .get(&id)
            .filter(|entry| entry.stage == Some(ClaimStage::Waiting))
        else {
            return;
        };
        if entry.passes < PASSES_MAX {
            self.reorder(id, TurnOrder::not_in_line(id));
            self.shift(id, ClaimStage::Placeless);
        } else {
            self.shift(id, ClaimStage::Insistent);
        }
        self.wake_behind(id);
    }

    /// Notifier for the turn of the call `id`; `None` if it may run.
    fn news(&mut self, id: u64) -> Option<Arc<Notify>> {
        self.enter_line(id);
        let is_blocked = self.is_blocked(id);
        let stage = self.entries.get(&id)?.stage;
        if matches!(stage, Some(ClaimStage::Waiting | ClaimStage::Placeless)) {
            let to = self.stage_of(id, is_blocked);
            self.shift(id, to);
            if to == ClaimStage::Placeless && stage == Some(ClaimStage::Waiting) {
                self.wake_behind(id);
            }
        }
        if !is_blocked {
            // A call that waits for its place is not asked about when others leave.
            self.entries.get_mut(&id)?.news = None;
            return None;
        }
        let entry = self.entries.get_mut(&id)?;
        Some(Arc::clone(entry.news.get_or_insert_with(Arc::default)))
    }

    /// Removes the call `id`, and lets those go on that waited for it. Returns its claim.
    fn leave(&mut self, id: u64) -> Option<ResourceClaim> {
        let entry = self.entries.remove(&id)?;
        self.callers.leave(entry.caller.as_deref());
        if let Some(ChangeLine(line)) = entry.line {
            self.lined.remove(&(line, id));
        }
        let Some(claim) = entry.claim else {
            self.decided(entry.line, id);
            return None;
        };
        self.index.change(&claim, entry.call, entry.stage, None);
        let mut freed = Vec::new();
        if entry.stage != Some(ClaimStage::Running) {
            self.waiting -= 1;
            freed = self.index.successors(&claim, entry.call);
            freed.iter().for_each(|next| self.enter_line(*next));
        }
        if self.waiting > 0 {
            freed.extend(self.index.behind(&claim, entry.call.caller));
            self.wake(freed);
        }
        Some(claim)
    }

    /// The ids of all calls that the call may have been the last to hold up.
    fn behind(&self, id: u64) -> Vec<u64> {
        self.claimed(id).map_or_else(Vec::new, |(claim, call)| {
            self.index.behind(claim, call.caller)
        })
    }

    fn wake_behind(&mut self, id: u64) {
        let behind = self.behind(id);
        self.wake(behind);
    }

    /// Notifies the calls in `ids` whose turn has come, and the calls that waited for calls that can be passed from now
    /// on. A call that no longer waits for a call without a place is no longer passed.
    fn wake(&mut self, mut ids: Vec<u64>) {
        while let Some(id) = ids.pop() {
            let Some(entry) = self.entries.get(&id) else {
                continue;
            };
            if entry.news.is_none() && entry.stage != Some(ClaimStage::Waiting) {
                continue;
            }
            if !self.is_blocked(id) {
                if let Some(news) = &entry.news {
                    news.notify_one();
                }
                continue;
            }
            match (entry.stage, self.stage_of(id, true)) {
                (Some(ClaimStage::Waiting), ClaimStage::Placeless) => {
                    self.shift(id, ClaimStage::Placeless);
                    ids.extend(self.behind(id));
                }
                (Some(ClaimStage::Placeless), ClaimStage::Waiting) => {
                    self.shift(id, ClaimStage::Waiting)
                }
                _ => {}
            }
        }
    }
}

/// The place of one call; dropping it lets the others go on.
#[derive(Debug)]
pub struct QueueTurn {
    locks: ResourceLocks,
    id: u64,
}

impl QueueTurn {
    /// Says what the call can reach, once. With a place to run, the call runs at once if it may. Returns whether it does.
    pub fn claim(&self, claim: ResourceClaim, has_place: bool) -> bool {
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
    /// pass it, unless they have done so too often. It is in line again when it has its place.
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
        if queue
            .entries
            .get(&self.id)
            .is_some_and(|entry| entry.stage != Some(ClaimStage::Running))
        {
            queue.leave(self.id);
        }
    }

    /// Gives up the place of a call that waits for something else, and returns its claim, for its next turn.
    pub fn leave(&self) -> Option<ResourceClaim> {
        self.locks.queue().leave(self.id)
    }
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        self.locks.queue().leave(self.id);
    }
}

#[cfg(test)]
mod tests;
