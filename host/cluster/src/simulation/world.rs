//! The servers and the network between them and the processes: requests that travel, a bucket with revisions, a queue that
//! delivers at least once. What goes wrong, the seed chose.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use super::check::Call;
use super::stands;
use crate::claim::{Claim, LeaseTerms, UnixMillis};
use crate::store::{ClaimEntry, Revision};

/// Milliseconds since the schedule began.
pub(super) type Time = u64;

pub(super) const LEASE: LeaseTerms = LeaseTerms {
    time: std::time::Duration::from_secs(10),
    claims_max: 3,
};
pub(super) const LEASE_TIME: Time = 10_000;
/// A request without an answer for so long is given up by its sender.
pub(super) const TIMEOUT: Time = 2_000;
/// A delivery that nobody answers comes again.
const ACK_WAIT: Time = 11_000;
/// The time on the clocks of all processes when a schedule begins.
pub(super) const BEGIN: UnixMillis = 1_000_000;

/// In percent, until `until`.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) until: Time,
    pub(super) lost_requests: u8,
    pub(super) lost_answers: u8,
    /// Writes that the store applies after their sender gave them up.
    pub(super) late_writes: u8,
    pub(super) slow: u8,
    /// Deliveries that come twice.
    pub(super) doubled: u8,
    /// Questions that the queue refuses.
    pub(super) full_queue: u8,
    /// Notices of a change that come late.
    pub(super) late_notices: u8,
    /// Workers that stop when they write.
    pub(super) stops: u8,
    /// In which ways a process stops, as bits.
    pub(super) kinds: u8,
}

#[derive(Debug)]
pub(super) enum Request {
    Read(usize),
    Create(usize, Claim),
    Update(usize, Claim, Revision),
    Publish(usize, &'static str),
    Done(usize),
    Again(usize, Time),
    AtWork(usize),
}

pub(super) struct SentMessage {
    pub(super) process: usize,
    /// By the sweeper of the process.
    pub(super) by_sweeper: bool,
    pub(super) at: Time,
    /// The time on the sender's clock.
    pub(super) clock: UnixMillis,
    request: Request,
    slot: usize,
    has_answer: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Entry(Option<ClaimEntry>),
    Written(Revision),
    Conflict,
    Done,
    Unknown,
}

/// Where a future waits for its answer.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) answer: Option<Answer>,
    pub(super) waker: Option<Waker>,
}

pub(super) struct Reply {
    process: usize,
    slot: usize,
    answer: Answer,
    /// When the request was sent.
    sent: Time,
}

pub(super) enum Event {
    Arrive(Box<SentMessage>),
    Answer(usize, Answer),
    /// An answer on its way back.
    Reply(Box<Reply>),
    Notice(usize, usize, ClaimEntry),
    Deliver(usize, u32),
    /// For the schedule: what the world does not know.
    Disturb(Disturbance),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Disturbance {
    Delivery {
        worker: usize,
        message: usize,
    },
    Crash(usize, Time),
    Restart(usize),
    Pause(usize, Time),
    Resume(usize),
    /// Nothing reaches the process until then, and nothing from it arrives.
    Cut(usize, Time),
    /// No server answers anybody until then.
    Silence(Time),
}

impl Disturbance {
    /// When nothing is left of it.
    pub(super) fn ends(self, now: Time) -> Time {
        match self {
            Self::Delivery { .. } => 0,
            Self::Restart(_) | Self::Resume(_) => now,
            Self::Crash(_, until)
            | Self::Pause(_, until)
            | Self::Cut(_, until)
            | Self::Silence(until) => until,
        }
    }
}

struct Due {
    at: Time,
    /// Among events of one time, the seed decides.
    order: u32,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) call: usize,
    pub(super) question: &'static str,
    pub(super) is_there: bool,
    /// Counts the times at which it was to be delivered; an older one is void.
    turn: u32,
}

#[derive(Default)]
pub(super) struct Process {
    pub(super) is_worker: bool,
    pub(super) is_up: bool,
    pub(super) is_paused: bool,
    pub(super) cut_until: Time,
    /// Of its clock.
    pub(super) skew: UnixMillis,
    /// When it last failed, or the network to it.
    pub(super) trouble: Option<Time>,
    /// Not yet read by its sweeper.
    pub(super) notices: Vec<(usize, ClaimEntry)>,
    last_notice: Time,
    /// The last value by call.
    pub(super) heard: Vec<Option<ClaimEntry>>,
    waiting: Vec<(usize, Revision, usize)>,
}

