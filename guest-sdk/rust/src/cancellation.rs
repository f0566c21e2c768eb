//! Cooperative cancellation: check for a stop request, clean up and return. The host also stops a tool that never
//! checks, without giving it time to clean up.

use std::{fmt, time::Duration};

use crate::{ToolError, host};

/// Why a call should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// The user interrupted the call.
    UserInterruption,
    /// A sibling call failed.
    SiblingError,
    /// The call took too long.
    Timeout,
    /// A fallback answers instead.
    Fallback,
    /// The host is shutting down.
    RuntimeShutdown,
}

impl AbortReason {
    /// The specification's spelling, such as `user interruption`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserInterruption => "user interruption",
            Self::SiblingError => "sibling error",
            Self::Timeout => "timeout",
            Self::Fallback => "fallback",
            Self::RuntimeShutdown => "runtime shutdown",
        }
    }
}

/// Cancellation was requested. `?` turns it into a [`ToolError`] of class canceled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// Why the call should stop.
    pub reason: AbortReason,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the call was cancelled: {}", self.reason.as_str())
    }
}

impl std::error::Error for Cancelled {}

impl From<Cancelled> for ToolError {
    fn from(cancelled: Cancelled) -> Self {
        Self::canceled("canceled", cancelled.to_string())
    }
}

/// Returns why this call should stop, if cancellation was requested.
pub fn requested() -> Option<AbortReason> {
    host::cancel_requested()
}

/// Like [`requested`], for use with `?`.
pub fn check() -> Result<(), Cancelled> {
    match requested() {
        Some(reason) => Err(Cancelled { reason }),
        None => Ok(()),
    }
}

/// Tells the host that the tool has seen the request and is cleaning up.
pub fn acknowledge() {
    host::acknowledge_cancel();
}

/// Waits for `duration`. Returns [`Cancelled`] at once if cancellation is requested before or meanwhile.
pub fn sleep(duration: Duration) -> Result<(), Cancelled> {
    check()?;
    host::sleep(duration);
    check()
}
