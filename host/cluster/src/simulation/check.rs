//! The promises of the protocol, checked at each write, each begin of a guest and each answer.
//!
//! - The end of a call never changes, and everybody who asks gets it, for the request that was accepted.
//! - A call that was created ends: by its result, or by the sweeper.
//! - Without `retry`, a guest that may have an effect begins at most once, and no other guest begins after it. Other guests
//!   may run twice, at the same time too; one result counts.
//! - A guest begins while its attempt has the call, and not after a cancellation. Between the last look at the clock and the
//!   guest's first instruction, a process can be stopped for longer than the lease: nothing prevents that. Here, no task is
//!   stopped between two awaits.
//! - The question leaves the queue after the call ended.
//! - An attempt whose process and network work keeps its call.
//! - A canceled call ends soon, a worker that lost its call stops soon, and a call in the queue does not wait for its deadline
//!   while a worker could take it.
//! - An end that says that nothing happened is true: no guest that may have an effect was started.

use super::world::{BEGIN, LEASE, LEASE_TIME, SentMessage, Time, World};
use crate::claim::{CallEnd, Claim, Holder, Stage};
use crate::store::ClaimEntry;
use crate::worker::WorkOutcome;

/// Between a fault and what it leaves undone.
const ECHO: Time = 3_000;
/// Until a worker knows that its call was canceled or lost: a quarter of the lease, and slow requests.
const SOON: Time = 13_000;
/// Until a call whose last worker was lost has another: the lease, and the time until the question is delivered again.
const PATIENCE: Time = 40_000;

#[derive(Default)]
pub(super) struct Call {
    pub(super) entry: Option<ClaimEntry>,
    /// The value before that.
    pub(super) before: Option<ClaimEntry>,
    /// When its worker last changed it.
    heard: Time,
    pub(super) published: Option<Time>,
    canceled: Option<Time>,
    ended: Option<Time>,
    may_have_changed: bool,
    begun: Vec<(Holder, bool)>,
    lost: u32,
}

impl Call {
    /// The question is the accepted request's.
    pub(super) fn is_for(&self, question: &str) -> bool {
        let entry = self.entry.as_ref();
        entry.is_some_and(|entry| entry.claim.request == question)
    }

    fn end(&self) -> Option<&CallEnd> {
        self.entry.as_ref()?.claim.end()
    }
}

/// The digest that names the result of one attempt.
pub(super) fn result(holder: &Holder, question: &str) -> CallEnd {
    CallEnd::Result {
        worker: holder.worker.clone(),
        digest: format!("{} {question}", holder.attempt),
        inline: None,
    }
}

impl World {
    pub(super) fn must(&mut self, holds: bool, promise: &str) {
        if !holds && self.violation.is_none() {
            self.violation = Some(promise.to_owned());
        }
    }

    /// Before `next` is written.
    pub(super) fn check_write(&mut self, call: usize, next: &Claim, sent: &SentMessage) {
        let Some(entry) = self.calls[call].entry.take() else {
            return;
        };
        let last = &entry.claim;
        let holds = last.end().is_none() || last == next;
        self.must(holds, "the end of a call does not change");
        let same = (&last.request, last.deadline, last.retry);
        let holds = same == (&next.request, next.deadline, next.retry);
        self.must(holds, "the request of a call does not change");
        let holds = last.cancel.is_none() || last.cancel == next.cancel;
        self.must(holds, "a cancellation counts until the call ends");
        if last.end().is_none() {
            self.check_step(call, last, next, sent);
            if next.cancel.is_some() && last.cancel.is_none() {
                self.calls[call].canceled = Some(self.now);
            }
            if next.end().is_some() {
                self.calls[call].ended = Some(self.now);
                self.check_wait(call, last, next);
            }
            if !sent.by_sweeper && self.processes[sent.process].is_worker {
                self.calls[call].heard = self.now;
            }
            if sent.by_sweeper {
                self.check_lost(call, last, next, sent);
            }
        }
        self.calls[call].entry = Some(entry);
    }

