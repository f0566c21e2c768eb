//! From a request of the API to a call: with the offering, limits and questions that a call of MCP has.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolcell::{Background, Callee, Cancellation, Limits, Listener, Request, Session, Terms};
use toolcell_core::record::{
    AbortReason, CallRecord, ErrorCode, ExternalMapping, Extra, Input, LoadingState, Refusal,
    SurfaceReason, TraceContext,
};
use toolcell_core::secret::Secrets;
use toolcell_dialect::otc::OtcToolName;

use crate::asking::AnnouncingApprover;
use crate::budget::Lease;
use crate::call::{TIMEOUT_KEY, too_many};
use crate::calls::CallPlace;
use crate::exposed_tools::ExposedTool;
use crate::http::problem::Problem;
use crate::sent_arguments::weight;
use crate::tasks::CallIdentity;
use crate::{AnnounceFn, Server, ToolSet};

use super::ApiCaller;
use super::live::{BackgroundPlace, LiveCall};

/// A call that a request asks for.
pub(super) struct CallSpec {
    pub(super) tool: String,
    pub(super) input: Input,
    pub(super) native_call_id: Option<String>,
    pub(super) timeout: Option<Duration>,
    /// The route that it came through, for the record.
    pub(super) route: &'static str,
    /// Trace of the call, from the request.
    pub(super) trace: Option<TraceContext>,
    /// The rest of a call in the terms of a dialect.
    pub(super) foreign: Option<DialectCall>,
}

/// A dialect's data of a call.
pub(super) struct DialectCall {
    /// Which component has to have the tool, or why the call does not run.
    pub(super) tool: Result<OtcToolName, Refusal>,
    /// The dialect, and the rest of its request, for the record.
    pub(super) source: &'static str,
    pub(super) fields: Extra,
    /// Values of secrets for this call only.
    pub(super) secrets: Secrets,
}

impl DialectCall {
    /// Checks that `offer` is the tool that was named: the offering may have changed since.
    fn check(&self, offer: &ExposedTool) -> Result<(), Refusal> {
        let named = self.tool.as_ref().map_err(Clone::clone)?;
        let component = offer.tool.component();
        if **component == *named.version && offer.qualified_name == named.qualified_name() {
            return Ok(());
        }
        let message = format!("the tool changed while the call began; its version is {component}");
        Err(Refusal::new(ErrorCode::VersionMismatch, message))
    }
}

/// A call that is ready to run.
pub(super) struct ReadyCall {
    pub(super) request: Request,
    /// Why it does not run.
    pub(super) refused: Option<Refusal>,
    /// `None` if all places of the server are taken.
    pub(super) place: Option<CallPlace>,
}

impl CallSpec {
    /// Makes the request of the call. `announcer` tells that it waits for an approval.
    pub(super) fn ready(
        self,
        server: &Server,
        offering: &ToolSet,
        caller: &ApiCaller,
        announcer: AnnounceFn,
        cancellation: Cancellation,
    ) -> ReadyCall {
        let place = server.calls.begin();
        let settings = &offering.approvals;
        let session = settings
            .session
            .clone()
            .map_or(Session::None, Session::Named);
        let wall = self
            .timeout
            .map_or(offering.limits.wall, |wall| wall.min(offering.limits.wall));
        let mapping = self.mapping();
        let mut request = Request::new(self.tool.as_str(), self.input)
            .grants(Arc::clone(&offering.grants))
            .policy(Arc::clone(&offering.policy))
            .limits(Limits {
                wall,
                ..offering.limits.clone()
            })
            .approval(Terms {
                expire: settings.expire,
                session,
                ..Terms::default()
            })
            .cancellation(cancellation)
            .actor(Some(caller.name.to_string()));
        request.native_call_id = self.native_call_id;
        request.mapping = Some(mapping);
        let begun = || {
            offering
                .telemetry
                .as_ref()?
                .trace(settings.session.as_deref())
        };
        request.trace = self.trace.or_else(begun);
        request.keeper = server.keeper();
        let mut refused = None;
        let mut withheld = None;
        let found = offering.offers.find(&self.tool);
        let checked = match (&self.foreign, found) {
            (
                Some(DialectCall {
                    tool: Err(refusal), ..
                }),
                _,
            ) => Err(refusal.clone()),
            (Some(foreign), Ok(offer)) => foreign.check(offer).map(|()| offer),
            (_, found) => found,
        };
        let secrets = self.foreign.as_ref().map(|foreign| foreign.secrets.clone());
        request = request.secrets(secrets.unwrap_or_default());
        match (checked, &place) {
            (Err(refusal), _) => refused = Some(refusal),
            (Ok(_), None) => refused = Some(too_many()),
            (Ok(offer), Some(_)) => {
                request.tool =
                    Callee::from(Arc::clone(&offer.tool)).loaded(caller.has_loaded(offer));
                withheld = offering
                    .offers
                    .surface()
                    .refusal(&offer.tool, offer.standing);
                request.limits.wall = offer
                    .wall
                    .map_or(request.limits.wall, |wall| wall.min(request.limits.wall));
                request.approval.origin.clone_from(&offer.origin);
                request.offered = Some(offering.offers.callable());
                request.approval.approver = Some(Arc::new(AnnouncingApprover {
                    announcer,
                    outdated: offering.outdated(),
                }));
            }
        }
        request.tool = request
            .tool
            .on_surface(caller.surface_id(offering), withheld);
        ReadyCall {
            request,
            refused,
            place,
        }
    }

