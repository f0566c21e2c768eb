use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use super::claim::{ResourceClaim, SharedResource, UseMode};
use super::order::{QueuedCall, TurnOrder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimStage {
    /// Waits for its turn or is about to run; no later call passes.
    Waiting,
    /// Lacks a place, or waits for a call that lacks one; other callers pass.
    Placeless,
    /// Lacks a place but was passed too often: no later call passes.
    Insistent,
    Running,
}

/// Claims by what they reach: a call is compared only with those that reach the same.
#[derive(Debug, Default)]
pub(super) struct ClaimIndex {
    resources: BTreeMap<SharedResource, ResourceUsers>,
    folders: BTreeMap<Arc<Path>, ResourceUsers>,
}

#[derive(Debug, Default)]
struct ResourceUsers {
    shared: UserGroup,
    exclusive: UserGroup,
}

#[derive(Debug, Default)]
struct UserGroup {
    running: usize,
    waiting: BTreeSet<TurnOrder>,
    insistent: BTreeSet<TurnOrder>,
    placeless: BTreeSet<(u64, u64)>,
    pending: BTreeSet<(u64, u64)>,
}

impl ClaimIndex {
    pub(super) fn change(
        &mut self,
        claim: &ResourceClaim,
        call: QueuedCall,
        from: Option<ClaimStage>,
        to: Option<ClaimStage>,
    ) {
        for (resource, mode) in claim.uses(call.caller) {
            change(&mut self.resources, resource, |users| {
                users.change(mode, call, from, to)
            });
        }
        for (folder, mode) in claim.folders() {
            change(&mut self.folders, Arc::clone(folder), |users| {
                users.change(mode, call, from, to)
            });
        }
    }

    /// By running calls or calls whose turn comes first.
    pub(super) fn holds_up(&self, claim: &ResourceClaim, call: QueuedCall) -> bool {
        self.met(claim, call.caller)
            .any(|(users, mode)| users.has(mode, |group| group.holds_up(call)))
    }

    /// An earlier call of its caller, or one that cannot be passed.
    pub(super) fn follows_placeless(&self, claim: &ResourceClaim, call: QueuedCall) -> bool {
        self.met(claim, call.caller)
            .any(|(users, mode)| users.has(mode, |group| group.has_placeless_before(call)))
    }

    pub(super) fn follows_own(&self, claim: &ResourceClaim, call: QueuedCall) -> bool {
        self.met(claim, call.caller)
            .any(|(users, mode)| users.has(mode, |group| group.has_pending_before(call)))
    }

    /// Later calls of the caller that wait for this one, and for none between with the same resource.
    pub(super) fn successors(&self, claim: &ResourceClaim, call: QueuedCall) -> Vec<u64> {
        let mut successors = Vec::new();
        for (users, mode) in self.met(claim, call.caller) {
            users.successors(mode, call, &mut successors);
        }
        successors.sort_unstable();
        successors.dedup();
        successors
    }

    /// Calls that this claim may have been the last to hold up.
    pub(super) fn behind(&self, claim: &ResourceClaim, caller: u64) -> Vec<u64> {
        let mut behind = Vec::new();
        for (users, mode) in self.met(claim, caller) {
            users.behind(mode, &mut behind);
        }
        // A call waits in each of its folders, and telling whether it may run costs a look at all of them.
        behind.sort_unstable();
        behind.dedup();
        behind
    }

    fn met(
        &self,
        claim: &ResourceClaim,
        caller: u64,
    ) -> impl Iterator<Item = (&ResourceUsers, UseMode)> {
        let resources = claim.uses(caller);
        let resources =
            resources.filter_map(|(resource, mode)| Some((self.resources.get(&resource)?, mode)));
        let folders = claim.folders();
        let folders = folders
            .flat_map(move |(folder, mode)| self.around(folder).map(move |users| (users, mode)));
        resources.chain(folders)
    }

    fn around(&self, folder: &Path) -> impl Iterator<Item = &ResourceUsers> {
        let outer = folder
            .ancestors()
            .filter_map(move |outer| self.folders.get(outer));
        // A folder is sorted directly before what lies in it.
        let after = self
            .folders
            .range::<Path, _>((Bound::Excluded(folder), Bound::Unbounded));
        let inner = after
            .take_while(move |(inner, _)| inner.starts_with(folder))
            .map(|(_, users)| users);
        outer.chain(inner)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.folders.is_empty()
    }
}

/// Resources without users are dropped.
fn change<K: Ord>(
    all: &mut BTreeMap<K, ResourceUsers>,
    resource: K,
    edit: impl FnOnce(&mut ResourceUsers),
) {
    match all.entry(resource) {
        Entry::Vacant(place) => edit(place.insert(ResourceUsers::default())),
        Entry::Occupied(mut users) => {
            edit(users.get_mut());
            if users.get().is_empty() {
                users.remove();
            }
        }
    }
}

impl ResourceUsers {
    fn change(
        &mut self,
        mode: UseMode,
        call: QueuedCall,
        from: Option<ClaimStage>,
        to: Option<ClaimStage>,
    ) {
        let group = match mode {
            UseMode::Shared => &mut self.shared,
            UseMode::Exclusive => &mut self.exclusive,
        };
        group.remove(call, from);
        group.add(call, to);
    }

    fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.exclusive.is_empty()
    }

    fn has(&self, mode: UseMode, is: impl Fn(&UserGroup) -> bool) -> bool {
        is(&self.exclusive) || (mode == UseMode::Exclusive && is(&self.shared))
    }

    fn successors(&self, mode: UseMode, call: QueuedCall, successors: &mut Vec<u64>) {
        let caller = call.caller;
        let after = call.order.id.saturating_add(1);
        let exclusive = self
            .exclusive
            .pending
            .range((caller, after)..=(caller, u64::MAX))
            .next()
            .map(|(_, id)| *id);
        successors.extend(exclusive);
        if mode == UseMode::Exclusive {
            let until = exclusive.unwrap_or(u64::MAX).max(after);
            successors.extend(
                self.shared
                    .pending
                    .range((caller, after)..(caller, until))
                    .map(|(_, id)| *id),
            );
        }
    }

    /// Calls behind an exclusive use keep waiting for it. Placeless calls let others pass, so each caller has a first
    /// one.
    fn behind(&self, mode: UseMode, behind: &mut Vec<u64>) {
        let exclusive = self.exclusive.waiting.first().copied();
        behind.extend(exclusive.map(|order| order.id));
        if mode == UseMode::Exclusive {
            let shared = self
                .shared
                .waiting
                .range(..exclusive.unwrap_or(TurnOrder::LAST));
            behind.extend(shared.map(|order| order.id));
        }
        let next = |caller: u64| {
            self.exclusive
                .placeless
                .range((caller, 0)..)
                .next()
                .copied()
        };
        let firsts = std::iter::successors(next(0), |(caller, _)| next(caller + 1));
        behind.extend(firsts.map(|(_, id)| id));
        if mode == UseMode::Exclusive {
            let is_first = |(caller, id): &&(u64, u64)| {
                next(*caller).is_none_or(|(first_of, first)| first_of != *caller || *id < first)
            };
            behind.extend(
                self.shared
                    .placeless
                    .iter()
                    .filter(is_first)
                    .map(|(_, id)| *id),
            );
        }
    }
}