    fn check_step(&mut self, call: usize, last: &Claim, next: &Claim, sent: &SentMessage) {
        match &next.stage {
            Stage::Queued => {
                self.must(next.cancel.is_none(), "a canceled call does not wait");
            }
            Stage::Claimed { holder } => {
                if last.stage == Stage::Queued {
                    let holds = sent.clock < next.deadline;
                    self.must(holds, "a call is not claimed after its deadline");
                } else {
                    let holds = last.stage == next.stage && last.holder() == Some(holder);
                    self.must(holds, "a call is claimed when nobody has it");
                }
            }
            Stage::Started { holder, changes } => {
                let holds = last.holder() == Some(holder);
                self.must(holds, "who has claimed a call starts it");
                if last.stage != next.stage {
                    let holds = last.cancel.is_none();
                    self.must(holds, "a canceled call does not start");
                }
                let one = &mut self.calls[call];
                one.may_have_changed |= changes;
            }
            Stage::Ended { end } => self.check_end(call, last, end),
        }
    }

    fn check_end(&mut self, call: usize, last: &Claim, end: &CallEnd) {
        match end {
            CallEnd::Result { digest, .. } => {
                let (attempt, question) = digest.split_once(' ').unwrap();
                let holder = last.holder();
                let holds = holder.is_some_and(|holder| holder.attempt == attempt);
                self.must(holds, "who has the call ends it");
                let holds = question == last.request;
                self.must(holds, "a result is that of the request");
            }
            CallEnd::Expired | CallEnd::Canceled { .. } => {
                let holds = !self.calls[call].may_have_changed;
                self.must(
                    holds,
                    "a call that may have had an effect does not end as if not",
                );
                let holds = *end != CallEnd::Expired || last.cancel.is_none();
                self.must(holds, "a canceled call does not expire");
            }
            CallEnd::WorkerLost { .. } => {}
        }
    }

    /// The sweeper takes the call from an attempt.
    fn check_lost(&mut self, call: usize, last: &Claim, next: &Claim, sent: &SentMessage) {
        let Some(holder) = last.holder() else {
            return;
        };
        self.calls[call].lost += 1;
        let lost = self.calls[call].lost;
        let holds = lost <= LEASE.claims_max;
        self.must(holds, "a call does not lose workers without end");
        let is_final = matches!(last.stage, Stage::Started { changes: true, .. }) && !last.retry;
        if let Some(CallEnd::WorkerLost { .. }) = next.end()
            && next.lost.is_none()
        {
            let holds = is_final || lost == LEASE.claims_max;
            self.must(holds, "a call that had no effect gets another worker");
        }
        let heard = self.calls[call].heard;
        let worker: usize = holder.worker.parse().unwrap();
        let holds = self.troubled(worker, heard) || self.troubled(sent.process, heard);
        self.must(holds, "a worker that works keeps its call");
        let holds = self.now >= heard + LEASE_TIME;
        self.must(holds, "a lease lasts");
        let calm = self.calm_since.max(self.faults.until);
        let holds = self.now < heard.max(calm) + PATIENCE;
        self.must(holds, "a worker that is lost loses its call soon");
    }

    /// The process failed, or what it sent, since then.
    fn troubled(&self, process: usize, since: Time) -> bool {
        let one = &self.processes[process];
        let has_failed = one.trouble.is_some_and(|time| time + ECHO >= since);
        has_failed || one.is_paused || !one.is_up || self.is_cut(process)
    }

