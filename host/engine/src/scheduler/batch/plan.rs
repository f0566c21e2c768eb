//! Dependencies, checked before anything runs.

use std::collections::{BTreeSet, HashMap};

pub const CALLS_MAX: usize = 1_000;
pub const ID_BYTES_MAX: usize = 256;

/// Reason why calls are no batch. `at` is the faulty call's index; ids are quoted, and so contain no control
/// characters.
///
/// ```
/// use toolcell_engine::scheduler::batch::BatchPlan;
///
/// let needs = ["fetch".to_owned()];
/// let error = BatchPlan::new([("parse", &needs[..])]).err();
/// let message = "the call \"parse\" depends on \"fetch\", which is not a call of this batch; correct depends_on";
/// assert_eq!(error.map(|error| (error.at(), error.to_string())), Some((0, message.to_owned())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    #[error("a batch has at most {} calls; split it", CALLS_MAX)]
    TooManyCalls { at: usize },
    #[error("the id of a call has 1 to {max} bytes, and this one has {bytes}; choose another one", max = ID_BYTES_MAX)]
    IdLength { at: usize, bytes: usize },
    #[error("two calls have the id {id:?}; give each its own")]
    DuplicateId { at: usize, id: String },
    #[error(
        "the call {id:?} depends on {needs:?}, which is not a call of this batch; correct depends_on"
    )]
    UnknownId {
        at: usize,
        id: String,
        needs: String,
    },
    #[error(
        "these calls wait for each other, and none could start: {cycle}; remove one of them from depends_on"
    )]
    Cycle { at: usize, cycle: String },
}

impl PlanError {
    pub fn at(&self) -> usize {
        match self {
            Self::TooManyCalls { at }
            | Self::IdLength { at, .. }
            | Self::DuplicateId { at, .. }
            | Self::UnknownId { at, .. }
            | Self::Cycle { at, .. } => *at,
        }
    }
}

const SHOWN_MAX: usize = 10;

/// Dependencies in a batch, by index.
///
/// ```
/// use toolcell_engine::scheduler::batch::BatchPlan;
///
/// let needs = ["fetch".to_owned()];
/// let plan = BatchPlan::new([("parse", &needs[..]), ("fetch", &needs[..0])])?;
/// assert_eq!(plan.len(), 2);
/// # Ok::<(), toolcell_engine::scheduler::batch::PlanError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BatchPlan {
    needs: Vec<BTreeSet<usize>>,
    dependents: Vec<Vec<usize>>,
}

