//! Turns a request of the API into a call, with the tools and questions that a call of MCP has.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolcell::{CallContext, CallSpec, CallWorkspace, Cancellation};
use toolcell_dialect::otc::OtcToolName;
use toolcell_engine::approval::Session;
use toolcell_engine::pipeline::Background;
use toolcell_policy::secret::Secrets;
use toolcell_spec::{
    AbortReason, CallRecord, ErrorCode, ExternalMapping, Extra, LoadingState, Refusal,
    SurfaceReason,
};

use crate::asking::AnnouncingApprover;
use crate::budget::Lease;
use crate::call::too_many;
use crate::calls::{BackgroundPlace, CallEntry, CallPlace};
use crate::exposed_tools::ExposedTool;
use crate::http::problem::Problem;
use crate::sent_arguments::weight;
use crate::{AnnounceFn, Server, ServerTools};

use super::ApiCaller;

pub(super) struct ApiCall {
    pub(super) spec: CallSpec,
    pub(super) foreign: Option<DialectCall>,
    pub(super) workspace: Result<Option<CallWorkspace>, Refusal>,
}

pub(super) struct DialectCall {
    /// The component that has to have the tool, or why the call does not run.
    pub(super) tool: Result<OtcToolName, Refusal>,
    pub(super) secrets: Secrets,
}

impl DialectCall {
    /// The tool must be the named one: the offering may have changed since.
    fn check<'o>(
        &self,
        found: Result<&'o Arc<ExposedTool>, Refusal>,
    ) -> Result<&'o Arc<ExposedTool>, Refusal> {
        let named = self.tool.as_ref().map_err(Clone::clone)?;
        let offer = found?;
        let component = offer.tool.component();
        if **component == *named.version && offer.qualified_name == named.qualified_name() {
            return Ok(offer);
        }
        let message = format!("the tool changed while the call began; its version is {component}");
        Err(Refusal::new(ErrorCode::VersionMismatch, message))
    }
}

pub(super) struct ReadyCall {
    pub(super) spec: CallSpec,
    pub(super) context: CallContext,
    /// `None` if all places of the server are taken.
    pub(super) place: Option<CallPlace>,
}

impl ApiCall {
    pub(super) fn from_route(route: &str, spec: CallSpec) -> Self {
        let mapping = mapping("http", route, &spec, Extra::new());
        Self {
            spec: CallSpec {
                mapping: Some(mapping),
                ..spec
            },
            foreign: None,
            workspace: Ok(None),
        }
    }

    pub(super) fn ready(
        self,
        server: &Server,
        offering: &ServerTools,
        caller: &ApiCaller,
        announcer: AnnounceFn,
        cancellation: Cancellation,
    ) -> ReadyCall {
        let Self {
            spec,
            foreign,
            workspace,
        } = self;
        let place = server.places.begin();
        let session = offering.approvals.session.clone();
        let begun = || offering.telemetry.as_ref()?.trace(session.as_deref());
        let trace = spec.trace.clone().or_else(begun);
        let mut spec = CallSpec {
            session: session.map_or(Session::None, Session::Named),
            surface_id: Some(offering.surface_id(&caller.identity.loads)),
            trace,
            ..spec.actor(Some(caller.name().to_string()))
        };
        let mut context = CallContext {
            cancellation,
            keeper: server.keeper(),
            ..CallContext::default()
        };
        let found = offering.offers.find(&spec.tool);
        let checked = match &foreign {
            Some(foreign) => foreign.check(found),
            None => found,
        };
        match (checked, &place) {
            (Err(refusal), _) => context.refusal = Some(refusal),
            (Ok(_), None) => context.refusal = Some(too_many()),
            (Ok(offer), Some(_)) => {
                spec = spec.exactly(&offer.tool);
                spec.is_loaded = Some(caller.has_loaded(offer));
                match workspace {
                    Ok(workspace) => context.workspace = workspace,
                    Err(refusal) => context.refusal = Some(refusal),
                }
                context.approver = Some(Arc::new(AnnouncingApprover {
                    announcer,
                    outdated: offering.outdated(),
                }));
            }
        }
        context.secrets = foreign.map(|foreign| foreign.secrets).unwrap_or_default();
        ReadyCall {
            spec,
            context,
            place,
        }
    }
}

