use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EventId, Extra, InvocationId, SchemaVersion, Timestamp};

macro_rules! event_types {
    ($($(#[$doc:meta])* $name:ident = $word:literal),* $(,)?) => {
        /// `event_type` (AT-EV-01..27, and the documented extensions).
        ///
        /// ```
        /// use toolcell_spec::EventType;
        ///
        /// assert_eq!(EventType::Started.as_str(), "tool.invocation.started");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum EventType {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
        }

        impl EventType {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// `true` if no event of the same call follows.
            pub fn is_end(self) -> bool {
                matches!(
                    self,
                    Self::Succeeded | Self::Failed | Self::Canceled | Self::TimedOut
                )
            }
        }
    };
}

event_types! {
    Declared = "tool.declared",
    SurfaceCreated = "tool.surface.created",
    SurfaceUpdated = "tool.surface.updated",
    DeferredDiscovered = "tool.deferred.discovered",
    DeferredLoaded = "tool.deferred.loaded",
    Planned = "tool.invocation.planned",
    Selected = "tool.invocation.selected",
    ArgumentsReady = "tool.invocation.arguments_ready",
    ValidationFailed = "tool.invocation.validation_failed",
    PreHookStarted = "tool.hook.pre.started",
    PreHookCompleted = "tool.hook.pre.completed",
    PermissionRequested = "tool.permission.requested",
    PermissionDecided = "tool.permission.decided",
    Queued = "tool.invocation.queued",
    Started = "tool.invocation.started",
    /// Another attempt takes its place. An extension.
    AttemptDiscarded = "tool.invocation.attempt_discarded",
    Progress = "tool.invocation.progress",
    PartialResult = "tool.invocation.partial_result",
    /// A question to the caller's user. An extension.
    NeedsInput = "tool.invocation.needs_input",
    /// The tool goes on with the answers. An extension.
    Resumed = "tool.invocation.resumed",
    /// A guest's line. An extension: sent while the tool runs, and kept as a block of the result.
    Logged = "tool.invocation.logged",
    PostHookStarted = "tool.hook.post.started",
    PostHookCompleted = "tool.hook.post.completed",
    FailureHookStarted = "tool.hook.failure.started",
    FailureHookCompleted = "tool.hook.failure.completed",
    PermissionRequestHookStarted = "tool.hook.permission_request.started",
    PermissionRequestHookCompleted = "tool.hook.permission_request.completed",
    PermissionDecisionHookStarted = "tool.hook.permission_decision.started",
    PermissionDecisionHookCompleted = "tool.hook.permission_decision.completed",
    PersistenceHookStarted = "tool.hook.persistence.started",
    PersistenceHookCompleted = "tool.hook.persistence.completed",
    /// An operation failed with an error to the tool (A-04). An extension.
    SandboxDenied = "tool.sandbox.denied",
    InputMutated = "tool.input.mutated",
    ResultPersisted = "tool.result.persisted",
    ResultRedacted = "tool.result.redacted",
    ResultCreated = "tool.result.created",
    /// The outcome went to the call's batch, in the order of the calls (A-07).
    Yielded = "tool.invocation.yielded",
    Succeeded = "tool.invocation.succeeded",
    Failed = "tool.invocation.failed",
    Denied = "tool.invocation.denied",
    Blocked = "tool.invocation.blocked",
    Canceled = "tool.invocation.canceled",
    TimedOut = "tool.invocation.timed_out",
    CancelRequested = "tool.invocation.cancel_requested",
    CancelAcknowledged = "tool.invocation.cancel_acknowledged",
    CancelFailed = "tool.invocation.cancel_failed",
}

/// `tool_event` (AT-EVF-01..10).
///
/// ```
/// use toolcell_spec::{EventType, ToolEvent};
///
/// fn has_started(events: &[ToolEvent]) -> bool {
///     events.iter().any(|event| event.event_type == EventType::Started)
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolEvent {
    pub schema_version: SchemaVersion,
    pub event_id: EventId,
    pub event_type: EventType,
    /// Always this host.
    pub source: Arc<str>,
    /// Reference of the call's record, id of the tool or of the surface.
    pub subject: Option<Arc<str>>,
    pub time: Timestamp,
    /// `None` for an event of a tool or of a surface.
    pub invocation_id: Option<InvocationId>,
    /// `None` until the name is resolved, and for an event of several tools.
    pub tool_id: Option<Arc<str>>,
    /// A JSON object.
    pub data: Value,
    /// Span of the call, if it has a trace context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace_refs: Vec<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolEvent {
    /// Removes what may repeat the arguments, such as hosts.
    pub fn hide_input(&mut self) {
        use EventType::{
            PermissionDecisionHookCompleted, PermissionRequestHookCompleted, PreHookCompleted,
            ValidationFailed,
        };
        let Some(fields) = self.data.as_object_mut() else {
            return;
        };
        fields.remove("needs_authorization");
        match self.event_type {
            ValidationFailed => {
                _ = fields.insert("message".to_owned(), Value::String(String::new()))
            }
            PreHookCompleted | PermissionRequestHookCompleted | PermissionDecisionHookCompleted => {
                fields.insert("messages".to_owned(), Value::Array(Vec::new()));
                fields.insert("error".to_owned(), Value::Null);
            }
            _ => {}
        }
    }
}
