//! NOUNS. The objects of Agent Tool 0.2.0 that a call touches: serde types without I/O.
//!
//! Records of a guest or a user keep unknown fields in `extra`, so that these survive a round trip (AT-N-31); only the
//! host's own are strictly typed.

use std::time::Duration;

#[macro_use]
pub mod guard;

mod approval;
mod block;
mod call_record;
mod cancel;
mod content;
mod context;
mod decision;
mod declaration;
pub mod dialect;
mod effects;
mod error;
mod error_code;
mod event;
mod exact;
mod execution_profile;
mod facts;
mod finding;
mod header;
mod hook;
mod id;
mod input;
mod input_response;
mod interface;
mod invocation;
mod json;
mod mapping;
mod mutation;
mod output;
mod permission_profile;
mod persistence;
mod progress;
mod provenance;
pub mod regex_search;
mod replay;
mod representation;
mod result;
mod search;
mod status;
mod surface;
mod suspension;
pub mod text;
mod time;
mod toolkit;
mod touched;
mod trace;
mod usage;
mod version;

pub use approval::{Answer, Approval, ApprovalState, Binding, Plan, SessionRule};
pub use block::is_media_type;
pub use block::{is_base64, is_uri, media_type};
pub use call_record::CallRecord;
pub use cancel::AbortReason;
pub use content::{ARTIFACT, Content, GUEST_BLOCKS, TEXT};
pub use context::{ContextModifier, ContextModifierPolicy};
pub use decision::SANDBOX_REF;
pub use decision::{Behavior, Mode, PermissionDecision, Reason, ReasonType, RuleSource};
pub use declaration::{
    ArgumentMode, ArtifactExpectation, InputContract, Lifecycle, MutationPolicy, MutationRight,
    OutputContract, RedactionRule, RenderingBoundary, ToolDeclaration, ToolKind,
};
pub use effects::Effects;
pub use error::{ErrorClass, NeedsAuthorization, Recoverability, Refusal, Retry, ToolError};
pub use error_code::{ErrorCode, Explanation};
pub use event::{EventType, ToolEvent};
pub use exact::check_numbers;
pub use execution_profile::ExecutionProfile;
pub use facts::{SafetyFacts, SubjectField, SubjectKind};
pub use finding::Finding;
pub use header::{CONNECTION_HEADERS, CREDENTIAL_HEADERS};
pub use hook::{HookEvent, HookOutcome, PermissionResult, ToolHook};
pub use id::{DecisionId, EventId, InvocationId, MutationId, PersistenceId, ProgressId, ResultId};
pub use input::{Input, digest, short_id};
pub use input_response::{InputResponse, InputResponses};
pub(crate) use interface::SAME_AS;
pub use interface::is_subject;
pub use interface::{
    EmptyResultPolicy, EnabledState, InterruptBehavior, LockMode, PERMISSION_INPUT, ResourceLock,
    SchemaVisibility, ToolInterface,
};
pub use invocation::{EVIDENCE, evidence_ref};
pub use invocation::{IllegalTransition, ToolInvocation, Transition};
pub use json::{JSON_VALUES_MAX, TypedFields, read_json, read_unique_json};
pub use json::{
    children, decoded, escaped_step, json_bytes, json_chars, plain_name, pointed, pointed_mut,
    pointer_steps, property_names,
};
pub use mapping::{
    CLI, COMMAND_PROTOCOL, ExternalMapping, POSTED_CALL, ResultMappings, native_ids, native_ref,
    operation_ids,
};
pub use mutation::{InputMutation, MutationSource, changed_fields};
pub use output::OutputError;
pub use permission_profile::{
    AccessKind, CredentialUse, NonInteractive, PermissionChannel, PermissionProfile, RiskLevel,
    WriteEffect,
};
pub use persistence::{OutputRetention, PersistedRef, ResultPersistence, Strategy};
pub use progress::{ProgressStatus, ToolProgress};
pub use provenance::{ResultProvenance, Trust, Writer};
pub use replay::{ClockReadings, RandomSeed, Replay, ReplayBlocker, ReplayData};
pub use representation::{NativeOutput, Representations};
pub use result::{ResultStatus, ToolResult};
pub use search::{
    LoadingState, NextAction, QueryType, ToolRef, ToolSearchResult, UnavailableProvider,
};
pub use status::Status;
pub use surface::{
    ModelCapabilities, RoleConstraints, SelectionPolicy, SurfaceReason, SurfaceScope, ToolChoice,
    ToolSurface, WithheldTool,
};
pub use suspension::{OpenQuestion, Suspension, SuspensionState};
pub use time::Timestamp;
pub use toolkit::Toolkit;
pub use touched::{Touch, TouchList, TouchedThing};
pub use trace::{SpanId, TraceContext};
pub use usage::{ArtifactUsage, FileUsage, MeteredUsage, NetworkUsage, Usage};
pub use version::SchemaVersion;

/// Fields unknown to this version.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::Extra;
///
/// let extra = Extra::from_iter([("x_team".to_owned(), json!("search"))]);
/// assert_eq!(extra["x_team"], "search");
/// ```
pub type Extra = serde_json::Map<String, serde_json::Value>;

/// Default time for an approver.
pub const EXPIRE_DEFAULT: Duration = Duration::from_secs(600);
/// Maximum time for an approver.
pub const EXPIRE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
