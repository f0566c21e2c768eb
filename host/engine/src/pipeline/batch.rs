//! Runs calls that belong together, each whole. [`scheduler::batch`](crate::scheduler::batch) decides what starts when.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};

use crate::scheduler::batch::{
    BatchOutlet, BatchPlan, BatchPolicy, BatchState, BatchStep, OrderingPolicy, OutletItem,
    PlanError, SkipCause, YieldPolicy,
};
use crate::scheduler::{ChangeLine, QueueTurn, in_turn};
use toolcell_executor::{Cancellation, canceled};
use toolcell_journal::Listener;
use toolcell_spec::{
    AbortReason, CallRecord, ContextModifier, InterruptBehavior, Refusal, ResourceLock, Timestamp,
    ToolEvent,
};

use super::call_state::CallState;
use super::forward::{ForwardFn, forward_in_turn};
use super::{Request, Services, modifiers, refuse, refuse_as, whole};

/// One call of a batch.
///
/// ```
/// use toolcell_engine::pipeline::{BatchCall, Request};
///
/// let request = Request::new("jq.jq", r#"{"filter": "length", "input": [1]}"#);
/// let call = BatchCall::new("count", request).after(["fetch"]);
/// assert_eq!(call.depends_on, ["fetch"]);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct BatchCall {
    /// The caller's name for the call, unique in the batch.
    pub id: String,
    /// Its cancellation is for this call alone, so no two calls may share one.
    pub request: Request,
    pub depends_on: Vec<String>,
    /// Ends the call at its turn without running it, as when its component cannot be loaded.
    pub refusal: Option<Refusal>,
    /// Has the call run elsewhere.
    pub forward: Option<ForwardFn>,
}

impl BatchCall {
    /// Depends on no other call. `id` is the native id, if the request has none.
    pub fn new(id: impl Into<String>, request: Request) -> Self {
        Self {
            id: id.into(),
            request,
            depends_on: Vec::new(),
            refusal: None,
            forward: None,
        }
    }

