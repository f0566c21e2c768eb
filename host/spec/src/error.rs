use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

use super::{AbortReason, AccessKind, ErrorCode, Extra, ResultStatus, SchemaVersion, Status};

/// `error_class` (AT-EC-01..22).
///
/// ```
/// use toolcell_spec::{ErrorClass, Recoverability, ResultStatus};
///
/// assert_eq!(ErrorClass::PolicyBlocked.result_status(), ResultStatus::Denied);
/// assert_eq!(ErrorClass::CredentialMissing.recoverability(), Recoverability::SetupFirst);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ErrorClass {
    /// No or several tools have this name (AT-EC-01).
    UnknownTool,
    /// The tool's own checks refuse the arguments (AT-EC-02).
    InvalidArguments,
    /// The schema refuses the arguments (AT-EC-03).
    SchemaValidationFailed,
    /// The tool is deferred (AT-EC-04).
    SchemaNotLoaded,
    /// A rule or a missing grant denies the call (AT-EC-05).
    PermissionDenied,
    /// A denial, or no answer in time (AT-EC-06).
    ApprovalRejected,
    /// The host's policy excludes the call, whatever is granted (AT-EC-07).
    PolicyBlocked,
    /// A hook stopped the call, or failed (AT-EC-08).
    HookBlocked,
    /// The host cannot provide what the tool needs (AT-EC-09).
    CapabilityGap,
    /// A setup is missing (AT-EC-10).
    SetupRequired,
    /// A needed secret has no value (AT-EC-11).
    CredentialMissing,
    /// A limit or a rule of the sandbox (AT-EC-12).
    SandboxViolation,
    /// Wall time or fuel (AT-EC-13).
    Timeout,
    /// Too much runs or waits (AT-EC-14).
    RateLimited,
    /// A dependency cannot be reached (AT-EC-15).
    DependencyUnavailable,
    /// The guest failed, or gave invalid output (AT-EC-16).
    ExecutionFailed,
    /// Usable, but incomplete output (AT-EC-17).
    PartialFailure,
    /// Output over a limit (AT-EC-18).
    ResultTooLarge,
    /// Withheld output (AT-EC-19).
    ResultRedacted,
    /// A call beside it failed (AT-EC-20).
    SiblingCanceled,
    /// Another attempt replaced this one (AT-EC-21).
    StreamingFallbackDiscarded,
    /// The call was canceled (AT-EC-22).
    Canceled,
}

impl ErrorClass {
    pub const ALL: [Self; 22] = [
        Self::UnknownTool,
        Self::InvalidArguments,
        Self::SchemaValidationFailed,
        Self::SchemaNotLoaded,
        Self::PermissionDenied,
        Self::ApprovalRejected,
        Self::PolicyBlocked,
        Self::HookBlocked,
        Self::CapabilityGap,
        Self::SetupRequired,
        Self::CredentialMissing,
        Self::SandboxViolation,
        Self::Timeout,
        Self::RateLimited,
        Self::DependencyUnavailable,
        Self::ExecutionFailed,
        Self::PartialFailure,
        Self::ResultTooLarge,
        Self::ResultRedacted,
        Self::SiblingCanceled,
        Self::StreamingFallbackDiscarded,
        Self::Canceled,
    ];

    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// `true` if the host words every such error, except a tool's own.
    pub(crate) fn is_in_host_words(self) -> bool {
        use ErrorClass::*;
        matches!(
            self,
            Timeout
                | RateLimited
                | PartialFailure
                | ResultTooLarge
                | ResultRedacted
                | SiblingCanceled
                | StreamingFallbackDiscarded
                | Canceled
        )
    }

    /// As far as the class tells it (AT-CAN-03).
    fn abort_reason(self) -> Option<AbortReason> {
        match self {
            Self::Timeout => Some(AbortReason::Timeout),
            Self::SiblingCanceled => Some(AbortReason::SiblingError),
            Self::StreamingFallbackDiscarded => Some(AbortReason::Fallback),
            _ => None,
        }
    }

