//! Calls that may run beside each other: their effects cannot meet.

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

/// Passes of a call that got its place too late. Then calls that meet it wait, because a caller that uses all its
/// places could be passed for ever.
const PASSES_MAX: u32 = 8;

/// Turns of all calls of one process. A call waits for running calls that it could disturb, and delays no call longer
/// in line.
///
/// A call is in line from its arrival, or once the last earlier call of its caller that it must await runs. So a caller
/// with many calls for a folder has one in line, and callers alternate.
///
/// A claim is held only while its call runs. If a caller has no place at its turn, other callers' calls pass. Clones
/// share the queue.
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
    /// Decided, but not running.
    waiting: usize,
    lined: BTreeSet<(u64, u64)>,
    undecided: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct QueueEntry {
    call: QueuedCall,
    caller: Option<Arc<str>>,
    line: Option<ChangeLine>,
    /// `None` until the call is decided on.
    claim: Option<ResourceClaim>,
    stage: Option<ClaimStage>,
    /// Places it got while calls that had passed it ran.
    passes: u32,
    news: Option<Arc<Notify>>,
}

/// Calls whose changes keep their order: a change waits until all earlier calls of the line are decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLine(u64);

impl ResourceLocks {
    fn queue(&self) -> MutexGuard<'_, CallQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn line(&self) -> ChangeLine {
        ChangeLine(self.queue().number())
    }

    /// Takes a place before it is known what the call can reach.
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

    /// Returns whether the call runs from now on; `has_place` says whether it can.
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

    /// Behind the caller's earlier calls that it meets, before the later ones.
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

    fn claimed(&self, id: u64) -> Option<(&ResourceClaim, QueuedCall)> {
        let entry = self.entries.get(&id)?;
        Some((entry.claim.as_ref()?, entry.call))
    }

    /// Considers conflicting calls that do not run yet.
    fn follows_own(&self, id: u64) -> bool {
        self.claimed(id)
            .is_some_and(|(claim, call)| self.index.follows_own(claim, call))
    }

    /// The caller's next calls that meet this one and do not run yet.
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

    fn enter_line(&mut self, id: u64) {
        let is_outside =
            |entry: &QueueEntry| entry.claim.is_some() && !entry.call.order.is_in_line();
        if self.entries.get(&id).is_some_and(is_outside) && !self.follows_own(id) {
            let now = self.number();
            self.reorder(id, TurnOrder::since(now, id));
        }
    }

    /// Lets changes go on that waited for the decision, which was made or is unneeded.
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

    /// Never for a call that ended or runs.
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

    /// A call that waits for a placeless one can be passed too, or it would hold up calls that do not meet that one.
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

    /// Returns whether the call runs: only if it is still its turn.
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

    /// Lets other callers pass, unless passed too often; what waits for it can then be passed, so that it delays no
    /// call that it does not meet.
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

    /// `None` if the call may run.
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

    /// Calls that this one may have been the last to hold up.
    fn behind(&self, id: u64) -> Vec<u64> {
        self.claimed(id).map_or_else(Vec::new, |(claim, call)| {
            self.index.behind(claim, call.caller)
        })
    }

    fn wake_behind(&mut self, id: u64) {
        let behind = self.behind(id);
        self.wake(behind);
    }

    /// Notifies calls at their turn, and those behind newly passable calls. A call that no longer waits for a placeless
    /// one is passed no longer.
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

/// Dropping it lets others go on.
#[derive(Debug)]
pub struct QueueTurn {
    locks: ResourceLocks,
    id: u64,
}

impl QueueTurn {
    /// Says once what the call can reach. Returns whether it runs, which takes a place.
    pub fn claim(&self, claim: ResourceClaim, has_place: bool) -> bool {
        self.locks.queue().claim(self.id, claim, has_place)
    }

    /// Can be dropped and awaited again.
    pub async fn come(&self) {
        loop {
            let news = self.locks.queue().news(self.id);
            let Some(news) = news else { return };
            news.notified().await;
        }
    }

    /// Says that the caller has no place at this turn: others pass it, up to a limit, until it has one.
    pub fn lack_place(&self) {
        self.locks.queue().lack_place(self.id);
    }

    /// With a place. `false` if another call came first: then it must give the place up and wait.
    pub fn begin(&self) -> bool {
        self.locks.queue().begin(self.id)
    }

    /// Leaves the queue unless running: a lock lasts until the record is complete.
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

    /// Returns the claim for the next turn.
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
