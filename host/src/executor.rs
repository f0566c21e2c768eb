//! The trait between deciding and running. The pipeline knows this file; what is behind it knows nothing of the pipeline.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::policy::{Limits, Permit};
use crate::record::{AbortReason, Content, ErrorClass, ProgressStatus, Refusal, SafetyFacts, Usage};
pub use crate::scheduler::Cancellation;
use crate::secret::Secrets;

/// A future that can be stored: the trait is used through a pointer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs guests. Only [`Executor::invoke`] gives capabilities, and only for a [`Permit`].
pub trait Executor: Send + Sync {
    /// Value validation and preflight (phase 4) in an empty world. `Ok` where the component exports no such thing.
    fn validate<'a>(&'a self, check: Check<'a>) -> BoxFuture<'a, Result<(), Refusal>>;

    /// What the component says of one input, in an empty world. Nothing where it exports no such thing, or does not
    /// answer: then the careful facts count.
    fn classify<'a>(&'a self, check: Check<'a>) -> BoxFuture<'a, Option<SafetyFacts>>;

    /// Runs the tool that `permit` names, with what `permit` carries, and reports usage also when it fails. A call that
    /// needs input is run again with the same permit.
    fn invoke<'a>(&'a self, permit: &'a Permit, run: Run) -> BoxFuture<'a, Execution>;
}

/// A look at an input without capabilities.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    /// `sha256:<hex>`.
    pub component: &'a str,
    pub tool: &'a str,
    pub input: &'a str,
    pub limits: &'a Limits,
    pub cancellation: &'a Cancellation,
}

/// What accompanies a run.
#[derive(Clone)]
pub struct Run {
    pub cancellation: Cancellation,
    /// The values of the secrets that the permit names: for requests to their origins, never for the guest.
    pub secrets: Secrets,
    pub observer: Arc<dyn Observer>,
    /// What went before, if the tool was called before in the same call.
    pub resumed: Option<Arc<Resumed>>,
}

/// What a call that was answered goes on with.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// JSON text of an object: every answer so far by its key.
    pub responses: String,
    pub resume_state: Vec<u8>,
    /// What the instances before this one consumed: only the rest of each limit is left.
    pub spent: Usage,
}

/// Hears what a guest says while it runs. Called from within the run: it must not block.
pub trait Observer: Send + Sync {
    /// A progress update, or a partial result.
    fn progress(&self, update: GuestProgress);
    /// A line of the `log` interface; `fields` is the JSON text of an object, if the guest gave one.
    fn log(&self, level: &str, message: &str, fields: Option<&str>);
    /// The guest has seen that it should stop.
    fn cancel_acknowledged(&self);
    /// The sandbox kept the guest from something. The guest was told, and may go on.
    fn denied(&self, denial: SandboxDenial);
}

/// Something that the sandbox kept a guest from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxDenial {
    /// `network`.
    pub capability: &'static str,
    /// What the guest wanted, bounded and printable: method and origin of a request.
    pub target: String,
    /// `public`, `loopback address`, `malformed`, ..
    pub target_class: String,
    /// The rule that it met.
    pub rule: String,
}

/// A progress update as far as a guest may author it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuestProgress {
    pub status: ProgressStatus,
    pub message: Option<String>,
    /// 0 to 100.
    pub percent: Option<f64>,
    pub current_step: Option<String>,
    pub total_steps: Option<u32>,
    pub bytes_read: Option<u64>,
    pub bytes_written: Option<u64>,
    pub line_count: Option<u64>,
    /// The reference and the JSON array of a partial result.
    pub partial: Option<(String, serde_json::Value)>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Execution {
    pub outcome: Result<GuestOutcome, Refusal>,
    pub usage: Usage,
    /// What the guest printed and logged, bounded.
    pub logs: Vec<Content>,
    /// Whether a secret was taken out of what the guest received.
    pub redacted: bool,
}

/// What the guest returned, before anybody looked at it.
#[derive(Debug)]
pub enum GuestOutcome {
    Success(GuestOutput),
    /// Something usable, and what failed.
    Partial(GuestOutput, Refusal),
    Failure(Refusal),
    /// The guest ended itself, and wants to be called again with answers.
    NeedsInput(NeededInput),
}

/// What a guest wants to know from its caller's user, as it said it.
#[derive(Clone, Debug)]
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

/// JSON texts of a guest.
#[derive(Debug, Default)]
pub struct GuestOutput {
    pub content: String,
    pub structured: Option<String>,
    pub ui_summary: Option<String>,
}

/// A call that somebody stopped.
pub fn canceled(reason: AbortReason) -> Refusal {
    let (class, code, why) = match reason {
        AbortReason::SiblingError => {
            (ErrorClass::SiblingCanceled, "sibling_canceled", "stopped, because a sibling call failed")
        }
        AbortReason::Fallback => {
            (ErrorClass::StreamingFallbackDiscarded, "fallback", "superseded by another attempt at the same call")
        }
        AbortReason::RuntimeShutdown => (ErrorClass::Canceled, "canceled", "the host is shutting down"),
        AbortReason::Timeout => (ErrorClass::Canceled, "canceled", "the caller stopped waiting"),
        AbortReason::UserInterruption => (ErrorClass::Canceled, "canceled", "the call was canceled"),
    };
    Refusal::new(class, code, why)
}
