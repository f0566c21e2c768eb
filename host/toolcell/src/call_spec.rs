use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolcell_engine::approval::{Approver, Respondent, Session};
use toolcell_engine::catalog::Tool;
use toolcell_engine::pipeline::{
    Background, CallWorkspace, Callee, RecordKeeper, StartGate, StoredCallRef,
};
use toolcell_executor::Cancellation;
use toolcell_journal::Listener;
use toolcell_policy::secret::Secrets;
use toolcell_spec::{ExternalMapping, Input, Refusal, Replay, TraceContext};

/// One call as its caller asks for it: plain data without authority. Grants, rules, limits and secrets are those of the
/// [`ToolSet`](crate::ToolSet) that makes the call.
///
/// ```
/// use toolcell::CallSpec;
///
/// let spec = CallSpec::new("jq.jq", r#"{"filter": "."}"#);
/// let sent = serde_json::to_string(&spec)?;
/// let received: CallSpec = serde_json::from_str(&sent)?;
/// assert_eq!(received.input.text(), r#"{"filter": "."}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallSpec {
    /// Qualified name, bare name, or alias.
    pub tool: String,
    /// Digest of the component that has the tool, `sha256:<hex>`; `None` for any.
    pub component: Option<Arc<str>>,
    /// Text is kept as it was sent.
    pub input: Input,
    /// Name of the caller. An approver with this name cannot approve the call.
    pub actor_ref: Option<String>,
    /// An approval "for the rest of the session" is for it.
    pub session: Session,
    /// The caller's own id for the call, verbatim.
    pub native_call_id: Option<String>,
    /// The caller's name for this request: on the machines of a cluster, the same request by the same caller is one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The lower of this and the limits of the tool set counts.
    pub timeout: Option<Duration>,
    /// `true` if the caller has the tool's schema; `None`: unless its lifecycle is `deferred`.
    pub is_loaded: Option<bool>,
    /// The caller's own surface, if it has loaded tools; `None` for the tool set's.
    pub surface_id: Option<Arc<str>>,
    /// Names the call in the protocol that carried it, for the record (AT-MAP-01).
    pub mapping: Option<ExternalMapping>,
    /// Place in a distributed trace, for the record (AT-INV-21).
    pub trace: Option<TraceContext>,
    /// The call that this one replays, if any.
    pub replay: Option<Replay>,
}

impl CallSpec {
    /// The `_meta` key of a requested timeout, in milliseconds: a process that resumes the call finds it there.
    pub const TIMEOUT_KEY: &'static str = "toolcell/timeout_ms";

    /// `input`: JSON text, kept as it is, or a value.
    pub fn new(tool: impl Into<String>, input: impl Into<Input>) -> Self {
        Self {
            tool: tool.into(),
            component: None,
            input: input.into(),
            actor_ref: None,
            session: Session::None,
            native_call_id: None,
            idempotency_key: None,
            timeout: None,
            is_loaded: None,
            surface_id: None,
            mapping: None,
            trace: None,
            replay: None,
        }
    }

    /// Names exactly `tool`, by its qualified name.
    #[must_use]
    pub fn exactly(self, tool: &Tool) -> Self {
        Self {
            tool: tool.declaration().qualified_name(),
            component: Some(Arc::clone(tool.component())),
            ..self
        }
    }

    /// The call has the same name.
    pub fn from_callee(callee: &Callee, input: impl Into<Input>) -> Self {
        Self {
            component: callee.tool().map(|tool| Arc::clone(tool.component())),
            is_loaded: callee.is_said_loaded(),
            ..Self::new(callee.name(), input)
        }
    }

    #[must_use]
    pub fn actor(mut self, actor: Option<String>) -> Self {
        self.actor_ref = actor;
        self
    }
}

/// The call as it was asked for in another process.
impl From<StoredCallRef<'_>> for CallSpec {
    fn from(stored: StoredCallRef<'_>) -> Self {
        let plan = stored.plan();
        let invocation = stored.invocation();
        let mapping = invocation.extra.get("external_mappings");
        let timeout = mapping
            .and_then(|mappings| {
                mappings
                    .get(0)?
                    .get("_meta")?
                    .get(Self::TIMEOUT_KEY)?
                    .as_u64()
            })
            .filter(|millis| *millis > 0);
        Self {
            native_call_id: invocation.native_call_id.clone(),
            timeout: timeout.map(Duration::from_millis),
            ..Self::new(plan.tool.as_str(), plan.model_input.as_str())
                .actor(stored.actor_ref().cloned())
        }
    }
}

/// The part of a call that stays in its process: who is asked, who listens, and what cancels the call.
///
/// ```
/// use toolcell::{AbortReason, CallContext};
///
/// let context = CallContext::default();
/// context.cancellation.cancel(AbortReason::UserInterruption);
/// assert!(context.approver.is_none());
/// ```
#[derive(Clone, Default)]
pub struct CallContext {
    pub cancellation: Cancellation,
    /// Asked first; `None` for the host's own.
    pub approver: Option<Arc<dyn Approver>>,
    /// Answers the tool's questions during the call; `None` if they cannot be answered.
    pub respondent: Option<Arc<dyn Respondent>>,
    /// The host's listeners hear of the call, too.
    pub listener: Option<Arc<dyn Listener>>,
    /// Keeps the records of the calls that the tool makes.
    pub keeper: Option<Arc<dyn RecordKeeper>>,
    /// Tells that the call goes on without its caller.
    pub background: Option<Background>,
    /// Secrets for this call and those that its tool makes, in memory only.
    pub secrets: Secrets,
    /// Its files are given to the tool as `/workspace`, where relative paths start.
    pub workspace: Option<CallWorkspace>,
    /// Asked before the guest runs with its permit; `None` if nobody is.
    pub start_gate: Option<Arc<dyn StartGate>>,
    /// Ends the call instead of a run: its tool cannot be loaded, or there is no room.
    pub refusal: Option<Refusal>,
}
