//! Runs long work on untrusted data on its own threads, so that other calls go on. A check cannot be interrupted: after
//! a timeout or cancellation it runs on within its budget, and its result is dropped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::catalog::{CheckFailure, ToolContract};
use crate::scheduler::CallerShares;
use toolcell_executor::{Cancellation, unless_canceled};
use toolcell_spec::{ErrorCode, Input, Refusal};
use toolcell_system::BoxFuture;
use toolcell_system::pool::{Pool, UnfinishedJob};

use super::Request;
use super::call_state::CallState;

const WAITING_MAX: usize = 4_096;
/// Tasks of one caller that run or wait, and number of threads.
const OF_CALLER_MAX: usize = 8;
/// In bytes: schema and value may be nested a thousand deep. Only the used part takes memory.
const STACK_BYTES: usize = 64 << 20;
const RETRY_SECONDS: f64 = 1.0;

/// Half of the processors, so that the other half serves other calls.
static POOL: LazyLock<Option<Pool>> = LazyLock::new(|| {
    let threads = available_parallelism()
        .map_or(1, |all| all.get() / 2)
        .clamp(1, OF_CALLER_MAX);
    Pool::new("checks", threads, WAITING_MAX, STACK_BYTES).ok()
});

/// Separate from checks for clients, so that a new denial takes effect however many checks wait.
static LOADING: LazyLock<Option<Pool>> =
    LazyLock::new(|| Pool::new("loading", 1, WAITING_MAX, STACK_BYTES).ok());

static SHARES: LazyLock<CallerShares> = LazyLock::new(|| CallerShares::new(OF_CALLER_MAX));

/// `rate_limited` if too many tasks wait.
pub(super) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    on(POOL.as_ref(), work).await
}

/// Runs `work` on the thread for loading components; `rate_limited` if too many tasks wait.
pub async fn load<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    on(LOADING.as_ref(), work).await
}

async fn on<T: Send + 'static>(
    pool: Option<&Pool>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let Some(pool) = pool else {
        return Err(Refusal::host_fault("no threads for checks"));
    };
    pool.run(work).await.map_err(|unfinished| match unfinished {
        UnfinishedJob::Busy(_) | UnfinishedJob::NoThreads(_) => {
            let message = "too many large values are being checked at once; try again later";
            let mut refusal = Refusal::new(ErrorCode::TooManyChecks, message);
            refusal.retry_after = Some(RETRY_SECONDS);
            refusal
        }
        UnfinishedJob::Panicked => Refusal::host_fault("a check panicked"),
    })
}

#[derive(Debug)]
pub(super) struct LongChecks {
    caller: Option<String>,
    wall: Duration,
    cancellation: Cancellation,
    /// Microseconds, including waits for a thread; not the tool's or approvers' time.
    micros: AtomicU64,
}

impl LongChecks {
    pub(super) fn from_request(request: &Request) -> Self {
        Self {
            caller: request.actor_ref.clone(),
            wall: request.limits.wall,
            cancellation: request.cancellation.clone(),
            micros: AtomicU64::new(0),
        }
    }

    /// Runs `work` in the caller's turn. Fails as [`run`], with `timeout` once the checks' time is over, or for a
    /// canceled call.
    pub(super) fn run<'a, T: Send + 'static>(
        &'a self,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> BoxFuture<'a, Result<T, Refusal>> {
        // Boxed, to keep the future of a call small whose checks are quick.
        Box::pin(self.in_time(what, work))
    }

    /// As [`Self::run`], but here if `work` is quick.
    pub(super) async fn run_if<T: Send + 'static>(
        &self,
        is_long: bool,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        if is_long {
            self.run(what, work).await
        } else {
            Ok(work())
        }
    }

    /// `None` if too little time is left.
    async fn spend<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let spent = Duration::from_micros(self.micros.load(Ordering::Relaxed));
        let left = self.wall.saturating_sub(spent);
        if left.is_zero() {
            return None;
        }
        let began = Instant::now();
        let done = tokio::time::timeout(left, work).await.ok();
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(took, Ordering::Relaxed);
        done
    }

    async fn in_time<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let in_turn = async {
            let _place = match &self.caller {
                Some(caller) => SHARES.take(caller).await,
                None => None,
            };
            run(work).await
        };
        let timed = self.spend(in_turn);
        unless_canceled(&self.cancellation, timed).await?.unwrap_or_else(|| {
            let message = format!(
                "the checks of the call took longer than {} ms together, the last of them {what}; pass less, or \
                 allow more with --timeout",
                self.wall.as_millis()
            );
            Err(Refusal::new(ErrorCode::CheckTimeout, message))
        })
    }
}

