//! The trait between deciding and running: the executor knows nothing of the pipeline.

#[macro_use(guard)]
extern crate toolcell_spec;

mod cancellation;
mod children;
pub mod hook;
mod workspace_room;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

pub use cancellation::Cancellation;
pub use children::{CallableTool, ChildAnswer, ChildCall, ChildOutput, LimitShare, ToolCaller};
use toolcell_journal::Artifacts;
use toolcell_policy::secret::Secrets;
use toolcell_policy::{Capability, Limits, Permit, PreflightPermit};
use toolcell_spec::{
    AbortReason, Content, ContextModifier, ErrorCode, InvocationId, Refusal, Replay, ReplayData,
    SafetyFacts, ToolProgress, Usage,
};
use toolcell_system::BoxFuture;
pub use workspace_room::WorkspaceRoom;

/// Version of the checks of a component's records. It changes with every check that could refuse what was accepted:
/// acceptance is noted on disk.
pub const CHECKS_VERSION: &str = "8";

/// Runs guests. Only [`Executor::invoke`] gives capabilities, and only for a [`Permit`].
pub trait Executor: Send + Sync {
    /// Validates values in an empty world, and runs preflight in the world of `check` (phase 4). `Ok` if the component
    /// exports neither.
    fn validate<'a>(&'a self, check: InputCheck<'a>) -> BoxFuture<'a, Result<(), Refusal>>;

    /// Claims about one input, from an empty world. `None`, without an answer: conservative facts apply.
    fn classify<'a>(
        &'a self,
        check: InputCheck<'a>,
    ) -> BoxFuture<'a, Result<Option<SafetyFacts>, Refusal>>;

    /// Fails if something of `capability` is not there any more. Asked before a call is approved, which could not be
    /// blocked later.
    fn check_world(&self, _capability: &Capability) -> Result<(), Refusal> {
        Ok(())
    }

    /// Runs the permit's tool with its contents; reports usage even on failure. A call that needs input runs again with
    /// the same permit.
    fn invoke<'a>(&'a self, permit: &'a Permit, run: RunInput) -> BoxFuture<'a, Box<Execution>>;
}

#[derive(Clone)]
pub struct InputCheck<'a> {
    /// `sha256:<hex>` of the component.
    pub component: &'a str,
    pub tool: &'a str,
    pub input: &'a str,
    pub limits: &'a Limits,
    /// Time for loading the component's code, which is not the guest's.
    pub wall: Duration,
    pub cancellation: &'a Cancellation,
    pub preflight: PreflightAccess<'a>,
    pub observer: Arc<dyn Observer>,
}

#[derive(Clone, Copy)]
pub enum PreflightAccess<'a> {
    /// In an empty world.
    Offline,
    /// Later, or never: the values are checked alone.
    Left,
    /// With what a decision lets it read. The values are not checked again.
    Alone(&'a PreflightPermit),
}

/// Inputs of a run besides its permit.
#[derive(Clone)]
pub struct RunInput {
    /// 1 for the first try.
    pub attempt: u32,
    pub cancellation: Cancellation,
    /// For requests to the secrets' origins; never for the guest.
    pub secrets: Secrets,
    pub observer: Arc<dyn Observer>,
    /// Also counts the artifacts of its calls; `None` if the tool imports neither.
    pub artifacts: Option<Artifacts>,
    /// Why the guest may not change its caller's context, for the tool's author; `None` if it may.
    pub modifiers_barred: Option<&'static str>,
    /// `Some` if the tool ran before in the same call.
    pub resumed: Option<Arc<ResumedState>>,
    pub nondeterminism: Nondeterminism,
    /// `None` if the guest may call no tools.
    pub tools: Option<Arc<dyn ToolCaller>>,
    /// `Some` if a guest makes the call: its usable share of that guest's limits.
    pub share: Option<LimitShare>,
    /// The operator's settings, as the JSON text of an object.
    pub configuration: Option<Arc<str>>,
    /// For the guest's context: what the caller's client says of its user, if the tool asks for it.
    pub user_info: Option<Value>,
    /// `None` for a call that changes no workspace.
    pub room: Option<Arc<WorkspaceRoom>>,
}

/// Source of a guest's random numbers and clock readings.
#[derive(Clone, Debug, Default)]
pub enum Nondeterminism {
    /// This machine, unrecorded.
    #[default]
    Fresh,
    /// This machine; a replay's needs are recorded.
    Recorded,
    /// The record of an earlier call.
    Replayed(Arc<Replay>),
}

impl Nondeterminism {
    pub fn shown_id(&self, own: InvocationId) -> InvocationId {
        match self {
            Self::Replayed(replay) => replay.of,
            Self::Fresh | Self::Recorded => own,
        }
    }
}

