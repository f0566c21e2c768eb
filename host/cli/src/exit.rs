use std::process::ExitCode;

use toolcell_journal::LogError;
use toolcell_spec::{ErrorCode, Refusal, ToolResult};

/// Exit codes, and what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
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
    /// `toolcell connect`: nothing was written.
    WouldAsk = 6,
    /// A fault of toolcell itself.
    HostFault = 70,
}

impl Exit {
    /// Success, or that what was looked at has faults.
    pub(crate) fn from_success(is_good: bool) -> Self {
        if is_good {
            Self::Succeeded
        } else {
            Self::ToolFailed
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Succeeded,
            1 => Self::ToolFailed,
            2 => Self::BadRequest,
            3 => Self::Refused,
            4 => Self::Limit,
            5 => Self::Canceled,
            6 => Self::WouldAsk,
            _ => Self::HostFault,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A mistake of the caller that ends a command before any call.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadRequest(pub String);

impl BadRequest {
    /// The caller made a mistake: any other error is a fault of the host, with another exit code.
    pub(crate) fn from_error(error: anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

/// A refusal is data; an error ends the command.
#[derive(Debug)]
pub(crate) enum Stop {
    Refused(Refusal),
    Failed(anyhow::Error),
}

impl Stop {
    /// Fails with the error.
    pub(crate) fn refusal(self) -> anyhow::Result<Refusal> {
        match self {
            Self::Refused(refusal) => Ok(refusal),
            Self::Failed(error) => Err(error),
        }
    }
}

/// Separates a refusal from an error, which ends the command.
pub(crate) fn refusable<T>(done: Result<T, Stop>) -> anyhow::Result<Result<T, Refusal>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(stop) => stop.refusal().map(Err),
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

pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    let is_ambiguous = matches!(error.downcast_ref(), Some(LogError::Ambiguous(_)));
    if is_ambiguous || error.is::<BadRequest>() {
        Exit::BadRequest
    } else {
        Exit::HostFault
    }
}

pub(crate) fn of_result(result: &ToolResult) -> Exit {
    result.error.as_ref().map_or(Exit::Succeeded, |error| {
        let class = error.error_class;
        let code = ErrorCode::from_name(&error.error_code);
        Exit::from_number(code.map_or_else(|| class.exit_code(), |code| code.exit_code(class)))
    })
}

pub(crate) fn of_refusal(refusal: &Refusal) -> Exit {
    Exit::from_number(refusal.code.exit_code(refusal.class))
}

/// The highest, for a command that went on after refusals.
pub(crate) fn of_refusals<'r>(refusals: impl IntoIterator<Item = &'r Refusal>) -> Exit {
    refusals
        .into_iter()
        .map(of_refusal)
        .max_by_key(|exit| *exit as u8)
        .unwrap_or(Exit::Succeeded)
}
