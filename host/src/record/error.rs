use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, ResultStatus, Status};

/// `error_class` (AT-EC-01..22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    UnknownTool,
    InvalidArguments,
    SchemaValidationFailed,
    SchemaNotLoaded,
    PermissionDenied,
    ApprovalRejected,
    PolicyBlocked,
    HookBlocked,
    CapabilityGap,
    SetupRequired,
    CredentialMissing,
    SandboxViolation,
    Timeout,
    RateLimited,
    DependencyUnavailable,
    ExecutionFailed,
    PartialFailure,
    ResultTooLarge,
    ResultRedacted,
    SiblingCanceled,
    StreamingFallbackDiscarded,
    Canceled,
}

impl ErrorClass {
    /// What a caller can do about it (requirements 1.17.3).
    pub fn recoverability(self) -> Recoverability {
        use ErrorClass::*;
        match self {
            UnknownTool | SchemaNotLoaded => Recoverability::DiscoverFirst,
            InvalidArguments | SchemaValidationFailed | HookBlocked | PartialFailure | ResultTooLarge => {
                Recoverability::ChangeArguments
            }
            PermissionDenied | PolicyBlocked | SandboxViolation | ResultRedacted => {
                Recoverability::ChangeArgumentsOrPolicy
            }
            ApprovalRejected => Recoverability::Reapprove,
            SetupRequired | CredentialMissing => Recoverability::SetupFirst,
            RateLimited | DependencyUnavailable => Recoverability::RetryAfter,
            Timeout | SiblingCanceled | StreamingFallbackDiscarded | Canceled => Recoverability::RetrySame,
            CapabilityGap | ExecutionFailed => Recoverability::None,
        }
    }

    /// Whether repeating the same call does no harm, as long as its guest changed nothing (requirements 1.17.3).
    /// `false` also if a grant, an approval or a setup is needed first.
    fn is_repeatable(self) -> bool {
        use ErrorClass::*;
        match self {
            UnknownTool
            | InvalidArguments
            | SchemaValidationFailed
            | SchemaNotLoaded
            | Timeout
            | RateLimited
            | DependencyUnavailable
            | ExecutionFailed
            | ResultTooLarge
            | SiblingCanceled
            | StreamingFallbackDiscarded
            | Canceled => true,
            PermissionDenied | ApprovalRejected | PolicyBlocked | HookBlocked | CapabilityGap | SetupRequired
            | CredentialMissing | SandboxViolation | PartialFailure | ResultRedacted => false,
        }
    }

    /// The terminal status of an invocation that ends with this class before its guest ran.
    pub fn refused_status(self) -> Status {
        use ErrorClass::*;
        match self {
            PermissionDenied | ApprovalRejected => Status::Denied,
            SchemaNotLoaded | PolicyBlocked | HookBlocked | CapabilityGap | SetupRequired | CredentialMissing
            | RateLimited => Status::Blocked,
            SiblingCanceled | StreamingFallbackDiscarded | Canceled => Status::Canceled,
            Timeout => Status::TimedOut,
            _ => Status::Failed,
        }
    }

    /// The terminal status of an invocation that ends with this class after its guest started.
    pub fn ran_status(self) -> Status {
        match self {
            Self::Timeout => Status::TimedOut,
            Self::SiblingCanceled | Self::StreamingFallbackDiscarded | Self::Canceled => Status::Canceled,
            _ => Status::Failed,
        }
    }

    /// `tool_result.status` for this class (requirements 1.17.3).
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

/// What has to change before the same call can succeed (AT-ERR-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recoverability {
    None,
    RetrySame,
    RetryAfter,
    ChangeArguments,
    ChangeArgumentsOrPolicy,
    DiscoverFirst,
    Reapprove,
    SetupFirst,
}

/// The six facets of retry guidance (AT-ERR-09).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Whether repeating the same call does no harm: its guest never ran, or could change nothing that lasts.
    pub safe: bool,
    pub arguments_must_change: bool,
    pub discovery_first: bool,
    pub approval_again: bool,
    pub sibling_caused: bool,
    /// Seconds.
    pub retry_after: Option<f64>,
}

/// `tool_error` (AT-ERR-01..09). `message` may reach the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolError {
    pub error_code: String,
    pub error_class: ErrorClass,
    pub message: String,
    pub recoverability: Recoverability,
    /// Seconds.
    pub retry_after: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_error_ref: Option<Value>,
    #[serde(default)]
    pub policy_refs: Vec<String>,
    #[serde(default)]
    pub evidence_refs: Vec<String>,
    pub retry: Retry,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The error that a call ends in: every refusal, limit and failure is one of these.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub class: ErrorClass,
    /// Stable, snake_case, finer than the class.
    pub code: &'static str,
    /// A code that the guest chose; records have it instead of `code`.
    pub guest_code: Option<String>,
    /// Safe for the model and the user: no host path outside the grants, no secret.
    pub message: String,
    /// For the journal only.
    pub detail: Option<String>,
    /// Seconds.
    pub retry_after: Option<f64>,
    pub native_error_ref: Option<Value>,
    pub policy_refs: Vec<String>,
}

impl Refusal {
    pub fn new(class: ErrorClass, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            class,
            code,
            guest_code: None,
            message: message.into(),
            detail: None,
            retry_after: None,
            native_error_ref: None,
            policy_refs: Vec::new(),
        }
    }

    /// A fault of the host itself, not of the call: exit code 70.
    pub fn host_fault(detail: impl Into<String>) -> Self {
        Self::new(ErrorClass::ExecutionFailed, Self::HOST_FAULT, "toolcell itself failed; the tool is not to blame")
            .detail(detail)
    }

    /// The code of a failure to which the guest gave none.
    pub const TOOL_FAILED: &'static str = "tool_failed";

    /// Whether the guest wrote the message, because it reported the failure itself.
    pub fn is_guests(&self) -> bool {
        self.guest_code.is_some() || self.code == Self::TOOL_FAILED
    }

    /// The code of [`Self::host_fault`].
    pub const HOST_FAULT: &'static str = "host_fault";

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

    /// Converts it into a record, for a call whose guest never ran, or could change nothing that lasts.
    pub fn to_error(&self) -> ToolError {
        let recoverability = self.class.recoverability();
        ToolError {
            error_code: self.guest_code.clone().unwrap_or_else(|| self.code.to_owned()),
            error_class: self.class,
            message: self.message.clone(),
            recoverability,
            retry_after: self.retry_after,
            native_error_ref: self.native_error_ref.clone(),
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
            extra: Extra::new(),
        }
    }
}