    /// Adds calls that have to end first.
    #[must_use]
    pub fn after<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.depends_on.extend(ids.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn refusal(self, refusal: impl Into<Option<Refusal>>) -> Self {
        Self {
            refusal: refusal.into(),
            ..self
        }
    }

    #[must_use]
    pub fn forward(self, forward: Option<ForwardFn>) -> Self {
        Self { forward, ..self }
    }
}

/// Calls that are made together.
///
/// ```
/// use std::sync::Arc;
///
/// use toolcell_engine::pipeline::{Batch, BatchCall, BatchListener};
/// use toolcell_engine::scheduler::batch::{BatchPolicy, YieldPolicy};
///
/// fn streamed(calls: Vec<BatchCall>, listener: Arc<dyn BatchListener>) -> Batch {
///     let policy = BatchPolicy { yields: YieldPolicy::UnorderedStreaming, ..BatchPolicy::default() };
///     Batch { policy, ..Batch::new(calls, listener) }
/// }
/// ```
pub struct Batch {
    pub calls: Vec<BatchCall>,
    pub policy: BatchPolicy,
    /// Interrupts the batch: for the user by its policy, otherwise at once.
    pub interrupt: Cancellation,
    pub listener: Arc<dyn BatchListener>,
}

impl Batch {
    /// Under the default policy.
    pub fn new(calls: Vec<BatchCall>, listener: Arc<dyn BatchListener>) -> Self {
        Self {
            calls,
            policy: BatchPolicy::default(),
            interrupt: Cancellation::new(),
            listener,
        }
    }
}

/// Receives what a batch hands out. `at` is the index of the call.
///
/// ```
/// use std::sync::mpsc::Sender;
///
/// use toolcell_engine::pipeline::BatchListener;
/// use toolcell_spec::{CallRecord, ContextModifier, ToolEvent};
///
/// /// Sends the results on, and no events. Its batches defer no context modifiers.
/// struct Results(Sender<(usize, CallRecord)>);
///
/// impl BatchListener for Results {
///     fn event(&self, _: usize, _: &ToolEvent) {}
///
///     fn ended(&self, at: usize, record: CallRecord) {
///         // The receiver may have ended.
///         let _ = self.0.send((at, record));
///     }
///
///     fn modified(&self, _: usize, _: Vec<ContextModifier>) {}
/// }
/// ```
pub trait BatchListener: Send + Sync {
    /// Called from within a call: it must not block.
    fn event(&self, at: usize, event: &ToolEvent);
    /// Called once for each call.
    fn ended(&self, at: usize, record: CallRecord);
    /// Receives deferred context modifiers, in the order of the calls, after the last record. The batch's or tool's
    /// policy defers them, as do results in any order.
    fn modified(&self, at: usize, modifiers: Vec<ContextModifier>);
}

pub(super) struct BatchSeat {
    /// Dropped after the call, which lets disturbed calls run.
    pub(super) turn: QueueTurn,
    pub(super) held: Option<BatchWait>,
}

/// A wait due only to the limit on running calls.
pub(super) struct BatchWait {
    pub(super) since: Timestamp,
    /// Among those that wait so, from 1 on.
    pub(super) position: usize,
}

/// Runs a batch. Dropping the future cancels the running calls, without a record.
///
/// # Errors
///
/// [`PlanError`], if the calls are no batch. None of them runs then.
pub async fn batch<H>(
    host: Arc<H>,
    services: fn(&H) -> &Services,
    batch: Batch,
) -> Result<(), PlanError>
where
    H: Send + Sync + 'static,
{
    let Batch {
        mut calls,
        policy,
        interrupt,
        listener,
    } = batch;
    let record = Arc::new(policy.record(&declared_locks(services(&host), &calls)));
    for call in &mut calls {
        call.request.context_modifier_policy = Some(policy.context_modifiers);
        call.request.scheduler_policy = Some(Arc::clone(&record));
    }
    let plan = BatchPlan::new(
        calls
            .iter()
            .map(|call| (call.id.as_str(), call.depends_on.as_slice())),
    )?;
    let in_order = policy.ordering != OrderingPolicy::AllowUnordered;
    let line = in_order.then(|| services(&host).locks.line());
    let runner = BatchRunner {
        line,
        state: BatchState::new(plan, &policy),
        policy,
        deferred: BTreeMap::new(),
        ids: calls.iter().map(|call| call.id.clone()).collect(),
        held: BTreeMap::new(),
        cancellations: calls
            .iter()
            .map(|call| call.request.cancellation.clone())
            .collect(),
        calls: calls.into_iter().map(Some).collect(),
        tasks: JoinSet::new(),
        started: HashMap::new(),
        out: Arc::new(BatchOutput {
            listener,
            holds_events: policy.yields == YieldPolicy::AllOrdered,
            outlet: Mutex::new(BatchOutlet::new(policy.yields)),
            news: Notify::new(),
        }),
        host,
        services,
    };
    runner.run(&interrupt).await;
    Ok(())
}

/// Each once (AT-SCHED-10).
fn declared_locks(services: &Services, calls: &[BatchCall]) -> Vec<ResourceLock> {
    let mut locks: Vec<ResourceLock> = Vec::new();
    let mut seen = HashSet::new();
    let tools = calls
        .iter()
        .filter_map(|call| call.request.tool.find(&services.catalog).ok());
    for tool in tools.filter(|tool| seen.insert(Arc::as_ptr(tool))) {
        for lock in tool
            .interface()
            .map_or(&[][..], |interface| &interface.resource_locks)
        {
            if !locks.contains(lock) {
                locks.push(lock.clone());
            }
        }
    }
    locks
}

struct BatchRunner<H> {
    host: Arc<H>,
    services: fn(&H) -> &Services,
    state: BatchState,
    policy: BatchPolicy,
    line: Option<ChangeLine>,
    ids: Vec<String>,
    cancellations: Vec<Cancellation>,
    held: BTreeMap<usize, BatchWait>,
    /// `None` once begun.
    calls: Vec<Option<BatchCall>>,
    tasks: JoinSet<Box<CallRecord>>,
    started: HashMap<Id, (usize, Request)>,
    deferred: BTreeMap<usize, Vec<ContextModifier>>,
    out: Arc<BatchOutput>,
}

impl<H: Send + Sync + 'static> BatchRunner<H> {
    async fn run(mut self, interrupt: &Cancellation) {
        let mut interrupted = false;
        loop {
            if let Some(reason) = interrupt.requested().filter(|_| !interrupted) {
                interrupted = true;
                // Only a user's interruption can wait.
                let behavior = self.policy.interrupt;
                let cancels = reason != AbortReason::UserInterruption
                    || behavior == InterruptBehavior::Cancel;
                self.state.interrupt(reason, cancels);
            }
            while let Some(step) = self.state.next_step() {
                self.take(step).await;
            }
            for at in self.state.newly_held() {
                let since = Timestamp::now();
                let position = self.held.range(..at).count() + 1;
                self.held.insert(at, BatchWait { since, position });
            }
            self.out.hand_out();
            if self.state.is_over() {
                break;
            }
            tokio::select! {
                biased;
                () = interrupt.cancelled(), if !interrupted => {}
                joined = self.tasks.join_next_with_id() => match joined {
                    Some(joined) => self.joined(joined).await,
                    None => break,
                },
                () = self.out.news.notified() => {}
            }
        }
        for (at, modifiers) in self.deferred {
            self.out.listener.modified(at, modifiers);
        }
    }

    async fn take(&mut self, step: BatchStep) {
        match step {
            BatchStep::Start(at) => self.start(at),
            BatchStep::Discard(at, cause) => self.discard(at, cause).await,
            BatchStep::Cancel(at, reason) => {
                if let Some(cancellation) = self.cancellations.get(at) {
                    cancellation.cancel(reason);
                }
            }
        }
    }

