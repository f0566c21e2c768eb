use std::sync::{Arc, OnceLock};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::record::AbortReason;

/// A request to stop one call. Clones share it; the first reason given counts.
///
/// ```
/// use toolcell_core::pipeline::Request;
/// use toolcell_core::record::AbortReason;
/// use toolcell_core::scheduler::Cancellation;
///
/// let cancellation = Cancellation::new();
/// let request = Request::new("jq.jq", "{}").cancellation(cancellation.clone());
/// cancellation.cancel(AbortReason::RuntimeShutdown);
/// assert_eq!(request.cancellation.requested(), Some(AbortReason::RuntimeShutdown));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    token: CancellationToken,
    reason: OnceLock<AbortReason>,
}

impl Cancellation {
    /// Creates a cancellation that was not requested.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the call to stop. Asking again changes nothing.
    pub fn cancel(&self, reason: AbortReason) {
        let _ = self.0.reason.set(reason);
        self.0.token.cancel();
    }

    /// The reason, once the call was asked to stop.
    pub fn requested(&self) -> Option<AbortReason> {
        self.0.token.is_cancelled().then(|| {
            self.0
                .reason
                .get()
                .copied()
                .unwrap_or(AbortReason::UserInterruption)
        })
    }

    /// Waits until the call is asked to stop.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.0.token.cancelled()
    }
}
