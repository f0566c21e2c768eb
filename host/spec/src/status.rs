use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// Status of an invocation (AT-ST-01..20).
///
/// ```
/// use toolcell_spec::Status;
///
/// assert!(Status::TimedOut.is_terminal());
/// assert!(Status::Queued.may_become(Status::Running) && !Status::Denied.may_become(Status::Running));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Status {
    Planned,
    Selected,
    SchemaParseFailed,
    ArgumentsReady,
    ValidationFailed,
    PreHooksRunning,
    AwaitingApproval,
    Approved,
    Denied,
    Queued,
    Running,
    NeedsInput,
    PartialResult,
    PostHooksRunning,
    Yielded,
    Succeeded,
    Failed,
    Canceled,
    TimedOut,
    Blocked,
}

impl Status {
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Denied
                | Self::Succeeded
                | Self::Failed
                | Self::Canceled
                | Self::TimedOut
                | Self::Blocked
        )
    }

    /// The transition graph (requirements 1.9.2).
    pub fn may_become(self, next: Self) -> bool {
        use Status::*;
        match next {
            Planned => false,
            Selected => self == Planned,
            SchemaParseFailed | ArgumentsReady => self == Selected,
            ValidationFailed | PreHooksRunning => self == ArgumentsReady,
            AwaitingApproval => matches!(self, ArgumentsReady | PreHooksRunning),
            Approved | Denied => {
                matches!(self, ArgumentsReady | PreHooksRunning | AwaitingApproval)
            }
            Queued => self == Approved,
            Running => matches!(self, Approved | Queued | NeedsInput | PartialResult),
            NeedsInput | PartialResult => self == Running,
            PostHooksRunning => matches!(self, Running | PartialResult),
            Yielded => matches!(self, Running | PostHooksRunning),
            Succeeded => matches!(self, Running | PostHooksRunning | Yielded),
            Failed => matches!(
                self,
                Planned
                    | Selected
                    | SchemaParseFailed
                    | ValidationFailed
                    | PreHooksRunning
                    | Running
                    | PostHooksRunning
                    | Yielded
            ),
            Canceled => !self.is_terminal(),
            TimedOut => matches!(
                self,
                AwaitingApproval | Queued | Running | NeedsInput | PostHooksRunning
            ),
            Blocked => matches!(self, Planned | Selected | ArgumentsReady | PreHooksRunning),
        }
    }

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