type SchemaCheck = fn(&ToolContract, &Value) -> Result<(), CheckFailure>;
type IsLight = fn(&ToolContract, &Value, usize) -> bool;

#[derive(Clone, Copy)]
pub(super) enum InputSchema {
    Model,
    Call,
}

/// On a thread for checks unless quick. The outer error ends the call, whatever the input is.
pub(super) async fn check_input(
    journey: &CallState<'_>,
    contract: &Arc<ToolContract>,
    input: &Input,
    against: InputSchema,
) -> Result<Result<(), CheckFailure>, Refusal> {
    let bytes = input.text().len();
    let (is_light, check): (IsLight, SchemaCheck) = match against {
        InputSchema::Model => (
            ToolContract::model_is_light,
            ToolContract::check_model_input,
        ),
        InputSchema::Call => (ToolContract::call_is_light, ToolContract::check_call_input),
    };
    let is_heavy = |value| !is_light(contract, value, bytes);
    let is_long = input.value().is_ok_and(is_heavy);
    let contract = Arc::clone(contract);
    let input = input.clone();
    let work = move || match input.value() {
        Ok(value) => check(&contract, value),
        Err(error) => Err(CheckFailure::whole(format!(
            "the arguments are not valid JSON: {error}"
        ))),
    };
    let checks = &journey.checks;
    checks.run_if(is_long, "checking the arguments", work).await
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::Pin;
    use std::sync::{Arc, Mutex, mpsc};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use tokio::time::timeout;

    use super::{
        ErrorCode, LongChecks, OF_CALLER_MAX, RETRY_SECONDS, Request, WAITING_MAX, load, run,
    };
    use toolcell_policy::Limits;

    static ALL_THREADS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    #[tokio::test]
    async fn the_checks_of_a_call_have_one_time_together() {
        let limits = Limits {
            wall: Duration::from_millis(100),
            ..Limits::default()
        };
        let checks = LongChecks::from_request(&Request::new("t", "{}").limits(limits));
        assert_eq!(checks.spend(ready(1)).await, Some(1));
        assert_eq!(checks.spend(pending::<()>()).await, None);
        assert_eq!(checks.spend(ready(2)).await, None, "nothing is left");
    }

    #[tokio::test]
    async fn what_is_loaded_waits_for_no_check() {
        let _alone = ALL_THREADS.lock().await;
        let (checked, check) = mpsc::channel::<()>();
        let check = Arc::new(Mutex::new(check));
        let checks: Vec<_> = (0..OF_CALLER_MAX)
            .map(|_| {
                let check = Arc::clone(&check);
                tokio::spawn(run(move || _ = check.lock().unwrap().recv()))
            })
            .collect();
        // Lets the checks start before this load.
        tokio::task::yield_now().await;
        assert_eq!(
            timeout(Duration::from_secs(60), load(|| 7))
                .await
                .unwrap()
                .unwrap(),
            7
        );
        drop(checked);
        for check in checks {
            check.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_check_beyond_those_that_may_wait_is_refused() {
        let _alone = ALL_THREADS.lock().await;
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<Pin<Box<_>>> = Vec::new();
        let refusal = loop {
            let wait = Arc::clone(&wait);
            let mut check = Box::pin(run(move || _ = wait.lock().unwrap().recv()));
            match check.as_mut().poll(&mut context) {
                Poll::Pending => waiting.push(check),
                Poll::Ready(done) => break done.unwrap_err(),
            }
            assert!(
                waiting.len() <= WAITING_MAX + OF_CALLER_MAX,
                "it takes more and more"
            );
        };
        assert!(
            waiting.len() > WAITING_MAX,
            "{} checks were taken",
            waiting.len()
        );
        assert_eq!(refusal.code, ErrorCode::TooManyChecks);
        assert_eq!(refusal.retry_after, Some(RETRY_SECONDS));
        drop(go);
        for check in waiting {
            check.await.unwrap();
        }
        assert_eq!(run(|| 7).await.unwrap(), 7);
    }
}
