use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::approval::{Respondent, Session, Terms};
use crate::catalog::{Catalog, Tool};
use toolcell_executor::Cancellation;
use toolcell_journal::Listener;
use toolcell_policy::secret::Secrets;
use toolcell_policy::{GrantWord, Grants, Limits, Policy, Provenance};
use toolcell_spec::{
    CallRecord, ContextModifierPolicy, ErrorCode, ExternalMapping, Input, InvocationId, Refusal,
    Replay, SpanId, TraceContext,
};
use toolcell_system::BoxFuture;

use super::children::Lineage;
use super::workspace::CallWorkspace;

use super::background::Background;
use super::call_state::StoredCallRef;
use super::start_gate::StartGate;

/// The tool of a call: a name to look up, or a resolved tool.
///
/// ```
/// use toolcell_engine::pipeline::Callee;
///
/// assert_eq!(Callee::from("files.search").name(), "files.search");
/// ```
#[derive(Clone, Debug)]
pub struct Callee {
    name: String,
    tool: Option<Arc<Tool>>,
    /// `true` if the caller has the schema; `None`: unless the lifecycle is `deferred`.
    loaded: Option<bool>,
    surface: Option<OnSurface>,
}

#[derive(Clone, Debug)]
struct OnSurface {
    id: Arc<str>,
    refusal: Option<Refusal>,
}

impl Callee {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn tool(&self) -> Option<&Arc<Tool>> {
        self.tool.as_ref()
    }

    /// Says whether the caller has seen the schema; without it, a call is refused (AT-DEF-19). Default: unless the
    /// lifecycle is `deferred`.
    #[must_use]
    pub fn loaded(self, loaded: bool) -> Self {
        Self {
            loaded: Some(loaded),
            ..self
        }
    }

    /// Names the surface of the call (AT-PIPE-01), and its `refusal`, which ends the call once the tool is known.
    #[must_use]
    pub fn on_surface(self, id: Arc<str>, refusal: Option<Refusal>) -> Self {
        Self {
            surface: Some(OnSurface { id, refusal }),
            ..self
        }
    }

    /// Names the alias or other name of a resolved tool that was called, for the record.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self
        }
    }

    pub fn is_said_loaded(&self) -> Option<bool> {
        self.loaded
    }

    pub(super) fn surface_id(&self) -> Option<&Arc<str>> {
        self.surface.as_ref().map(|surface| &surface.id)
    }

    pub(super) fn withheld(&self, tool: &Tool) -> Option<Refusal> {
        let id = &tool.declaration().tool_id;
        let disabled = |message: String| Some(Refusal::new(ErrorCode::ToolDisabled, message));
        if !tool.is_enabled() && tool.feature().is_none() {
            return disabled(format!("{id} is disabled by its own interface"));
        }
        match (&self.surface, tool.feature()) {
            (Some(surface), _) => surface.refusal.clone(),
            // A gate is closed unless a surface opens it.
            (None, Some(feature)) => disabled(format!(
                "{id} is disabled: its feature gate {feature} is not open"
            )),
            (None, None) => None,
        }
    }

    pub(super) fn is_loaded(&self, tool: &Tool) -> bool {
        self.loaded.unwrap_or(!tool.is_deferred())
    }

    /// Looks up an unresolved tool. Fails with `unknown_tool` if the name is unknown or ambiguous.
    pub fn find(&self, catalog: &Catalog) -> Result<Arc<Tool>, Refusal> {
        self.tool
            .clone()
            .map_or_else(|| catalog.resolve(&self.name), Ok)
    }
}

impl From<String> for Callee {
    /// A qualified name, a name, or an alias.
    fn from(name: String) -> Self {
        Self {
            name,
            tool: None,
            loaded: None,
            surface: None,
        }
    }
}

