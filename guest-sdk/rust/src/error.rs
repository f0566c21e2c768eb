use std::{fmt, io, path::Path, time::Duration};

use crate::ArtifactError;

/// The kind of a failure: the `error_class` of Agent Tool, as far as a guest may report it. Verdicts of the host
/// (permission, policy, sandbox, hooks, schema) are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The arguments match the schema, but contradict each other or the environment.
    InvalidArguments,
    /// The tool does not support this operation.
    CapabilityGap,
    /// Something must be set up first.
    SetupRequired,
    /// A credential is missing.
    CredentialMissing,
    /// A time limit of the tool passed, or one of a service that it called.
    Timeout,
    /// A service asked the tool to slow down.
    RateLimited,
    /// A dependency of the tool does not respond.
    DependencyUnavailable,
    /// The tool tried and failed.
    ExecutionFailed,
    /// Part of the work succeeded.
    PartialFailure,
    /// The result would be too large.
    ResultTooLarge,
    /// The call was cancelled.
    Canceled,
    /// A class of a later specification, in its own spelling.
    Other(String),
}

impl ErrorClass {
    /// The specification's spelling, such as `invalid_arguments`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::InvalidArguments => "invalid_arguments",
            Self::CapabilityGap => "capability_gap",
            Self::SetupRequired => "setup_required",
            Self::CredentialMissing => "credential_missing",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::DependencyUnavailable => "dependency_unavailable",
            Self::ExecutionFailed => "execution_failed",
            Self::PartialFailure => "partial_failure",
            Self::ResultTooLarge => "result_too_large",
            Self::Canceled => "canceled",
            Self::Other(word) => word,
        }
    }
}

/// Why a tool failed. Its `code` is stable, snake_case and the tool's own; its `message` may be read by the model.
///
/// `?` turns an [`io::Error`] or a [`Cancelled`](crate::cancellation::Cancelled) into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// The kind of failure.
    pub class: ErrorClass,
    /// Stable and snake_case, such as `not_found`.
    pub code: String,
    /// One sentence for the model and the user: what is wrong, and what would help.
    pub message: String,
    /// For the record only; never shown to the model.
    pub detail: Option<String>,
    /// The delay after which the same call may succeed.
    pub retry_after: Option<Duration>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $class:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Takes a stable snake_case `code` and a `message` that the model may read.
            pub fn $name(code: impl Into<String>, message: impl Into<String>) -> Self {
                Self::new(ErrorClass::$class, code, message)
            }
        )*
    };
}

impl ToolError {
    /// An error of any class.
    pub fn new(class: ErrorClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            class,
            code: code.into(),
            message: message.into(),
            detail: None,
            retry_after: None,
        }
    }

    constructors! {
        /// The arguments match the schema, but contradict each other or the environment.
        invalid_arguments => InvalidArguments;
        /// The tool does not support this operation.
        capability_gap => CapabilityGap;
        /// Something must be set up first.
        setup_required => SetupRequired;
        /// A credential is missing.
        credential_missing => CredentialMissing;
        /// A time limit of the tool passed, or one of a service that it called.
        timeout => Timeout;
        /// A service asked the tool to slow down; set the delay with [`Self::retry_after`].
        rate_limited => RateLimited;
        /// A dependency of the tool does not respond.
        dependency_unavailable => DependencyUnavailable;
        /// The tool tried and failed.
        execution_failed => ExecutionFailed;
        /// Part of the work succeeded; see [`Output::partial_failure`](crate::Output::partial_failure).
        partial_failure => PartialFailure;
        /// The result would be too large.
        result_too_large => ResultTooLarge;
        /// The call was cancelled.
        canceled => Canceled;
    }

    /// Adds detail for the record only.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the delay after which the same call may succeed.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// An I/O error, with the path that it is about. The message carries `path` as it is given here.
    pub fn at_path(path: impl AsRef<Path>, error: &io::Error) -> Self {
        let (class, code, what) = classify(error);
        let path = path.as_ref().display();
        Self::new(class, code, format!("{path}: {what}")).detail(error.to_string())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} ({})",
            self.class.as_str(),
            self.message,
            self.code
        )
    }
}

impl std::error::Error for ToolError {}

