//! One call at a gateway: it asks, follows, and may cancel.

use std::time::Duration;

use toolcell_spec::AbortReason;

use crate::claim::{CallEnd, Claim, Stage};
use crate::store::{ClaimEntry, ClaimStore, PublishError, Unavailable, WriteError};

/// Before the store is asked again.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, thiserror::Error)]
pub enum SubmitError {
    /// Another request has this id.
    #[error("the key of this call names another request")]
    OtherRequest,
    /// The call waits for a request with its id, or for its deadline.
    #[error("as many calls wait as the queue may have")]
    QueueFull,
    /// The call is there, as this value; the queue may have its question, so that a worker may run it.
    #[error("nobody knows whether the queue has the call")]
    Unanswered(Box<ClaimEntry>),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Hands a call over to the cluster: from then on it ends, whatever becomes of this gateway. A call with the same id and the
/// same request is the same call.
///
/// # Errors
///
/// Another request has the id; or the cluster does not answer: the call may run, and the same call may be submitted again.
pub async fn submit<S: ClaimStore>(
    store: &S,
    call: &str,
    claim: &Claim,
    question: &[u8],
) -> Result<ClaimEntry, SubmitError> {
    let entry = create(store, call, claim).await?;
    if entry.claim.request != claim.request && fence!("cluster_request") {
        return Err(SubmitError::OtherRequest);
    }
    // Also for a call that was there: its gateway may have ended before it published.
    if entry.claim.stage == Stage::Queued {
        while let Err(error) = store.publish(call, question).await {
            let PublishError::Unknown(error) = error else {
                return Err(SubmitError::QueueFull);
            };
            if !fence!("cluster_publish") {
                break;
            }
            if wait(store, claim, error).await.is_err() {
                return Err(SubmitError::Unanswered(Box::new(entry)));
            }
        }
    }
    Ok(entry)
}

async fn create<S: ClaimStore>(
    store: &S,
    call: &str,
    claim: &Claim,
) -> Result<ClaimEntry, SubmitError> {
    loop {
        let error = match store.create(call, claim).await {
            Ok(revision) => {
                let claim = claim.clone();
                return Ok(ClaimEntry { claim, revision });
            }
            Err(WriteError::Conflict) => match store.read(call).await {
                Ok(Some(entry)) => return Ok(entry),
                Ok(None) => Unavailable("a call that is there cannot be read".to_owned()),
                Err(error) => error,
            },
            Err(WriteError::Unknown(error)) => error,
        };
        wait(store, claim, error).await?;
    }
}

/// A while, unless it is too late for the call.
async fn wait<S: ClaimStore>(
    store: &S,
    claim: &Claim,
    error: Unavailable,
) -> Result<(), Unavailable> {
    if store.now() >= claim.deadline {
        return Err(error);
    }
    store.sleep(PAUSE).await;
    Ok(())
}

/// The end of the call, from the value that `submit` returned; `None`: it was forgotten, long after its end.
pub async fn follow<S: ClaimStore>(
    store: &S,
    call: &str,
    mut entry: ClaimEntry,
) -> Option<CallEnd> {
    loop {
        if let Stage::Ended { end } = entry.claim.stage {
            return Some(end);
        }
        if let Some(later) = store.changed(call, entry.revision).await {
            entry = later;
            continue;
        }
        match store.read(call).await {
            Ok(Some(latest)) => entry = latest,
            Ok(None) => return None,
            Err(_) => store.sleep(PAUSE).await,
        }
    }
}

/// Asks the call to stop, until the request is written or the call has ended.
pub async fn cancel<S: ClaimStore>(store: &S, call: &str, reason: AbortReason) {
    loop {
        match store.read(call).await {
            Ok(Some(entry)) => {
                let Ok(claim) = entry.claim.canceled(reason) else {
                    return;
                };
                if store.update(call, &claim, entry.revision).await.is_ok() {
                    return;
                }
            }
            Ok(None) => return,
            Err(_) => store.sleep(PAUSE).await,
        }
    }
}
