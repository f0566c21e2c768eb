//! A worker's places: each takes one question at a time, and works on it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolcell_spec::AbortReason;
use ulid::Ulid;

use super::store::{KEY_HEADER, QueueDelivery, SIGNATURE_HEADER};
use super::workers::{Presence, WorkerTool};
use super::{Cluster, resources};
use crate::claim::{CallEnd, Claim, Holder, NotPossible};
use crate::hold::Hold;
use crate::question::{Question, QuestionError, Seal, Spec, digest};
use crate::store::ClaimStore;
use crate::worker::{self, Run, RunOutcome};

/// For so long, a place waits for a question before it asks again. A server that came back knows nothing of what was asked before,
/// and one that does not see that a worker is gone sends it questions for so long.
const WAIT: Duration = Duration::from_secs(5);
/// Before a server that does not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// Before a question is offered to a worker that may know its gateway.
const NEXT: Duration = Duration::from_millis(100);
/// The longest `wait` of a gateway, in milliseconds: no question is to begin later.
const WAIT_MILLIS_MAX: u64 = 5 * 60 * 1_000;
/// Larger records are objects.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// Runs the calls that a worker claimed.
pub trait Runner: Send + Sync + 'static {
    /// Decides about the call and runs it. Dropped if the attempt loses the call.
    fn run(&self, asked: WorkerCall) -> Pin<Box<dyn Future<Output = CallRun> + Send + '_>>;

    /// The tools that this worker has now.
    fn tools(&self) -> Vec<WorkerTool>;
}

/// A claimed call.
pub struct WorkerCall {
    pub question: Question,
    /// The `CallSpec`, as JSON.
    pub spec: Vec<u8>,
    pub epoch: u32,
    /// Asked before the guest's first instruction, which waits for the answer.
    pub starts: mpsc::Sender<StartRequest>,
    /// Events as JSON, for the gateway.
    pub events: mpsc::UnboundedSender<Vec<u8>>,
    /// The caller wants no result any more.
    pub canceled: oneshot::Receiver<AbortReason>,
}

pub struct StartRequest {
    /// The permit allows a lasting effect.
    pub changes: bool,
    /// An error: the guest must not run.
    pub may_start: oneshot::Sender<Result<(), NotPossible>>,
}

pub enum CallRun {
    /// The record of the call, as JSON.
    Record(Vec<u8>),
    /// This worker cannot run it, as without its component.
    NotHere,
}

impl Cluster {
    /// Takes questions of `gateways`, whose public nkeys these are, at most `places` at once, until `stop`; calls that run
    /// then are waited for. `older` is a connection with the protocol before, whose calls are taken, too: while machines are
    /// upgraded.
    pub async fn work(
        self: &Arc<Self>,
        older: Option<&Arc<Self>>,
        places: usize,
        gateways: Arc<[String]>,
        runner: Arc<dyn Runner>,
        stop: CancellationToken,
    ) {
        let presence = Arc::new(Presence {
            places,
            busy: AtomicUsize::new(0),
        });
        let gone = CancellationToken::new();
        let shown = tokio::spawn({
            let cluster = Arc::clone(self);
            let (presence, runner) = (Arc::clone(&presence), Arc::clone(&runner));
            let (stop, gone) = (stop.clone(), gone.clone());
            async move {
                let tools = || runner.tools();
                cluster.show(&presence, tools, (&stop, &gone)).await;
            }
        });
        let mut taking = JoinSet::new();
        for cluster in std::iter::once(self).chain(older) {
            for _ in 0..places {
                let cluster = Arc::clone(cluster);
                let gateways = Arc::clone(&gateways);
                let runner = Arc::clone(&runner);
                let (stop, presence) = (stop.clone(), Arc::clone(&presence));
                taking.spawn(async move {
                    let busy = &presence.busy;
                    cluster.place(&gateways, (&*runner, busy), &stop).await;
                });
            }
        }
        while taking.join_next().await.is_some() {}
        gone.cancel();
        let _ = shown.await;
    }