    /// Remedy for a caller (requirements 1.17.3).
    pub fn recoverability(self) -> Recoverability {
        use ErrorClass::*;
        match self {
            UnknownTool | SchemaNotLoaded => Recoverability::DiscoverFirst,
            InvalidArguments
            | SchemaValidationFailed
            | HookBlocked
            | PartialFailure
            | ResultTooLarge => Recoverability::ChangeArguments,
            PermissionDenied | PolicyBlocked | SandboxViolation | ResultRedacted => {
                Recoverability::ChangeArgumentsOrPolicy
            }
            ApprovalRejected => Recoverability::Reapprove,
            SetupRequired | CredentialMissing => Recoverability::SetupFirst,
            RateLimited | DependencyUnavailable => Recoverability::RetryAfter,
            Timeout | SiblingCanceled | StreamingFallbackDiscarded | Canceled => {
                Recoverability::RetrySame
            }
            CapabilityGap | ExecutionFailed => Recoverability::None,
        }
    }

    /// `true` if repeating is harmless where the guest changed nothing (requirements 1.17.3). `false` also if a grant,
    /// an approval or a setup is needed first.
    fn is_repeatable(self) -> bool {
        use ErrorClass::*;
        !matches!(
            self,
            PermissionDenied
                | ApprovalRejected
                | PolicyBlocked
                | HookBlocked
                | CapabilityGap
                | SetupRequired
                | CredentialMissing
                | SandboxViolation
                | PartialFailure
                | ResultRedacted
        )
    }

    /// Terminal status before the guest ran.
    pub fn refused_status(self) -> Status {
        use ErrorClass::*;
        match self {
            PermissionDenied | ApprovalRejected => Status::Denied,
            SchemaNotLoaded | PolicyBlocked | HookBlocked | CapabilityGap | SetupRequired
            | CredentialMissing | RateLimited => Status::Blocked,
            SiblingCanceled | StreamingFallbackDiscarded | Canceled => Status::Canceled,
            Timeout => Status::TimedOut,
            _ => Status::Failed,
        }
    }

    /// Terminal status after the guest started.
    pub fn ran_status(self) -> Status {
        match self {
            Self::Timeout => Status::TimedOut,
            Self::SiblingCanceled | Self::StreamingFallbackDiscarded | Self::Canceled => {
                Status::Canceled
            }
            _ => Status::Failed,
        }
    }

    /// `tool_result.status` (requirements 1.17.3).
    pub fn result_status(self) -> ResultStatus {
        use ErrorClass::*;
        match self {
            PermissionDenied | PolicyBlocked | HookBlocked => ResultStatus::Denied,
            ApprovalRejected => ResultStatus::Rejected,
            Timeout => ResultStatus::TimedOut,
            PartialFailure => ResultStatus::PartialSucceeded,
            ResultTooLarge => ResultStatus::TooLarge,
            ResultRedacted => ResultStatus::Redacted,
            SiblingCanceled => ResultStatus::SyntheticError,
            StreamingFallbackDiscarded => ResultStatus::Discarded,
            Canceled => ResultStatus::Canceled,
            _ => ResultStatus::Failed,
        }
    }
}

/// Condition for the same call to succeed (AT-ERR-04).
///
/// ```
/// use toolcell_spec::{Recoverability, ToolError};
///
/// /// `true` if a model should try other arguments.
/// fn can_rephrase(error: &ToolError) -> bool {
///     error.recoverability == Recoverability::ChangeArguments
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recoverability {
    None,
    RetrySame,
    RetryAfter,
    ChangeArguments,
    /// Other arguments, a grant or a rule.
    ChangeArgumentsOrPolicy,
    /// List the tools, or load the schema.
    DiscoverFirst,
    Reapprove,
    /// Set up what the message names.
    SetupFirst,
}

