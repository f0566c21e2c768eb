use serde::{Deserialize, Serialize};

/// Why a call was asked to stop (AT-CAN-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortReason {
    UserInterruption,
    SiblingError,
    Timeout,
    Fallback,
    RuntimeShutdown,
}
