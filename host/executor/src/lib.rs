//! The trait between deciding and running. The pipeline depends on this file; the executor knows nothing of the
//! pipeline.

#[macro_use(guard)]
extern crate toolcell_spec;

mod cancellation;
mod children;
pub mod hook;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use cancellation::Cancellation;
pub use children::{CallableTool, ChildAnswer, ChildCall, ChildOutput, LimitShare, ToolCaller};
use toolcell_journal::Artifacts;
use toolcell_policy::secret::Secrets;
use toolcell_policy::{Limits, Permit, PreflightPermit};
use toolcell_spec::{
    AbortReason, Content, ContextModifier, ErrorCode, InvocationId, Refusal, Replay, ReplayData,
    SafetyFacts, ToolProgress, Usage,
};
use toolcell_system::BoxFuture;

/// Version of what is checked when a component's records are loaded. It changes with every check that could refuse what
/// was accepted before: acceptance is noted on disk.
pub const CHECKS_VERSION: &str = "7";

/// Runs guests. Only [`Executor::invoke`] gives capabilities, and only for a [`Permit`].
pub trait Executor: Send + Sync {
    /// Runs value validation in an empty world, and preflight in the world of `check` (phase 4). `Ok` if the component
    /// exports neither.
    fn validate<'a>(&'a self, check: InputCheck<'a>) -> BoxFuture<'a, Result<(), Refusal>>;

    /// Returns the component's claims about one input, from an empty world. `None` if it does not export the interface,
    /// or does not answer; the conservative facts then apply.
    fn classify<'a>(
        &'a self,
        check: InputCheck<'a>,
    ) -> BoxFuture<'a, Result<Option<SafetyFacts>, Refusal>>;

    /// Runs the tool that `permit` names, with what `permit` carries, and reports usage even if it fails. A call that
    /// needs input is run again with the same permit.
    fn invoke<'a>(&'a self, permit: &'a Permit, run: RunInput) -> BoxFuture<'a, Box<Execution>>;
}

/// A check of an input. It has no capabilities, but for what preflight reads.
#[derive(Clone, Copy)]
pub struct InputCheck<'a> {
    /// `sha256:<hex>` of the component.
    pub component: &'a str,
    pub tool: &'a str,
    pub input: &'a str,
    pub limits: &'a Limits,
    /// Time that loading the component's code may take, which is not the guest's: the wall time of the call.
    pub wall: Duration,
    pub cancellation: &'a Cancellation,
    pub preflight: PreflightAccess<'a>,
}

/// Where preflight runs.
#[derive(Clone, Copy)]
pub enum PreflightAccess<'a> {
    /// In an empty world.
    Offline,
    /// With what a decision lets it read.
    Reading(&'a PreflightPermit),
    /// Nowhere, because the call is denied, or has to be approved first.
    Left,
    /// As `Reading`, after the check of the values, which is not repeated.
    Alone(&'a PreflightPermit),
}

/// Inputs of a run besides its permit.
#[derive(Clone)]
pub struct RunInput {
    /// 1 for the first try.
    pub attempt: u32,
    pub cancellation: Cancellation,
    /// Values of the secrets that the permit names, for requests to their origins. The guest never gets them.
    pub secrets: Secrets,
    pub observer: Arc<dyn Observer>,
    /// Store of the guest's artifacts, which also counts its calls' artifacts; `None` if the tool imports neither.
    pub artifacts: Option<Artifacts>,
    /// Why the guest may not change its caller's context, as a sentence for the tool's author; `None` if it may.
    pub modifiers_barred: Option<&'static str>,
    /// `Some` if the tool was called before in the same call.
    pub resumed: Option<Arc<ResumedState>>,
    pub nondeterminism: Nondeterminism,
    /// Calls other tools for the guest; `None` if it may call none.
    pub tools: Option<Arc<dyn ToolCaller>>,
    /// `Some` if another guest makes the call: what it may use of the limits of that one.
    pub share: Option<LimitShare>,
    /// The settings that the operator gave the tool, as the JSON text of an object.
    pub configuration: Option<Arc<str>>,
}

/// Where the random numbers and the clock readings of a guest come from.
#[derive(Clone, Debug, Default)]
pub enum Nondeterminism {
    /// From this machine, and they are not recorded.
    #[default]
    Fresh,
    /// From this machine. What a replay needs of them is recorded.
    Recorded,
    /// From the record of an earlier call.
    Replayed(Arc<Replay>),
}

impl Nondeterminism {
    /// The invocation id that the guest sees; `own` is the call's.
    pub fn shown_id(&self, own: InvocationId) -> InvocationId {
        match self {
            Self::Replayed(replay) => replay.of,
            Self::Fresh | Self::Recorded => own,
        }
    }
}

/// State that a call continues with after its questions.
#[derive(Clone, Debug)]
pub struct ResumedState {
    /// JSON text of an object: every answer so far by its key.
    pub responses: String,
    pub resume_state: Vec<u8>,
    /// Usage of the instances before this one: only the rest of each limit is left.
    pub spent: Usage,
    /// Bytes of the partial results of these instances.
    pub partial_bytes: u64,
}

/// Receives what a guest reports while it runs. It is called from within the run, so it must not block.
pub trait Observer: Send + Sync {
    /// A progress update, or a partial result.
    fn progress(&self, update: ToolProgress);
    /// A line of the `log` interface; `fields` is the JSON text of an object, if the guest gave one.
    fn log(&self, level: &str, message: &str, fields: Option<&str>);
    /// The guest acknowledged a cancellation.
    fn cancel_acknowledged(&self);
    /// The sandbox denied the guest something. The guest got an error, and may continue.
    fn denied(&self, denial: SandboxDenial);
}

/// A denial of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxDenial {
    /// `network` or `file_read`.
    pub capability: &'static str,
    /// The guest's target, size-limited and printable: method and origin of a request.
    pub target: String,
    /// `public`, `loopback address`, `malformed`, ..
    pub target_class: String,
    /// The rule that denied it.
    pub rule: String,
}

