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

use super::background::Background;
use super::call_state::StoredCallRef;

/// The tool of a call: a name, which the host looks up, or a tool that the caller has resolved already.
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
    /// `true` if the caller has the tool's schema; `None`: unless its lifecycle is `deferred`.
    loaded: Option<bool>,
    surface: Option<OnSurface>,
}

/// The surface through which a tool is called.
#[derive(Clone, Debug)]
struct OnSurface {
    id: Arc<str>,
    /// Why the tool cannot be called through it.
    refusal: Option<Refusal>,
}

impl Callee {
    /// The name by which the tool is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tool, if it is resolved already.
    pub fn tool(&self) -> Option<&Arc<Tool>> {
        self.tool.as_ref()
    }

    /// Says whether the caller has seen the schema of the tool. A call without it is refused (AT-DEF-19). By default, only
    /// a tool whose lifecycle is `deferred` counts as not loaded.
    #[must_use]
    pub fn loaded(self, loaded: bool) -> Self {
        Self {
            loaded: Some(loaded),
            ..self
        }
    }

    /// Says through which surface the tool is called (AT-PIPE-01). A call with a `refusal` ends with it once its tool is
    /// known.
    #[must_use]
    pub fn on_surface(self, id: Arc<str>, refusal: Option<Refusal>) -> Self {
        Self {
            surface: Some(OnSurface { id, refusal }),
            ..self
        }
    }

