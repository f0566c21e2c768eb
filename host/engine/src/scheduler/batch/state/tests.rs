//! A batch's state against an oracle from the specification (AT-SCHED-05, 06, 10), not from the code.

use std::collections::BTreeSet;

use toolcell_spec::AbortReason;

use super::super::{BatchPlan, BatchPolicy, OrderingPolicy, SiblingFailurePolicy};
use super::{BatchState, BatchStep, SkipCause};

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

#[derive(Debug)]
struct Run {
    needs: Vec<BTreeSet<usize>>,
    fails: Vec<bool>,
    policy: BatchPolicy,
    started: BTreeSet<usize>,
    running: BTreeSet<usize>,
    ended: BTreeSet<usize>,
    discarded: Vec<Option<SkipCause>>,
    canceled: BTreeSet<usize>,
    first_failed: Option<usize>,
    interrupted: bool,
}

impl Run {
    fn new(random: &mut Random) -> Self {
        let count = 1 + random.below(9);
        let policies = SiblingFailurePolicy::ALL;
        let orderings = OrderingPolicy::ALL;
        // A call depends on some of those that come before it in a random order, so that there is no cycle.
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).for_each(|at| order.swap(at, random.below(at + 1)));
        let mut needs = vec![BTreeSet::new(); count];
        for (place, at) in order.iter().enumerate() {
            needs[*at] = order[..place]
                .iter()
                .copied()
                .filter(|_| random.below(4) == 0)
                .collect();
        }
        Self {
            needs,
            fails: (0..count).map(|_| random.below(4) == 0).collect(),
            policy: BatchPolicy {
                max_parallel: 1 + random.below(4),
                ordering: orderings[random.below(orderings.len())],
                siblings: policies[random.below(policies.len())],
                ..BatchPolicy::default()
            },
            started: BTreeSet::new(),
            running: BTreeSet::new(),
            ended: BTreeSet::new(),
            discarded: vec![None; count],
            canceled: BTreeSet::new(),
            first_failed: None,
            interrupted: false,
        }
    }

    fn plan(&self) -> BatchPlan {
        let id = |at: usize| at.to_string();
        let needs: Vec<Vec<String>> = self
            .needs
            .iter()
            .map(|needs| needs.iter().copied().map(id).collect())
            .collect();
        let ids: Vec<String> = (0..self.needs.len()).map(id).collect();
        BatchPlan::new(
            ids.iter()
                .zip(&needs)
                .map(|(id, needs)| (id.as_str(), needs.as_slice())),
        )
        .unwrap()
    }

    /// Direct and indirect dependencies that fail by themselves.
    fn failed_ancestors(&self, at: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for need in &self.needs[at] {
            let above = self.failed_ancestors(*need);
            if above.is_empty() && self.fails[*need] {
                found.insert(*need);
            }
            found.extend(above);
        }
        found
    }

    fn could_start(&self, at: usize) -> bool {
        let siblings = self.policy.siblings;
        let ended = |need: &usize| self.ended.contains(need);
        let held_back = match siblings {
            SiblingFailurePolicy::Ignore => false,
            SiblingFailurePolicy::CancelDependent => !self.failed_ancestors(at).is_empty(),
            SiblingFailurePolicy::CancelSiblings => self.first_failed.is_some(),
        };
        !self.started.contains(&at)
            && self.discarded[at].is_none()
            && !self.interrupted
            && !held_back
            && self.needs[at].iter().all(ended)
    }

    fn at_once(&self) -> usize {
        if self.policy.ordering == OrderingPolicy::Serial {
            1
        } else {
            self.policy.max_parallel
        }
    }

    fn take(&mut self, step: BatchStep) {
        match step {
            BatchStep::Start(at) => {
                assert!(self.could_start(at), "{at} started: {self:?}");
                assert!(
                    (0..at).all(|earlier| !self.could_start(earlier)),
                    "{at} passed an earlier call: {self:?}"
                );
                self.started.insert(at);
                self.running.insert(at);
                assert!(self.running.len() <= self.at_once(), "{self:?}");
            }
            BatchStep::Discard(at, cause) => {
                assert!(
                    !self.started.contains(&at) && self.discarded[at].is_none(),
                    "{at} twice: {self:?}"
                );
                match cause {
                    SkipCause::Interrupted(_) => assert!(self.interrupted, "{self:?}"),
                    SkipCause::Failed(root) => match self.policy.siblings {
                        SiblingFailurePolicy::Ignore => panic!("{at} was discarded: {self:?}"),
                        SiblingFailurePolicy::CancelDependent => {
                            assert!(
                                self.failed_ancestors(at).contains(&root),
                                "{at} for {root}: {self:?}"
                            );
                        }
                        SiblingFailurePolicy::CancelSiblings => {
                            assert_eq!(Some(root), self.first_failed, "{self:?}")
                        }
                    },
                }
                self.discarded[at] = Some(cause);
                self.ended.insert(at);
            }
            BatchStep::Cancel(at, _) => {
                assert!(self.running.contains(&at), "{at} does not run: {self:?}");
                self.canceled.insert(at);
            }
        }
    }

    /// A canceled call fails.
    fn end(&mut self, at: usize) -> bool {
        let failed = self.fails[at] || self.canceled.contains(&at);
        self.running.remove(&at);
        self.ended.insert(at);
        if failed && self.first_failed.is_none() {
            self.first_failed = Some(at);
        }
        failed
    }
}

