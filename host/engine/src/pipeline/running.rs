//! The calls that this host runs, for cancellation by id.

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
    /// The call's record says whether it stopped.
    Requested,
    AlreadyTerminal,
    /// Another host, which was not asked, runs the call, or it waits for an approval.
    RunsElsewhere,
    /// No call of this id is on record.
    Unknown,
}

impl CancelOutcome {
    /// The reason as in `tool.invocation.cancel_failed`; `None` if the call was asked to stop.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Requested => None,
            Self::AlreadyTerminal => Some("already_terminal"),
            Self::RunsElsewhere => Some("runs_elsewhere"),
            Self::Unknown => Some("unknown_invocation"),
        }
    }
}

#[derive(Clone, Default)]
pub struct RunningCalls(Arc<Mutex<HashMap<InvocationId, RunningEntry>>>);

struct RunningEntry {
    cancellation: Cancellation,
    trail: WeakTrail,
}

/// A call until its end is written; dropping it removes the call.
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

/// A late request, or one for no call of this host, becomes events, in the log if `notes` says so, which is asked only
/// then: the call's record does not change.
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

/// Returns whether a call with a requested approval can no longer run; `None` without a request. The log may know its
/// end later.
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
