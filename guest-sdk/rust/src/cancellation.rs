//! Lets a tool notice that somebody wants the call to stop, clean up, and return. A tool that never asks is stopped all
//! the same, without the time to clean up.

use std::{fmt, time::Duration};

use crate::{ToolError, host};

/// Why a call should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// The user wants something else.
    UserInterruption,
    /// A call beside this one failed.
    SiblingError,
    /// The call took too long.
    Timeout,
    /// Something else answers instead.
    Fallback,
    /// The host is going away.
    RuntimeShutdown,
}

impl AbortReason {
    /// The specification's words.
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

/// A stop was requested. `?` turns it into a [`ToolError`] of class canceled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// Why.
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

/// Whether somebody asked this call to stop, and why.
pub fn requested() -> Option<AbortReason> {
    host::cancel_requested()
}

/// The same as [`requested`], for use with `?`.
pub fn check() -> Result<(), Cancelled> {
    match requested() {
        Some(reason) => Err(Cancelled { reason }),
        None => Ok(()),
    }
}

/// Says that the tool has seen the request and is cleaning up.
pub fn acknowledge() {
    host::acknowledge_cancel();
}

/// Waits for `duration`, or less if a stop is requested meanwhile: then it gives [`Cancelled`] at once.
pub fn sleep(duration: Duration) -> Result<(), Cancelled> {
    check()?;
    host::sleep(duration);
    check()
}