pub(super) struct World {
    pub(super) rng: fastrand::Rng,
    pub(super) now: Time,
    pub(super) faults: Faults,
    pub(super) processes: Vec<Process>,
    pub(super) calls: Vec<Call>,
    pub(super) messages: Vec<Message>,
    pub(super) slots: Vec<Slot>,
    pub(super) silent_until: Time,
    /// Of the last fault that lasted.
    pub(super) calm_since: Time,
    pub(super) violation: Option<String>,
    pub(super) is_traced: bool,
    /// Every worker can run the calls.
    pub(super) is_complete: bool,
    /// Requests on their way.
    pub(super) travelling: usize,
    pub(super) attempts: u32,
    pub(super) events: u64,
    due: BinaryHeap<Reverse<Due>>,
    revision: Revision,
}

macro_rules! trace {
    ($world:expr, $($text:tt)*) => {
        if $world.is_traced {
            println!("{:>8} {}", $world.now, format_args!($($text)*));
        }
    };
}
pub(super) use trace;

impl World {
    pub(super) fn new(seed: u64, is_traced: bool) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            now: 0,
            faults: Faults::default(),
            processes: Vec::new(),
            calls: Vec::new(),
            messages: Vec::new(),
            slots: Vec::new(),
            silent_until: 0,
            calm_since: 0,
            violation: None,
            is_traced,
            is_complete: true,
            travelling: 0,
            attempts: 0,
            events: 0,
            due: BinaryHeap::new(),
            revision: 0,
        }
    }

    pub(super) fn add_process(&mut self, is_worker: bool, skew: UnixMillis) {
        self.processes.push(Process {
            is_worker,
            is_up: true,
            skew,
            heard: vec![None; self.calls.len()],
            ..Process::default()
        });
    }

    pub(super) fn chance(&mut self, percent: u8) -> bool {
        percent > 0 && self.rng.u8(..100) < percent
    }

    /// As `chance`, while faults happen.
    fn fault(&mut self, percent: u8) -> bool {
        self.now < self.faults.until && self.chance(percent)
    }

    pub(super) fn clock(&self, process: usize) -> UnixMillis {
        BEGIN + self.now + self.processes[process].skew
    }

    pub(super) fn at(&mut self, at: Time, event: Event) {
        let order = self.rng.u32(..);
        self.due.push(Reverse(Due { at, order, event }));
    }

    /// The next event, whose time it now is.
    pub(super) fn next(&mut self) -> Option<Event> {
        let Reverse(due) = self.due.pop()?;
        self.now = due.at;
        self.events += 1;
        Some(due.event)
    }

    pub(super) fn slot(&mut self) -> usize {
        self.slots.push(Slot::default());
        self.slots.len() - 1
    }

    fn travel(&mut self) -> Time {
        let slow = self.faults.slow;
        if self.fault(slow) {
            self.rng.u64(20..1_500)
        } else {
            self.rng.u64(1..20)
        }
    }

    /// Stops the process in one of the ways `kinds`, if that is the way the seed chooses.
    pub(super) fn stop_at(&mut self, at: Time, process: usize, kinds: u8) {
        let time = [500, 20_000, 40_000][self.rng.usize(..3)];
        let until = at + self.rng.u64(1..time);
        let kind = self.rng.u8(..3);
        if kinds & (1 << kind) == 0 {
            return;
        }
        let disturbance = match kind {
            0 => Disturbance::Crash(process, until),
            1 => Disturbance::Pause(process, until),
            _ => Disturbance::Cut(process, until),
        };
        self.at(at, Event::Disturb(disturbance));
    }

    /// Sends a request; its answer comes to the slot.
    pub(super) fn send(&mut self, process: usize, by_sweeper: bool, request: Request) -> usize {
        let slot = self.slot();
        let is_write = matches!(
            request,
            Request::Create(..) | Request::Update(..) | Request::Publish(..)
        );
        let faults = self.faults.clone();
        if is_write && self.processes[process].is_worker && self.fault(faults.stops) {
            let at = self.now + self.rng.u64(..30);
            self.stop_at(at, process, faults.kinds);
        }
        let is_late = is_write && !self.is_cut(process) && self.fault(faults.late_writes);
        let is_cut = self.is_cut(process) && self.now >= self.silent_until;
        let is_lost = is_cut || !is_late && self.fault(faults.lost_requests);
        let has_answer = !is_late && !is_lost && !self.fault(faults.lost_answers);
        let mut arrival = self.now + self.travel();
        if !has_answer {
            self.processes[process].trouble = Some(self.now);
            let given_up = self.now + self.rng.u64(1..TIMEOUT);
            if is_late {
                let most = [300, 3_000, 25_000][self.rng.usize(..3)];
                arrival = given_up + self.rng.u64(..most);
            }
            self.at(given_up, Event::Answer(slot, Answer::Unknown));
        }
        trace!(
            self,
            "p{process}{} sends {request:?}{}",
            if by_sweeper { " (sweeper)" } else { "" },
            match (is_late, is_lost, has_answer) {
                (true, ..) => ", which will be late",
                (_, true, _) => ", which is lost",
                (.., false) => ", whose answer is lost",
                _ => "",
            }
        );
        if !is_lost {
            self.travelling += 1;
            let sent = SentMessage {
                process,
                by_sweeper,
                at: self.now,
                clock: self.clock(process),
                request,
                slot,
                has_answer,
            };
            self.at(arrival, Event::Arrive(Box::new(sent)));
        }
        slot
    }

    pub(super) fn arrive(&mut self, sent: SentMessage) {
        self.travelling -= 1;
        if !sent.has_answer {
            self.processes[sent.process].trouble = Some(self.now);
        }
        let is_cut = self.is_cut(sent.process);
        if is_cut && sent.has_answer {
            self.processes[sent.process].trouble = Some(self.now);
        }
        if self.now < self.silent_until || is_cut && sent.has_answer {
            let given_up = self.now.max(sent.at + TIMEOUT);
            if sent.has_answer {
                self.at(given_up, Event::Answer(sent.slot, Answer::Unknown));
            }
            return;
        }
        let answer = self.apply(&sent);
        trace!(
            self,
            "p{}: {:?} gives {answer:?}", sent.process, sent.request
        );
        if sent.has_answer {
            let at = self.now + self.travel();
            let reply = Reply {
                process: sent.process,
                slot: sent.slot,
                answer,
                sent: sent.at,
            };
            self.at(at, Event::Reply(Box::new(reply)));
        }
    }

    fn apply(&mut self, sent: &SentMessage) -> Answer {
        match &sent.request {
            // Only the leader's values are the latest ones.
            Request::Read(call) if !stands("store_leader") && self.chance(10) => {
                Answer::Entry(self.calls[*call].before.clone())
            }
            Request::Read(call) => Answer::Entry(self.calls[*call].entry.clone()),
            Request::Create(call, claim) => match self.calls[*call].entry {
                Some(_) => Answer::Conflict,
                None => self.write(*call, claim, sent),
            },
            Request::Update(call, claim, revision) => match &self.calls[*call].entry {
                Some(entry) if entry.revision == *revision || !stands("store_revision") => {
                    self.write(*call, claim, sent)
                }
                _ => Answer::Conflict,
            },
            Request::Publish(call, question) => {
                let full = self.faults.full_queue;
                if self.fault(full) {
                    return Answer::Conflict;
                }
                self.publish(*call, question);
                Answer::Done
            }
            Request::Done(message) => {
                self.check_done(*message);
                self.messages[*message].is_there = false;
                Answer::Done
            }
            Request::Again(message, after) => self.deliver_in(*message, *after),
            Request::AtWork(message) => self.deliver_in(*message, ACK_WAIT),
        }
    }

    pub(super) fn publish(&mut self, call: usize, question: &'static str) {
        if self.calls[call].is_for(question) {
            self.calls[call].published.get_or_insert(self.now);
        }
        self.messages.push(Message {
            call,
            question,
            is_there: true,
            turn: 0,
        });
        self.deliver_in(self.messages.len() - 1, 1);
    }

    fn write(&mut self, call: usize, claim: &Claim, sent: &SentMessage) -> Answer {
        self.check_write(call, claim, sent);
        self.revision += 1;
        let entry = ClaimEntry {
            claim: claim.clone(),
            revision: self.revision,
        };
        for process in 0..self.processes.len() {
            self.notify(process, call, entry.clone());
        }
        let latest = &mut self.calls[call].entry;
        let before = latest.replace(entry);
        self.calls[call].before = before;
        Answer::Written(self.revision)
    }

    /// A notice, after those before it.
    pub(super) fn notify(&mut self, process: usize, call: usize, entry: ClaimEntry) {
        let late = self.faults.late_notices;
        let mut at = self.now + self.travel();
        if self.fault(late) {
            at += self.rng.u64(..15_000);
        }
        let at = at.max(self.processes[process].last_notice + 1);
        self.processes[process].last_notice = at;
        self.at(at, Event::Notice(process, call, entry));
    }

    pub(super) fn notice(&mut self, process: usize, call: usize, entry: ClaimEntry) {
        let until = self.silent_until.max(self.processes[process].cut_until);
        if self.now < until {
            self.at(until, Event::Notice(process, call, entry));
            return;
        }
        let one = &mut self.processes[process];
        if !one.is_up {
            return;
        }
        one.notices.push((call, entry.clone()));
        let heard = &mut one.heard[call];
        if heard
            .as_ref()
            .is_none_or(|heard| heard.revision < entry.revision)
        {
            *heard = Some(entry.clone());
        }
        let mut told = Vec::new();
        one.waiting.retain(|&(of, since, slot)| {
            let is_told = of == call && since < entry.revision;
            if is_told {
                told.push(slot);
            }
            !is_told
        });
        for slot in told {
            self.answer(slot, Answer::Entry(Some(entry.clone())));
        }
    }

    /// Waits in `slot` for a revision after `since`.
    pub(super) fn wait(&mut self, process: usize, call: usize, since: Revision) -> usize {
        let slot = self.slot();
        let heard = self.processes[process].heard[call].clone();
        match heard.filter(|heard| heard.revision > since) {
            Some(later) => self.slots[slot].answer = Some(Answer::Entry(Some(later))),
            None => self.processes[process].waiting.push((call, since, slot)),
        }
        slot
    }

    /// A process knows nothing, and begins to watch.
    pub(super) fn begin_to_watch(&mut self, process: usize) {
        self.processes[process].notices.clear();
        self.processes[process].waiting.clear();
        self.processes[process].heard.fill(None);
        for call in 0..self.calls.len() {
            if let Some(entry) = self.calls[call].entry.clone() {
                self.notify(process, call, entry);
            }
        }
    }

    fn deliver_in(&mut self, message: usize, after: Time) -> Answer {
        self.messages[message].turn += 1;
        let turn = self.messages[message].turn;
        if self.messages[message].is_there {
            self.at(self.now + after, Event::Deliver(message, turn));
        }
        Answer::Done
    }

    /// Gives the message to a worker, dead ones included: the queue does not know.
    pub(super) fn deliver(&mut self, message: usize, turn: u32) {
        let one = &self.messages[message];
        if !one.is_there || one.turn != turn {
            return;
        }
        if self.now < self.silent_until {
            self.at(self.silent_until, Event::Deliver(message, turn));
            return;
        }
        let doubled = self.faults.doubled;
        for _ in 0..=usize::from(self.fault(doubled)) {
            let workers = self.processes.iter().filter(|one| one.is_worker).count();
            let nth = self.rng.usize(..workers);
            let worker = self.processes.len() - workers + nth;
            let at = self.now + self.travel();
            let delivery = Disturbance::Delivery { worker, message };
            self.at(at, Event::Disturb(delivery));
        }
        self.deliver_in(message, ACK_WAIT);
    }

    pub(super) fn reply(&mut self, reply: Reply) {
        let is_cut = self.is_cut(reply.process);
        if is_cut {
            self.processes[reply.process].trouble = Some(self.now);
        }
        if self.now < self.silent_until || is_cut {
            let given_up = self.now.max(reply.sent + TIMEOUT);
            self.at(given_up, Event::Answer(reply.slot, Answer::Unknown));
        } else {
            self.answer(reply.slot, reply.answer);
        }
    }

    pub(super) fn is_cut(&self, process: usize) -> bool {
        self.now < self.processes[process].cut_until
    }

    pub(super) fn answer(&mut self, slot: usize, answer: Answer) {
        let slot = &mut self.slots[slot];
        slot.answer.get_or_insert(answer);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}
