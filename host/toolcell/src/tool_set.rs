use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::Value;
use toolcell_engine::approval::Terms;
use toolcell_engine::catalog::{Surface, Tool, pick};
use toolcell_engine::pipeline::{
    self, BatchCall, CallExplanation, CallWorkspace, Callee, ForwardFn, ForwardRequest,
    ForwardedCall, Request,
};
use toolcell_engine::scheduler::CallerTurns;
use toolcell_policy::{Grants, Limits, Policy};
use toolcell_spec::EXPIRE_DEFAULT;
use toolcell_spec::{AbortReason, CallRecord, ErrorCode, Refusal};
use toolcell_system::BoxFuture;

use crate::{CallContext, CallSpec, Cancellation, Host};

/// The tools that a caller may call, with grants, rules and limits. It does not change: new settings make another one,
/// and a call keeps the one that it began with.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use toolcell::{CallContext, CallSpec, GrantWord, Grants, Host, Provenance, ToolSet};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::builder().build()?;
/// host.load_file("files.wasm".as_ref()).await?;
/// let mut grants = Grants::default();
/// grants.add(GrantWord::Read, "src", &Provenance::COMMAND_LINE)?;
/// let tools = Arc::new(ToolSet::new(Arc::new(host)).grants(grants));
/// let call = tools.call(CallSpec::new("files.search", r#"{"pattern": "fn main"}"#), CallContext::default());
/// println!("{}", call.await.result.text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ToolSet {
    pub host: Arc<Host>,
    /// A tool gets only grants that it also declares. Default: none.
    pub grants: Arc<Grants>,
    /// Mode and rules.
    pub policy: Arc<Policy>,
    /// Limits of each call.
    pub limits: Limits,
    /// Time for which a question about a call stays open.
    pub expire: Duration,
    offer: Option<Arc<ToolOffers>>,
    /// `None`: on this machine.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
}

/// Runs calls on other machines, which decide about them.
///
/// ```
/// use std::sync::Arc;
///
/// use toolcell::{CallSpec, Elsewhere, ErrorCode, Refusal};
/// use toolcell_engine::pipeline::{ForwardRequest, ForwardedCall};
/// use toolcell_system::BoxFuture;
///
/// /// No machine is there.
/// struct Nowhere;
///
/// impl Elsewhere for Nowhere {
///     fn of_principal(&self, _: &str) -> Arc<dyn Elsewhere> {
///         Arc::new(Self)
///     }
///
///     fn call<'a>(
///         &'a self,
///         _: CallSpec,
///         _: ForwardRequest<'a>,
///     ) -> BoxFuture<'a, Result<ForwardedCall, Refusal>> {
///         Box::pin(async { Err(Refusal::new(ErrorCode::ClusterUnavailable, "no machine is there")) })
///     }
/// }
/// ```
pub trait Elsewhere: Send + Sync {
    /// The same for calls of the principal `name`, whose rules those machines have.
    fn of_principal(&self, name: &str) -> Arc<dyn Elsewhere>;

    /// The record of the call.
    fn call<'a>(
        &'a self,
        spec: CallSpec,
        request: ForwardRequest<'a>,
    ) -> BoxFuture<'a, Result<ForwardedCall, Refusal>>;
}

struct ToolOffers {
    surface: Arc<Surface>,
    tools: HashMap<String, OfferedTool>,
    /// Tools that a tool may call, if granted, by id, with their time limits.
    callable: Arc<HashMap<String, Option<Duration>>>,
}

struct OfferedTool {
    tool: Arc<Tool>,
    terms: ToolTerms,
    refusal: Option<Refusal>,
}

/// The settings for the calls of one tool.
///
/// ```
/// use std::time::Duration;
///
/// use toolcell::ToolTerms;
///
/// let terms = ToolTerms { wall: Some(Duration::from_secs(5)), ..ToolTerms::default() };
/// assert!(terms.origin.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolTerms {
    /// Wall time limit; the lower of this and the limit of all calls counts.
    pub wall: Option<Duration>,
    /// Data with which another process can repeat a call of the tool, see [`Terms`].
    pub origin: Option<Arc<Value>>,
}

impl ToolSet {
    /// All tools of `host`, without grants, under the default limits.
    pub fn new(host: Arc<Host>) -> Self {
        Self {
            host,
            grants: Arc::default(),
            policy: Arc::default(),
            limits: Limits::default(),
            expire: EXPIRE_DEFAULT,
            offer: None,
            elsewhere: None,
        }
    }

    /// Has the calls of these tools run elsewhere, with the grants and rules that are there. The surface and the time limits
    /// of this set hold, too.
    #[must_use]
    pub fn with_elsewhere(self, elsewhere: Option<Arc<dyn Elsewhere>>) -> Self {
        Self { elsewhere, ..self }
    }

    /// The grants hold for every call alike.
    #[must_use]
    pub fn grants(mut self, grants: impl Into<Arc<Grants>>) -> Self {
        self.grants = grants.into();
        self
    }