    /// How the API names the call (AT-MAP-01). A process that goes on with the call finds its timeout where MCP has it.
    fn mapping(&self) -> ExternalMapping {
        let (source, mut fields) = match &self.foreign {
            Some(foreign) => (foreign.source, foreign.fields.clone()),
            None => ("http", Extra::new()),
        };
        fields.insert("method".to_owned(), self.route.into());
        fields.insert("tool_name".to_owned(), self.tool.as_str().into());
        if let Some(id) = &self.native_call_id {
            fields.insert("native_call_id".to_owned(), id.as_str().into());
        }
        if let Some(timeout) = self.timeout {
            let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            fields.insert("_meta".to_owned(), json!({ TIMEOUT_KEY: millis }));
        }
        ExternalMapping {
            source: source.to_owned(),
            fields,
        }
    }
}

impl ApiCaller {
    /// The id of the caller's own surface: the offering's id, and the number of loads of this caller.
    pub(super) fn surface_id(&self, offering: &ToolSet) -> Arc<str> {
        let shared = offering.offers.surface().id();
        match self.loads.count() {
            0 => Arc::clone(shared),
            count => format!("{shared}/{}/{count}", self.name).into(),
        }
    }

    /// Returns whether the caller has the tool's schema.
    pub(super) fn has_loaded(&self, offer: &ExposedTool) -> bool {
        self.sees_all || offer.is_loaded(&self.loads)
    }

    /// Returns whether the caller need not search for it.
    pub(super) fn is_listed(&self, offer: &ExposedTool) -> bool {
        match offer.standing.state {
            LoadingState::Loaded => true,
            LoadingState::Unavailable => false,
            _ => self.sees_all || self.loads.has(&offer.qualified_name),
        }
    }

    /// Returns whether Open Tool Calling lists the tool: even without a secret, which a request can carry.
    pub(super) fn is_defined(&self, offer: &ExposedTool) -> bool {
        self.is_listed(offer) || offer.standing.reason == Some(SurfaceReason::CredentialMissing)
    }

    /// Reserves memory for arguments.
    pub(super) async fn reserve(&self, arguments: &str) -> Result<Option<Arc<Lease>>, Problem> {
        let taken = tokio::time::timeout(self.wait, self.arguments.take(weight(arguments))).await;
        let busy = |_| {
            let why = "the arguments of your calls take too much memory; wait for answers";
            Problem::new(ErrorCode::TooMuchMemory, why).after(60)
        };
        taken.map(|lease| lease.map(Arc::new)).map_err(busy)
    }

    /// Begins a call, which runs on its own; with `room`, without a request. `can_be_left`: its request can leave it.
    pub(super) fn start(
        self: &Arc<Self>,
        server: &Arc<Server>,
        wish: CallSpec,
        lease: Option<Arc<Lease>>,
        room: Option<BackgroundPlace>,
        can_be_left: bool,
    ) -> Arc<LiveCall> {
        let (call, run) = self.begin(server, wish, lease, room, can_be_left);
        let caller = Arc::clone(self);
        let ending = Arc::clone(&call);
        tokio::spawn(async move {
            match run.await {
                Ok(Some(record)) => caller.calls.end(&ending, *record),
                Ok(None) | Err(_) => ending.lose(),
            }
        });
        call
    }

    /// Makes a call to its end, which `gone` cancels. Returns its record; `None` if the host lost the call.
    pub(super) async fn finish(
        self: &Arc<Self>,
        server: &Arc<Server>,
        wish: CallSpec,
        lease: Option<Arc<Lease>>,
        gone: &CancellationToken,
    ) -> Option<Box<CallRecord>> {
        let (call, mut run) = self.begin(server, wish, lease, None, false);
        let ended = tokio::select! {
            biased;
            ended = &mut run => ended,
            () = gone.cancelled() => {
                call.cancel(AbortReason::UserInterruption);
                run.await
            }
        };
        match ended {
            Ok(Some(record)) => {
                self.calls.end(&call, (*record).clone());
                Some(record)
            }
            Ok(None) | Err(_) => {
                call.lose();
                None
            }
        }
    }

    fn begin(
        self: &Arc<Self>,
        server: &Arc<Server>,
        wish: CallSpec,
        lease: Option<Arc<Lease>>,
        room: Option<BackgroundPlace>,
        can_be_left: bool,
    ) -> (Arc<LiveCall>, JoinHandle<Option<Box<CallRecord>>>) {
        let task = (can_be_left || room.is_some())
            .then(|| (CallIdentity::default(), Background::default()));
        if let (Some((identified, _)), Some(_)) = (&task, &room) {
            identified.become_task();
        }
        let offering = server.offering();
        let call = Arc::new(LiveCall::new(task.clone(), room));
        let asking = Arc::clone(&call);
        let announcer = Arc::clone(&server.settings.announcer);
        let announcer: AnnounceFn = Arc::new(move |prompt| {
            asking.asks();
            announcer(prompt);
        });
        let ReadyCall {
            mut request,
            refused,
            place,
        } = wish.ready(
            server,
            &offering,
            self,
            announcer,
            call.cancellation.clone(),
        );
        let listener: Arc<dyn Listener> = self.calls.listener(&call);
        request.listener = Some(match &task {
            None => listener,
            Some((identified, background)) => {
                request.background = Some(background.clone());
                identified.before(Some(listener))
            }
        });
        let run =
            tokio::spawn(Arc::clone(server).run(offering, request, refused, (place, lease), task));
        (call, run)
    }
}