/// Derives the class and the code from the kind of the error. The path is unknown here: prefer [`ToolError::at_path`].
impl From<io::Error> for ToolError {
    fn from(error: io::Error) -> Self {
        if let Some(artifact) = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<ArtifactError>())
        {
            return artifact.clone().into();
        }
        let (class, code, what) = classify(&error);
        Self::new(class, code, what).detail(error.to_string())
    }
}

/// WASI's errno for a path in no granted folder; std has no kind for it.
const ENOTCAPABLE: i32 = 76;

fn classify(error: &io::Error) -> (ErrorClass, &'static str, String) {
    use io::ErrorKind::*;
    let fixed = |class, code, what: &str| (class, code, what.to_owned());
    if cfg!(target_os = "wasi") && error.raw_os_error() == Some(ENOTCAPABLE) {
        return fixed(
            ErrorClass::ExecutionFailed,
            "not_granted",
            "not in any folder that this tool was granted",
        );
    }
    match error.kind() {
        // In the sandbox, what is outside the granted folders does not exist.
        NotFound if cfg!(target_os = "wasi") => fixed(
            ErrorClass::InvalidArguments,
            "not_found",
            "no such file or folder, or not in a folder that this tool was granted",
        ),
        NotFound => fixed(
            ErrorClass::InvalidArguments,
            "not_found",
            "no such file or folder",
        ),
        AlreadyExists => fixed(
            ErrorClass::InvalidArguments,
            "already_exists",
            "already exists",
        ),
        NotADirectory => fixed(ErrorClass::InvalidArguments, "not_a_folder", "not a folder"),
        IsADirectory => fixed(ErrorClass::InvalidArguments, "is_a_folder", "is a folder"),
        DirectoryNotEmpty => fixed(
            ErrorClass::InvalidArguments,
            "folder_not_empty",
            "the folder is not empty",
        ),
        InvalidFilename => fixed(
            ErrorClass::InvalidArguments,
            "invalid_name",
            "not a valid file name",
        ),
        PermissionDenied | ReadOnlyFilesystem => fixed(
            ErrorClass::ExecutionFailed,
            "access_refused",
            "the grants of this tool do not allow this access",
        ),
        InvalidData => (
            ErrorClass::ExecutionFailed,
            "invalid_data",
            error.to_string(),
        ),
        UnexpectedEof => fixed(
            ErrorClass::ExecutionFailed,
            "unexpected_end",
            "ended too early",
        ),
        StorageFull | QuotaExceeded => fixed(
            ErrorClass::ExecutionFailed,
            "storage_full",
            "no space is left",
        ),
        TimedOut => fixed(ErrorClass::Timeout, "timed_out", "took too long"),
        ConnectionRefused | ConnectionReset | ConnectionAborted | NotConnected
        | HostUnreachable | NetworkUnreachable | NetworkDown | BrokenPipe => (
            ErrorClass::DependencyUnavailable,
            "connection_failed",
            error.to_string(),
        ),
        Unsupported => fixed(
            ErrorClass::CapabilityGap,
            "unsupported",
            "not supported in this sandbox",
        ),
        _ => (ErrorClass::ExecutionFailed, "io_error", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &str) -> Result<(), ToolError> {
        std::fs::File::open(path)?;
        Ok(())
    }

    #[test]
    fn an_io_error_becomes_a_tool_error_with_a_code() {
        let error = open("/no/such/file").unwrap_err();
        assert_eq!(
            (error.class, error.code.as_str()),
            (ErrorClass::InvalidArguments, "not_found")
        );
    }

    #[test]
    fn an_error_at_a_path_names_the_path_and_keeps_the_cause_for_the_record() {
        let cause = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = ToolError::at_path("notes/a.txt", &cause);
        assert_eq!(error.code, "access_refused");
        assert!(error.message.starts_with("notes/a.txt: "));
        assert_eq!(error.detail, Some(cause.to_string()));
    }

    #[test]
    fn constructors_carry_their_class() {
        assert_eq!(
            ToolError::setup_required("no_index", "build it").class,
            ErrorClass::SetupRequired
        );
        let error =
            ToolError::rate_limited("slow_down", "too fast").retry_after(Duration::from_secs(2));
        assert_eq!(error.to_string(), "rate_limited: too fast (slow_down)");
        assert_eq!(error.retry_after, Some(Duration::from_secs(2)));
    }
}
