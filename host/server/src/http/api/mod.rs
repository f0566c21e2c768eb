//! The plain HTTP API, `/v1`: the calls of MCP without its frames. Requests come through the same gate, with the same
//! tokens, and their calls have the same limits, questions and records.

mod answer;
mod approvals;
mod artifacts;
mod batches;
mod body_sender;
mod calls;
mod events;
mod keys;
mod openapi;
mod otc;
mod registry;
mod start;
mod tool_status;
mod tools;
mod worker;
use parking_lot::RwLock;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolcell_spec::ErrorCode;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tower_service::Service;

use crate::Server;
use crate::budget::ByteBudget;
use crate::http::problem::Problem;
use crate::otc::OtcService;
use crate::session::ClientIdentity;

use keys::IdempotencyKeys;

/// The routes, and what the holders of tokens may do.
pub(super) struct Api {
    router: Router,
    shared: Arc<ApiState>,
}

/// State of all handlers.
struct ApiState {
    server: Arc<Server>,
    /// The names of all callers: approvers answer only about their calls.
    callers: RwLock<Arc<[Arc<str>]>>,
    /// `true` if callers have tokens.
    needs_token: bool,
    /// The beginning of the server's URLs.
    base: String,
    otc: OtcService,
    /// The Arcade engine; `None` if none may call.
    engine: Option<Arc<ApiCaller>>,
    /// The OpenAPI document, made when it is first asked for.
    document: OnceLock<Bytes>,
}

/// The rights of a token's holder.
#[derive(Clone)]
pub(super) enum TokenRole {
    /// Call tools, and see its own calls.
    Caller(Arc<ApiCaller>),
    /// Answer questions about calls.
    Approver(Arc<str>),
    /// Call tools through the routes of a worker.
    Engine(Arc<ApiCaller>),
}

/// One principal that calls tools.
pub(super) struct ApiCaller {
    /// Its state that MCP has, too.
    pub(super) identity: Arc<ClientIdentity>,
    /// `true` if its list has all tools, without deferring any.
    sees_all: bool,
    /// The budgets for the arguments of its calls, and for results that clients have not read.
    pub(super) arguments: ByteBudget,
    pub(super) results: ByteBudget,
    /// How long a call waits for memory for its arguments.
    wait: Duration,
    /// Room for its calls that run without a request.
    open: Arc<Semaphore>,
    keys: IdempotencyKeys,
    /// Room for the calls of its batches.
    batched: Arc<Semaphore>,
}

impl ApiCaller {
    pub(super) fn new(
        identity: ClientIdentity,
        sees_all: bool,
        (arguments, results): (ByteBudget, ByteBudget),
        wait: Duration,
    ) -> Self {
        Self {
            identity: Arc::new(identity),
            sees_all,
            arguments,
            results,
            wait,
            open: Arc::new(Semaphore::new(start::OPEN_MAX)),
            keys: IdempotencyKeys::default(),
            batched: Arc::new(Semaphore::new(batches::CALLS_MAX)),
        }
    }

    fn name(&self) -> &Arc<str> {
        &self.identity.owner
    }
}

impl Api {
    /// `base` is the beginning of the server's URLs; `engine` is an Arcade engine, if one may call.
    pub(super) fn new(
        server: &Arc<Server>,
        base: String,
        needs_token: bool,
        engine: Option<Arc<ApiCaller>>,
    ) -> Self {
        let shared = Arc::new(ApiState {
            server: Arc::clone(server),
            callers: RwLock::default(),
            needs_token,
            otc: OtcService::new(&base),
            base,
            engine,
            document: OnceLock::new(),
        });
        Self {
            router: router(Arc::clone(&shared)),
            shared,
        }
    }

    /// Sets whose calls approvers answer, in addition to an Arcade engine's.
    pub(super) fn set_callers(&self, names: Vec<Arc<str>>) {
        let engine = self.shared.engine.as_ref();
        let engine = engine.map(|engine| Arc::clone(engine.name()));
        *self.shared.callers.write() = names.into_iter().chain(engine).collect();
    }

    /// Answers an authorized request of a principal with this `role`; `None` if it needs none.
    pub(super) async fn answer(
        &self,
        role: Option<&TokenRole>,
        mut request: Request<Full<Bytes>>,
    ) -> Response<Body> {
        if let Some(role) = role {
            request.extensions_mut().insert(role.clone());
        }
        // A router is always ready.
        let Ok(response) = self.router.clone().call(request).await;
        response
    }
}

impl ApiState {
    /// The names of all callers.
    fn callers(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.callers.read())
    }
}

fn router(shared: Arc<ApiState>) -> Router {
    let unknown = || async { Problem::from(ErrorCode::UnknownPath) };
    let wrong = || async { Problem::from(ErrorCode::MethodNotAllowed) };
    Router::new()
        .route("/v1/tools", get(tools::list))
        .route("/v1/tools/{name}", get(tools::show))
        .route("/v1/search", get(tools::search))
        .route("/v1/surface", get(tools::surface))
        .route("/v1/calls", post(calls::create))
        .route("/v1/calls/{id}", get(calls::show).delete(calls::cancel))
        .route("/v1/calls/{id}/events", get(events::follow))
        .route("/v1/calls/{id}/artifacts/{name}", get(artifacts::fetch))
        .route("/v1/batches", post(batches::create))
        .route("/v1/approvals", get(approvals::list))
        .route(
            "/v1/approvals/{id}",
            get(approvals::show).post(approvals::answer),
        )
        .route("/v1/openapi.json", get(openapi::show))
        .route(
            "/v1/dialects/agentool/registry",
            get(registry::show).post(registry::import),
        )
        .route(
            "/v1/dialects/agentool/tools/{name}",
            get(registry::entry).post(registry::call),
        )
        .route(
            "/v1/dialects/{dialect}/tools",
            get(otc::list).post(otc::register),
        )
        .route("/v1/dialects/{dialect}/tools/{name}", get(otc::show))
        .route(
            "/v1/dialects/{dialect}/tools/{name}/status",
            get(tool_status::show).post(tool_status::report),
        )
        .route("/v1/dialects/{dialect}/execute", post(otc::execute))
        .route(
            "/v1/dialects/{dialect}/authorizations/{id}",
            get(otc::authorization),
        )
        .route("/worker/health", get(worker::health))
        .route("/worker/tools", get(worker::tools))
        .route("/worker/tools/invoke", post(worker::call))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong)
        // The body was read within its limit already.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}