impl From<&str> for Callee {
    /// A qualified name, a name, or an alias.
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<Arc<Tool>> for Callee {
    /// Not looked up again, so the call's host must be the one that loaded it.
    fn from(tool: Arc<Tool>) -> Self {
        Self {
            name: tool.declaration().qualified_name(),
            tool: Some(tool),
            loaded: None,
            surface: None,
        }
    }
}

/// One call.
///
/// ```
/// use std::time::Duration;
///
/// use toolcell_engine::pipeline::Request;
/// use toolcell_policy::{GrantWord, Limits};
///
/// # fn example() -> Result<(), toolcell_spec::Refusal> {
/// let limits = Limits { wall: Duration::from_secs(5), ..Limits::default() };
/// let request = Request::new("files.search", r#"{"pattern": "fn main"}"#).grant(GrantWord::Read, ".")?.limits(limits);
/// # Ok(())
/// # }
/// ```
///
/// Begins without grants and approver, under the default limits.
#[derive(Clone)]
#[non_exhaustive]
pub struct Request {
    pub tool: Callee,
    /// The arguments. Text is kept as sent.
    pub input: Input,
    /// The caller's own id, verbatim.
    pub native_call_id: Option<String>,
    /// Name of the caller, which cannot approve the call itself.
    pub actor_ref: Option<String>,
    /// The tool gets only those that it also declares. Default: none.
    pub grants: Arc<Grants>,
    pub policy: Arc<Policy>,
    /// Limits on time, fuel, memory and output.
    pub limits: Limits,
    pub approval: Terms,
    /// Answers the tool's questions; `None` if they cannot be answered.
    pub respondent: Option<Arc<dyn Respondent>>,
    pub cancellation: Cancellation,
    /// Receives this call's events besides the host's listeners.
    pub listener: Option<Arc<dyn Listener>>,
    /// The carrying protocol's identification of the call (AT-MAP-01).
    pub mapping: Option<ExternalMapping>,
    /// Place in a distributed trace, for the record (AT-INV-21). The tool's calls are below it; a guest does not get
    /// it.
    pub trace: Option<TraceContext>,
    /// The call to replay.
    pub replay: Option<Arc<Replay>>,
    /// Ids and time limits of callable tools, as far as granted and, through a surface, offered there. `None`: all that
    /// the host has loaded.
    pub offered: Option<Arc<HashMap<String, Option<Duration>>>>,
    /// For this call and its tool's calls; in memory only.
    pub(super) secrets: Secrets,
    pub(super) lineage: Option<Arc<Lineage>>,
    /// Of the batch around this or the upper call.
    pub(super) context_modifier_policy: Option<ContextModifierPolicy>,
    pub(super) scheduler_policy: Option<Arc<serde_json::Value>>,
    /// Index in its batch.
    pub(super) order: Option<usize>,
    /// Tells that the call goes on without its caller.
    pub background: Option<Background>,
    /// Its files are among the grants, too.
    pub workspace: Option<CallWorkspace>,
    /// Keeps records of the tool's calls at all depths: the caller gets only its own.
    pub keeper: Option<Arc<dyn RecordKeeper>>,
    /// Asked before each guest runs with its permit; `None` if nobody is.
    pub start_gate: Option<Arc<dyn StartGate>>,
}

/// Keeps the records of calls that tools make.
///
/// ```
/// use std::sync::Mutex;
///
/// use toolcell_system::BoxFuture;
/// use toolcell_engine::pipeline::RecordKeeper;
/// use toolcell_spec::CallRecord;
///
/// #[derive(Default)]
/// struct Tools(Mutex<Vec<String>>);
///
/// impl RecordKeeper for Tools {
///     fn ended<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, ()> {
///         Box::pin(async move {
///             if let Ok(mut tools) = self.0.lock() {
///                 tools.push(record.invocation.tool_id.clone());
///             }
///         })
///     }
/// }
/// ```
pub trait RecordKeeper: Send + Sync {
    /// Receives the record of an ended call before its caller's record exists. The caller waits within its time limit.
    fn ended<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, ()>;
}

impl Request {
    /// `input` is JSON text, kept as it is, or a value.
    pub fn new(tool: impl Into<Callee>, input: impl Into<Input>) -> Self {
        Self {
            tool: tool.into(),
            input: input.into(),
            native_call_id: None,
            actor_ref: None,
            grants: Arc::default(),
            policy: Arc::default(),
            limits: Limits::default(),
            approval: Terms::default(),
            respondent: None,
            cancellation: Cancellation::default(),
            listener: None,
            mapping: None,
            trace: None,
            replay: None,
            offered: None,
            secrets: Secrets::default(),
            lineage: None,
            context_modifier_policy: None,
            scheduler_policy: None,
            order: None,
            background: None,
            workspace: None,
            keeper: None,
            start_gate: None,
        }
    }

