//! ORDER. Thirteen phases, one file each, each of which consumes the output before it; [`phase`] shows that no other
//! order compiles.

mod approval;
mod artifacts;
mod aside;
mod background;
mod batch;
mod call_state;
mod children;
mod execute;
mod explain;
mod forward;
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
mod start_gate;
mod suspend;
mod terminal;
mod validate;
mod workspace;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::scheduler::{CallChains, Quotas, ResourceLocks, Scheduler};
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
pub use forward::{ForwardFn, ForwardRequest, ForwardedCall, forward};
use observe::Observed;
use persist::Persisted;
pub use preview::boundary as text_boundary;
pub use request::{Callee, RecordKeeper, Request};
pub use running::{CancelOutcome, RunningCalls, cancel};
pub use start_gate::StartGate;
use suspend::SuspensionStage;
pub use workspace::{CallWorkspace, SentWorkspace, call_workspace};

pub struct Services {
    pub catalog: Catalog,
    pub executor: Arc<dyn Executor>,
    pub scheduler: Scheduler,
    /// Calls that could disturb each other take turns here.
    pub locks: ResourceLocks,
    /// What each caller may use.
    pub quotas: Quotas,
    /// Room for calls that other calls make.
    pub chains: CallChains,
    pub running: RunningCalls,
    pub hooks: HookList,
    pub payloads: PayloadStore,
    /// Without it, calls that need an approval are refused.
    pub desk: Option<ApprovalService>,
    /// Canonical folders of the host's state: no grant may reach them.
    pub protected: Arc<[PathBuf]>,
    pub secrets: SecretStore,
    pub calls: CallLog,
    pub listeners: Arc<[Arc<dyn Listener>]>,
    /// `source` of every event: `toolcell/<version>`.
    pub source: Arc<str>,
    /// Of records: `<name>/<version>` of what executes components.
    pub engine: Arc<str>,
    /// Maximum bytes of output inside a result.
    pub inline_bytes_max: u64,
    /// The operator's limits; a tool can only narrow them.
    pub keeping: OutputRetention,
}

impl Services {
    /// Publishes an event of no call.
    pub fn announce(&self, event: &ToolEvent) {
        self.listeners
            .iter()
            .for_each(|listener| listener.event(event));
    }

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

    fn outlet(&self, session: Option<Arc<str>>) -> Outlet {
        Outlet {
            log: self.calls.clone(),
            session,
        }
    }
}

/// Runs one call through all phases, with exactly one result: a refusal is one too. Boxed, because several futures pass
/// it on.
pub fn call(services: &Services, request: Request) -> impl Future<Output = Box<CallRecord>> {
    // Not an `async fn`, whose future would hold the call a second time.
    whole(CallState::begin(services, request))
}

async fn whole(mut journey: Box<CallState<'_>>) -> Box<CallRecord> {
    // A call that waited for an approval has begun long ago.
    let begins = journey.counts() && journey.resumed.is_none();
    let caller = journey.request.actor_ref.as_deref().filter(|_| begins);
    let executed = match journey.services.quotas.begin(caller) {
        Ok(place) => {
            journey.quota = place;
            approach(&mut journey).await
        }
        Err(refusal) => Err(refusal),
    };
    conclude(journey, executed).await
}

/// Ends a call before its first phase, as when its component cannot be loaded.
pub async fn refuse(services: &Services, request: Request, refusal: Refusal) -> Box<CallRecord> {
    refuse_as(services, request, refusal, None).await
}

/// As [`refuse`]; `canceled` is the reason for a cancellation.
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

/// Resumes an orphaned call that was approved or awaits its user's answer: `held` marks this process as owner.
/// `request` is remade from the first one, with the stored input and tool (unless resolved). Changeable phases are
/// redone: tool, secrets, hooks, decision.
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

/// Ends an orphaned call that was rejected, canceled, expired, or interrupted; `None` if it can still be answered or
/// resumed, or has ended.
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
    let _quota = journey.quota.take();
    let counts = journey.counts();
    journey.enter("terminal");
    let clock = journey.clock;
    let mut record = Box::new(terminal::emit(journey, persisted));
    clock.end(&record);
    if let (true, Some(caller), Some(usage)) =
        (counts, &record.invocation.actor_ref, &record.result.usage)
    {
        services.quotas.charge(caller, usage).await;
    }
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

/// The store of approvals has those up to the question or run; later ones can be in the log.
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

/// Checks `edit` in place of the arguments of `approval`; the error says what is wrong. `Ok` if the tool is missing or
/// its component has changed.
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

/// For a large record, or an approved or suspended call, whose end is stored too.
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

/// The call keeps its result: its space was reserved at the start, so only a failing disk leads here.
fn unwritten(record: &mut CallRecord, error: &LogError) {
    record.invocation.note("journal_error", error.to_string());
}

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