/// Six facets (AT-ERR-09).
///
/// ```
/// use std::time::Duration;
///
/// use toolcell_spec::Retry;
///
/// /// How long to wait before the same call; `None` if repeating it could do harm.
/// fn wait(retry: &Retry) -> Option<Duration> {
///     retry.safe.then(|| Duration::from_secs_f64(retry.retry_after.unwrap_or_default()))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// `true` if the guest never ran, or could change nothing that lasts.
    pub safe: bool,
    pub arguments_must_change: bool,
    pub discovery_first: bool,
    pub approval_again: bool,
    /// `true` if a sibling call is the cause.
    pub sibling_caused: bool,
    /// Seconds.
    pub retry_after: Option<f64>,
}

/// Something that the operator can give for the call to succeed. An extension, written only by the host; it holds
/// names, never values.
///
/// ```
/// use toolcell_spec::{AccessKind, ErrorCode, Refusal};
///
/// let refusal = Refusal::new(ErrorCode::SecretNotSet, "the secret API_KEY is not set")
///     .needs(AccessKind::Credential, Some("API_KEY".to_owned()), "toolcell secrets set API_KEY");
/// let needed = refusal.to_error().needs_authorization;
/// assert_eq!(needed.map(|needed| needed.next_action).as_deref(), Some("toolcell secrets set API_KEY"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedsAuthorization {
    pub access_kind: AccessKind,
    /// Secret or hosts; `None` for folders, which no profile names.
    pub subject: Option<String>,
    /// Command or option that gives it: `toolcell secrets set API_KEY`, `--allow-read=DIR`.
    pub next_action: String,
}