impl UserGroup {
    fn add(&mut self, call: QueuedCall, stage: Option<ClaimStage>) {
        let own = (call.caller, call.order.id);
        match stage {
            None => return,
            Some(ClaimStage::Running) => {
                self.running += 1;
                return;
            }
            Some(ClaimStage::Waiting) => _ = self.waiting.insert(call.order),
            Some(ClaimStage::Insistent) => _ = self.insistent.insert(call.order),
            Some(ClaimStage::Placeless) => _ = self.placeless.insert(own),
        }
        self.pending.insert(own);
    }

    fn remove(&mut self, call: QueuedCall, stage: Option<ClaimStage>) {
        let own = (call.caller, call.order.id);
        match stage {
            None => return,
            Some(ClaimStage::Running) => {
                self.running -= 1;
                return;
            }
            Some(ClaimStage::Waiting) => _ = self.waiting.remove(&call.order),
            Some(ClaimStage::Insistent) => _ = self.insistent.remove(&call.order),
            Some(ClaimStage::Placeless) => _ = self.placeless.remove(&own),
        }
        self.pending.remove(&own);
    }

    fn is_empty(&self) -> bool {
        self.running == 0 && self.pending.is_empty()
    }

    fn holds_up(&self, call: QueuedCall) -> bool {
        self.running > 0
            || self
                .waiting
                .first()
                .is_some_and(|first| *first < call.order)
            || self.has_insistent_before(call)
            || self.has_pending_before(call)
    }

    fn has_insistent_before(&self, call: QueuedCall) -> bool {
        self.insistent
            .first()
            .is_some_and(|first| *first < call.order)
    }

    fn has_placeless_before(&self, call: QueuedCall) -> bool {
        self.has_insistent_before(call) || has_before(&self.placeless, call)
    }

    fn has_pending_before(&self, call: QueuedCall) -> bool {
        has_before(&self.pending, call)
    }
}

fn has_before(calls: &BTreeSet<(u64, u64)>, call: QueuedCall) -> bool {
    calls
        .range((call.caller, 0)..(call.caller, call.order.id))
        .next()
        .is_some()
}
