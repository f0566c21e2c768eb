use std::sync::{Arc, OnceLock};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use toolcell_spec::AbortReason;

/// A request to stop one call. Clones share it; the first reason given counts.
///
/// ```
/// use toolcell_spec::AbortReason;
/// use toolcell_executor::Cancellation;
///
/// let cancellation = Cancellation::new();
/// let of_call = cancellation.clone();
/// cancellation.cancel(AbortReason::RuntimeShutdown);
/// assert_eq!(of_call.requested(), Some(AbortReason::RuntimeShutdown));
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
        let is_asked = self.0.token.is_cancelled();
        self.0.reason.get().copied().filter(|_| is_asked)
    }

    /// The reason for a call that stops: an interruption by the user unless another one was given.
    pub fn reason(&self) -> AbortReason {
        self.requested().unwrap_or(AbortReason::UserInterruption)
    }

    /// Waits until the call is asked to stop.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.0.token.cancelled()
    }
}
