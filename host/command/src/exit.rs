use std::process::ExitCode;

use toolcell_core::journal::LogError;
use toolcell_core::record::{ErrorClass, Refusal, ToolResult};

/// Exit codes, and what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Succeeded = 0,
    ToolFailed = 1,
    /// An unknown tool, wrong arguments, something that has to be set up first.
    BadRequest = 2,
    /// Permission, approval, policy, hook, a capability that this host does not give.
    Refused = 3,
    /// Time, fuel, memory, output.
    Limit = 4,
    Canceled = 5,
    /// `toolcell policy check`: an approval would be requested. `toolcell verify`: no policy names the signer.
    WouldAsk = 6,
    /// A fault of toolcell itself.
    HostFault = 70,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A mistake of the caller that ends a command before any call.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadRequest(pub String);

/// Why a command does not go on: a refusal, which is data, or an error.
#[derive(Debug)]
pub enum Stop {
    Refused(Refusal),
    Failed(anyhow::Error),
}

impl Stop {
    /// Returns the refusal, or else fails with the error.
    pub fn refusal(self) -> anyhow::Result<Refusal> {
        match self {
            Self::Refused(refusal) => Ok(refusal),
            Self::Failed(error) => Err(error),
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<BadRequest> for Stop {
    fn from(bad: BadRequest) -> Self {
        Self::Failed(bad.into())
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// The exit code of a command that ended in an error.
pub fn of_error(error: &anyhow::Error) -> Exit {
    let is_ambiguous = matches!(error.downcast_ref(), Some(LogError::Ambiguous(_)));
    if is_ambiguous || error.is::<BadRequest>() {
        Exit::BadRequest
    } else {
        Exit::HostFault
    }
}

pub fn of_result(result: &ToolResult) -> Exit {
    result.error.as_ref().map_or(Exit::Succeeded, |error| {
        of_error_code(error.error_class, &error.error_code)
    })
}

/// The exit code of a call that ends with the refusal.
pub fn of_refusal(refusal: &Refusal) -> Exit {
    of_error_code(refusal.class, refusal.code)
}

/// The exit code of a command that was refused several things and went on: the highest.
pub fn of_refusals<'r>(refusals: impl IntoIterator<Item = &'r Refusal>) -> Exit {
    refusals
        .into_iter()
        .map(of_refusal)
        .max_by_key(|exit| *exit as u8)
        .unwrap_or(Exit::Succeeded)
}

fn of_error_code(class: ErrorClass, code: &str) -> Exit {
    match (class, code) {
        (_, Refusal::HOST_FAULT) => Exit::HostFault,
        // A violation that is not a limit: the sandbox refused a network request.
        (ErrorClass::SandboxViolation, "network_denied" | "network_request_refused") => {
            Exit::Refused
        }
        (class, _) => of_class(class),
    }
}

fn of_class(class: ErrorClass) -> Exit {
    use ErrorClass::*;
    match class {
        UnknownTool
        | InvalidArguments
        | SchemaValidationFailed
        | SchemaNotLoaded
        | SetupRequired
        | CredentialMissing => Exit::BadRequest,
        PermissionDenied | ApprovalRejected | PolicyBlocked | HookBlocked | CapabilityGap => {
            Exit::Refused
        }
        Timeout | SandboxViolation | ResultTooLarge | RateLimited => Exit::Limit,
        Canceled | SiblingCanceled | StreamingFallbackDiscarded => Exit::Canceled,
        DependencyUnavailable | ExecutionFailed | PartialFailure | ResultRedacted => {
            Exit::ToolFailed
        }
    }
}
