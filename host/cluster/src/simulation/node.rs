//! A process of the cluster: the protocol's own functions over the world's store and queue.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use toolcell_spec::AbortReason;

use super::check::result;
use super::stands;
use super::world::{Answer, Disturbance, Event, LEASE, Request, World, trace};
use crate::claim::{Claim, Holder, UnixMillis};
use crate::gateway::{SubmitError, cancel, follow, submit};
use crate::hold::Hold;
use crate::store::{
    ClaimEntry, ClaimStore, Delivery, PublishError, Revision, Unavailable, WriteError,
};
use crate::sweeper::{Sweeper, sweep};
use crate::worker::{Run, RunOutcome, work};

#[derive(Clone)]
pub(super) struct Node {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) process: usize,
    pub(super) is_sweeper: bool,
}

/// Until the world answers.
struct Reply {
    world: Arc<Mutex<World>>,
    slot: usize,
}

impl Future for Reply {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut world = self.world.lock().unwrap();
        let slot = &mut world.slots[self.slot];
        match slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// `c0` is the first call.
fn index(call: &str) -> usize {
    call[1..].parse().unwrap()
}

fn question(text: &[u8]) -> &'static str {
    match text {
        b"ask" => "ask",
        _ => "other",
    }
}

fn unknown() -> Unavailable {
    Unavailable("no answer".to_owned())
}

fn written(answer: Answer) -> Result<Revision, WriteError> {
    match answer {
        Answer::Written(revision) => Ok(revision),
        Answer::Conflict => Err(WriteError::Conflict),
        _ => Err(WriteError::Unknown(unknown())),
    }
}

impl Node {
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn reply(&self, slot: usize) -> Reply {
        let world = Arc::clone(&self.world);
        Reply { world, slot }
    }

    /// Sends when it is polled first, as a client does.
    async fn ask(&self, request: Request) -> Answer {
        let slot = self.world().send(self.process, self.is_sweeper, request);
        self.reply(slot).await
    }

    pub(super) async fn wait(&self, milliseconds: u64) {
        self.sleep(Duration::from_millis(milliseconds)).await;
    }

    fn pick(&self, range: std::ops::Range<u64>) -> u64 {
        self.world().rng.u64(range)
    }
}

impl ClaimStore for Node {
    async fn read(&self, call: &str) -> Result<Option<ClaimEntry>, Unavailable> {
        match self.ask(Request::Read(index(call))).await {
            Answer::Entry(entry) => Ok(entry),
            _ => Err(unknown()),
        }
    }

    async fn create(&self, call: &str, claim: &Claim) -> Result<Revision, WriteError> {
        let request = Request::Create(index(call), claim.clone());
        written(self.ask(request).await)
    }

    async fn update(
        &self,
        call: &str,
        claim: &Claim,
        revision: Revision,
    ) -> Result<Revision, WriteError> {
        let request = Request::Update(index(call), claim.clone(), revision);
        written(self.ask(request).await)
    }

    fn heard(&self, call: &str) -> Option<ClaimEntry> {
        self.world().processes[self.process].heard[index(call)].clone()
    }

    async fn changed(&self, call: &str, seen: Revision) -> Option<ClaimEntry> {
        let slot = self.world().wait(self.process, index(call), seen);
        match self.reply(slot).await {
            Answer::Entry(later) => later,
            _ => None,
        }
    }

    async fn publish(&self, call: &str, text: &[u8]) -> Result<(), PublishError> {
        let request = Request::Publish(index(call), question(text));
        match self.ask(request).await {
            Answer::Done => Ok(()),
            Answer::Conflict => Err(PublishError::Full),
            _ => Err(PublishError::Unknown(unknown())),
        }
    }

    async fn sleep(&self, time: Duration) {
        let slot = {
            let mut world = self.world();
            let slot = world.slot();
            let at = world.now + time.as_millis() as u64;
            world.at(at, Event::Answer(slot, Answer::Done));
            slot
        };
        self.reply(slot).await;
    }

    fn now(&self) -> UnixMillis {
        self.world().clock(self.process)
    }
}

struct QueueDelivery<'n> {
    node: &'n Node,
    message: usize,
}

impl Delivery for QueueDelivery<'_> {
    async fn done(&self) {
        self.node.ask(Request::Done(self.message)).await;
    }

    async fn again(&self, after: Duration) {
        let after = after.as_millis() as u64;
        self.node.ask(Request::Again(self.message, after)).await;
    }

    async fn at_work(&self) {
        // Not answered.
        let request = Request::AtWork(self.message);
        self.node.world().send(self.node.process, false, request);
    }
}

