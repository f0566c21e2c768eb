use std::sync::{Arc, OnceLock};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::record::AbortReason;

/// A request to stop one call. Clones share it; the first reason given counts.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    token: CancellationToken,
    reason: OnceLock<AbortReason>,
}

impl Cancellation {
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
        self.0.token.is_cancelled().then(|| self.0.reason.get().copied().unwrap_or(AbortReason::UserInterruption))
    }

    /// Waits until the call is asked to stop.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.0.token.cancelled()
    }
}