/// Names a call of `route` (AT-MAP-01). A process that goes on with it finds its timeout where MCP has it.
pub(super) fn mapping(
    source: &str,
    route: &str,
    spec: &CallSpec,
    mut fields: Extra,
) -> ExternalMapping {
    fields.insert("method".to_owned(), route.into());
    fields.insert("tool_name".to_owned(), spec.tool.as_str().into());
    if let Some(id) = &spec.native_call_id {
        fields.insert("native_call_id".to_owned(), id.as_str().into());
    }
    if let Some(timeout) = spec.timeout {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        fields.insert("_meta".to_owned(), json!({ CallSpec::TIMEOUT_KEY: millis }));
    }
    ExternalMapping {
        source: source.to_owned(),
        fields,
    }
}

impl ApiCaller {
    /// The caller has the tool's schema.
    pub(super) fn has_loaded(&self, offer: &ExposedTool) -> bool {
        self.sees_all || offer.is_loaded(&self.identity.loads)
    }

    /// The caller need not search for the tool.
    pub(super) fn is_listed(&self, offer: &ExposedTool) -> bool {
        let is_available = offer.standing.state != LoadingState::Unavailable;
        (self.sees_all && is_available) || offer.is_listed(&self.identity.loads)
    }

    pub(super) fn is_defined(&self, offer: &ExposedTool) -> bool {
        self.is_listed(offer) || offer.standing.reason == Some(SurfaceReason::CredentialMissing)
    }

    pub(super) async fn reserve(&self, arguments: &str) -> Result<Option<Arc<Lease>>, Problem> {
        let taken = tokio::time::timeout(self.wait, self.arguments.take(weight(arguments))).await;
        let busy = |_| {
            let why = "the arguments of your calls take too much memory; wait for answers";
            Problem::new(ErrorCode::TooMuchMemory, why).after(60)
        };
        taken.map(|lease| lease.map(Arc::new)).map_err(busy)
    }

    /// `None` if too many calls run without a request.
    pub(super) fn room(&self) -> Option<BackgroundPlace> {
        self.identity.room()
    }

    /// The call runs without a request if there is `room`. `can_be_left`: its request can leave it.
    pub(super) fn start(
        self: &Arc<Self>,
        (server, offering): (&Arc<Server>, &Arc<ServerTools>),
        wish: ApiCall,
        lease: Option<Arc<Lease>>,
        room: Option<BackgroundPlace>,
        can_be_left: bool,
    ) -> Arc<CallEntry> {
        let background = (can_be_left || room.is_some()).then(Background::default);
        let entry = CallEntry::new(Arc::clone(self.name()), background);
        if room.is_some() {
            entry.set_left();
        }
        entry.set_room(room);
        let entry = Arc::new(entry);
        let run = self.run((server, offering), wish, lease, &entry);
        let followed = Arc::clone(&entry);
        server
            .calls
            .follow(followed, run, offering.keep, async |_| {});
        entry
    }

    /// `gone` cancels the call. `None` if the host lost it.
    pub(super) async fn finish(
        self: &Arc<Self>,
        (server, offering): (&Arc<Server>, &Arc<ServerTools>),
        wish: ApiCall,
        lease: Option<Arc<Lease>>,
        gone: &CancellationToken,
    ) -> Option<Box<CallRecord>> {
        let entry = Arc::new(CallEntry::new(Arc::clone(self.name()), None));
        let mut run = self.run((server, offering), wish, lease, &entry);
        let ended = tokio::select! {
            biased;
            ended = &mut run => ended,
            () = gone.cancelled() => {
                entry.cancel(AbortReason::UserInterruption);
                run.await
            }
        };
        match ended {
            Ok(Some(record)) => {
                server.calls.end(&entry, (*record).clone(), offering.keep);
                Some(record)
            }
            Ok(None) | Err(_) => {
                server.calls.lose(&entry);
                None
            }
        }
    }

    fn run(
        &self,
        (server, offering): (&Arc<Server>, &Arc<ServerTools>),
        wish: ApiCall,
        lease: Option<Arc<Lease>>,
        entry: &Arc<CallEntry>,
    ) -> JoinHandle<Option<Box<CallRecord>>> {
        let asking = Arc::clone(entry);
        let announcer = Arc::clone(&server.settings.announcer);
        let announcer: AnnounceFn = Arc::new(move |prompt| {
            asking.asks();
            announcer(prompt);
        });
        let cancellation = entry.cancellation.clone();
        let ReadyCall {
            spec,
            mut context,
            place,
        } = wish.ready(server, offering, self, announcer, cancellation.clone());
        context.listener = Some(entry.listening(&server.calls));
        context.background = entry.background().cloned();
        let call = offering.tools.call(spec, context);
        let entry = Arc::clone(entry);
        tokio::spawn(Arc::clone(server).run(call, cancellation, (place, lease), Some(entry)))
    }
}
