//! Maps what stopped a guest to an error class; no other file does. Precedence: cancellation, deadline or CPU time, fuel, the
//! guest's exit status, any other limit, any other trap.

use toolcell_executor::canceled;
use toolcell_policy::Limits;
use toolcell_spec::{AbortReason, ErrorCode, Refusal};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, ThrownException, Trap};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi_http::FieldMapError;

use super::component::TOOL_CONTRACT;

/// Maximum number of events of one result.
pub(super) const EVENTS_MAX: usize = 10_000;
const NATIVE_CHARS_MAX: usize = 200;

#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum StopReason {
    #[error("canceled")]
    Canceled(AbortReason),
    #[error("out of time")]
    Deadline,
    #[error("out of CPU time")]
    CpuTime,
    /// The guest asked its user something.
    #[error("needs input")]
    NeedsInput,
    /// The guest asked something that cannot be asked; the value is the rule that it broke.
    #[error("asked what cannot be asked: {0}")]
    Question(&'static str),
}

/// Ends the guest, which could try again forever after an error code.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum ExceededLimit {
    #[error("the quota of bytes on disk")]
    DiskBytes,
    #[error("the quota of files made")]
    FilesCreated,
    #[error("the quota of the workspace")]
    Workspace,
    #[error("the quota of open files")]
    Descriptors,
    /// Of a command: of all other guests, the excess is dropped.
    #[error("the quota of printed bytes")]
    Output,
    #[error("the quota of bytes of a response")]
    Response,
    #[error("the limit of events of one result")]
    Events,
    #[error("the limit of all events together")]
    Streamed,
}

/// The guest got an error, and may have continued.
#[derive(Clone, Debug)]
pub(super) struct CallDenial {
    pub(super) code: ErrorCode,
    pub(super) message: String,
}

impl CallDenial {
    /// The verdict on a call that failed after a denial.
    pub(super) fn verdict(self, failure: &Refusal) -> Refusal {
        let message = format!("{}. The tool says: {}", self.message, failure.message);
        // The detail marks the error as one that quotes the tool, whatever its class.
        let detail = failure.detail.as_ref().unwrap_or(&failure.message);
        // What the guest got in place of what it wanted, if it did not say what that was.
        let native = failure
            .native_error_ref
            .clone()
            .unwrap_or_else(|| self.code.as_str().into());
        Refusal::new(self.code, message)
            .detail(detail.clone())
            .native(native)
    }
}

pub(super) struct TrapContext<'a> {
    pub(super) limits: &'a Limits,
    /// It refused a request for memory or table space.
    pub(super) denied: Option<&'static str>,
    /// It was stopped while it computed.
    pub(super) computes: bool,
    pub(super) stderr_tail: String,
}

/// Has the error as the engine or the limit put it (AT-ERR-06).
pub(super) fn refusal(error: &wasmtime::Error, seen: &TrapContext<'_>) -> Refusal {
    let mut refusal = classified(error, seen);
    if refusal.native_error_ref.is_none() {
        let native = match seen.denied {
            Some(limit) => format!("the limit of {limit}"),
            None => native(error),
        };
        refusal.native_error_ref = Some(native.into());
    }
    refusal
}

/// The context is left out, because it may be a backtrace.
fn native(error: &wasmtime::Error) -> String {
    error
        .root_cause()
        .to_string()
        .chars()
        .take(NATIVE_CHARS_MAX)
        .collect()
}