    /// Says by which of its names a resolved tool was called, for the record: an alias is kept there.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self
        }
    }

    /// The caller's knowledge of the tool's schema.
    pub fn is_said_loaded(&self) -> Option<bool> {
        self.loaded
    }

    /// The id of that surface.
    pub(super) fn surface_id(&self) -> Option<&Arc<str>> {
        self.surface.as_ref().map(|surface| &surface.id)
    }

    /// Why `tool` cannot be called, as far as surfaces and feature gates decide.
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

    /// Returns whether the caller has seen the schema of `tool`.
    pub(super) fn is_loaded(&self, tool: &Tool) -> bool {
        self.loaded.unwrap_or(!tool.is_deferred())
    }

    /// The tool; looked up in `catalog` if it is not resolved.
    ///
    /// # Errors
    ///
    /// `unknown_tool`, if the name is unknown or ambiguous.
    pub(super) fn find(&self, catalog: &Catalog) -> Result<Arc<Tool>, Refusal> {
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
    /// `tool`, by its qualified name. It is not looked up again, so the host of the call must be the one that loaded it.
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
/// Begins without grants, under the default limits, and without an approver.
#[derive(Clone)]
#[non_exhaustive]
pub struct Request {
    /// By name, or resolved.
    pub tool: Callee,
    /// The arguments. Text is kept as it was sent.
    pub input: Input,
    /// The caller's own id for the call, verbatim.
    pub native_call_id: Option<String>,
    /// Name of the caller. An approver with this name cannot approve the call.
    pub actor_ref: Option<String>,
    /// Grants. The tool gets only those that it also declares. Default: none.
    pub grants: Arc<Grants>,
    /// Mode and rules.
    pub policy: Arc<Policy>,
    /// Limits on time, fuel, memory and output.
    pub limits: Limits,
    /// How an approval is requested, if the call needs one.
    pub approval: Terms,
    /// Answers the tool's questions during the call; `None` if they cannot be answered.
    pub respondent: Option<Arc<dyn Respondent>>,
    /// Cancels the call.
    pub cancellation: Cancellation,
    /// Receives the events of this call, in addition to the host's listeners.
    pub listener: Option<Arc<dyn Listener>>,
    /// How the protocol that carried the call identifies it, for the record (AT-MAP-01).
    pub mapping: Option<ExternalMapping>,
    /// Where the call belongs in a distributed trace, for the record (AT-INV-21). Calls that its tool makes are below it. A
    /// guest does not get it.
    pub trace: Option<TraceContext>,
    /// The call that this one replays; `None` for a call of its own.
    pub replay: Option<Arc<Replay>>,
    /// The tools that the tool may call, as far as it was granted them: the id of each, and the time limit of a call. For
    /// a call through a surface, those that can be called through it too. `None`: all that the host has loaded.
    pub offered: Option<Arc<HashMap<String, Option<Duration>>>>,
    /// Values of secrets for this call and those that its tool makes. They are in memory only.
    pub(super) secrets: Secrets,
    /// `Some` if a guest makes the call.
    pub(super) lineage: Option<Arc<Lineage>>,
    /// The policy of the batch to which the call, or the call that makes it, belongs; `None` outside of a batch.
    pub(super) context_modifier_policy: Option<ContextModifierPolicy>,
    /// The record of the policy of the batch; `None` outside of one.
    pub(super) scheduler_policy: Option<Arc<serde_json::Value>>,
    /// Tells that the call goes on without its caller.
    pub background: Option<Background>,
    /// Keeps the records of the calls that the tool makes, at all depths: the caller gets only its own.
    pub keeper: Option<Arc<dyn RecordKeeper>>,
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
    /// Receives the record of a call that has ended, before the record of the call that made it exists. That call waits
    /// meanwhile, within its time limit.
    fn ended<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, ()>;
}

impl Request {
    /// A call of `tool`, by name or resolved, with `input`: JSON text, kept as it is, or a value.
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
            background: None,
            keeper: None,
        }
    }

    /// The call of `tool` with `input` that the guest of this call makes, whose invocation is `parent`.
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
            // Otherwise the call would use the operator's secrets for this caller. The ceiling bounds where they go.
            secrets: self.secrets.clone(),
            trace: self.trace.as_ref().map(below),
            context_modifier_policy: self.context_modifier_policy,
            lineage: Some(Arc::new(lineage)),
            ..Self::new(tool, input)
        }
    }

    /// The first request of a stored call, made anew from this one.
    pub(super) fn restored(self, stored: StoredCallRef<'_>) -> Self {
        let plan = stored.plan();
        Self {
            tool: self.tool.called(&plan.tool),
            input: Input::from_text(plan.model_input.as_str()),
            native_call_id: stored.invocation().native_call_id.clone(),
            ..self
        }
    }

    /// Adds one grant or denial, in the words of the command line: `.grant(GrantWord::Read, "src")` is
    /// `--allow-read=src`.
    ///
    /// # Errors
    ///
    /// `setup_required`, if the word cannot be applied, such as a folder that does not exist.
    pub fn grant(mut self, word: GrantWord, spec: &str) -> Result<Self, Refusal> {
        let added = Arc::make_mut(&mut self.grants).add(word, spec, &Provenance::COMMAND_LINE);
        added.map_err(|error| Refusal::new(ErrorCode::GrantInvalid, format!("{error:#}")))?;
        Ok(self)
    }

    /// Sets all grants at once, shared with other calls.
    #[must_use]
    pub fn grants(self, grants: impl Into<Arc<Grants>>) -> Self {
        Self {
            grants: grants.into(),
            ..self
        }
    }

    /// Sets the limits. A tool's own timeout can only lower them.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets mode and rules.
    #[must_use]
    pub fn policy(self, policy: impl Into<Arc<Policy>>) -> Self {
        Self {
            policy: policy.into(),
            ..self
        }
    }

    /// Names the caller.
    #[must_use]
    pub fn actor(self, actor: impl Into<Option<String>>) -> Self {
        Self {
            actor_ref: actor.into(),
            ..self
        }
    }

    /// Sets what cancels the call.
    #[must_use]
    pub fn cancellation(self, cancellation: Cancellation) -> Self {
        Self {
            cancellation,
            ..self
        }
    }

    /// Sets how an approval is requested.
    #[must_use]
    pub fn approval(self, terms: Terms) -> Self {
        Self {
            approval: terms,
            ..self
        }
    }

    /// Sets who answers the tool's questions.
    #[must_use]
    pub fn respondent(self, respondent: impl Into<Option<Arc<dyn Respondent>>>) -> Self {
        Self {
            respondent: respondent.into(),
            ..self
        }
    }

    /// Sets values of secrets for this call, in place of those that the host stores under the same names. As with those, a
    /// value reaches only requests to an origin for which the secret was granted, and only if the tool declares it: any
    /// other is ignored. A call that waits for an approval cannot be resumed by another process, because no disk has them.
    #[must_use]
    pub fn secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }
}