    pub(super) fn below(
        &self,
        tool: Callee,
        input: Input,
        parent: InvocationId,
        lineage: Lineage,
    ) -> Self {
        let below = |trace: &TraceContext| trace.below(SpanId::from_invocation(parent));
        Self {
            grants: Arc::clone(&self.grants),
            policy: Arc::clone(&self.policy),
            limits: self.limits.clone(),
            actor_ref: self.actor_ref.clone(),
            respondent: self.respondent.clone(),
            // Another process cannot continue the call, and what a person approves for a session is not for tools.
            approval: Terms {
                session: Session::None,
                ..self.approval.clone()
            },
            offered: self.offered.clone(),
            keeper: self.keeper.clone(),
            start_gate: self.start_gate.clone(),
            // Otherwise the call would use the operator's secrets for this caller. The ceiling bounds where they go.
            secrets: self.secrets.clone(),
            trace: self.trace.as_ref().map(below),
            context_modifier_policy: self.context_modifier_policy,
            lineage: Some(Arc::new(lineage)),
            ..Self::new(tool, input)
        }
    }

    pub(super) fn restored(self, stored: StoredCallRef<'_>) -> Self {
        let plan = stored.plan();
        Self {
            tool: self.tool.called(&plan.tool),
            input: Input::from_text(plan.model_input.as_str()),
            native_call_id: stored.invocation().native_call_id.clone(),
            ..self
        }
    }

    /// Adds one grant or denial as on the command line: `.grant(GrantWord::Read, "src")` is `--allow-read=src`.
    ///
    /// # Errors
    ///
    /// `setup_required`, if the word cannot be applied, such as a folder that does not exist.
    pub fn grant(mut self, word: GrantWord, spec: &str) -> Result<Self, Refusal> {
        let added = Arc::make_mut(&mut self.grants).add(word, spec, &Provenance::COMMAND_LINE);
        added.map_err(|error| Refusal::new(ErrorCode::GrantInvalid, format!("{error:#}")))?;
        Ok(self)
    }

    /// Sets all grants at once.
    #[must_use]
    pub fn grants(self, grants: impl Into<Arc<Grants>>) -> Self {
        Self {
            grants: grants.into(),
            ..self
        }
    }

    /// A tool's own timeout can only lower the limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    #[must_use]
    pub fn policy(self, policy: impl Into<Arc<Policy>>) -> Self {
        Self {
            policy: policy.into(),
            ..self
        }
    }

    #[must_use]
    pub fn actor(self, actor: impl Into<Option<String>>) -> Self {
        Self {
            actor_ref: actor.into(),
            ..self
        }
    }

    #[must_use]
    pub fn cancellation(self, cancellation: Cancellation) -> Self {
        Self {
            cancellation,
            ..self
        }
    }

    #[must_use]
    pub fn approval(self, terms: Terms) -> Self {
        Self {
            approval: terms,
            ..self
        }
    }

    #[must_use]
    pub fn respondent(self, respondent: impl Into<Option<Arc<dyn Respondent>>>) -> Self {
        Self {
            respondent: respondent.into(),
            ..self
        }
    }

    /// Sets secrets that replace stored ones of the same names in this call. A value reaches only granted origins, and
    /// only if the tool declares it; others are ignored. No other process can resume the call after an approval,
    /// because no disk has them.
    #[must_use]
    pub fn secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }
}
