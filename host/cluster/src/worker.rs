//! One delivery of a question at a worker.

use std::time::Duration;

use crate::claim::{CallEnd, Claim, Holder, LeaseTerms, NotPossible, Stage};
use crate::hold::Hold;
use crate::store::{ClaimEntry, ClaimStore, Delivery};

/// The end of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The result counts.
    Ended,
    /// Another attempt, the sweeper or the caller was first: what this one did is thrown away.
    Superseded,
    /// Another attempt has the call, or it waits for another worker.
    NotTaken,
    /// The call has ended, or was forgotten.
    Over,
}

/// The end of a claimed call's run.
pub enum RunOutcome {
    End(CallEnd),
    /// The worker cannot run it, as without its component: another one may.
    NotHere,
}

/// The run of one claimed call.
pub trait Run<S> {
    /// Decides about the call and runs it; calls [`Hold::start`] before the guest's first instruction. Dropped if the
    /// attempt loses the call.
    fn run(self, hold: &Hold<'_, S>, claim: &Claim) -> impl Future<Output = RunOutcome> + Send;
}

/// Works on one delivery.
///
/// # Errors
///
/// The store does not answer: the question is delivered again.
pub async fn work<S: ClaimStore, D: Delivery>(
    store: &S,
    delivery: &D,
    (call, request): (&str, &str),
    holder: Holder,
    lease: LeaseTerms,
    run: impl Run<S>,
) -> Result<WorkOutcome, crate::store::Unavailable> {
    // Its claim is refused if it is an old one.
    let queued = store
        .heard(call)
        .filter(|heard| heard.claim.stage == Stage::Queued);
    let latest = match queued {
        Some(queued) => Some(queued),
        None => store.read(call).await?,
    };
    let Some(entry) = latest else {
        delivery.done().await;
        return Ok(WorkOutcome::Over);
    };
    let claim = entry.claim.clone();
    // A question that names the call of another request.
    if claim.request != request && fence!("cluster_question") {
        delivery.done().await;
        return Ok(WorkOutcome::Over);
    }
    let hold = match take(store, call, entry, holder, lease.time).await {
        Ok(hold) => hold,
        Err(NotPossible::Ended) => {
            delivery.done().await;
            return Ok(WorkOutcome::Over);
        }
        Err(_) if !fence!("cluster_done") => {
            delivery.done().await;
            return Ok(WorkOutcome::NotTaken);
        }
        Err(_) => {
            // The sweeper ends it, or gives it back to the queue.
            delivery.again(lease.time / 4).await;
            return Ok(WorkOutcome::NotTaken);
        }
    };
    let ran = tokio::select! {
        biased;
        ran = run.run(&hold, &claim) => ran,
        // Acks nothing: whoever has the call does.
        _ = hold.keep(lease.time / 4, delivery) => return Ok(WorkOutcome::Superseded),
    };
    let end = match ran {
        RunOutcome::End(end) => end,
        RunOutcome::NotHere => {
            let _ = hold.give_back().await;
            delivery.again(AGAIN).await;
            return Ok(WorkOutcome::NotTaken);
        }
    };
    if hold.end(end).await.is_err() {
        return Ok(WorkOutcome::Superseded);
    }
    delivery.done().await;
    Ok(WorkOutcome::Ended)
}

/// Before a call that a worker cannot run is offered again.
const AGAIN: Duration = Duration::from_millis(500);

async fn take<'s, S: ClaimStore>(
    store: &'s S,
    call: &'s str,
    entry: ClaimEntry,
    holder: Holder,
    lease: Duration,
) -> Result<Hold<'s, S>, NotPossible> {
    // Nothing is written for a call that somebody has.
    match &entry.claim.stage {
        Stage::Queued => Hold::claim(store, call, entry, holder, lease).await,
        Stage::Ended { .. } => Err(NotPossible::Ended),
        _ if !fence!("cluster_queued") => Hold::claim(store, call, entry, holder, lease).await,
        _ => Err(NotPossible::Superseded),
    }
}
