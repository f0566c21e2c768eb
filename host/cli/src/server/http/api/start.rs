//! From a request of the API to a call: with the offering, limits and questions that a call of MCP has.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolcell::{Background, Callee, Cancellation, Limits, Listener, Request, Session, Terms};
use toolcell_core::record::{ExternalMapping, Extra, Input, Refusal};

use crate::dialect::http::Problem;
use crate::server::asking::Announcing;
use crate::server::budget::Lease;
use crate::server::call::{TIMEOUT_KEY, too_many};
use crate::server::calls::Place;
use crate::server::sent::weight;
use crate::server::tasks::Identified;
use crate::server::{Announcer, Offering, Server};

use super::Caller;
use super::live::{LiveCall, Room};

/// A call that a request asks for.
pub(super) struct Wish {
    pub(super) tool: String,
    pub(super) input: Input,
    pub(super) native_call_id: Option<String>,
    pub(super) timeout: Option<Duration>,
    /// The route that it came through, for the record.
    pub(super) route: &'static str,
}

/// A call that is ready to run.
pub(super) struct Ready {
    pub(super) request: Request,
    /// Why it does not run.
    pub(super) refused: Option<Refusal>,
    /// `None` if all places of the server are taken.
    pub(super) place: Option<Place>,
}

impl Wish {
    /// Makes the request of the call. `announcer` tells that it waits for an approval.
    pub(super) fn ready(
        self,
        server: &Server,
        offering: &Offering,
        caller: &Caller,
        announcer: Announcer,
        cancellation: Cancellation,
    ) -> Ready {
        let place = server.calls.begin();
        let settings = &offering.approvals;
        let session = settings.session.clone().map_or(Session::None, Session::Named);
        let wall = self.timeout.map_or(offering.limits.wall, |wall| wall.min(offering.limits.wall));
        let mapping = self.mapping();
        let mut request = Request::new(self.tool.as_str(), self.input)
            .grants(Arc::clone(&offering.grants))
            .policy(Arc::clone(&offering.policy))
            .limits(Limits { wall, ..offering.limits.clone() })
            .approval(Terms { expire: settings.expire, session, ..Terms::default() })
            .cancellation(cancellation)
            .actor(Some(caller.name.to_string()));
        request.native_call_id = self.native_call_id;
        request.mapping = Some(mapping);
        request.keeper = server.keeper();
        let (mut refused, mut withheld) = (None, None);
        match (offering.offers.find(&self.tool), &place) {
            (Err(refusal), _) => refused = Some(refusal),
            (Ok(_), None) => refused = Some(too_many()),
            (Ok(offer), Some(_)) => {
                request.tool = Callee::from(Arc::clone(&offer.tool)).loaded(offer.is_loaded(&caller.loads));
                withheld = offering.offers.surface().refusal(&offer.tool, offer.standing);
                request.limits.wall = offer.wall.map_or(request.limits.wall, |wall| wall.min(request.limits.wall));
                request.approval.origin.clone_from(&offer.origin);
                request.offered = Some(offering.offers.callable());
                request.approval.approver = Some(Arc::new(Announcing { announcer, outdated: offering.outdated() }));
            }
        }
        request.tool = request.tool.on_surface(caller.surface_id(offering), withheld);
        Ready { request, refused, place }
    }

    /// How the API names the call (AT-MAP-01). A process that goes on with the call finds its timeout where MCP has it.
    fn mapping(&self) -> ExternalMapping {
        let mut fields = Extra::new();
        fields.insert("method".to_owned(), self.route.into());
        fields.insert("tool_name".to_owned(), self.tool.as_str().into());
        if let Some(id) = &self.native_call_id {
            fields.insert("native_call_id".to_owned(), id.as_str().into());
        }
        if let Some(timeout) = self.timeout {
            let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            fields.insert("_meta".to_owned(), json!({ TIMEOUT_KEY: millis }));
        }
        ExternalMapping { source: "http".to_owned(), fields }
    }
}

impl Caller {
    /// The id of the caller's own surface: that of the offering, and what this caller has loaded into it.
    pub(super) fn surface_id(&self, offering: &Offering) -> Arc<str> {
        let shared = offering.offers.surface().id();
        match self.loads.count() {
            0 => Arc::clone(shared),
            count => format!("{shared}/{}/{count}", self.name).into(),
        }
    }

    /// Reserves memory for arguments.
    pub(super) async fn reserve(&self, arguments: &str) -> Result<Option<Arc<Lease>>, Problem> {
        let taken = tokio::time::timeout(self.wait, self.arguments.take(weight(arguments))).await;
        let busy = |_| {
            let why = "the arguments of your calls take too much memory; wait for answers";
            Problem::new(503, "too_much_memory", why).after(60)
        };
        taken.map(|lease| lease.map(Arc::new)).map_err(busy)
    }

    /// Begins a call, which runs on its own; with `room`, without a request. `can_be_left`: its request can leave it.
    pub(super) fn start(
        self: &Arc<Self>,
        server: &Arc<Server>,
        wish: Wish,
        lease: Option<Arc<Lease>>,
        room: Option<Room>,
        can_be_left: bool,
    ) -> Arc<LiveCall> {
        let task = (can_be_left || room.is_some()).then(|| (Identified::default(), Background::default()));
        if let (Some((identified, _)), Some(_)) = (&task, &room) {
            identified.become_task();
        }
        let (offering, call) = (server.offering(), Arc::new(LiveCall::new(task.clone(), room)));
        let (asking, announcer) = (Arc::clone(&call), Arc::clone(&server.settings.announcer));
        let announcer: Announcer = Arc::new(move |prompt| {
            asking.asks();
            announcer(prompt);
        });
        let Ready { mut request, refused, place } =
            wish.ready(server, &offering, self, announcer, call.cancellation.clone());
        let listener: Arc<dyn Listener> = self.calls.listener(&call);
        request.listener = Some(match &task {
            None => listener,
            Some((identified, background)) => {
                request.background = Some(background.clone());
                identified.before(Some(listener))
            }
        });
        let run = tokio::spawn(Arc::clone(server).run(offering, request, refused, (place, lease), task));
        let (caller, ending) = (Arc::clone(self), Arc::clone(&call));
        tokio::spawn(async move {
            match run.await {
                Ok(Some(record)) => caller.calls.end(&ending, *record),
                Ok(None) | Err(_) => ending.lose(),
            }
        });
        call
    }
}
