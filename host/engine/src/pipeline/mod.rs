//! ORDER. One function with thirteen phases, one file each. Each phase consumes the output of the phase before it;
//! [`phase`] shows that no other order compiles.

mod approval;
mod artifacts;
mod aside;
mod background;
mod batch;
mod call_state;
mod children;
mod execute;
mod explain;
mod hooks;
mod interact;
mod map_result;
mod modifiers;
mod observe;
mod parse;
mod permission;
mod persist;
pub mod phase;
mod phase_clock;
mod post_hooks;
mod pre_hooks;
mod preview;
mod redaction;
mod refs;
mod replay;
mod request;
mod resolve;
mod retry;
mod running;
mod schedule;
mod schema_gate;
mod suspend;
mod terminal;
mod validate;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::scheduler::{CallChains, ResourceLocks, Scheduler};
use toolcell_executor::Executor;
use toolcell_executor::hook::HookList;
use toolcell_journal::{CallLog, Listener, LogError, Outlet, PayloadStore, RoleLock};
use toolcell_policy::secret::SecretStore;
use toolcell_spec::{
    AbortReason, Approval, CallRecord, ErrorClass, ErrorCode, OutputRetention, Refusal,
    SuspensionState, ToolEvent,
};

pub use approval::ApprovalService;
use approval::StoredCall;
pub use aside::load;
pub use background::Background;
pub use batch::{Batch, BatchCall, BatchListener, batch};
use call_state::CallState;
pub use call_state::StoredCallRef;
use execute::Executed;
pub use explain::{CallExplanation, HookPreview, explain};
use observe::Observed;
use persist::Persisted;
pub use preview::boundary as text_boundary;
pub use request::{Callee, RecordKeeper, Request};
pub use running::{CancelOutcome, RunningCalls, cancel};
use suspend::SuspensionStage;

/// Host services that calls need.
pub struct Services {
    pub catalog: Catalog,
    pub executor: Arc<dyn Executor>,
    pub scheduler: Scheduler,
    /// Where calls take turns that could disturb each other.
    pub locks: ResourceLocks,
    /// Room for calls that other calls make.
    pub chains: CallChains,
    /// The calls that run now.
    pub running: RunningCalls,
    pub hooks: HookList,
    pub payloads: PayloadStore,
    /// Handles calls that need an approval; without it, they are refused.
    pub desk: Option<ApprovalService>,
    /// Folders of the host's own state, canonical: no grant may reach them.
    pub protected: Arc<[PathBuf]>,
    pub secrets: SecretStore,
    /// Where every call is written down.
    pub calls: CallLog,
    pub listeners: Arc<[Arc<dyn Listener>]>,
    /// `source` of every event: `toolcell/<version>`.
    pub source: Arc<str>,
    /// Maximum bytes of output inside a result; a larger output is kept as a payload.
    pub inline_bytes_max: u64,
    /// The operator's limits on keeping outputs; a tool can only narrow them.
    pub keeping: OutputRetention,
}

impl Services {
    /// Publishes an event that belongs to no call.
    pub fn announce(&self, event: &ToolEvent) {
        self.listeners
            .iter()
            .for_each(|listener| listener.event(event));
    }

    /// Hands the record of a call that has ended to the listeners.
    fn ended(&self, record: &CallRecord) {
        if self.listeners.is_empty() {
            return;
        }
        // What may be on no disk of this machine leaves it even less.
        let shared = if record.is_never_persisted() && guard!("listened_records") {
            Cow::Owned(record.without_output())
        } else {
            Cow::Borrowed(record)
        };
        self.listeners
            .iter()
            .for_each(|listener| listener.ended(&shared));
    }

    /// Where the events of a call of `session` go while it runs.
    fn outlet(&self, session: Option<Arc<str>>) -> Outlet {
        Outlet {
            log: self.calls.clone(),
            session,
        }
    }
}

/// Runs one call through all phases. It never fails, because a refusal is a result too; there is exactly one result. Boxed,
/// because it is handed through several futures.
pub fn call(services: &Services, request: Request) -> impl Future<Output = Box<CallRecord>> {
    // Not an `async fn`, whose future would hold the call a second time.
    whole(CallState::begin(services, request))
}

