//! Tasks that are not in this process: what the log and the journal know of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolcell_journal::{CallLog, Journal, LogError, Role, Store, StoreError};
use toolcell_journal::{RoleLock, StoredApproval, SuspendedCall};
use toolcell_spec::{
    Approval, ApprovalState, ErrorCode, InvocationId, Refusal, Status, SuspensionState, Timestamp,
};
use toolcell_system::pool::STORE;

use crate::calls::CallEnd;

use super::{CallStore, Tasks};

const TRIES: u32 = 4;
const BETWEEN: Duration = Duration::from_millis(5);

pub(super) enum StoredState {
    Working,
    Waits(Box<Approval>),
    Approved(Box<StoredApproval>, RoleLock),
    /// It can no longer run, and has no result yet.
    Over(Box<StoredApproval>, RoleLock),
    /// Its tool asked, and no living process has it.
    Asks(Box<SuspendedCall>),
    /// Its tool asked, or ran with the answers; it cannot go on, and has no result yet.
    Interrupted(Box<SuspendedCall>, RoleLock),
    Ended(Box<CallEnd>),
    Lost,
}

impl Tasks {
    pub(super) async fn read(&self, id: InvocationId) -> Result<StoredState, Refusal> {
        let store = Arc::clone(&self.store);
        let read = STORE.run(move || read(&store, id)).await;
        read.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()).into()))
    }

    /// `None` if its questions cannot be answered any more or a living process has it.
    pub(super) async fn take_suspended(
        &self,
        id: InvocationId,
    ) -> Result<Option<(Box<SuspendedCall>, RoleLock)>, Refusal> {
        let store = Arc::clone(&self.store);
        let taken = STORE.run(move || take_suspended(&store, id)).await;
        taken.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()).into()))
    }

    /// They may be orphaned, and cannot resume.
    pub(super) async fn unfinished_suspended(&self) -> Result<Vec<InvocationId>, Refusal> {
        if !self.store.approvals.exists() {
            return Ok(Vec::new());
        }
        self.approvals(Store::unfinished_suspended).await
    }

    /// `true` if the call can no longer run; `false` for one that has used its approval, or needed none.
    pub(super) async fn withdraw(&self, id: InvocationId) -> Result<bool, Refusal> {
        if !self.store.approvals.exists() {
            return Ok(false);
        }
        self.approvals(move |store| {
            store.withdraw(id)?;
            Ok(store
                .standing(id)?
                .is_some_and(|standing| standing.state == ApprovalState::Canceled))
        })
        .await
    }

    pub(super) async fn approvals<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.store.approvals.run(work).await.map_err(Refusal::from)
    }
}

/// Blocks the thread.
fn read(store: &CallStore, id: InvocationId) -> Result<StoredState, Refusal> {
    match read_once(store, id)? {
        // Its process may have suspended it between the two reads, of the store and of the log.
        StoredState::Lost => read_once(store, id),
        found => Ok(found),
    }
}

fn read_once(store: &CallStore, id: InvocationId) -> Result<StoredState, Refusal> {
    let CallStore {
        calls, approvals, ..
    } = store;
    if let Some(found) = suspended(store, id)? {
        return Ok(found);
    }
    let mut result = None;
    if approvals.exists() && approvals.with(|store| store.standing(id))?.is_some() {
        // The role is tried before the state is read, because an ending process releases its role last.
        let held = approvals.hold(id, Role::Runner)?;
        match approvals.with(|store| store.kept(id))? {
            // The log has more than the result.
            Some(StoredApproval {
                result: Some(ended),
                ..
            }) => {
                held.into_iter().for_each(RoleLock::retire);
                result = Some(ended);
            }
            Some(kept) => match unfinished(kept, held) {
                // The end may be on record although the store of approvals could not be told.
                StoredState::Over(kept, held) => match on_record(calls, id)? {
                    (_, Some(ended)) => {
                        held.retire();
                        return Ok(StoredState::Ended(Box::new(ended)));
                    }
                    (_, None) => return Ok(StoredState::Over(kept, held)),
                },
                other => return Ok(other),
            },
            None => {}
        }
    }
    let (runs, ended) = on_record(calls, id)?;
    let ended = ended.or_else(|| {
        result.and_then(|text| Some(CallEnd::alone(serde_json::from_str(&text).ok()?)))
    });
    Ok(match ended {
        Some(ended) => StoredState::Ended(Box::new(ended)),
        None if runs => StoredState::Working,
        None => StoredState::Lost,
    })
}

