//! Work on foreign data that may take long: on threads of its own, so that other calls go on, and under the call's time
//! and cancellation. A check of a contract cannot be interrupted; one that was given up goes on to its end, which its
//! budget bounds, and nobody waits for it.

use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::Duration;

use serde_json::Value;

use crate::catalog::{Contract, Unsatisfied};
use crate::executor::canceled;
use crate::pool::{Pool, Unfinished};
use crate::record::{AbortReason, ErrorClass, Input, Refusal};
use crate::scheduler::Cancellation;

use super::Request;

/// Pieces of work that wait for a thread.
const WAITING_MAX: usize = 64;
/// Bytes of stack of each thread: a schema and a value may be nested a thousand deep. Only what is used takes memory.
const STACK_BYTES: usize = 64 << 20;
/// Seconds until another attempt makes sense.
const RETRY_SECONDS: f64 = 1.0;

/// Half of the processors, so that the other half answers other calls.
static POOL: LazyLock<Option<Pool>> = LazyLock::new(|| {
    let threads = available_parallelism().map_or(1, |all| all.get() / 2).clamp(1, 8);
    Pool::new("checks", threads, WAITING_MAX, STACK_BYTES).ok()
});

/// Runs `work` on a thread for checks.
///
/// # Errors
///
/// `rate_limited` where too much of it waits already.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let Some(pool) = POOL.as_ref() else { return Err(Refusal::host_fault("no threads for checks")) };
    pool.run(work).await.map_err(|unfinished| match unfinished {
        Unfinished::Busy(_) => {
            let message = "too many large values are being checked at once; try again later";
            let mut refusal = Refusal::new(ErrorClass::RateLimited, "too_many_checks", message);
            refusal.retry_after = Some(RETRY_SECONDS);
            refusal
        }
        Unfinished::Panicked => Refusal::host_fault("a check panicked"),
    })
}

/// Runs `work` on a thread for checks, until `wall` is over or the call is canceled.
///
/// # Errors
///
/// Those of [`run`], `timeout`, and what a canceled call ends with.
pub(super) async fn within<T: Send + 'static>(
    wall: Duration,
    cancellation: &Cancellation,
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::select! {
        biased;
        () = cancellation.cancelled() => Err(canceled(cancellation.requested().unwrap_or(AbortReason::UserInterruption))),
        done = tokio::time::timeout(wall, run(work)) => done.unwrap_or_else(|_| {
            let message = format!("{what} took longer than {} ms; pass less, or allow more with --timeout", wall.as_millis());
            Err(Refusal::new(ErrorClass::Timeout, "check_timeout", message))
        }),
    }
}

type Check = fn(&Contract, &Value, usize) -> Result<(), Unsatisfied>;

/// Which check of a contract.
#[derive(Clone, Copy)]
pub(super) enum Against {
    Model,
    Call,
}

/// Holds an input against a contract: in place where that is quick, else on a thread for checks. The outer error ends the
/// call whatever the input says.
pub(super) async fn check_input(
    request: &Request,
    contract: &Arc<Contract>,
    input: &Input,
    against: Against,
) -> Result<Result<(), Unsatisfied>, Refusal> {
    let bytes = input.text().len();
    let (light, check): (_, Check) = match against {
        Against::Model => (contract.model_is_light(bytes), Contract::check_model_input),
        Against::Call => (contract.call_is_light(bytes), Contract::check_call_input),
    };
    let checked = move |contract: &Contract, input: &Input| match input.value() {
        Ok(value) => check(contract, value, bytes),
        Err(error) => Err(Unsatisfied::Mismatch(format!("arguments cannot be read as JSON: {error}"))),
    };
    if light || input.value().is_err() || !guard!("checks_aside") {
        return Ok(checked(contract, input));
    }
    let (contract, input) = (Arc::clone(contract), input.clone());
    let work = move || checked(&contract, &input);
    within(request.limits.wall, &request.cancellation, "checking the arguments", work).await
}