#[derive(Clone, Debug)]
pub struct ResumedState {
    /// JSON text of an object: the answers by key.
    pub responses: String,
    pub resume_state: Vec<u8>,
    /// Usage of earlier instances, taken off each limit.
    pub spent: Usage,
    /// Of earlier instances.
    pub partial_bytes: u64,
}

/// Receives what a guest reports. Called from within the run, so it must not block.
pub trait Observer: Send + Sync {
    fn progress(&self, update: ToolProgress);
    /// `fields` is the JSON text of an object.
    fn log(&self, level: &str, message: &str, fields: Option<&str>);
    fn cancel_acknowledged(&self);
    /// The guest gets an error, and may continue.
    fn denied(&self, denial: SandboxDenial);
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxDenial {
    /// `network` or `file_read`.
    pub capability: &'static str,
    /// Size-limited and printable: method and origin of a request.
    pub target: String,
    /// `public`, `loopback address`, `malformed`, ..
    pub target_class: String,
    pub rule: String,
}

/// Boxed, because several futures pass it on.
#[derive(Debug)]
pub struct Execution {
    pub outcome: Result<GuestOutcome, Refusal>,
    pub usage: Usage,
    /// Includes earlier instances of the call.
    pub partial_bytes: u64,
    /// Size-limited.
    pub logs: Vec<Content>,
    /// Wanted changes of the caller's context, sorted by key; valid only if the call succeeds.
    pub context_modifiers: Vec<ContextModifier>,
    /// `true` if a secret was removed from data that the guest received.
    pub redacted: bool,
    /// Random numbers and clock readings, if recorded.
    pub recorded: Option<ReplayData>,
    /// `None` for a guest that is no command.
    pub command: Option<CommandEnd>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandEnd {
    /// `None` if it was stopped, or crashed.
    pub exit_code: Option<i32>,
}

impl Execution {
    /// For a guest that did not begin.
    pub fn failed(refusal: Refusal, usage: Usage) -> Box<Self> {
        Box::new(Self {
            outcome: Err(refusal),
            usage,
            partial_bytes: 0,
            logs: Vec::new(),
            context_modifiers: Vec::new(),
            redacted: false,
            recorded: None,
            command: None,
        })
    }

    pub fn after(mut self: Box<Self>, before: Self) -> Box<Self> {
        self.redacted |= before.redacted;
        let later = std::mem::replace(&mut self.logs, before.logs);
        self.logs.extend(later);
        self
    }
}

/// Before checks.
#[derive(Debug)]
pub enum GuestOutcome {
    Success(GuestOutput),
    /// Usable output, and the failure.
    Partial(GuestOutput, Refusal),
    Failure(Refusal),
    /// The guest must be called again with answers.
    NeedsInput(NeededInput),
}

#[derive(Clone, Debug, Default)]
pub struct NeededInput {
    pub requests: Vec<InputRequest>,
    pub resume_state: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct InputRequest {
    pub key: String,
    pub message: String,
    /// JSON text.
    pub schema: String,
}

/// As JSON texts.
#[derive(Debug, Default)]
pub struct GuestOutput {
    pub content: String,
    pub structured: Option<String>,
    pub ui_summary: Option<String>,
}

#[cold]
pub fn canceled(reason: AbortReason) -> Refusal {
    let (code, why) = match reason {
        AbortReason::SiblingError => (
            ErrorCode::SiblingCanceled,
            "stopped, because a sibling call failed",
        ),
        AbortReason::Fallback => (
            ErrorCode::Fallback,
            "superseded by another attempt at the same call",
        ),
        AbortReason::RuntimeShutdown => (ErrorCode::HostStopped, "toolcell is shutting down"),
        AbortReason::Timeout => (ErrorCode::Canceled, "the caller stopped waiting"),
        AbortReason::UserInterruption => (ErrorCode::Canceled, "the call was canceled"),
    };
    let mut refusal = Refusal::new(code, why).aborted(reason);
    if reason == AbortReason::RuntimeShutdown {
        refusal.retry_after = Some(SHUT_DOWN_RETRY_AFTER);
    }
    refusal
}

pub fn stopped(cancellation: &Cancellation) -> Refusal {
    canceled(cancellation.reason())
}

/// A cancellation before or meanwhile counts.
pub async fn unless_canceled<T>(
    cancellation: &Cancellation,
    work: impl Future<Output = T>,
) -> Result<T, Refusal> {
    tokio::select! {
        biased;
        () = cancellation.cancelled() => Err(stopped(cancellation)),
        done = work => Ok(done),
    }
}

/// In seconds, for a repetition by the host that follows.
const SHUT_DOWN_RETRY_AFTER: f64 = 1.0;
