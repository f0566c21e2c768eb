use serde::{Deserialize, Serialize};

/// Why a call was asked to stop (AT-CAN-03).
///
/// ```
/// use toolcell_spec::AbortReason;
///
/// assert_eq!(serde_json::to_value(AbortReason::SiblingError)?, "sibling_error");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortReason {
    /// The user, or the program for the user, stopped the call.
    UserInterruption,
    /// A call beside it failed, which makes this one useless.
    SiblingError,
    /// The caller stopped waiting, or a limit on the time of the call ended it.
    Timeout,
    /// Another attempt at the same call replaces this one.
    Fallback,
    /// The host shuts down.
    RuntimeShutdown,
}
