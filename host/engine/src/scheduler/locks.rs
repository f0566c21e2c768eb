//! Calls that may run beside each other: their effects cannot meet.

mod claim;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub use claim::{NetworkUse, ResourceClaim};

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
    entries: BTreeMap<u64, QueueEntry>,
}

/// How far a call with a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimStage {
    /// It waits for its turn, or has it and is about to run. No later call passes it.
    Waiting,
    /// Its caller has no place for it, or it waits for a call without a place. Calls of other callers pass it.
    Placeless,
    /// Its caller has no place for it, and it was passed too often: no later call passes it any more.
    Insistent,
    Running,
}

#[derive(Clone, Debug)]
struct QueueEntry {
    id: u64,
    caller: Option<Arc<str>>,
    line: Option<ChangeLine>,
    /// Since when the call is in line, on the clock that gives calls their ids. `None` while it is behind another call of
    /// its caller, or has no place: all calls in line come before it then.
    since: Option<u64>,
    /// `None` until the call is decided on.
    claim: Option<ResourceClaim>,
    stage: Option<ClaimStage>,
    /// Places it got while calls that had passed it ran.
    passes: u32,
    news: Option<Arc<Notify>>,
}

impl QueueEntry {
    /// When it has its turn among those that wait: the lower comes first.
    fn order(&self) -> (u64, u64) {
        (self.since.unwrap_or(u64::MAX), self.id)
    }

    fn is_pending(&self) -> bool {
        self.stage.is_some_and(|stage| stage != ClaimStage::Running)
    }

    fn meets(&self, other: &Self) -> bool {
        let claims = self.claim.as_ref().zip(other.claim.as_ref());
        claims.is_some_and(|(one, other_claim)| one.meets(other_claim, self.caller == other.caller))
    }

    /// Returns whether it is a later call of the same caller that meets `earlier`.
    fn succeeds(&self, earlier: &Self) -> bool {
        earlier.id < self.id && earlier.caller == self.caller && self.meets(earlier)
    }

    /// Returns whether this call keeps `other` waiting.
    fn holds_up(&self, other: &Self) -> bool {
        match self.stage {
            None => false,
            Some(ClaimStage::Running) => self.meets(other),
            Some(ClaimStage::Waiting | ClaimStage::Insistent) if self.order() < other.order() => {
                self.meets(other)
            }
            Some(_) => other.succeeds(self),
        }
    }

    /// Returns whether `other` waits for this call, which has no place, and is an earlier one of its caller or cannot be
    /// passed.
    fn lets_pass(&self, other: &Self) -> bool {
        match self.stage {
            Some(ClaimStage::Insistent) => self.order() < other.order() && self.meets(other),
            Some(ClaimStage::Placeless) => other.succeeds(self),
            _ => false,
        }
    }
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
        let entry = QueueEntry {
            id,
            caller: caller.map(Arc::from),
            line,
            since: Some(id),
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
        let runs = has_place && !is_blocked;
        if runs {
            self.run(id);
        } else {
            self.line_up(id, is_blocked);
        }
        self.decided(line, id);
        runs
    }

    /// Behind the caller's earlier calls that it meets, before the later ones.
    fn line_up(&mut self, id: u64, is_blocked: bool) {
        let follows_own = self.follows_own(id);
        let stage = self.stage_of(id, is_blocked);
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if follows_own {
            entry.since = None;
        }
        entry.stage = Some(stage);
        let entry = entry.clone();
        // Calls of a batch are not decided on in their order.
        for later in self.successors(&entry) {
            if let Some(later) = self.entries.get_mut(&later)
                && later.since.take().is_some()
            {
                let later = later.clone();
                self.wake(|behind| behind.meets(&later));
            }
        }
    }

    /// Considers conflicting calls that do not run yet.
    fn follows_own(&self, id: u64) -> bool {
        self.entries.get(&id).is_some_and(|entry| {
            self.entries
                .range(..id)
                .any(|(_, earlier)| earlier.is_pending() && entry.succeeds(earlier))
        })
    }

    /// The ids of the later calls of the same caller that meet the call, and do not run yet.
    fn successors(&self, entry: &QueueEntry) -> Vec<u64> {
        self.entries
            .range(entry.id..)
            .filter(|(_, later)| later.is_pending() && later.succeeds(entry))
            .map(|(id, _)| *id)
            .collect()
    }

    fn enter_line(&mut self, id: u64) {
        if self.follows_own(id) {
            return;
        }
        let now = self.number();
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.claim.is_some()
        {
            entry.since.get_or_insert(now);
        }
    }