#[test]
fn every_batch_goes_as_the_specification_says() {
    let mut random = Random(11);
    for _ in 0..20_000 {
        let mut run = Run::new(&mut random);
        let mut state = BatchState::new(run.plan(), &run.policy);
        let interrupt_after = random.below(20);
        let cancels = random.below(2) == 0;
        for turn in 0.. {
            if turn == interrupt_after && !state.is_over() {
                run.interrupted = true;
                state.interrupt(AbortReason::UserInterruption, cancels);
            }
            while let Some(step) = state.next_step() {
                run.take(step);
            }
            let full = run.running.len() == run.at_once();
            assert!(
                full || (0..run.needs.len()).all(|at| !run.could_start(at)),
                "a call could start: {run:?}"
            );
            if run.interrupted {
                assert!(!cancels || run.running.is_subset(&run.canceled), "{run:?}");
            }
            let Some(at) = run
                .running
                .iter()
                .copied()
                .nth(random.below(run.running.len().max(1)))
            else {
                break;
            };
            let failed = run.end(at);
            let siblings: BTreeSet<usize> = run.running.clone();
            state.ended(at, failed);
            if failed
                && run.policy.siblings == SiblingFailurePolicy::CancelSiblings
                && run.first_failed == Some(at)
            {
                while let Some(step) = state.next_step() {
                    run.take(step);
                }
                assert!(
                    siblings.is_subset(&run.canceled),
                    "a sibling runs on: {run:?}"
                );
            }
        }
        assert!(state.is_over(), "{run:?}");
        let outcomes = (0..run.needs.len())
            .filter(|at| run.started.contains(at) != run.discarded[*at].is_some());
        assert_eq!(
            outcomes.count(),
            run.needs.len(),
            "each call starts or is discarded: {run:?}"
        );
        if !run.interrupted && run.policy.siblings == SiblingFailurePolicy::Ignore {
            assert_eq!(run.started.len(), run.needs.len(), "{run:?}");
        }
    }
}

/// T-13: A fails, B depends on A, C on nothing, D on B.
fn family(siblings: SiblingFailurePolicy) -> (Vec<BatchStep>, Vec<BatchStep>) {
    let a = ["a".to_owned()];
    let b = ["b".to_owned()];
    let plan =
        BatchPlan::new([("a", &a[..0]), ("b", &a[..]), ("c", &a[..0]), ("d", &b[..])]).unwrap();
    let mut state = BatchState::new(
        plan,
        &BatchPolicy {
            siblings,
            ..BatchPolicy::default()
        },
    );
    let drain = |state: &mut BatchState| -> Vec<BatchStep> {
        std::iter::from_fn(|| state.next_step()).collect()
    };
    let first = drain(&mut state);
    state.ended(0, true);
    (first, drain(&mut state))
}

#[test]
fn a_failure_reaches_whom_the_policy_says() {
    use SiblingFailurePolicy::*;
    let both = vec![BatchStep::Start(0), BatchStep::Start(2)];
    assert_eq!(family(Ignore), (both.clone(), vec![BatchStep::Start(1)]));
    let discard = |at| BatchStep::Discard(at, SkipCause::Failed(0));
    assert_eq!(
        family(CancelDependent),
        (both.clone(), vec![discard(1), discard(3)])
    );
    let cancel = BatchStep::Cancel(2, AbortReason::SiblingError);
    assert_eq!(
        family(CancelSiblings),
        (both, vec![cancel, discard(1), discard(3)])
    );
}
