//! ORDER. One function with thirteen phases, one file each. Each phase consumes the output of the phase before it.

mod approval;
mod aside;
mod execute;
mod foretell;
mod hooks;
mod interact;
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

use crate::approval::{Respondent, Terms};
use crate::catalog::Catalog;
use crate::executor::{Cancellation, Executor};
use crate::hook::Hooks;
use crate::journal::{Held, Kept, Listener, PayloadStore};
use crate::policy::{Grants, Limits, Policy};
use crate::record::{Approval, CallRecord, ExternalMapping, Input, Refusal};
use crate::scheduler::Scheduler;
use crate::secret::SecretStore;

use approval::Asked;
pub use approval::Desk;
pub use aside::load;
use execute::Executed;
pub use foretell::{Foretold, Hearing, explain};
use journey::Journey;
use persist::Persisted;

/// What calls need from the rest of the host.
pub struct Services {
    pub catalog: Catalog,
    pub executor: Arc<dyn Executor>,
    pub scheduler: Scheduler,
    pub hooks: Hooks,
    pub payloads: PayloadStore,
    /// Handles calls that need an approval; without it, they are refused.
    pub desk: Option<Desk>,
    /// Folders of the host's own state, canonical: no grant may reach them.
    pub protected: Vec<PathBuf>,
    pub secrets: SecretStore,
    pub listeners: Arc<[Arc<dyn Listener>]>,
    /// `source` of every event: `toolcell/<version>`.
    pub source: Arc<str>,
    /// Maximum bytes of output inside a result; a larger output is kept as a payload.
    pub inline_bytes_max: u64,
}

/// One call, as the CLI or a server submits it.
#[derive(Clone)]
pub struct Request {
    /// A qualified name, a name, or an alias.
    pub tool: String,
    pub input: Input,
    /// The caller's own id for the call, verbatim.
    pub native_call_id: Option<String>,
    pub actor_ref: Option<String>,
    pub grants: Arc<Grants>,
    /// Mode and rules.
    pub policy: Arc<Policy>,
    pub limits: Limits,
    /// How an approval is requested, if the call needs one.
    pub approval: Terms,
    /// Answers the tool's questions during the call; `None` if they cannot be answered.
    pub respondent: Option<Arc<dyn Respondent>>,
    pub cancellation: Cancellation,
    /// Why the tool's component could not be loaded, if it could not.
    pub unavailable: Option<Refusal>,
    /// Receives the events of this call, in addition to the host's listeners.
    pub listener: Option<Arc<dyn Listener>>,
    /// How the protocol that carried the call identifies it, for the record (AT-MAP-01).
    pub mapping: Option<ExternalMapping>,
}

/// Runs one call through all phases. It never fails, because a refusal is a result too; there is exactly one result.
pub async fn call(services: &Services, request: Request) -> CallRecord {
    let mut journey = Journey::begin(services, request);
    let executed = approach(&mut journey).await;
    let persisted = leave(&mut journey, executed).await;
    let (mut record, asked) = end(journey, persisted);
    store(asked, &mut record).await;
    record
}

/// Resumes an approved, orphaned call: no living process runs it, and `held` marks this process as its owner. `request`
/// is rebuilt from the first request; its tool and its input are the stored ones.
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
    let persisted = leave(&mut journey, executed).await;
    let (mut record, asked) = end(journey, persisted);
    store(asked, &mut record).await;
    record
}

/// Ends an orphaned call that cannot be resumed: rejected, withdrawn, expired, or interrupted while it ran. Returns
/// `None` for a call that can still be answered or resumed, or that has ended.
pub async fn close(services: &Services, desk: &Desk, request: Request, kept: &Kept, held: Held) -> Option<CallRecord> {
    let refusal = approval::closing(kept)?;
    let mut journey = Journey::resume(services, request, kept, desk, held);
    let persisted = leave(&mut journey, Err(refusal)).await;
    let (mut record, asked) = end(journey, persisted);
    store(asked, &mut record).await;
    Some(record)
}

/// Checks `edit`, the arguments that should run instead of those that `approval` is about. The error says what is wrong
/// with them. Returns `Ok` if the tool is missing or its component has changed.
pub async fn check_edit(services: &Services, approval: &Approval, edit: &str) -> Result<(), String> {
    match services.catalog.resolve(&approval.plan.tool) {
        Ok(tool) if **tool.component() == *approval.binding.component => {
            approval::check_stored(&tool, approval, edit).await
        }
        _ => Ok(()),
    }
}

/// Runs the phases between the tool's answer and the record.
async fn leave(journey: &mut Journey<'_>, executed: Result<Executed, Refusal>) -> Persisted {
    if let (Err(_), Some(reason)) = (&executed, journey.request.cancellation.requested()) {
        journey.trail.cancel_requested(reason);
    }
    let mapped = map_result::map(journey, executed).await;
    let hooked = post_hooks::run(journey, mapped).await;
    persist::persist(journey, hooked).await
}

/// Runs the last phase. Returns the approval request too, if there was one.
fn end(mut journey: Journey<'_>, persisted: Persisted) -> (CallRecord, Option<Box<Asked>>) {
    let asked = journey.asked.take();
    (terminal::emit(journey, persisted), asked)
}

/// Stores the end of a call that needed an approval. Boxed, to keep the common future small.
async fn store(asked: Option<Box<Asked>>, record: &mut CallRecord) {
    if let Some(asked) = asked {
        Box::pin(approval::conclude(*asked, record)).await;
    }
}

/// Runs the remaining phases of a call that another process began.
async fn return_to(journey: &mut Journey<'_>, kept: &Kept) -> Result<Executed, Refusal> {
    let permitted = approval::re_enter(journey, kept).await?;
    let scheduled = schedule::wait(journey, permitted).await?;
    execute::run(journey, scheduled).await
}

/// Runs the phases that can end a call before its tool has answered.
async fn approach(journey: &mut Journey<'_>) -> Result<Executed, Refusal> {
    let resolved = resolve::resolve(journey).await?;
    let parsed = parse::parse(journey, resolved).await?;
    let gated = schema_gate::gate(journey, parsed)?;
    let valid = validate::validate(journey, gated).await?;
    let observed = observe::observe(journey, valid).await?;
    let hooked = pre_hooks::run(journey, observed).await?;
    let permitted = permission::decide(journey, hooked).await?;
    let scheduled = schedule::wait(journey, permitted).await?;
    execute::run(journey, scheduled).await
}
