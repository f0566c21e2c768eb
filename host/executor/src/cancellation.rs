use std::sync::{Arc, OnceLock};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use toolcell_spec::AbortReason;

/// A request to stop one call. Clones share it; the first reason counts.
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
    pub fn new() -> Self {
        Self::default()
    }

    /// Asking again changes nothing.
    pub fn cancel(&self, reason: AbortReason) {
        let _ = self.0.reason.set(reason);
        self.0.token.cancel();
    }

    pub fn requested(&self) -> Option<AbortReason> {
        let is_asked = self.0.token.is_cancelled();
        self.0.reason.get().copied().filter(|_| is_asked)
    }

    /// Default: an interruption by the user.
    pub fn reason(&self) -> AbortReason {
        self.requested().unwrap_or(AbortReason::UserInterruption)
    }

    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.0.token.cancelled()
    }
}
