//! The output order of a batch's progress and results.

use std::collections::{BTreeMap, VecDeque};

use super::YieldPolicy;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutletItem<E, R> {
    Event(usize, E),
    End(usize, R),
}

/// Pending output, bounded because a batch and each call's events and result are.
#[derive(Debug)]
pub struct BatchOutlet<E, R> {
    yields: YieldPolicy,
    next: usize,
    held: BTreeMap<usize, (Vec<E>, Option<R>)>,
    ready: VecDeque<OutletItem<E, R>>,
}

impl<E, R> BatchOutlet<E, R> {
    pub fn new(yields: YieldPolicy) -> Self {
        Self {
            yields,
            next: 0,
            held: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    pub fn event(&mut self, at: usize, event: E) {
        if self.yields != YieldPolicy::AllOrdered || at <= self.next {
            self.ready.push_back(OutletItem::Event(at, event));
        } else {
            self.held(at).0.push(event);
        }
    }

    pub fn end(&mut self, at: usize, end: R) {
        if self.yields == YieldPolicy::UnorderedStreaming {
            self.ready.push_back(OutletItem::End(at, end));
            return;
        }
        self.held(at).1 = Some(end);
        while let Some((events, end)) = self.held.get_mut(&self.next) {
            let next = self.next;
            let events = events.drain(..).map(|event| OutletItem::Event(next, event));
            self.ready.extend(events);
            let Some(end) = end.take() else { break };
            self.ready.push_back(OutletItem::End(self.next, end));
            self.held.remove(&self.next);
            self.next += 1;
        }
    }

    pub fn take(&mut self) -> Option<OutletItem<E, R>> {
        self.ready.pop_front()
    }

    fn held(&mut self, at: usize) -> &mut (Vec<E>, Option<R>) {
        self.held.entry(at).or_insert_with(|| (Vec::new(), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outputs when call 1 is faster than call 0: `+1` for progress, `=1` for the end.
    fn handed_out(yields: YieldPolicy) -> [String; 7] {
        let mut outlet: BatchOutlet<(), ()> = BatchOutlet::new(yields);
        ["+0", "+1", "=1", "+2", "+0", "=0", "=2"].map(|step| {
            let at = step[1..].parse().unwrap();
            if step.starts_with('+') {
                outlet.event(at, ())
            } else {
                outlet.end(at, ())
            }
            let given = std::iter::from_fn(|| outlet.take()).map(|given| match given {
                OutletItem::Event(at, ()) => format!("+{at}"),
                OutletItem::End(at, ()) => format!("={at}"),
            });
            given.collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn each_policy_has_its_order() {
        use YieldPolicy::*;
        assert_eq!(
            handed_out(ProgressImmediateResultsOrdered),
            ["+0", "+1", "", "+2", "+0", "=0 =1", "=2"]
        );
        assert_eq!(
            handed_out(AllOrdered),
            ["+0", "", "", "", "+0", "=0 +1 =1 +2", "=2"]
        );
        assert_eq!(
            handed_out(UnorderedStreaming),
            ["+0", "+1", "=1", "+2", "+0", "=0", "=2"]
        );
    }
}