/// `message` may reach the model (AT-ERR-01..09).
///
/// ```
/// use toolcell_spec::{ErrorCode, Refusal, ToolError};
///
/// let refusal = Refusal::new(ErrorCode::TooManyCalls, "64 calls run; try again");
/// let error: ToolError = refusal.to_error();
/// assert!(error.retry.safe);
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolError {
    #[serde(default)]
    pub schema_version: SchemaVersion,
    /// Stable, finer than the class (AT-ERR-01).
    pub error_code: String,
    /// One of the 22 classes (AT-ERR-02).
    pub error_class: ErrorClass,
    /// Failure and remedy, safe for model and user (AT-ERR-03).
    pub message: String,
    /// Needed change (AT-ERR-04).
    pub recoverability: Recoverability,
    /// Seconds (A-09).
    #[serialize_always]
    pub retry_after: Option<f64>,
    /// The underlying error, such as a trap (AT-ERR-06).
    pub native_error_ref: Option<Value>,
    /// Set if a request to stop is the error (AT-CAN-03).
    pub abort_reason: Option<AbortReason>,
    /// Rules, grants, mode, hook, approval or profile that refused the call (AT-ERR-07).
    #[serde(default)]
    pub policy_refs: Vec<String>,
    /// Evidence in the journal (AT-ERR-08): the record of the call, and the refusing decision.
    #[serde(default)]
    pub evidence_refs: Vec<String>,
    pub retry: Retry,
    /// `None` if no grant and no secret helps.
    pub needs_authorization: Option<Box<NeedsAuthorization>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Error that a call ends in: every refusal, limit and failure.
///
/// ```
/// use toolcell_spec::{ErrorClass, ErrorCode, Refusal};
///
/// let refusal = Refusal::new(ErrorCode::NotBuilt, "the tool has no component; run `toolcell build`")
///     .detail("target/tool.wasm: No such file or directory");
/// assert_eq!(refusal.class, ErrorClass::SetupRequired);
/// assert_eq!(refusal.to_string(), "the tool has no component; run `toolcell build`");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// One of 22.
    pub class: ErrorClass,
    /// Stable, finer than the class.
    pub code: ErrorCode,
    /// A code that the guest chose; records have it instead of `code`.
    pub guest_code: Option<String>,
    /// Safe for the model and the user: no host path outside the grants, no secret.
    pub message: String,
    /// For the journal only.
    pub detail: Option<String>,
    /// Seconds.
    pub retry_after: Option<f64>,
    /// The underlying error, such as a trap (AT-ERR-06).
    pub native_error_ref: Option<Value>,
    /// Policies that refused the call, besides its decision.
    pub policy_refs: Vec<String>,
    pub abort_reason: Option<AbortReason>,
    /// Grants that would help; boxed, because few refusals have any.
    pub needs_authorization: Option<Box<NeedsAuthorization>>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

// Cold, so that the code of refusals is not between the code of calls that succeed.
impl Refusal {
    /// Uses the first class of `code`. `message` says what failed, the value that caused it, and what to do.
    #[cold]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let class = *code
            .classes()
            .first()
            .unwrap_or(&ErrorClass::ExecutionFailed);
        Self {
            class,
            code,
            guest_code: None,
            message: message.into(),
            detail: None,
            retry_after: None,
            native_error_ref: None,
            policy_refs: Vec::new(),
            abort_reason: class.abort_reason(),
            needs_authorization: None,
        }
    }

    #[cold]
    #[must_use]
    pub fn with_class(self, class: ErrorClass) -> Self {
        Self {
            class,
            abort_reason: class.abort_reason(),
            ..self
        }
    }

    /// A fault of the host itself, not of the call: exit code 70.
    #[cold]
    pub fn host_fault(detail: impl Into<String>) -> Self {
        Self::new(
            ErrorCode::HostFault,
            "toolcell itself failed; the tool is not to blame",
        )
        .detail(detail)
    }

    /// `true` if the guest wrote the message.
    pub fn is_guests(&self) -> bool {
        self.guest_code.is_some() || self.code == ErrorCode::ToolFailed
    }

    /// `true` if it may have text of the tool: its own failure, a quotation, or a printed detail.
    pub fn may_quote(&self) -> bool {
        self.is_guests()
            || (self.code != ErrorCode::HostFault
                && (!self.class.is_in_host_words() || self.detail.is_some()))
    }

    /// Drops all text that a tool may have written.
    #[cold]
    #[must_use]
    pub fn reworded(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            detail: None,
            guest_code: None,
            native_error_ref: None,
            ..self
        }
    }

    /// For the journal, neither for the model nor for the user.
    #[cold]
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub fn native(mut self, native: impl Into<Value>) -> Self {
        self.native_error_ref = Some(native.into());
        self
    }

    /// `None` for a failure that the guest itself reported.
    pub fn why_aborted(&self) -> Option<AbortReason> {
        self.abort_reason.filter(|_| !self.is_guests())
    }

    #[cold]
    #[must_use]
    pub fn aborted(mut self, reason: AbortReason) -> Self {
        self.abort_reason = Some(reason);
        self
    }

    #[cold]
    #[must_use]
    pub fn by_policy(mut self, policy: String) -> Self {
        self.policy_refs.push(policy);
        self
    }

    #[cold]
    #[must_use]
    pub fn needs(
        mut self,
        access_kind: AccessKind,
        subject: Option<String>,
        next_action: impl Into<String>,
    ) -> Self {
        let next_action = next_action.into();
        self.needs_authorization = Some(Box::new(NeedsAuthorization {
            access_kind,
            subject,
            next_action,
        }));
        self
    }

    /// Only for a call whose guest never ran, or could change nothing that lasts.
    #[cold]
    pub fn to_error(&self) -> ToolError {
        let recoverability = self.class.recoverability();
        ToolError {
            schema_version: SchemaVersion::default(),
            error_code: self
                .guest_code
                .clone()
                .unwrap_or_else(|| self.code.as_str().to_owned()),
            error_class: self.class,
            message: self.message.clone(),
            recoverability,
            retry_after: self.retry_after,
            native_error_ref: self.native_error_ref.clone(),
            abort_reason: self.why_aborted(),
            policy_refs: self.policy_refs.clone(),
            evidence_refs: Vec::new(),
            retry: Retry {
                safe: self.class.is_repeatable(),
                arguments_must_change: matches!(
                    recoverability,
                    Recoverability::ChangeArguments | Recoverability::ChangeArgumentsOrPolicy
                ),
                discovery_first: recoverability == Recoverability::DiscoverFirst,
                approval_again: recoverability == Recoverability::Reapprove,
                sibling_caused: self.class == ErrorClass::SiblingCanceled,
                retry_after: self.retry_after,
            },
            needs_authorization: self.needs_authorization.clone(),
            extra: Extra::new(),
        }
    }
}