fn classified(error: &wasmtime::Error, seen: &TrapContext<'_>) -> Refusal {
    if let Some(stop) = error.downcast_ref::<StopReason>() {
        return stopped(*stop, seen);
    }
    if let Some(trap) = error.downcast_ref::<Trap>()
        && *trap == Trap::OutOfFuel
    {
        let message = format!(
            "the tool used its CPU budget of {} units of fuel; raise it with --fuel",
            seen.limits.fuel
        );
        return Refusal::new(ErrorCode::FuelExhausted, message).native("out_of_fuel");
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return failed(
            ErrorCode::GuestExited,
            format!(
                "the tool exited with status {} instead of answering",
                exit.0
            ),
            seen,
        )
        .native(exit.0);
    }
    if let Some(exceeded) = error.downcast_ref::<ExceededLimit>() {
        return over_quota(*exceeded, seen.limits);
    }
    if let Some(limit) = seen.denied {
        return limit_hit(limit, seen);
    }
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return Refusal::new(
            ErrorCode::HostOverloaded,
            "the host has no room for another call now",
        );
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref::<ResourceTableError>() {
        return Refusal::new(
            ErrorCode::HandleLimit,
            format!("the tool opened more than {} handles", seen.limits.handles),
        );
    }
    if error.downcast_ref::<FieldMapError>().is_some() {
        let limit = seen.limits.network.header_bytes;
        return Refusal::new(
            ErrorCode::HeaderLimit,
            format!("the tool wrote more than {limit} bytes of headers"),
        );
    }
    if error.is::<ThrownException>() {
        let message = "the tool threw an exception that nothing in it catches";
        return Refusal::new(ErrorCode::GuestPanicked, message);
    }
    match error.downcast_ref::<Trap>() {
        Some(trap) => trapped(*trap, seen),
        None => by_message(error, seen),
    }
}

fn stopped(stop: StopReason, seen: &TrapContext<'_>) -> Refusal {
    match stop {
        StopReason::Canceled(reason) => canceled(reason),
        StopReason::Deadline => Refusal::new(
            if seen.computes {
                ErrorCode::EpochDeadline
            } else {
                ErrorCode::DeadlineExceeded
            },
            format!(
                "the tool did not finish within {} ms; raise the limit with --timeout",
                seen.limits.wall.as_millis()
            ),
        ),
        StopReason::CpuTime => Refusal::new(
            ErrorCode::CpuTimeExhausted,
            format!(
                "the tool used its CPU time of {} ms; raise it with --cpu",
                seen.limits.cpu.as_millis()
            ),
        ),
        // Outside of a call: when a component is described or checks its arguments.
        StopReason::NeedsInput => Refusal::new(
            ErrorCode::AskedTooEarly,
            "the tool asks its user something before it was called",
        ),
        StopReason::Question(rule) => Refusal::new(
            ErrorCode::QuestionInvalid,
            format!("the tool asked an invalid question: {rule}"),
        ),
    }
}

fn over_quota(exceeded: ExceededLimit, limits: &Limits) -> Refusal {
    let (code, message) = match exceeded {
        ExceededLimit::DiskBytes => (
            ErrorCode::DiskLimit,
            format!(
                "the tool exceeded its limit of {} bytes written to files; raise it with --max-disk",
                limits.disk_bytes
            ),
        ),
        ExceededLimit::Workspace => (
            ErrorCode::WorkspaceFull,
            "the tool wrote more than fits into the quota of its workspace; remove files or snapshots there, or use a \
             workspace with a larger quota"
                .to_owned(),
        ),
        ExceededLimit::FilesCreated => (
            ErrorCode::FilesLimit,
            format!(
                "the tool makes more than the {} files, folders and links that it may",
                limits.files_created
            ),
        ),
        ExceededLimit::Descriptors => (
            ErrorCode::DescriptorLimit,
            format!("the tool keeps more than {} files open", limits.descriptors),
        ),
        ExceededLimit::Output => (
            ErrorCode::OutputLimit,
            format!(
                "the tool prints more than the {} bytes that it may; --max-output raises it",
                limits.output_bytes
            ),
        ),
        ExceededLimit::Response => (
            ErrorCode::OutputLimit,
            format!(
                "the body of the response has more than the {} bytes that it may; --max-output raises it",
                limits.output_bytes
            ),
        ),
        ExceededLimit::Events => (
            ErrorCode::EventLimit,
            format!(
                "the tool's result has more than {EVENTS_MAX} events, which no result may have"
            ),
        ),
        ExceededLimit::Streamed => return too_much_output(limits),
    };
    Refusal::new(code, message)
}

