//! Tasks that are not in this process: what the log and the journal know of them.

use std::sync::Arc;

use toolcell::{Held, Kept};
use toolcell_core::journal::{CallLog, LogError, Role, Store, StoreError};
use toolcell_core::pool::STORE;
use toolcell_core::record::{Approval, ApprovalState, ErrorClass, InvocationId, Refusal, Timestamp};

use super::ended::Ended;
use super::{CallStore, Tasks};

/// The state of a call that is not in this process.
pub(super) enum Stored {
    /// Another process runs it.
    Working,
    /// It waits for an approval.
    Waits(Box<Approval>),
    /// It was approved, and no living process runs it.
    Approved(Box<Kept>, Held),
    /// It cannot run any more, and has no result yet.
    Over(Box<Kept>, Held),
    Ended(Box<Ended>),
    /// Nothing is on record.
    Lost,
}

impl Tasks {
    /// Reads the state of the call `id`.
    pub(super) async fn read(&self, id: InvocationId) -> Result<Stored, Refusal> {
        let store = Arc::clone(&self.store);
        let read = STORE.run(move || read(&store, id)).await;
        read.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()).into()))
    }

    /// Withdraws the approval of the call `id`, open or given. Returns whether the call cannot run any more; `false` for
    /// one that has used its approval, or needed none.
    pub(super) async fn withdraw(&self, id: InvocationId) -> Result<bool, Refusal> {
        if !self.store.approvals.exists() {
            return Ok(false);
        }
        self.approvals(move |store| {
            store.withdraw(id)?;
            Ok(store.standing(id)?.is_some_and(|standing| standing.state == ApprovalState::Withdrawn))
        })
        .await
    }

    /// Runs `work` on the store of approvals.
    pub(super) async fn approvals<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.store.approvals.run(work).await.map_err(Refusal::from)
    }
}

/// Blocks the thread.
fn read(store: &CallStore, id: InvocationId) -> Result<Stored, Refusal> {
    let CallStore { calls, approvals } = store;
    let mut result = None;
    if approvals.exists() && approvals.with(|store| store.standing(id))?.is_some() {
        // The role is tried before the state is read, because an ending process releases its role last.
        let held = approvals.hold(id, Role::Runner)?;
        match approvals.with(|store| store.kept(id))? {
            // The log has more than the result.
            Some(Kept { result: Some(ended), .. }) => {
                held.into_iter().for_each(Held::retire);
                result = Some(ended);
            }
            Some(kept) => match unfinished(kept, held) {
                // The end may be on record although the store of approvals could not be told.
                Stored::Over(kept, held) => match on_record(calls, id)? {
                    (_, Some(ended)) => {
                        held.retire();
                        return Ok(Stored::Ended(Box::new(ended)));
                    }
                    (_, None) => return Ok(Stored::Over(kept, held)),
                },
                other => return Ok(other),
            },
            None => {}
        }
    }
    let (runs, ended) = on_record(calls, id)?;
    let ended = ended.or_else(|| result.and_then(|text| Some(Ended::alone(serde_json::from_str(&text).ok()?))));
    Ok(match ended {
        Some(ended) => Stored::Ended(Box::new(ended)),
        None if runs => Stored::Working,
        None => Stored::Lost,
    })
}

/// Whether the call is in the log, and how it ended. Ends the calls of killed processes before.
fn on_record(calls: &CallLog, id: InvocationId) -> Result<(bool, Option<Ended>), Refusal> {
    let found = calls.record(&id.to_string()).map_err(unreadable)?;
    Ok((found.is_some(), found.and_then(Ended::read)))
}

fn unreadable(error: LogError) -> Refusal {
    let message = "the log of calls cannot be read; `toolcell calls` says why";
    Refusal::new(ErrorClass::DependencyUnavailable, "journal_unavailable", message).detail(error.to_string())
}

/// The state of a call that needed an approval and has no result; `held`: no living process runs it.
fn unfinished(kept: Kept, held: Option<Held>) -> Stored {
    let is_open = kept.approval.expires_at > Timestamp::now();
    match (kept.state, held) {
        (ApprovalState::Pending, _) if is_open => Stored::Waits(Box::new(kept.approval)),
        (ApprovalState::Approved, Some(held)) if is_open => Stored::Approved(Box::new(kept), held),
        (_, Some(held)) => Stored::Over(Box::new(kept), held),
        (_, None) => Stored::Working,
    }
}