    fn start(&mut self, at: usize) {
        let Some(call) = self.calls.get_mut(at).and_then(Option::take) else {
            return;
        };
        // Taken here, because calls start in their order, and decisions on them may end in another one.
        let turn = (self.services)(&self.host)
            .locks
            .turn(self.line, call.request.actor_ref.as_deref());
        let seat = BatchSeat {
            turn,
            held: self.held.remove(&at),
        };
        let request = self.out.listened(at, call.id, call.request);
        let (refusal, forward) = (call.refusal, call.forward);
        let host = Arc::clone(&self.host);
        let services = self.services;
        let spare = request.clone();
        let caller = request.actor_ref.clone();
        let whole = async move {
            let services = services(&host);
            match (refusal, forward) {
                (Some(refusal), _) => refuse(services, request, refusal).await,
                (None, None) => seated(services, request, seat).await,
                (None, Some(ask)) => forward_in_turn(services, request, ask, seat).await,
            }
        };
        let in_turn = async move { in_turn(caller.as_deref(), Box::pin(whole)).await };
        let task = self.tasks.spawn(in_turn);
        self.started.insert(task.id(), (at, spare));
    }

    async fn discard(&mut self, at: usize, cause: SkipCause) {
        self.held.remove(&at);
        let Some(call) = self.calls.get_mut(at).and_then(Option::take) else {
            return;
        };
        let request = self.out.listened(at, call.id, call.request);
        let (reason, refusal) = match cause {
            SkipCause::Interrupted(reason) => (reason, canceled(reason)),
            SkipCause::Failed(root) => {
                let id = self.ids.get(root).map_or("", String::as_str);
                let message = format!("the call did not start, because the call {id:?} failed");
                (
                    AbortReason::SiblingError,
                    Refusal {
                        message,
                        ..canceled(AbortReason::SiblingError)
                    },
                )
            }
        };
        let services = (self.services)(&self.host);
        // A call that could not be selected did not start either.
        let record = refuse_as(services, request, refusal, Some(reason)).await;
        self.out.outlet().end(at, record);
        self.out.hand_out();
    }

    async fn joined(&mut self, joined: Result<(Id, Box<CallRecord>), JoinError>) {
        let (at, mut record) = match joined {
            Ok((id, record)) => match self.started.remove(&id) {
                Some((at, _)) => (at, record),
                None => return,
            },
            Err(error) => {
                let Some((at, request)) = self.started.remove(&error.id()) else {
                    return;
                };
                let fault = Refusal::host_fault(error.to_string());
                (
                    at,
                    refuse((self.services)(&self.host), request, fault).await,
                )
            }
        };
        self.state.ended(at, record.result.is_error);
        let deferred = modifiers::take_deferred(&mut record, &self.policy);
        if !deferred.is_empty() {
            self.deferred.insert(at, deferred);
        }
        self.out.outlet().end(at, record);
    }
}

async fn seated(services: &Services, request: Request, seat: BatchSeat) -> Box<CallRecord> {
    let mut journey = CallState::begin(services, request);
    journey.seat = Some(seat);
    whole(journey).await
}

struct BatchOutput {
    listener: Arc<dyn BatchListener>,
    holds_events: bool,
    outlet: Mutex<BatchOutlet<ToolEvent, Box<CallRecord>>>,
    news: Notify,
}

impl BatchOutput {
    fn outlet(&self) -> MutexGuard<'_, BatchOutlet<ToolEvent, Box<CallRecord>>> {
        self.outlet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<OutletItem<ToolEvent, Box<CallRecord>>> {
        self.outlet().take()
    }

    /// The outlet is not locked meanwhile, because a listener may block.
    fn hand_out(&self) {
        while let Some(given) = self.next() {
            match given {
                OutletItem::Event(at, event) => self.listener.event(at, &event),
                OutletItem::End(at, record) => self.listener.ended(at, *record),
            }
        }
    }

    fn listened(self: &Arc<Self>, at: usize, id: String, mut request: Request) -> Request {
        request.order = Some(at);
        request.native_call_id.get_or_insert(id);
        request.listener = Some(Arc::new(CallListener {
            at,
            own: request.listener.take(),
            out: Arc::clone(self),
        }));
        request
    }
}

struct CallListener {
    at: usize,
    own: Option<Arc<dyn Listener>>,
    out: Arc<BatchOutput>,
}

impl Listener for CallListener {
    fn event(&self, event: &ToolEvent) {
        if let Some(own) = &self.own {
            own.event(event);
        }
        if self.out.holds_events {
            self.out.outlet().event(self.at, event.clone());
            self.out.news.notify_one();
        } else {
            self.out.listener.event(self.at, event);
        }
    }
}