fn too_much_output(limits: &Limits) -> Refusal {
    let bytes = limits.output_bytes;
    let message =
        format!("the tool handed over more than {bytes} bytes at once; --max-output raises it");
    Refusal::new(ErrorCode::OutputLimit, message)
}

/// What a guest that was refused memory or table space may have failed for.
pub(super) fn denied_space(seen: &TrapContext<'_>) -> Option<CallDenial> {
    let Refusal { code, message, .. } = limit_hit(seen.denied?, seen);
    Some(CallDenial { code, message })
}

fn limit_hit(limit: &str, seen: &TrapContext<'_>) -> Refusal {
    match limit {
        "memory" => Refusal::new(
            ErrorCode::MemoryLimit,
            format!(
                "the tool exceeded its memory limit of {} bytes; raise it with --memory",
                seen.limits.memory_bytes
            ),
        ),
        _ => Refusal::new(
            ErrorCode::TableLimit,
            format!(
                "the tool needs more than the {} table elements it may use",
                seen.limits.table_elements
            ),
        ),
    }
}

fn trapped(trap: Trap, seen: &TrapContext<'_>) -> Refusal {
    let (code, what) = match trap {
        Trap::StackOverflow => (ErrorCode::StackOverflow, "the tool used up its stack"),
        Trap::UnreachableCodeReached => (ErrorCode::GuestPanicked, "the tool crashed"),
        Trap::MemoryOutOfBounds | Trap::HeapMisaligned => (
            ErrorCode::MemoryFault,
            "the tool made an out-of-bounds or misaligned memory access",
        ),
        Trap::IntegerDivisionByZero | Trap::IntegerOverflow | Trap::BadConversionToInteger => (
            ErrorCode::ArithmeticFault,
            "integer division by zero, overflow, or invalid conversion to an integer in the tool",
        ),
        Trap::Interrupt => (ErrorCode::EpochDeadline, "the tool was interrupted"),
        Trap::AsyncDeadlock => (
            ErrorCode::GuestDeadlocked,
            "the tool is deadlocked: all of its tasks are blocked",
        ),
        _ => (ErrorCode::GuestTrapped, "the tool crashed"),
    };
    failed(code, what.to_owned(), seen).native(trap.to_string())
}

/// Limits that the engine reports only in an error's text.
fn by_message(error: &wasmtime::Error, seen: &TrapContext<'_>) -> Refusal {
    let text = format!("{error:#}");
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["fuel allocated for hostcalls"]) {
        return too_much_output(seen.limits);
    }
    if has(&["resource limit exceeded"]) {
        let message =
            "the tool needs more instances, memories or tables than it may have".to_owned();
        return Refusal::new(ErrorCode::InstanceLimit, message).detail(text);
    }
    if has(&[
        "handle limit exceeded",
        "handle table",
        "resource table has no free keys",
    ]) {
        return Refusal::new(
            ErrorCode::HandleLimit,
            format!("the tool opened more than {} handles", seen.limits.handles),
        );
    }
    if has(&[
        "memory minimum size",
        "table minimum size",
        "memory limits",
        "table limits",
        "exceeds the limit",
    ]) {
        return Refusal::new(
            ErrorCode::MemoryLimit,
            "the tool starts with more memory than it may use; --memory raises it".to_owned(),
        );
    }
    if has(&["failed to convert function to given type"]) {
        return Refusal::new(
            ErrorCode::ContractMismatch,
            format!("the component does not follow {TOOL_CONTRACT}: {text}"),
        );
    }
    // The engine's own words name the value.
    let cause = native(error);
    failed(
        ErrorCode::GuestInvalid,
        format!("the tool violated its interface contract: {cause}"),
        seen,
    )
    .detail(text)
}

/// The end of stderr goes into the detail, for the journal, because it may hold what the model should not see.
fn failed(code: ErrorCode, message: String, seen: &TrapContext<'_>) -> Refusal {
    let refusal = Refusal::new(code, message);
    if seen.stderr_tail.is_empty() {
        refusal
    } else {
        refusal.detail(seen.stderr_tail.clone())
    }
}