    /// Nobody waited too long for the end.
    fn check_wait(&mut self, call: usize, last: &Claim, next: &Claim) {
        let one = &self.calls[call];
        if let (Some(canceled), Some(holder)) = (one.canceled, last.holder()) {
            let worker = holder.worker.parse().unwrap();
            let is_soon = self.now < canceled.max(self.silent_until) + SOON;
            let holds = is_soon || self.troubled(worker, canceled.min(one.heard));
            self.must(holds, "a canceled call ends soon");
        }
        let calm = self.calm_since.max(self.faults.until);
        if next.end() == Some(&CallEnd::Expired) {
            let since = (next.deadline - BEGIN)
                .max(calm)
                .max(self.calls[call].heard);
            let holds = self.now < since + PATIENCE;
            self.must(
                holds,
                "a call that nobody takes ends soon after its deadline",
            );
        }
        if let (Some(CallEnd::Expired), Some(published)) = (next.end(), self.calls[call].published)
        {
            let calm = calm.max(published);
            let holds = next.deadline < BEGIN + calm + PATIENCE || !self.is_complete;
            self.must(holds, "a call in the queue gets a worker");
        }
    }

    /// A guest came to its own end.
    pub(super) fn check_ran(&mut self, call: usize, holder: &Holder) {
        let worker: usize = holder.worker.parse().unwrap();
        let Some(ended) = self.calls[call].ended else {
            return;
        };
        let since = ended.max(self.silent_until);
        let holds = self.now < since + SOON || self.troubled(worker, self.now - SOON);
        self.must(holds, "a guest whose call has ended stops soon");
    }

    /// The guest's first instruction.
    pub(super) fn check_begin(&mut self, call: usize, holder: &Holder, run: (&str, bool)) {
        let (question, changes) = run;
        let one = &self.calls[call];
        let claim = &one.entry.as_ref().unwrap().claim;
        let has_it = matches!(&claim.stage, Stage::Started { holder: by, .. } if by == holder);
        let is_asked = claim.request == question;
        let is_retry = claim.retry;
        let is_over = one.begun.iter().any(|(_, changes)| *changes);
        let again = one.begun.iter().any(|(by, _)| by == holder);
        let count = one.begun.len();
        self.must(has_it, "a guest begins when its attempt has the call");
        self.must(is_asked, "a guest gets the accepted request");
        let holds = is_retry || !is_over;
        self.must(
            holds,
            "no guest begins after one that may have had an effect",
        );
        self.must(!again, "an attempt begins once");
        let holds = count < LEASE.claims_max as usize;
        self.must(holds, "a call begins as often as it may be claimed");
        self.calls[call].begun.push((holder.clone(), changes));
    }

    pub(super) fn check_outcome(&mut self, call: usize, mine: &CallEnd, outcome: &WorkOutcome) {
        let holds = *outcome != WorkOutcome::Ended || self.calls[call].end() == Some(mine);
        self.must(holds, "a result that counts is the end of the call");
    }

    /// A delivery is done.
    pub(super) fn check_done(&mut self, message: usize) {
        let message = &self.messages[message];
        let call = &self.calls[message.call];
        let holds = call.end().is_some() || !call.is_for(message.question);
        self.must(holds, "the question stays in the queue until the call ends");
    }

    pub(super) fn check_submitted(&mut self, call: usize, request: &str) {
        let one = &self.calls[call];
        let is_mine = one.is_for(request);
        let is_handed_over = one.published.is_some() || one.end().is_some();
        self.must(is_mine, "another request is refused");
        self.must(is_handed_over, "an accepted call is in the queue");
    }

    pub(super) fn check_refused(&mut self, call: usize, request: &str) {
        let holds = !self.calls[call].is_for(request);
        self.must(holds, "the same request is accepted again");
    }

    pub(super) fn check_followed(&mut self, call: usize, request: &str, end: Option<&CallEnd>) {
        let holds = end.is_some() && end == self.calls[call].end();
        self.must(holds, "who follows a call gets its end");
        let holds = self.calls[call].is_for(request);
        self.must(holds, "no request gets the end of another");
    }

    /// Every call that was created has ended, and no question is left.
    pub(super) fn is_over(&self) -> bool {
        let mut created = self.calls.iter().filter(|call| call.entry.is_some());
        let is_ended = created.all(|call| call.end().is_some());
        is_ended && self.messages.iter().all(|message| !message.is_there)
    }
}
