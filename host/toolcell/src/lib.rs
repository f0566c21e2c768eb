//! Runs untrusted WebAssembly tools (Agent Tool 0.2.0). Each call gets its own sandbox, only the permissions that it
//! was granted, and limits on CPU, time, memory and output.
//!
//! ```no_run
//! use serde_json::json;
//! use toolcell::{GrantWord, Host, Request};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().build()?;
//! host.load_file("files.wasm".as_ref()).await?;
//! let request = Request::new("files.search", json!({ "pattern": "fn main" })).grant(GrantWord::Read, "src")?;
//! let record = host.call(request).await;
//! println!("{}", record.result.text());
//! # Ok(())
//! # }
//! ```
//!
//! A program that uses [`Host`] must call [`compile_if_asked`] at the start of `main`.

mod builder;
mod call_spec;
mod compiling;
mod home;
mod host;
mod imports;
mod machine;
mod recall;
mod surfaces;
mod tool_set;

pub use builder::{
    CACHE_BYTES, CALLS_AT_ONCE, COMPILE_CPU_SECONDS, COMPILE_MEMORY_BYTES, HostBuilder, SetupError,
};
pub use call_spec::{CallContext, CallSpec};
pub use compiling::compile_if_asked;
pub use home::{FILE_NAME, HOME_VARIABLE, Home, LOCAL_FILE_NAME};
pub use host::{ComponentTools, Host, read_component};
pub use machine::{memory_bytes, share_bytes as memory_share_bytes};
pub use tool_set::{CallHandle, ToolSet, ToolTerms};
pub use toolcell_core::approval::{
    Approver, Inquiry, Prompt, Reply, RequestedInput, Respondent, Session, Terms,
};
pub use toolcell_core::catalog::{Catalog, Tool};
pub use toolcell_core::component_size::{COMPONENT_BYTES, set_component_bytes_max};
pub use toolcell_core::executor::{BoxFuture, Cancellation};
pub use toolcell_core::hook::{
    Hook, HookAnswer, HookCall, HookFuture, HookOutput, HookProgress, Matcher, OnFailure,
    Registration, UpdatedOutput,
};
pub use toolcell_core::journal::{
    EventReader, FollowedEvent, Keep, Listener, LogError, LogSettings, LoggedEvent, RoleLock,
    StoredApproval, SuspendedCall,
};
pub use toolcell_core::pipeline::{
    Background, Batch, BatchCall, BatchListener, CallExplanation, Callee, CancelOutcome,
    HookPreview, RecordKeeper, Request, StoredCallRef,
};
pub use toolcell_core::policy::{
    Explanation, GrantWord, Grants, InstalledTool, Limits, NetworkLimits, Policy, Provenance, Rule,
    RuleMatch, RuleWords,
};
pub use toolcell_core::record::{
    AbortReason, Approval, CallRecord, ErrorClass, ErrorCode, Finding, HookEvent, Input,
    InputResponse, InputResponses, Refusal, ToolError, ToolEvent, ToolResult,
};
pub use toolcell_core::scheduler::batch::{
    BatchPolicy, InterruptBehavior, OrderingPolicy, PlanError, SiblingFailurePolicy, YieldPolicy,
};
pub use toolcell_core::scheduler::{MemoryBudget, ResourceLocks, RetryPolicy};
pub use toolcell_core::secret::{SecretValue, Secrets};
pub use toolcell_sandbox::{Compilation, CompileWatch};
pub use toolcell_sandbox::{
    ENGINE_VERSION, FEATURES_OFF, Judge, ListenGuard, NetworkSettings, Resolver, SystemResolver,
};
pub use toolcell_sandbox::{cached_bytes, component_of_library};

/// The records that the other exported types carry in their fields and return from their methods: what a call, a
/// decision, a result and a tool's declaration consist of.
///
/// ```
/// use toolcell::record::{Recoverability, ResultStatus};
/// use toolcell::{CallRecord, ErrorClass};
///
/// /// Whether more time could help, and another attempt does no harm.
/// fn may_be_repeated(record: &CallRecord) -> bool {
///     let is_safe = record.result.error.as_ref().is_some_and(|error| error.retry.safe);
///     record.result.status == ResultStatus::TimedOut && is_safe
/// }
/// assert_eq!(ErrorClass::Timeout.recoverability(), Recoverability::RetrySame);
/// ```
pub mod record {
    pub use toolcell_core::record::{
        AccessKind, Answer, ApprovalState, ArgumentMode, ArtifactUsage, Behavior, Binding, Content,
        ContextModifier, ContextModifierPolicy, CredentialUse, DecisionId, Effects, EnabledState,
        EventId, EventType, ExecutionProfile, ExternalMapping, Extra, FileUsage, HookOutcome,
        IllegalTransition, InputContract, InputMutation, InterruptBehavior, InvocationId,
        Lifecycle, LockMode, MeteredUsage, Mode, MutationId, MutationPolicy, MutationRight,
        MutationSource, NetworkUsage, NonInteractive, OutputContract, PermissionChannel,
        PermissionDecision, PermissionProfile, PermissionResult, PersistedRef, PersistenceId, Plan,
        ProgressId, ProgressStatus, Reason, ReasonType, Recoverability, RedactionRule,
        ResourceLock, ResultId, ResultMappings, ResultPersistence, ResultProvenance, ResultStatus,
        Retry, RiskLevel, RuleSource, SafetyFacts, SchemaVersion, SchemaVisibility, Status,
        Strategy, SubjectField, SubjectKind, Timestamp, ToolDeclaration, ToolHook, ToolInterface,
        ToolInvocation, ToolKind, ToolProgress, Transition, Trust, Usage, WriteEffect, Writer,
    };
    pub use toolcell_core::record::{
        ArtifactExpectation, NativeOutput, NeedsAuthorization, OutputRetention, Representations,
    };
    pub use toolcell_core::record::{ClockReadings, RandomSeed, Replay, ReplayBlocker, ReplayData};
    pub use toolcell_core::record::{SpanId, TraceContext};
}