    async fn place(
        &self,
        gateways: &[String],
        (runner, busy): (&dyn Runner, &AtomicUsize),
        stop: &CancellationToken,
    ) {
        while !stop.is_cancelled() {
            let mut taking = pin!(self.take());
            let taken = tokio::select! {
                taken = &mut taking => taken,
                () = stop.cancelled() => {
                    // What was on its way is for another worker, at once.
                    let late = tokio::time::timeout(PAUSE, taking).await;
                    if let Ok(Ok(Some(message))) = late {
                        let _ = message.ack_with(AckKind::Nak(None)).await;
                    }
                    return;
                }
            };
            match taken {
                Ok(Some(message)) => {
                    self.count(&message);
                    busy.fetch_add(1, Ordering::Relaxed);
                    self.answer_to(&message, gateways, runner).await;
                    busy.fetch_sub(1, Ordering::Relaxed);
                }
                Ok(None) => {}
                Err(error) => {
                    self.warn(&format!(
                        "the queue of the cluster does not answer: {error}"
                    ));
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = stop.cancelled() => return,
                    }
                }
            }
        }
    }

    fn count(&self, message: &Message) {
        self.counts.deliveries.fetch_add(1, Ordering::Relaxed);
        if message.info().is_ok_and(|info| info.delivered > 1) {
            self.counts.redeliveries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// `None`: nobody asked in time.
    async fn take(&self) -> Result<Option<Message>, async_nats::Error> {
        let mut batch = self
            .resources
            .queue
            .batch()
            .max_messages(1)
            .expires(WAIT)
            .messages()
            .await?;
        // A server that was away does not say that nobody asked.
        let next = tokio::time::timeout(WAIT + PAUSE, batch.next()).await;
        next.unwrap_or_default().transpose()
    }

    async fn answer_to(&self, message: &Message, gateways: &[String], runner: &dyn Runner) {
        let question = match Question::open(&message.payload, &seal(message), gateways) {
            Ok(question) => question,
            Err(error) => {
                let delivered = message.info().map_or(0, |info| info.delivered);
                if delivered <= 1 {
                    self.warn(&format!("a call was refused: {error}"));
                }
                // Another worker may know the gateway.
                let is_unknown = matches!(error, QuestionError::UnknownGateway(_));
                let now = self.now();
                let is_asked = seal(message).is_of(&message.payload)
                    && serde_json::from_slice::<Question>(&message.payload).is_ok_and(|question| {
                        let left = question.deadline.saturating_sub(now);
                        (1..=WAIT_MILLIS_MAX).contains(&left)
                    });
                let ack = if is_unknown && is_asked {
                    AckKind::Nak(Some(NEXT))
                } else {
                    AckKind::Term
                };
                let _ = message.ack_with(ack).await;
                return;
            }
        };
        if !is_call_id(&question.call) {
            self.warn("a call was refused: its id has characters that no id has");
            let _ = message.ack_with(AckKind::Term).await;
            return;
        }
        // Its own word: whoever can write the claim could make an old question young again.
        if self.now() >= question.deadline {
            self.warn("a call was refused: it was to begin earlier");
            let _ = message.ack_with(AckKind::Term).await;
            return;
        }
        let (call, request) = (question.call.clone(), question.request.clone());
        let holder = Holder {
            worker: self.settings.name.clone(),
            attempt: Ulid::generate().to_string(),
        };
        let _followed = self.watching.follow(&call);
        let lease = self.settings.lease;
        let run = ClaimedCall {
            cluster: self,
            question,
            runner,
        };
        let named = (call.as_str(), request.as_str());
        match worker::work(self, &QueueDelivery(message), named, holder, lease, run).await {
            Ok(worker::WorkOutcome::Superseded) => {
                self.counts.superseded.fetch_add(1, Ordering::Relaxed);
                self.warn(&format!(
                    "another attempt has the call {call}: this result is thrown away"
                ));
            }
            Ok(_) => {}
            Err(error) => self.warn(&format!("the call {call} was left: {error}")),
        }
    }

    /// Events are for who listens now; the record has them all.
    async fn say(&self, subject: &str, event: Vec<u8>) {
        let _ = self.client.publish(subject.to_owned(), event.into()).await;
    }

    async fn kept(&self, record: Vec<u8>, holder: &Holder) -> RunOutcome {
        let worker = holder.worker.clone();
        let is_small = record.len() <= RECORD_BYTES_MAX;
        let inline = is_small
            .then(|| String::from_utf8(record.clone()).ok())
            .flatten();
        if inline.is_some() {
            let digest = digest(&record);
            return RunOutcome::End(CallEnd::Result {
                worker,
                digest,
                inline,
            });
        }
        loop {
            match self.objects.put(&record).await {
                Ok(digest) => {
                    return RunOutcome::End(CallEnd::Result {
                        worker,
                        digest,
                        inline,
                    });
                }
                Err(error) => {
                    self.warn(&format!("a result cannot be written yet: {error}"));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// It becomes a key and a part of a subject.
fn is_call_id(call: &str) -> bool {
    (1..=64).contains(&call.len()) && call.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

struct ClaimedCall<'c> {
    cluster: &'c Cluster,
    question: Question,
    runner: &'c dyn Runner,
}

impl Run<Cluster> for ClaimedCall<'_> {
    async fn run(self, hold: &Hold<'_, Cluster>, claim: &Claim) -> RunOutcome {
        let Self {
            cluster,
            question,
            runner,
        } = self;
        let spec = match &question.spec {
            Spec::Inline(spec) => spec.get().as_bytes().to_vec(),
            Spec::Object(named) => match cluster.objects.get(named).await {
                Ok(spec) => spec,
                Err(error) => {
                    cluster.warn(&format!("the arguments of a call cannot be read: {error}"));
                    return RunOutcome::NotHere;
                }
            },
        };
        let subject = resources::events_subject(cluster.settings.protocol, &question.call);
        let (starts, mut wanted) = mpsc::channel::<StartRequest>(1);
        let (events, mut said) = mpsc::unbounded_channel::<Vec<u8>>();
        let (cancel, canceled) = oneshot::channel();
        let mut cancel = Some(cancel);
        let mut running = runner.run(WorkerCall {
            question,
            spec,
            epoch: claim.epoch.saturating_add(1),
            starts,
            events,
            canceled,
        });
        let ran = loop {
            tokio::select! {
                biased;
                Some(start) = wanted.recv() => {
                    let _ = start.may_start.send(hold.start(start.changes).await);
                }
                Some(event) = said.recv() => cluster.say(&subject, event).await,
                reason = hold.canceled(), if cancel.is_some() => {
                    if let Some(cancel) = cancel.take() {
                        let _ = cancel.send(reason);
                    }
                }
                ran = &mut running => break ran,
            }
        };
        while let Ok(event) = said.try_recv() {
            cluster.say(&subject, event).await;
        }
        match ran {
            CallRun::NotHere => RunOutcome::NotHere,
            CallRun::Record(record) => cluster.kept(record, hold.holder()).await,
        }
    }
}

fn seal(message: &Message) -> Seal {
    let header = |name: &str| {
        let headers: Option<&HeaderMap> = message.headers.as_ref();
        let value = headers.and_then(|headers| headers.get(name));
        value.map(|value| value.as_str().to_owned())
    };
    Seal {
        key: header(KEY_HEADER).unwrap_or_default(),
        signature: header(SIGNATURE_HEADER).unwrap_or_default(),
    }
}