/// Result of a run. Boxed, because it is handed through several futures.
#[derive(Debug)]
pub struct Execution {
    pub outcome: Result<GuestOutcome, Refusal>,
    pub usage: Usage,
    /// Bytes of the partial results delivered, including earlier instances of the call.
    pub partial_bytes: u64,
    /// Output and logs of the guest, size-limited.
    pub logs: Vec<Content>,
    /// Changes to its caller's context that the guest wants, sorted by key. They count only if the call succeeds.
    pub context_modifiers: Vec<ContextModifier>,
    /// `true` if a secret was removed from data that the guest received.
    pub redacted: bool,
    /// Random numbers and clock readings that the guest got, if they were recorded.
    pub recorded: Option<ReplayData>,
    /// How a command ended; `None` for any other guest.
    pub command: Option<CommandEnd>,
}

/// How a command-line program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandEnd {
    /// Its exit code; `None` if it was stopped, or crashed.
    pub exit_code: Option<i32>,
}

impl Execution {
    /// The result of a run whose guest did not begin.
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

    /// This run with the logs of the run `before` it, in the same call.
    pub fn after(mut self: Box<Self>, before: Self) -> Box<Self> {
        self.redacted |= before.redacted;
        let later = std::mem::replace(&mut self.logs, before.logs);
        self.logs.extend(later);
        self
    }
}

/// Return value of the guest, before checks.
#[derive(Debug)]
pub enum GuestOutcome {
    Success(GuestOutput),
    /// Usable output, and what failed.
    Partial(GuestOutput, Refusal),
    Failure(Refusal),
    /// The guest stopped, and must be called again with answers.
    NeedsInput(NeededInput),
}

/// Questions of a guest to its caller's user, as it wrote them.
#[derive(Clone, Debug, Default)]
pub struct NeededInput {
    pub requests: Vec<InputRequest>,
    pub resume_state: Vec<u8>,
}

/// One question of a guest.
#[derive(Clone, Debug)]
pub struct InputRequest {
    pub key: String,
    pub message: String,
    /// JSON text.
    pub schema: String,
}

/// Output of a guest, as JSON texts.
#[derive(Debug, Default)]
pub struct GuestOutput {
    pub content: String,
    pub structured: Option<String>,
    pub ui_summary: Option<String>,
}

/// Returns the refusal of a call that was stopped for `reason`.
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

/// The refusal of a call that `cancellation` asks to stop.
pub fn stopped(cancellation: &Cancellation) -> Refusal {
    canceled(cancellation.reason())
}

/// Runs `work`, unless the call is asked to stop before or meanwhile.
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

/// Time after which a call that was cut can be made again, by the host that follows, in seconds.
const SHUT_DOWN_RETRY_AFTER: f64 = 1.0;
