use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use toolcell_spec::{Content, HookOutcome, Timestamp};

use super::output::bounded;
use super::{HookAnswer, HookCall, HookOutput, Registration};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookFailure {
    /// The message of a reported failure, crash or breach of contract.
    Failed(String),
    TimedOut,
    Canceled,
    NotLoaded(String),
}

impl HookFailure {
    pub fn outcome(&self) -> HookOutcome {
        match self {
            Self::Failed(_) => HookOutcome::Failed,
            Self::TimedOut => HookOutcome::TimedOut,
            Self::Canceled => HookOutcome::Canceled,
            Self::NotLoaded(_) => HookOutcome::NotLoaded,
        }
    }
}

#[derive(Debug)]
pub struct HookRun {
    pub outputs: Result<Vec<HookOutput>, HookFailure>,
    pub logs: Vec<Content>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

impl Registration {
    /// Ends at the time limit or when `canceled` completes. It always returns: the hook has its own thread, and one
    /// that never yields is left behind.
    pub async fn run(&self, call: HookCall, canceled: impl Future<Output = ()>) -> HookRun {
        let started_at = Timestamp::now();
        let event = call.event;
        let begun = Instant::now();
        let answered = tokio::select! {
            biased;
            () = canceled => Err(HookFailure::Canceled),
            () = tokio::time::sleep(self.wall()) => Err(HookFailure::TimedOut),
            answered = self.answer(call) => answered,
        };
        let (outputs, logs) = match answered {
            Ok(HookAnswer { outputs, logs }) => {
                (outputs.and_then(bounded).map_err(HookFailure::Failed), logs)
            }
            Err(failure) => (Err(failure), Vec::new()),
        };
        let outcome = outputs
            .as_ref()
            .map_or_else(HookFailure::outcome, |_| HookOutcome::Completed);
        debug!(
            hook = self.id(),
            event = event.as_str(),
            ?outcome,
            took = ?begun.elapsed(),
            "a hook ran"
        );
        HookRun {
            outputs,
            logs,
            started_at,
            ended_at: Timestamp::after(started_at),
        }
    }

    async fn answer(&self, call: HookCall) -> Result<HookAnswer, HookFailure> {
        let failed = |why: String| HookFailure::Failed(why);
        let hook = self.hook.clone().map_err(HookFailure::NotLoaded)?;
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|error| failed(error.to_string()))?;
        let abandoned = CancellationToken::new();
        let (send, receive) = oneshot::channel();
        let runtime = Handle::current();
        let token = abandoned.clone();
        let spawned = thread::Builder::new()
            .name("toolcell-hook".to_owned())
            .spawn(move || {
                let answer = runtime.block_on(token.run_until_cancelled(hook.handle(&call)));
                drop(place);
                let _ = send.send(answer);
            });
        spawned.map_err(|error| failed(format!("start a thread for the hook: {error}")))?;
        // Dropped when the caller stops waiting, which ends a hook that yields.
        let _guard = abandoned.drop_guard();
        match receive.await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(HookFailure::TimedOut),
            // The thread unwound.
            Err(_) => Err(failed("the hook panicked".to_owned())),
        }
    }
}
