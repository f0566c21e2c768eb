//! The calls that this host runs now, so that they can be canceled by their ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcell_executor::Cancellation;
use toolcell_journal as journal;
use toolcell_journal::{Trail, WeakTrail};
use toolcell_spec::{AbortReason, ApprovalState, InvocationId};

use super::Services;

/// Outcome of a request to cancel a call (AT-CAN-04).
///
/// ```
/// use toolcell_engine::pipeline::CancelOutcome;
///
/// assert_eq!(CancelOutcome::AlreadyTerminal.reason(), Some("already_terminal"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The call was asked to stop. Its record says whether it did.
    Requested,
    /// The call has ended.
    AlreadyTerminal,
    /// The call has not ended, and this host does not run it: another host does, which was not asked to stop it, or it
    /// waits for an approval.
    RunsElsewhere,
    /// No call of this id is on record.
    Unknown,
}

impl CancelOutcome {
    /// Why nothing was canceled, as in `tool.invocation.cancel_failed`; `None` if the call was asked to stop.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Requested => None,
            Self::AlreadyTerminal => Some("already_terminal"),
            Self::RunsElsewhere => Some("runs_elsewhere"),
            Self::Unknown => Some("unknown_invocation"),
        }
    }
}

/// The calls that run, with what cancels each.
#[derive(Clone, Default)]
pub struct RunningCalls(Arc<Mutex<HashMap<InvocationId, RunningEntry>>>);

struct RunningEntry {
    cancellation: Cancellation,
    /// Tells whether the call has ended.
    trail: WeakTrail,
}

/// A call that runs, or whose end is being written; dropping it removes the call.
pub(super) struct RunningCall {
    calls: RunningCalls,
    id: InvocationId,
}

impl RunningCalls {
    fn lock(&self) -> MutexGuard<'_, HashMap<InvocationId, RunningEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(
        &self,
        id: InvocationId,
        cancellation: &Cancellation,
        trail: &Trail,
    ) -> RunningCall {
        self.lock().insert(
            id,
            RunningEntry {
                cancellation: cancellation.clone(),
                trail: trail.downgrade(),
            },
        );
        RunningCall {
            calls: self.clone(),
            id,
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.id);
    }
}

/// Asks the call `id` to stop. A request that comes too late, or for no call of this host, becomes events of the host and of
/// the log if `notes` says so, which is asked only then: the record of the call does not change.
pub async fn cancel(
    services: &Services,
    id: InvocationId,
    reason: AbortReason,
    notes: impl FnOnce() -> bool,
) -> CancelOutcome {
    let here = services
        .running
        .lock()
        .get(&id)
        .map(|call| (call.cancellation.clone(), call.trail.upgrade()));
    let outcome = match here {
        Some((cancellation, Some(trail))) if !trail.has_ended() => {
            cancellation.cancel(reason);
            return CancelOutcome::Requested;
        }
        Some(_) => CancelOutcome::AlreadyTerminal,
        None => on_record(services, id).await,
    };
    if let Some(why) = outcome.reason()
        && notes()
    {
        let events = journal::canceled_in_vain(&services.source, id, reason, why);
        events.iter().for_each(|event| services.announce(event));
        // It changes nothing, so a log that cannot be written stops nothing here.
        let _ = services.calls.announced(events.into(), None).await;
    }
    outcome
}

/// Outcome of a request to cancel the call `id`, which this host does not run.
async fn on_record(services: &Services, id: InvocationId) -> CancelOutcome {
    let has_ended = match services.calls.has_ended(id).await {
        None => is_decided(services, id).await,
        known => known,
    };
    match has_ended {
        Some(true) => CancelOutcome::AlreadyTerminal,
        Some(false) => CancelOutcome::RunsElsewhere,
        None => CancelOutcome::Unknown,
    }
}

/// Returns whether the call `id`, for which an approval was requested, can no longer run; `None` without such a
/// request. The call can end before the log knows it.
async fn is_decided(services: &Services, id: InvocationId) -> Option<bool> {
    let desk = services
        .desk
        .as_ref()
        .filter(|desk| desk.journal.exists())?;
    let standing = desk
        .journal
        .run(move |store| store.standing(id))
        .await
        .ok()??;
    let can_run = matches!(
        standing.state,
        ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Running
    );
    Some(!can_run)
}