/// Runs a call that has begun through all phases.
async fn whole(mut journey: Box<CallState<'_>>) -> Box<CallRecord> {
    let executed = approach(&mut journey).await;
    conclude(journey, executed).await
}

/// Ends a call with `refusal` before its first phase, for example because its component cannot be loaded.
pub async fn refuse(services: &Services, request: Request, refusal: Refusal) -> Box<CallRecord> {
    refuse_as(services, request, refusal, None).await
}

/// As [`refuse`]; `canceled`: why the call counts as canceled.
async fn refuse_as(
    services: &Services,
    request: Request,
    refusal: Refusal,
    canceled: Option<AbortReason>,
) -> Box<CallRecord> {
    let mut journey = CallState::begin(services, request);
    // A tool of this name may be there all the same, and says which arguments are sensitive.
    let _ = resolve::resolve(&mut journey).await;
    if let Some(reason) = canceled {
        journey.request.cancellation.cancel(reason);
    }
    conclude(journey, Err(refusal)).await
}

/// Resumes an orphaned call that was approved, or that waits for an answer to its tool's question, which the respondent of
/// `request` gets: no living process runs it, and `held` marks this process as its owner. `request` is made anew from the
/// first request; its input is the stored one, and so is its tool, unless it has been resolved already. The phases redo
/// what can have changed since: the tool, its secrets, what hooks make of the input, and the decision.
pub async fn resume(
    services: &Services,
    desk: &ApprovalService,
    request: Request,
    stored: StoredCallRef<'_>,
    held: RoleLock,
) -> CallRecord {
    // What it waits for is on disk until it is used. Before the log is read, because the host may stop meanwhile.
    if let Some(background) = &request.background {
        background.set_can_be_left(true);
    }
    let request = request.restored(stored);
    let events = events_so_far(services, stored).await;
    *whole(CallState::resume(
        services, request, stored, desk, held, events,
    ))
    .await
}

/// Ends an orphaned call that cannot be resumed: rejected, canceled, expired, or interrupted while it ran. Returns `None`
/// for a call that can still be answered or resumed, or that has ended.
pub async fn close(
    services: &Services,
    desk: &ApprovalService,
    request: Request,
    stored: StoredCallRef<'_>,
    held: RoleLock,
) -> Option<CallRecord> {
    let refusal = match stored {
        StoredCallRef::Approval(stored) => approval::closing(stored)?,
        StoredCallRef::Suspended(stored) => suspend::closing(stored)?,
    };
    if let StoredCallRef::Suspended(stored) = stored
        && stored.state == SuspensionState::Withdrawn
    {
        request.cancellation.cancel(AbortReason::UserInterruption);
    }
    let events = events_so_far(services, stored).await;
    let journey = CallState::resume(services, request, stored, desk, held, events);
    Some(*conclude(journey, Err(refusal)).await)
}

/// Runs the phases after the tool's answer.
async fn conclude(
    mut journey: Box<CallState<'_>>,
    executed: Result<Executed, Refusal>,
) -> Box<CallRecord> {
    let services = journey.services;
    let persisted = leave(&mut journey, executed).await;
    let is_large = journey.is_large();
    let asked = journey.asked.take();
    // Knows the call until its end is on record.
    let _registered = journey.registered.take();
    journey.enter("terminal");
    let clock = journey.clock;
    let mut record = Box::new(terminal::emit(journey, persisted));
    clock.end(&record);
    // The end of a call is written down before the caller hears of it.
    if is_large || asked.is_some() {
        // Boxed, to keep the common future small.
        record = Box::pin(store(services, record, asked, is_large)).await;
    } else if let Err(error) = services.calls.ended(&record).await {
        unwritten(&mut record, &error);
    }
    services.ended(&record);
    record
}

/// The events of a stored call. The store of approvals has those up to the question or to the run; what its process
/// reported after that, such as that the call waits, can be in the log.
async fn events_so_far(services: &Services, left: StoredCallRef<'_>) -> Vec<ToolEvent> {
    let stored = &left.history().events;
    let noted = services
        .calls
        .noted_events(left.invocation().invocation_id)
        .await;
    let same = |(stored, noted): (&ToolEvent, &ToolEvent)| stored.event_id == noted.event_id;
    // A call that ended elsewhere in the meantime is refused, and its record has one end.
    let is_open = !noted.iter().any(|event| event.event_type.is_end());
    if is_open && noted.len() > stored.len() && stored.iter().zip(&noted).all(same) {
        noted
    } else {
        stored.clone()
    }
}

