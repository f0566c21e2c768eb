//! Tracks startable calls and effects of ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use toolcell_spec::AbortReason;

use super::{BatchPlan, BatchPolicy, SiblingFailurePolicy};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStep {
    Start(usize),
    /// Ends the call without starting it; it counts as ended.
    Discard(usize, SkipCause),
    Cancel(usize, AbortReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipCause {
    /// Not because of another call.
    Failed(usize),
    Interrupted(AbortReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotStatus {
    Waiting,
    Running,
    Ended,
}

/// Progress of a batch: pure, so that decisions depend on the order of ends alone.
#[derive(Debug)]
pub struct BatchState {
    plan: BatchPlan,
    siblings: SiblingFailurePolicy,
    at_once: usize,
    statuses: Vec<SlotStatus>,
    /// Unended dependencies of each call.
    open: Vec<usize>,
    running: usize,
    left: usize,
    /// Waiting calls without open dependencies.
    ready: BTreeSet<usize>,
    fresh: Vec<usize>,
    doomed: BTreeMap<usize, SkipCause>,
    cancels: VecDeque<BatchStep>,
    siblings_canceled: bool,
}

impl BatchState {
    pub fn new(plan: BatchPlan, policy: &BatchPolicy) -> Self {
        let open: Vec<usize> = (0..plan.len()).map(|at| plan.needs_of(at)).collect();
        let fresh: Vec<usize> = open
            .iter()
            .enumerate()
            .filter(|(_, open)| **open == 0)
            .map(|(at, _)| at)
            .collect();
        Self {
            siblings: policy.siblings,
            at_once: policy.at_once(),
            statuses: vec![SlotStatus::Waiting; plan.len()],
            running: 0,
            left: plan.len(),
            ready: fresh.iter().copied().collect(),
            fresh,
            open,
            doomed: BTreeMap::new(),
            cancels: VecDeque::new(),
            siblings_canceled: false,
            plan,
        }
    }

    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// `None` until another call ends. Calls start in order.
    pub fn next_step(&mut self) -> Option<BatchStep> {
        if let Some(cancel) = self.cancels.pop_front() {
            return Some(cancel);
        }
        if let Some((at, cause)) = self.doomed.pop_first() {
            let root = match cause {
                SkipCause::Failed(root) => Some(root),
                // Nothing failed, and all that waits ends for the same reason.
                SkipCause::Interrupted(_) => None,
            };
            self.settle(at, root);
            return Some(BatchStep::Discard(at, cause));
        }
        if self.running >= self.at_once {
            return None;
        }
        let at = self.ready.pop_first()?;
        self.set(at, SlotStatus::Running);
        self.running += 1;
        Some(BatchStep::Start(at))
    }

    /// Newly ready calls held by the limit on running calls.
    pub fn newly_held(&mut self) -> Vec<usize> {
        let mut held = std::mem::take(&mut self.fresh);
        held.retain(|at| self.ready.contains(at));
        held
    }

    pub fn ended(&mut self, at: usize, failed: bool) {
        if self.is(at, SlotStatus::Running) {
            self.running -= 1;
            self.settle(at, failed.then_some(at));
        }
    }

    /// No more calls start; with `cancels`, running ones are canceled.
    pub fn interrupt(&mut self, reason: AbortReason, cancels: bool) {
        self.stop(SkipCause::Interrupted(reason));
        if cancels {
            self.cancel_running(reason);
        }
    }

    fn settle(&mut self, at: usize, root: Option<usize>) {
        self.set(at, SlotStatus::Ended);
        self.left -= 1;
        let dependents = self.plan.dependents_of(at).to_vec();
        for dependent in &dependents {
            let Some(open) = self.open.get_mut(*dependent) else {
                continue;
            };
            *open -= 1;
            if *open == 0
                && self.is(*dependent, SlotStatus::Waiting)
                && !self.doomed.contains_key(dependent)
            {
                self.ready.insert(*dependent);
                self.fresh.push(*dependent);
            }
        }
        let Some(root) = root else { return };
        match self.siblings {
            SiblingFailurePolicy::Ignore => {}
            SiblingFailurePolicy::CancelDependent => {
                dependents
                    .into_iter()
                    .for_each(|dependent| self.doom(dependent, SkipCause::Failed(root)));
            }
            // Calls that end because of the first failure cancel nothing more.
            SiblingFailurePolicy::CancelSiblings if !self.siblings_canceled => {
                self.siblings_canceled = true;
                self.stop(SkipCause::Failed(root));
                self.cancel_running(AbortReason::SiblingError);
            }
            SiblingFailurePolicy::CancelSiblings => {}
        }
    }

    fn stop(&mut self, cause: SkipCause) {
        (0..self.statuses.len()).for_each(|at| self.doom(at, cause));
    }

    fn doom(&mut self, at: usize, cause: SkipCause) {
        if self.is(at, SlotStatus::Waiting) {
            self.ready.remove(&at);
            self.doomed.entry(at).or_insert(cause);
        }
    }

    fn cancel_running(&mut self, reason: AbortReason) {
        let running = self
            .statuses
            .iter()
            .enumerate()
            .filter(|(_, status)| **status == SlotStatus::Running);
        self.cancels
            .extend(running.map(|(at, _)| BatchStep::Cancel(at, reason)));
    }

    fn is(&self, at: usize, status: SlotStatus) -> bool {
        self.statuses.get(at) == Some(&status)
    }

    fn set(&mut self, at: usize, status: SlotStatus) {
        if let Some(known) = self.statuses.get_mut(at) {
            *known = status;
        }
    }
}

#[cfg(test)]
mod tests;