/// `None` for a call that is not suspended. Blocks the thread.
fn suspended(store: &CallStore, id: InvocationId) -> Result<Option<StoredState>, Refusal> {
    let CallStore {
        calls, approvals, ..
    } = store;
    if !approvals.exists() || approvals.with(|store| store.suspended(id))?.is_none() {
        return Ok(None);
    }
    let Some(held) = hold(approvals, id)? else {
        return Ok(Some(StoredState::Working));
    };
    // Read again: the process that had the role has left.
    let Some(kept) = approvals.with(|store| store.suspended(id))? else {
        held.retire();
        return Ok(None);
    };
    // A call that can resume stays free for an answer: the log may take long to read.
    let held = if is_open(&kept) { None } else { Some(held) };
    Ok(Some(match (line(calls, id)?, held) {
        (LoggedState::Ended(ended), held) => {
            // Its process was killed before it could remove the row, or before the log had it as one that waits.
            approvals.with(|store| store.forget_suspended(id))?;
            held.into_iter().for_each(RoleLock::retire);
            StoredState::Ended(ended)
        }
        // Its process ends at this moment, and the log has to tell how.
        (LoggedState::Runs, _) => StoredState::Working,
        (LoggedState::Waits, None) => StoredState::Asks(Box::new(kept)),
        (LoggedState::Waits, Some(held)) => StoredState::Interrupted(Box::new(kept), held),
    }))
}

/// Blocks the thread.
fn take_suspended(
    store: &CallStore,
    id: InvocationId,
) -> Result<Option<(Box<SuspendedCall>, RoleLock)>, Refusal> {
    let CallStore {
        calls, approvals, ..
    } = store;
    let Some(held) = hold(approvals, id)? else {
        return Ok(None);
    };
    let Some(kept) = approvals.with(|store| store.suspended(id))? else {
        held.retire();
        return Ok(None);
    };
    let waits = is_open(&kept) && matches!(line(calls, id)?, LoggedState::Waits);
    Ok(waits.then(|| (Box::new(kept), held)))
}

/// `None` if a living process has the runner's role for longer than a look takes. Blocks the thread.
fn hold(approvals: &Journal, id: InvocationId) -> Result<Option<RoleLock>, Refusal> {
    for _ in 1..TRIES {
        if let Some(held) = approvals.hold(id, Role::Runner)? {
            return Ok(Some(held));
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(approvals.hold(id, Role::Runner)?)
}

fn is_open(kept: &SuspendedCall) -> bool {
    kept.state == SuspensionState::Waiting && kept.suspension.expires_at > Timestamp::now()
}

enum LoggedState {
    /// A log that lost its lines counts, too.
    Waits,
    Runs,
    Ended(Box<CallEnd>),
}

fn line(calls: &CallLog, id: InvocationId) -> Result<LoggedState, Refusal> {
    let Some(record) = calls.record(&id.to_string()).map_err(unreadable)? else {
        return Ok(LoggedState::Waits);
    };
    Ok(if is_suspended(&record) {
        LoggedState::Waits
    } else {
        CallEnd::read(record).map_or(LoggedState::Runs, |ended| {
            LoggedState::Ended(Box::new(ended))
        })
    })
}

/// `true` if the call runs; with its end. Ends the calls of killed processes first.
fn on_record(calls: &CallLog, id: InvocationId) -> Result<(bool, Option<CallEnd>), Refusal> {
    let found = calls.record(&id.to_string()).map_err(unreadable)?;
    // A suspended call that the store lacks is lost: the machine lost power, or the store was moved away.
    let runs = found.as_ref().is_some_and(|record| !is_suspended(record));
    Ok((runs, found.and_then(CallEnd::read)))
}

fn is_suspended(record: &Value) -> bool {
    record.pointer("/invocation/status").and_then(Value::as_str)
        == Some(Status::NeedsInput.as_str())
}

fn unreadable(error: LogError) -> Refusal {
    let message = "the log of calls cannot be read; `toolcell calls` says why";
    Refusal::new(ErrorCode::JournalUnavailable, message).detail(error.to_string())
}

/// The call needed an approval and has no result; `held`: no living process runs it.
fn unfinished(kept: StoredApproval, held: Option<RoleLock>) -> StoredState {
    let is_open = kept.approval.expires_at > Timestamp::now();
    match (kept.state, held) {
        (ApprovalState::Pending, _) if is_open => StoredState::Waits(Box::new(kept.approval)),
        (ApprovalState::Approved, Some(held)) if is_open => {
            StoredState::Approved(Box::new(kept), held)
        }
        (_, Some(held)) => StoredState::Over(Box::new(kept), held),
        (_, None) => StoredState::Working,
    }
}
