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
            /// Returns the specification's word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// `true` if no event of the same call comes after one of this type.
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
    /// An attempt failed, and another one takes its place. An extension.
    AttemptDiscarded = "tool.invocation.attempt_discarded",
    Progress = "tool.invocation.progress",
    PartialResult = "tool.invocation.partial_result",
    /// The tool asked its caller's user for input, and waits. An extension.
    NeedsInput = "tool.invocation.needs_input",
    /// The tool continues with the answers. An extension.
    Resumed = "tool.invocation.resumed",
    /// The guest logged a line. An extension: sent while the tool runs, and kept as a block of the result.
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
    /// The sandbox denied the tool an operation and returned an error to it (A-04). An extension.
    SandboxDenied = "tool.sandbox.denied",
    InputMutated = "tool.input.mutated",
    ResultPersisted = "tool.result.persisted",
    ResultRedacted = "tool.result.redacted",
    ResultCreated = "tool.result.created",
    /// The outcome was handed to the batch of the call, at its place in the order of the calls (A-07).
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
    /// Kind of event.
    pub event_type: EventType,
    /// The emitter: always this host.
    pub source: Arc<str>,
    /// Subject: the reference of the call's record, the tool's id, or the surface's id.
    pub subject: Option<Arc<str>>,
    /// When it happened.
    pub time: Timestamp,
    /// The call; `None` for an event of a tool or of a surface.
    pub invocation_id: Option<InvocationId>,
    /// The tool, once the name of the call is resolved; `None` for an event of several tools.
    pub tool_id: Option<Arc<str>>,
    /// A JSON object.
    pub data: Value,
    /// The span of its call, if the call has a trace context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace_refs: Vec<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolEvent {
    /// Removes what may repeat the arguments: why they are not valid, what hooks said of them, and hosts among them.
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
