//! The calls that this host runs now, so that they can be canceled by their ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::executor::Cancellation;
use crate::journal;
use crate::record::{AbortReason, InvocationId};

use super::Services;

/// What a request to cancel a call came to (AT-CAN-04).
///
/// ```
/// use toolcell_core::pipeline::CancelOutcome;
///
/// assert_eq!(CancelOutcome::AlreadyTerminal.reason(), Some("already_terminal"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The call was asked to stop. Its record says whether it did.
    Requested,
    /// The call has ended, or another process runs it.
    AlreadyTerminal,
    /// No call of this id is on record.
    Unknown,
}

impl CancelOutcome {
    /// Why nothing was canceled, as in `tool.invocation.cancel_failed`; `None` if the call was asked to stop.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Requested => None,
            Self::AlreadyTerminal => Some("already_terminal"),
            Self::Unknown => Some("unknown_invocation"),
        }
    }
}

/// The calls that run, with what cancels each.
#[derive(Clone, Default)]
pub struct RunningCalls(Arc<Mutex<HashMap<InvocationId, Cancellation>>>);

/// A call that runs; dropping it removes the call.
pub(super) struct Registered {
    calls: RunningCalls,
    id: InvocationId,
}

impl RunningCalls {
    fn lock(&self) -> MutexGuard<'_, HashMap<InvocationId, Cancellation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, id: InvocationId, cancellation: &Cancellation) -> Registered {
        self.lock().insert(id, cancellation.clone());
        Registered { calls: self.clone(), id }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.id);
    }
}

/// Asks the call `id` to stop. A request that comes too late, or for no call, becomes events of the host and of the log:
/// the record of a call that has ended does not change.
pub async fn cancel(services: &Services, id: InvocationId, reason: AbortReason) -> CancelOutcome {
    let running = services.running.lock().get(&id).cloned();
    if let Some(cancellation) = running {
        cancellation.cancel(reason);
        return CancelOutcome::Requested;
    }
    let outcome = match services.calls.knows(id).await || is_stored(services, id).await {
        true => CancelOutcome::AlreadyTerminal,
        false => CancelOutcome::Unknown,
    };
    if let Some(why) = outcome.reason() {
        for event in journal::canceled_in_vain(&services.source, id, reason, why) {
            services.announce(&event);
            // It changes nothing, so a log that cannot be written stops nothing here.
            let _ = services.calls.announced(event, None).await;
        }
    }
    outcome
}

/// Whether an approval was requested for the call `id`. Such a call can end before the log knows it.
async fn is_stored(services: &Services, id: InvocationId) -> bool {
    let Some(desk) = services.desk.as_ref().filter(|desk| desk.journal.exists()) else { return false };
    desk.journal.run(move |store| store.standing(id)).await.is_ok_and(|standing| standing.is_some())
}
