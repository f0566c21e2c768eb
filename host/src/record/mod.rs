//! NOUNS. The objects of Agent Tool 0.2.0 that a call touches: serde types without I/O.
//!
//! Records that a guest or a user writes keep unknown fields in `extra`, so that these survive a round trip (AT-N-31).
//! Records that only the host writes are strictly typed, and an illegal status transition cannot be made.

mod approval;
mod call_record;
mod cancel;
mod content;
mod decision;
mod declaration;
mod error;
mod event;
mod exact;
mod execution_profile;
mod facts;
mod finding;
mod hook;
mod id;
mod input;
mod input_response;
mod interface;
mod invocation;
mod json;
mod mapping;
mod mutation;
mod permission_profile;
mod persistence;
mod progress;
mod provenance;
mod result;
mod status;
mod time;
mod toolkit;
mod usage;
mod version;

pub use approval::{Answer, Approval, ApprovalState, Binding, Plan, SessionRule};
pub use call_record::CallRecord;
pub use cancel::AbortReason;
pub use content::{Content, GUEST_BLOCKS, TEXT};
pub use decision::{Behavior, Mode, PermissionDecision, Reason, ReasonType, RuleSource};
pub use declaration::{
    ArgumentMode, InputContract, Lifecycle, OutputContract, RedactionRule, ToolDeclaration, ToolKind,
};
pub use error::{ErrorClass, Recoverability, Refusal, Retry, ToolError};
pub use event::{EventType, ToolEvent};
pub use execution_profile::ExecutionProfile;
pub use facts::{SafetyFacts, SubjectField, SubjectKind};
pub use finding::Finding;
pub use hook::{HookEvent, HookOutcome, PermissionResult, ToolHook};
pub use id::{DecisionId, EventId, InvocationId, MutationId, PersistenceId, ProgressId, ResultId};
pub use input::{Input, digest};
pub use input_response::{InputResponse, InputResponses};
pub use interface::{SchemaVisibility, ToolInterface};
pub use invocation::{IllegalTransition, ToolInvocation, Transition};
pub use json::{JSON_VALUES_MAX, read_json, read_unique_json};
pub use mapping::{ExternalMapping, ResultMappings};
pub use mutation::{InputMutation, MutationSource, changed_fields};
pub use permission_profile::{
    AccessKind, CredentialUse, NonInteractive, PermissionChannel, PermissionProfile, RiskLevel, WriteEffect,
};
pub use persistence::{PersistedRef, ResultPersistence, Strategy};
pub use progress::{ProgressStatus, ToolProgress};
pub use provenance::{ResultProvenance, Trust, Writer};
pub use result::{ResultStatus, ToolResult};
pub use status::Status;
pub use time::Timestamp;
pub use toolkit::Toolkit;
pub use usage::{FileUsage, Metered, NetworkUsage, Usage};
pub use version::SchemaVersion;

/// Fields of a record that this version does not know.
pub type Extra = serde_json::Map<String, serde_json::Value>;