impl BatchPlan {
    /// Takes ids and dependencies. Fails for too many calls, and ids that are too long, repeated, unknown, or cyclic.
    pub fn new<'a>(
        calls: impl IntoIterator<Item = (&'a str, &'a [String])>,
    ) -> Result<Self, PlanError> {
        let mut known = HashMap::new();
        let mut planned: Vec<(&str, &[String])> = Vec::new();
        for (at, (id, needs)) in calls.into_iter().enumerate() {
            if at >= CALLS_MAX {
                return Err(PlanError::TooManyCalls { at });
            }
            if id.is_empty() || id.len() > ID_BYTES_MAX {
                return Err(PlanError::IdLength {
                    at,
                    bytes: id.len(),
                });
            }
            if known.insert(id, at).is_some() {
                return Err(PlanError::DuplicateId {
                    at,
                    id: id.to_owned(),
                });
            }
            planned.push((id, needs));
        }
        let mut plan = Self {
            needs: Vec::new(),
            dependents: vec![Vec::new(); planned.len()],
        };
        for (at, (id, needs)) in planned.iter().enumerate() {
            let found = needs.iter().map(|need| {
                known
                    .get(need.as_str())
                    .copied()
                    .ok_or_else(|| PlanError::UnknownId {
                        at,
                        id: (*id).to_owned(),
                        needs: need.chars().take(ID_BYTES_MAX).collect(),
                    })
            });
            let found = found.collect::<Result<BTreeSet<usize>, PlanError>>()?;
            for need in &found {
                if let Some(dependents) = plan.dependents.get_mut(*need) {
                    dependents.push(at);
                }
            }
            plan.needs.push(found);
        }
        match plan.cycle() {
            None => Ok(plan),
            Some(cycle) => {
                let id = |at: &usize| {
                    planned
                        .get(*at)
                        .map_or_else(String::new, |(id, _)| format!("{id:?}"))
                };
                let mut shown: Vec<String> = cycle.iter().take(SHOWN_MAX).map(id).collect();
                if cycle.len() > SHOWN_MAX {
                    shown.push("..".to_owned());
                }
                shown.extend(cycle.first().map(id));
                Err(PlanError::Cycle {
                    at: cycle.first().copied().unwrap_or_default(),
                    cycle: shown.join(" -> "),
                })
            }
        }
    }

    pub fn len(&self) -> usize {
        self.needs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.needs.is_empty()
    }

    pub(super) fn needs_of(&self, at: usize) -> usize {
        self.needs.get(at).map_or(0, BTreeSet::len)
    }

    pub(super) fn dependents_of(&self, at: usize) -> &[usize] {
        self.dependents.get(at).map_or(&[], Vec::as_slice)
    }

    fn cycle(&self) -> Option<Vec<usize>> {
        let mut open: Vec<usize> = self.needs.iter().map(BTreeSet::len).collect();
        let mut free: Vec<usize> = (0..self.len())
            .filter(|at| self.needs_of(*at) == 0)
            .collect();
        while let Some(at) = free.pop() {
            for dependent in self.dependents_of(at) {
                if let Some(left) = open.get_mut(*dependent) {
                    *left -= 1;
                    if *left == 0 {
                        free.push(*dependent);
                    }
                }
            }
        }
        let is_stuck = |at: usize| open.get(at).is_some_and(|left| *left > 0);
        let mut at = (0..self.len()).find(|at| is_stuck(*at))?;
        let mut path: Vec<usize> = Vec::new();
        // Each stuck call depends on another one, so the path comes back to itself.
        loop {
            if let Some(start) = path.iter().position(|passed| *passed == at) {
                return Some(path.split_off(start));
            }
            path.push(at);
            at = self
                .needs
                .get(at)?
                .iter()
                .copied()
                .find(|need| is_stuck(*need))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(calls: &[(&str, &[&str])]) -> Result<BatchPlan, PlanError> {
        let needs: Vec<Vec<String>> = calls
            .iter()
            .map(|(_, needs)| needs.iter().map(|need| (*need).to_owned()).collect())
            .collect();
        BatchPlan::new(
            calls
                .iter()
                .zip(&needs)
                .map(|((id, _), needs)| (*id, needs.as_slice())),
        )
    }

    #[test]
    fn a_call_may_depend_on_earlier_and_later_ones_and_on_one_twice() {
        let planned = plan(&[("a", &["c", "c"]), ("b", &["a"]), ("c", &[])]).unwrap();
        assert_eq!(planned.needs_of(0), 1);
        assert_eq!(
            (planned.dependents_of(2), planned.dependents_of(0)),
            (&[0][..], &[1][..])
        );
        assert!(plan(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_batch_is_told_with_the_call_at_fault() {
        let long = "x".repeat(ID_BYTES_MAX + 1);
        type Calls<'a> = &'a [(&'a str, &'a [&'a str])];
        let cases: [(Calls, usize, &str); 6] = [
            (&[("a", &[]), ("a", &[])], 1, "two calls have the id \"a\""),
            (
                &[("a", &[]), ("b", &["a", "x\u{1b}"])],
                1,
                "depends on \"x\\u{1b}\", which is not a call",
            ),
            (&[("", &[])], 0, "1 to 256 bytes, and this one has 0"),
            (&[(&long, &[])], 0, "and this one has 257"),
            (&[("a", &["a"])], 0, "none could start: \"a\" -> \"a\""),
            (
                &[
                    ("x", &["a"]),
                    ("a", &["b"]),
                    ("b", &["c"]),
                    ("c", &["a", "d"]),
                    ("d", &[]),
                ],
                1,
                "\"a\" -> \"b\" -> \"c\" -> \"a\"",
            ),
        ];
        for (calls, at, message) in cases {
            let error = plan(calls).unwrap_err();
            assert_eq!(error.at(), at, "{error}");
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn a_batch_has_at_most_a_thousand_calls() {
        let ids: Vec<String> = (0..=CALLS_MAX).map(|n| n.to_string()).collect();
        let of =
            |count: usize| BatchPlan::new(ids.iter().take(count).map(|id| (id.as_str(), &[][..])));
        assert_eq!(of(CALLS_MAX).unwrap().len(), CALLS_MAX);
        assert_eq!(
            of(CALLS_MAX + 1).unwrap_err(),
            PlanError::TooManyCalls { at: CALLS_MAX }
        );
    }
}