/// How a worker runs a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    pub(super) is_here: bool,
    /// Until the worker has decided.
    pub(super) decides: u64,
    pub(super) runs: u64,
    pub(super) changes: bool,
    /// It ends its worker.
    pub(super) is_deadly: bool,
}

struct GuardedRun<'n> {
    node: &'n Node,
    call: usize,
    question: &'static str,
    guest: Guest,
}

impl Run<Node> for GuardedRun<'_> {
    async fn run(self, hold: &Hold<'_, Node>, _: &Claim) -> RunOutcome {
        let end = RunOutcome::End(result(hold.holder(), self.question));
        tokio::select! {
            biased;
            () = self.node.wait(self.guest.decides) => {}
            _ = hold.canceled() => return end,
        }
        if !self.guest.is_here {
            return RunOutcome::NotHere;
        }
        let changes = self.guest.changes;
        if hold.start(changes).await.is_err() {
            return end;
        }
        {
            let mut world = self.node.world();
            trace!(world, "{:?} begins, changes: {changes}", hold.holder());
            world.check_begin(self.call, hold.holder(), (self.question, changes));
            if self.guest.is_deadly {
                let (at, until) = (world.now + 1, world.now + 500);
                let crash = Disturbance::Crash(self.node.process, until);
                world.at(at, Event::Disturb(crash));
            }
        }
        tokio::select! {
            biased;
            () = self.node.wait(self.guest.runs) => {
                self.node.world().check_ran(self.call, hold.holder());
            }
            _ = hold.canceled() => {}
        }
        end
    }
}

pub(super) async fn worker(node: Node, message: usize, guest: Guest) {
    let (call, question, attempt) = {
        let mut world = node.world();
        world.attempts += u32::from(stands("attempt_ids"));
        let message = &world.messages[message];
        (message.call, message.question, world.attempts)
    };
    let holder = Holder {
        worker: node.process.to_string(),
        attempt: attempt.to_string(),
    };
    let mine = result(&holder, question);
    let delivery = QueueDelivery {
        node: &node,
        message,
    };
    let run = GuardedRun {
        node: &node,
        call,
        question,
        guest,
    };
    let name = format!("c{call}");
    let outcome = work(&node, &delivery, (&name, question), holder, LEASE, run).await;
    let mut world = node.world();
    trace!(world, "attempt {attempt} is over: {outcome:?}");
    if let Ok(outcome) = outcome {
        world.check_outcome(call, &mine, &outcome);
    }
}

/// A caller of a gateway, who asks until the cluster answers.
pub(super) async fn client(node: Node, call: usize, claim: Claim, begin: u64) {
    node.wait(begin).await;
    let name = format!("c{call}");
    loop {
        match submit(&node, &name, &claim, claim.request.as_bytes()).await {
            Ok(seen) => {
                node.world().check_submitted(call, &claim.request);
                let end = follow(&node, &name, seen).await;
                let mut world = node.world();
                trace!(world, "p{} has followed {name}: {end:?}", node.process);
                return world.check_followed(call, &claim.request, end.as_ref());
            }
            Err(SubmitError::Unanswered(seen)) => {
                let end = follow(&node, &name, *seen).await;
                let mut world = node.world();
                return world.check_followed(call, &claim.request, end.as_ref());
            }
            Err(SubmitError::OtherRequest) => {
                return node.world().check_refused(call, &claim.request);
            }
            Err(SubmitError::QueueFull | SubmitError::Unavailable(_)) => {
                if node.world().chance(30) {
                    return;
                }
                let pause = node.pick(100..5_000);
                node.wait(pause).await;
            }
        }
    }
}

pub(super) async fn canceler(node: Node, call: usize, begin: u64) {
    node.wait(begin).await;
    cancel(&node, &format!("c{call}"), AbortReason::UserInterruption).await;
}

pub(super) async fn sweeper(node: Node) {
    let mut sweeper = Sweeper::new(LEASE);
    let mut open = BTreeSet::new();
    loop {
        let pause = node.pick(1_000..2_000);
        node.wait(pause).await;
        let at = {
            let mut world = node.world();
            let at = Duration::from_millis(world.now);
            for (call, entry) in std::mem::take(&mut world.processes[node.process].notices) {
                let name = format!("c{call}");
                if entry.claim.end().is_some() {
                    open.remove(&name);
                } else {
                    open.insert(name.clone());
                }
                sweeper.see(&name, entry, at);
            }
            at
        };
        let Some(one) = open.first() else {
            continue;
        };
        // A store that does not answer did not hear the workers either.
        if node.read(one).await.is_err() {
            let now = Duration::from_millis(node.world().now);
            sweeper.restart(now);
            continue;
        }
        let due = sweeper.due(at, node.now());
        for (call, entry) in sweep(&node, due).await {
            sweeper.see(&call, entry, at);
        }
    }
}
