//! ORDER. One function, thirteen phases, each a file that eats what the phase before it gave.

mod approval;
mod execute;
mod hooks;
mod journey;
mod map_result;
mod observe;
mod parse;
mod permission;
mod persist;
mod post_hooks;
mod pre_hooks;
mod redaction;
mod resolve;
mod schedule;
mod schema_gate;
mod terminal;
mod validate;

use std::path::PathBuf;
use std::sync::Arc;

use crate::approval::Terms;
use crate::catalog::Catalog;
use crate::executor::{Cancellation, Executor};
use crate::hook::Hooks;
use crate::journal::{Held, Kept, Listener, PayloadStore};
use crate::policy::{Explanation, Grants, Limits, Policy};
use crate::record::{CallRecord, ExternalMapping, Input, Refusal};
use crate::scheduler::Scheduler;
use crate::secret::SecretStore;

pub use approval::Desk;
use execute::Executed;
use journey::Journey;

/// What calls need from the rest of the host.
pub struct Services {
    pub catalog: Catalog,
    pub executor: Arc<dyn Executor>,
    pub scheduler: Scheduler,
    pub hooks: Hooks,
    pub payloads: PayloadStore,
    /// Where calls go that somebody has to approve; without one they are refused.
    pub desk: Option<Desk>,
    /// Folders of the host's own state, canonical: no grant may reach them.
    pub protected: Vec<PathBuf>,
    pub secrets: SecretStore,
    pub listeners: Arc<[Arc<dyn Listener>]>,
    /// `source` of every event: `hotcell/<version>`.
    pub source: Arc<str>,
    /// Bytes of output that stay inside a result; more is kept as a payload.
    pub inline_bytes_max: u64,
}

/// One call, as a door hands it in.
#[derive(Clone)]
pub struct Request {
    /// A qualified name, a name, or an alias.
    pub tool: String,
    pub input: Input,
    /// The caller's own id for the call, verbatim.
    pub native_call_id: Option<String>,
    pub actor_ref: Option<String>,
    pub grants: Arc<Grants>,
    /// Mode and rules, beside what was granted.
    pub policy: Arc<Policy>,
    pub limits: Limits,
    /// How somebody is asked about the call, if that has to be.
    pub approval: Terms,
    pub cancellation: Cancellation,
    /// Why the tool's component could not be loaded, if it could not.
    pub unavailable: Option<Refusal>,
    /// Hears the events of this call, beside those who hear of every call.
    pub listener: Option<Arc<dyn Listener>>,
    /// What the protocol that brought the call calls it, for the record (AT-MAP-01).
    pub mapping: Option<ExternalMapping>,
}

/// Carries one call through all phases. It never fails: a refusal is a result too, and there is exactly one.
pub async fn call(services: &Services, request: Request) -> CallRecord {
    let mut journey = Journey::begin(services, request);
    let executed = approach(&mut journey).await;
    finish(journey, executed).await
}

/// Goes on with a call that was approved, and that no living process sees to: `held` shows that this one does. The
/// `request` is made anew of the words of the first one; its tool and its input are the stored ones.
pub async fn resume(services: &Services, desk: &Desk, request: Request, kept: &Kept, held: Held) -> CallRecord {
    let plan = &kept.approval.plan;
    let request = Request {
        tool: plan.tool.clone(),
        input: Input::from_text(plan.model_input.as_str()),
        native_call_id: kept.invocation.native_call_id.clone(),
        ..request
    };
    let mut journey = Journey::resume(services, request, kept, desk, held);
    let executed = return_to(&mut journey, kept).await;
    finish(journey, executed).await
}

/// Ends a call that no living process sees to, and that nobody can go on with: rejected, expired, or interrupted while
/// it ran. Nothing for a call that can still be answered, or that has ended.
pub async fn close(services: &Services, desk: &Desk, request: Request, kept: &Kept, held: Held) -> Option<CallRecord> {
    let refusal = approval::closing(kept)?;
    let journey = Journey::resume(services, request, kept, desk, held);
    Some(finish(journey, Err(refusal)).await)
}

async fn finish(mut journey: Journey<'_>, executed: Result<Executed, Refusal>) -> CallRecord {
    if let (Err(_), Some(reason)) = (&executed, journey.request.cancellation.requested()) {
        journey.trail.cancel_requested(reason);
    }
    let mapped = map_result::map(&mut journey, executed);
    let hooked = post_hooks::run(&mut journey, mapped).await;
    let persisted = persist::persist(&mut journey, hooked).await;
    let asked = journey.asked.take();
    let mut record = terminal::emit(journey, persisted);
    if let Some(asked) = asked {
        approval::conclude(asked, &mut record).await;
    }
    record
}

/// The phases that are left of a call that another process began.
async fn return_to(journey: &mut Journey<'_>, kept: &Kept) -> Result<Executed, Refusal> {
    let permitted = approval::re_enter(journey, kept).await?;
    let scheduled = schedule::wait(journey, permitted).await?;
    execute::run(journey, scheduled).await
}

/// What would be decided on a call, and why; or what would stop it before. The tool does not run, no hook does, and
/// nobody hears of it. A component that classifies its inputs is asked, in an empty world, as it would be by a call.
pub async fn explain(services: &Services, request: Request) -> Result<Explanation, Refusal> {
    let mut journey = Journey::unheard(services, request);
    let resolved = resolve::resolve(&mut journey)?;
    let parsed = parse::parse(&journey, resolved);
    let gated = schema_gate::gate(&mut journey, parsed)?;
    let observed = observe::observe(&mut journey, gated);
    permission::explain(&journey, &observed).await
}

/// The phases that can end a call before its tool has answered.
async fn approach(journey: &mut Journey<'_>) -> Result<Executed, Refusal> {
    let resolved = resolve::resolve(journey)?;
    let parsed = parse::parse(journey, resolved);
    let gated = schema_gate::gate(journey, parsed)?;
    let valid = validate::validate(journey, gated).await?;
    let observed = observe::observe(journey, valid);
    let hooked = pre_hooks::run(journey, observed).await?;
    let permitted = permission::decide(journey, hooked).await?;
    let scheduled = schedule::wait(journey, permitted).await?;
    execute::run(journey, scheduled).await
}
