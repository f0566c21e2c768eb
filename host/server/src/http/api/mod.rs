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
use std::convert::Infallible;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
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
use crate::loaded_tools::LoadedTools;
use crate::otc::{ENGINE, Worker};
use crate::unknown_cancels::UnknownCancels;

use keys::IdempotencyKeys;
use otc::Otc;
pub(super) use otc::answered;

/// The routes, and what the holders of tokens may do.
pub(super) struct Api {
    router: Router,
    /// How long a call waits for memory for its arguments.
    wait: Duration,
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
    otc: Otc,
    /// The Arcade engine and its calls; `None` if none may call.
    worker: Option<(Worker, Arc<ApiCaller>)>,
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
    name: Arc<str>,
    /// The tools that it has loaded, also through MCP without a session.
    loads: Arc<LoadedTools>,
    /// `true` if its list has all tools, without deferring any.
    sees_all: bool,
    /// The budgets for the arguments of its calls, and for results that wait for others.
    arguments: ByteBudget,
    results: ByteBudget,
    /// How long a call waits for memory for its arguments.
    wait: Duration,
    /// Room for its calls that run without a request.
    open: Arc<Semaphore>,
    keys: IdempotencyKeys,
    /// Room for the calls of its batches.
    batched: Arc<Semaphore>,
    /// Cancels of unknown calls, also by MCP.
    unknown_cancels: Arc<UnknownCancels>,
}

/// State of a principal, for the API and MCP.
pub(super) struct PrincipalState {
    pub(super) name: Arc<str>,
    pub(super) loads: Arc<LoadedTools>,
    pub(super) arguments: ByteBudget,
    pub(super) results: ByteBudget,
    pub(super) unknown_cancels: Arc<UnknownCancels>,
}

impl PrincipalState {
    fn caller(self, wait: Duration, sees_all: bool) -> Arc<ApiCaller> {
        let Self {
            name,
            loads,
            arguments,
            results,
            unknown_cancels,
        } = self;
        let open = Arc::new(Semaphore::new(start::OPEN_MAX));
        let keys = IdempotencyKeys::default();
        let batched = Arc::new(Semaphore::new(batches::CALLS_MAX));
        Arc::new(ApiCaller {
            name,
            loads,
            sees_all,
            arguments,
            results,
            wait,
            open,
            keys,
            batched,
            unknown_cancels,
        })
    }
}

/// The settings of the dialects' routes.
pub(super) struct DialectSettings {
    /// The beginning of the server's URLs.
    pub(super) base: String,
    /// `true` if callers have tokens.
    pub(super) needs_token: bool,
    /// The Arcade engine, and the budgets for the arguments and the results of its calls.
    pub(super) worker: Option<(Worker, ByteBudget, ByteBudget)>,
}

impl Api {
    /// Serves only an Arcade engine so far.
    pub(super) fn new(server: &Arc<Server>, wait: Duration, dialects: DialectSettings) -> Self {
        let DialectSettings {
            base,
            needs_token,
            worker,
        } = dialects;
        let engine = |arguments, results| {
            let loads = Arc::default();
            let unknown_cancels = Arc::default();
            PrincipalState {
                name: ENGINE.into(),
                loads,
                arguments,
                results,
                unknown_cancels,
            }
            .caller(wait, true)
        };
        let shared = Arc::new(ApiState {
            server: Arc::clone(server),
            callers: RwLock::default(),
            needs_token,
            otc: Otc::new(&base),
            base,
            worker: worker.map(|(worker, arguments, results)| (worker, engine(arguments, results))),
            document: OnceLock::new(),
        });
        Self {
            router: router(Arc::clone(&shared)),
            wait,
            shared,
        }
    }

    /// The role of one more caller.
    pub(super) fn caller(&self, principal: PrincipalState) -> TokenRole {
        TokenRole::Caller(principal.caller(self.wait, false))
    }

    /// Sets whose calls approvers answer, in addition to an Arcade engine's.
    pub(super) fn set_callers(&self, names: Vec<Arc<str>>) {
        let engine = self.worker().map(|_| ENGINE.into());
        let names = names.into_iter().chain(engine).collect();
        *self
            .shared
            .callers
            .write()
            .unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Checks Arcade engines.
    pub(super) fn worker(&self) -> Option<&Worker> {
        self.shared.worker.as_ref().map(|(worker, _)| worker)
    }

    /// Answers a request for a worker's route; `is_engine` if an engine sent it.
    pub(super) async fn answer_engine(
        &self,
        is_engine: bool,
        mut request: Request<Full<Bytes>>,
    ) -> Response<Body> {
        if let (true, Some((_, engine))) = (is_engine, &self.shared.worker) {
            request
                .extensions_mut()
                .insert(TokenRole::Engine(Arc::clone(engine)));
        }
        self.routed(request).await
    }

    /// Answers an authorized request.
    pub(super) async fn answer(
        &self,
        role: &TokenRole,
        mut request: Request<Full<Bytes>>,
    ) -> Response<Body> {
        request.extensions_mut().insert(role.clone());
        self.routed(request).await
    }

    async fn routed(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        // A router is always ready.
        let answered: Result<_, Infallible> = self.router.clone().call(request).await;
        let Ok(response) = answered;
        response
    }
}

impl ApiState {
    /// The names of all callers.
    fn callers(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.callers.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn unknown_path() -> Problem {
    Problem::new(
        ErrorCode::UnknownPath,
        "there is nothing here; see /v1/openapi.json",
    )
}

fn router(shared: Arc<ApiState>) -> Router {
    let wrong = || async {
        Problem::new(
            ErrorCode::MethodNotAllowed,
            "use a method that the header Allow names",
        )
    };
    let worker = Router::new()
        .route("/worker/health", get(worker::health))
        .route("/worker/tools", get(worker::tools))
        .route("/worker/tools/invoke", post(worker::call));
    let worker = if shared.worker.is_some() {
        worker
    } else {
        Router::new()
    };
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
        .merge(worker)
        .fallback(|| async { unknown_path() })
        .method_not_allowed_fallback(wrong)
        // The body was read within its limit already.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}