    #[must_use]
    pub fn policy(mut self, policy: impl Into<Arc<Policy>>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Limits of each call.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets for how long a question about a call stays open.
    #[must_use]
    pub fn expire(self, expire: Duration) -> Self {
        Self { expire, ..self }
    }

    /// The tools of `surface` alone, with `terms` by their qualified names.
    #[must_use]
    pub fn on_surface(
        self,
        surface: impl Into<Arc<Surface>>,
        mut terms: HashMap<String, ToolTerms>,
    ) -> Self {
        let surface = surface.into();
        let mut tools = HashMap::new();
        let mut callable = HashMap::new();
        for (tool, standing) in surface.tools() {
            let name = tool.declaration().qualified_name();
            let terms = terms.remove(&name).unwrap_or_default();
            if surface.is_callable(tool, standing) {
                callable.insert(tool.declaration().tool_id.clone(), terms.wall);
            }
            let offered = OfferedTool {
                tool: Arc::clone(tool),
                terms,
                refusal: surface.refusal(tool, standing),
            };
            tools.insert(name, offered);
        }
        let offer = ToolOffers {
            surface,
            tools,
            callable: Arc::new(callable),
        };
        Self {
            offer: Some(Arc::new(offer)),
            ..self
        }
    }

    /// Calls a tool. Every call ends in one terminal result, and makes progress only while the handle is polled.
    pub fn call(self: &Arc<Self>, spec: CallSpec, context: CallContext) -> CallHandle {
        let tools = Arc::clone(self);
        let cancellation = context.cancellation.clone();
        let (request, refusal, forward) = self.forwardable(spec, context);
        let turns = CallerTurns::new(request.actor_ref.as_deref());
        CallHandle {
            turns,
            call: Box::pin(async move {
                let services = tools.host.services();
                match (refusal, forward) {
                    (Some(refusal), _) => pipeline::refuse(services, request, refusal).await,
                    (None, None) => pipeline::call(services, request).await,
                    (None, Some(ask)) => pipeline::forward(services, request, ask).await,
                }
            }),
            cancellation,
        }
    }

    /// The same call as a part of a batch of this host.
    pub fn batch_call(&self, id: String, spec: CallSpec, context: CallContext) -> BatchCall {
        let (request, refusal, forward) = self.forwardable(spec, context);
        BatchCall::new(id, request)
            .refusal(refusal)
            .forward(forward)
    }

    /// The request, and how it is asked elsewhere if these tools run there.
    fn forwardable(
        &self,
        spec: CallSpec,
        context: CallContext,
    ) -> (Request, Option<Refusal>, Option<ForwardFn>) {
        let forward = self
            .elsewhere
            .clone()
            .map(|elsewhere| ask_elsewhere(elsewhere, spec.clone()));
        let keeps = forward.is_some() && !context.secrets.is_empty();
        let (request, refusal) = self.request(spec, context);
        (request, refusal.or_else(|| keeps.then(no_secrets)), forward)
    }

    /// The decision on a call and its reasons, without running the tool.
    ///
    /// # Errors
    ///
    /// The refusal that ends the call before a decision.
    pub async fn explain(
        &self,
        spec: CallSpec,
        context: CallContext,
    ) -> Result<CallExplanation, Refusal> {
        let (request, refusal) = self.request(spec, context);
        refusal.map_or(Ok(()), Err)?;
        self.host.explain(request).await
    }

    /// The request that the engine executes for `spec`: the only place where a call of a caller gets its authority.
    /// The refusal ends it before its first phase.
    pub(crate) fn request(
        &self,
        spec: CallSpec,
        context: CallContext,
    ) -> (Request, Option<Refusal>) {
        let callee = self.find(&spec);
        let offered = callee.tool().and_then(|tool| self.offered(tool));
        let terms = offered.map(|offered| offered.terms.clone());
        let ToolTerms { wall, origin } = terms.unwrap_or_default();
        let (grants, refusal) = match self.grants_in(context.workspace.as_ref()) {
            Ok(grants) => (grants, context.refusal),
            Err(refusal) => (Arc::default(), context.refusal.or(Some(refusal))),
        };
        let is_refused = refusal.is_some();
        let mut limits = self.limits.clone();
        for wall in [spec.timeout, wall].into_iter().flatten() {
            limits.wall = limits.wall.min(wall);
        }
        let mut request =
            Request::new(self.placed(callee, spec.surface_id, is_refused), spec.input)
                .grants(grants)
                .policy(Arc::clone(&self.policy))
                .limits(limits)
                .approval(Terms {
                    expire: self.expire,
                    session: spec.session,
                    origin,
                    approver: context.approver,
                })
                .actor(spec.actor_ref)
                .respondent(context.respondent)
                .cancellation(context.cancellation)
                .secrets(context.secrets);
        request.native_call_id = spec.native_call_id;
        request.listener = context.listener;
        request.mapping = spec.mapping;
        request.trace = spec.trace;
        request.replay = spec.replay.map(Arc::new);
        request.offered = self.offer.as_ref().map(|offer| Arc::clone(&offer.callable));
        request.background = context.background;
        request.keeper = context.keeper;
        request.workspace = context.workspace;
        request.start_gate = context.start_gate;
        (request, refusal)
    }

    /// With the files of the workspace.
    fn grants_in(&self, workspace: Option<&CallWorkspace>) -> Result<Arc<Grants>, Refusal> {
        let Some(workspace) = workspace else {
            return Ok(Arc::clone(&self.grants));
        };
        let mut grants = (*self.grants).clone();
        let added = grants.add_workspace(&workspace.tree(), workspace.name());
        added.map_err(|error| Refusal::new(ErrorCode::GrantInvalid, format!("{error:#}")))?;
        Ok(Arc::new(grants))
    }

    /// `true` if the tool of `spec`, in its component if it names one, is on this machine.
    pub fn has(&self, spec: &CallSpec) -> bool {
        self.find(spec).find(self.host.catalog()).is_ok_and(|tool| {
            let component = spec.component.as_ref();
            component.is_none_or(|component| component == tool.component())
        })
    }

    /// A tool that is not resolved here is looked up by the host, which says why there is none.
    fn find(&self, spec: &CallSpec) -> Callee {
        let known = self
            .offer
            .as_ref()
            .and_then(|offer| offer.tools.get(&spec.tool));
        let is_meant = |tool: &Arc<Tool>| {
            let component = spec.component.as_ref();
            component.is_none_or(|component| component == tool.component())
        };
        let named = known.map(|known| &known.tool).filter(|tool| is_meant(tool));
        let of_component = || {
            let tools = self
                .host
                .catalog()
                .of_component(spec.component.as_deref()?)?;
            pick(&tools, &spec.tool).ok()?
        };
        let callee = match named.cloned().or_else(of_component) {
            // By whichever of its names it was called: the record says by which.
            Some(tool) => Callee::from(tool).called(&spec.tool),
            None => Callee::from(spec.tool.as_str()),
        };
        match spec.is_loaded {
            Some(is_loaded) => callee.loaded(is_loaded),
            None => callee,
        }
    }

    fn offered(&self, tool: &Arc<Tool>) -> Option<&OfferedTool> {
        let offered = self
            .offer
            .as_ref()?
            .tools
            .get(&tool.declaration().qualified_name());
        offered.filter(|offered| Arc::ptr_eq(&offered.tool, tool))
    }

    /// The caller knows the surface by the id `own`. A call that `is_refused` anyway is not judged by it.
    fn placed(&self, callee: Callee, own: Option<Arc<str>>, is_refused: bool) -> Callee {
        let Some(offer) = &self.offer else {
            return callee;
        };
        if is_refused {
            return match own {
                Some(id) => callee.on_surface(id, None),
                None => callee,
            };
        }
        let surface = &offer.surface;
        let name = callee.name();
        let refusal = match callee.tool().and_then(|tool| self.offered(tool)) {
            Some(offered) => offered.refusal.clone(),
            None if callee.tool().is_none() && surface.find(name).is_none() => {
                let message = format!("no tool named `{name}` can be called here");
                Some(Refusal::new(ErrorCode::UnknownTool, message))
            }
            None => surface.judge(callee.tool(), name),
        };
        let id = own.unwrap_or_else(|| Arc::clone(offer.surface.id()));
        callee.on_surface(id, refusal)
    }
}

fn no_secrets() -> Refusal {
    let message = "secrets that come with a call stay on this machine, and its tool runs on the workers of a cluster";
    Refusal::new(ErrorCode::ClusterSecrets, message)
}

/// Boxed, to keep the future of a call on this machine small.
fn ask_elsewhere(elsewhere: Arc<dyn Elsewhere>, spec: CallSpec) -> ForwardFn {
    Arc::new(move |request| {
        let spec = CallSpec {
            timeout: Some(request.wall),
            ..spec.clone().exactly(request.tool)
        };
        let elsewhere = Arc::clone(&elsewhere);
        Box::pin(async move { elsewhere.call(spec, request).await })
    })
}

/// A begun call, ended once the record is there.
///
/// ```
/// use toolcell::{AbortReason, CallHandle, CallRecord};
///
/// async fn canceled(call: CallHandle) -> Box<CallRecord> {
///     call.cancel(AbortReason::UserInterruption);
///     call.await
/// }
/// ```
#[must_use = "a call makes progress only while it is polled"]
pub struct CallHandle {
    call: BoxFuture<'static, Box<CallRecord>>,
    turns: CallerTurns,
    cancellation: Cancellation,
}

impl CallHandle {
    /// Asks the call to stop; its record says how it ended.
    pub fn cancel(&self, reason: AbortReason) {
        self.cancellation.cancel(reason);
    }
}

impl Future for CallHandle {
    type Output = Box<CallRecord>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { call, turns, .. } = &mut *self;
        turns.step(context, |context| call.as_mut().poll(context))
    }
}