    /// Lets changes go on that waited for the decision, which was made or is unneeded.
    fn decided(&mut self, line: Option<ChangeLine>, id: u64) {
        if line.is_some() {
            self.wake(|entry| entry.line == line && entry.id > id);
        }
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
        let awaits_decisions = entry.line.is_some()
            && claim.changes()
            && self
                .entries
                .range(..id)
                .any(|(_, earlier)| earlier.line == entry.line && earlier.claim.is_none());
        awaits_decisions || self.entries.values().any(|other| other.holds_up(entry))
    }

    /// A call that waits for a placeless one can be passed too, or it would hold up calls that do not meet that one.
    fn stage_of(&self, id: u64, is_blocked: bool) -> ClaimStage {
        let follows =
            |entry: &QueueEntry| self.entries.values().any(|other| other.lets_pass(entry));
        if is_blocked && self.entries.get(&id).is_some_and(follows) {
            ClaimStage::Placeless
        } else {
            ClaimStage::Waiting
        }
    }

    fn shift(&mut self, id: u64, to: ClaimStage) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.claim.is_some()
        {
            entry.stage = Some(to);
        }
    }

    fn run(&mut self, id: u64) {
        let waited = self
            .entries
            .get(&id)
            .filter(|entry| entry.is_pending())
            .map_or_else(Vec::new, |entry| self.successors(entry));
        self.shift(id, ClaimStage::Running);
        waited.into_iter().for_each(|next| self.enter_line(next));
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
            .get_mut(&id)
            .filter(|entry| entry.stage == Some(ClaimStage::Waiting))
        else {
            return;
        };
        if entry.passes < PASSES_MAX {
            entry.since = None;
            entry.stage = Some(ClaimStage::Placeless);
        } else {
            entry.stage = Some(ClaimStage::Insistent);
        }
        let entry = entry.clone();
        self.wake(|behind| behind.meets(&entry));
    }

    /// `None` if the call may run.
    fn news(&mut self, id: u64) -> Option<Arc<Notify>> {
        self.enter_line(id);
        let is_blocked = self.is_blocked(id);
        let to = self.stage_of(id, is_blocked);
        let entry = self.entries.get_mut(&id)?;
        let from = entry.stage;
        if matches!(from, Some(ClaimStage::Waiting | ClaimStage::Placeless)) {
            entry.stage = Some(to);
        }
        // A call that waits for its place is not asked about when others leave.
        entry.news = is_blocked.then(|| entry.news.take().unwrap_or_default());
        let entry = entry.clone();
        if to == ClaimStage::Placeless && from == Some(ClaimStage::Waiting) {
            self.wake(|behind| behind.meets(&entry));
        }
        entry.news
    }

    fn leave(&mut self, id: u64) -> Option<ResourceClaim> {
        let entry = self.entries.remove(&id)?;
        if entry.claim.is_none() {
            self.decided(entry.line, id);
            return None;
        }
        if entry.is_pending() {
            let successors = self.successors(&entry);
            successors
                .into_iter()
                .for_each(|next| self.enter_line(next));
        }
        self.wake(|behind| behind.meets(&entry));
        entry.claim
    }

    /// Notifies the calls that `is_concerned` names and whose turn has come, and the calls that waited for calls that can be
    /// passed from now on. A call that no longer waits for a call without a place is no longer passed.
    fn wake(&mut self, is_concerned: impl Fn(&QueueEntry) -> bool) {
        let mut passed: Vec<QueueEntry> = Vec::new();
        let concerns = |passed: &[QueueEntry], entry: &QueueEntry| {
            is_concerned(entry) || passed.iter().any(|passed| passed.meets(entry))
        };
        let lets_pass = |entry: &QueueEntry| {
            matches!(
                entry.stage,
                Some(ClaimStage::Placeless | ClaimStage::Insistent)
            )
        };
        // Calls wait for earlier ones of their caller, so that one look at each is enough. While all have a place, none can be
        // passed, and none is looked at: there can be thousands.
        let ids: Vec<u64> = if self.entries.values().any(lets_pass) {
            self.entries.keys().copied().collect()
        } else {
            Vec::new()
        };
        for id in ids {
            let Some(entry) = self.entries.get(&id) else {
                continue;
            };
            if !entry.is_pending() || !concerns(&passed, entry) || !self.is_blocked(id) {
                continue;
            }
            match (entry.stage, self.stage_of(id, true)) {
                (Some(ClaimStage::Waiting), ClaimStage::Placeless) => {
                    passed.push(entry.clone());
                    self.shift(id, ClaimStage::Placeless);
                }
                (Some(ClaimStage::Placeless), ClaimStage::Waiting) if entry.news.is_some() => {
                    self.shift(id, ClaimStage::Waiting);
                }
                _ => {}
            }
        }
        for entry in self.entries.values() {
            if let Some(news) = &entry.news
                && concerns(&passed, entry)
                && !self.is_blocked(entry.id)
            {
                news.notify_one();
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