/// Checks `edit`, the arguments that should run instead of those that `approval` is about. The error says what is wrong
/// with them. Returns `Ok` if the tool is missing or its component has changed.
pub async fn check_edit(
    services: &Services,
    approval: &Approval,
    edit: &str,
) -> Result<(), String> {
    match services.catalog.resolve(&approval.plan.tool) {
        Ok(tool) if **tool.component() == *approval.binding.component => {
            approval::check_stored(&tool, approval, edit).await
        }
        _ => Ok(()),
    }
}

/// Runs the phases between the tool's answer and the record.
async fn leave(journey: &mut CallState<'_>, executed: Result<Executed, Refusal>) -> Persisted {
    // A call that was rejected or canceled while it waited must not be asked about again.
    journey.set_can_be_left(false);
    let mut executed = executed;
    if let Err(refusal) = &mut executed {
        let elsewhere =
            (refusal.code == ErrorCode::ApprovalWithdrawn).then_some(AbortReason::UserInterruption);
        if let Some(reason) = journey.request.cancellation.requested().or(elsewhere) {
            journey.trail.cancel_requested(reason);
            if refusal.class == ErrorClass::Canceled {
                refusal.abort_reason.get_or_insert(reason);
            }
        }
    }
    journey.enter("map_result");
    let answered = map_result::map(journey, executed).await;
    journey.enter("post_hooks");
    let hooked = post_hooks::run(journey, answered).await;
    journey.enter("persist");
    persist::persist(journey, hooked).await
}

/// Writes down the end of a call whose record is large, or that needed an approval or was suspended, whose end is stored
/// too.
async fn store(
    services: &Services,
    mut record: Box<CallRecord>,
    asked: Option<Box<StoredCall>>,
    is_large: bool,
) -> Box<CallRecord> {
    let was_suspended =
        |asked: &StoredCall| asked.approval.is_none() || asked.stage != SuspensionStage::Never;
    let suspended = match asked {
        Some(asked) if was_suspended(&asked) => Some(asked),
        Some(asked) => {
            approval::conclude(*asked, &mut record).await;
            None
        }
        None => None,
    };
    let written = if is_large {
        let (logged, written) = services.calls.large_ended(*record).await;
        *record = logged;
        written
    } else {
        services.calls.ended(&record).await
    };
    let is_written = written.is_ok();
    if let Err(error) = written {
        unwritten(&mut record, &error);
    }
    if let Some(asked) = suspended {
        suspend::conclude(*asked, &mut record, is_written).await;
    }
    record
}

/// Says that the end of a call could not be written. The call keeps its result: the space for its end was reserved when it
/// started, so only a failing disk leads here.
fn unwritten(record: &mut CallRecord, error: &LogError) {
    record.invocation.note("journal_error", error.to_string());
}

/// Runs the phases before the hooks: the same for a call, and for one that is only explained.
async fn take_in(journey: &mut CallState<'_>) -> Result<Observed, Refusal> {
    journey.enter("resolve");
    let resolved = resolve::resolve(journey).await?;
    journey.enter("parse");
    let parsed = parse::parse(journey, resolved).await?;
    journey.enter("schema_gate");
    let gated = schema_gate::gate(journey, parsed)?;
    journey.enter("validate");
    let valid = validate::validate(journey, gated).await?;
    journey.enter("observe");
    observe::observe(journey, valid).await
}

/// Runs the phases that can end a call before its tool has answered.
async fn approach(journey: &mut CallState<'_>) -> Result<Executed, Refusal> {
    let observed = take_in(journey).await?;
    journey.enter("pre_hooks");
    let hooked = pre_hooks::run(journey, observed).await?;
    journey.enter("permission");
    let permitted = permission::decide(journey, hooked).await?;
    journey.enter("schedule");
    let scheduled = schedule::wait(journey, permitted).await?;
    journey.enter("execute");
    execute::run(journey, scheduled).await
}
