use serde::{Deserialize, Serialize};

/// `abort_reason` (AT-CAN-03).
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
    /// The user, or a program for the user.
    UserInterruption,
    /// This call became useless.
    SiblingError,
    /// The caller stopped waiting, or a time limit ended the call.
    Timeout,
    Fallback,
    RuntimeShutdown,
}
