//! The plain HTTP API, `/v1`: the calls of MCP without its frames, with the same gate, tokens, limits, questions and
//! records.

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
mod page;
mod registry;
mod repeats;
mod start;
mod tool_status;
mod tools;
mod worker;
mod workspaces;
use parking_lot::RwLock;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolcell_spec::ErrorCode;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tower_service::Service;

use crate::budget::ByteBudget;
use crate::executions::Executions;
use crate::http::problem::Problem;
use crate::otc::OtcService;
use crate::session::ClientIdentity;
use crate::{Server, ServerTools};

use keys::IdempotencyKeys;
use repeats::KeptResponse;

pub(super) struct Api {
    router: Router,
    shared: Arc<ApiState>,
}

struct ApiState {
    server: Arc<Server>,
    callers: RwLock<Arc<[Arc<str>]>>,
    needs_token: bool,
    base: String,
    otc: OtcService,
    answers: Arc<Executions<KeptResponse>>,
    /// `None` if no Arcade engine may call.
    engine: Option<Arc<ApiCaller>>,
    document: OnceLock<Bytes>,
}

#[derive(Clone)]
pub(super) enum TokenRole {
    Caller(Arc<ApiCaller>),
    Approver(Arc<str>),
    Engine(Arc<ApiCaller>),
}

pub(super) struct ApiCaller {
    pub(super) identity: Arc<ClientIdentity>,
    /// No tool in its list is deferred.
    sees_all: bool,
    /// `results` counts what clients have not read.
    pub(super) arguments: ByteBudget,
    pub(super) results: ByteBudget,
    wait: Duration,
    keys: IdempotencyKeys,
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
            keys: IdempotencyKeys::default(),
            batched: Arc::new(Semaphore::new(batches::CALLS_MAX)),
        }
    }

    /// What it may call.
    fn offering(&self, server: &Server) -> Arc<ServerTools> {
        server.offering_of(self.identity.actor.as_deref())
    }

    fn name(&self) -> &Arc<str> {
        &self.identity.owner
    }
}

impl Api {
    /// `base` is the beginning of the server's URLs; `engine` is `None` if no Arcade engine may call.
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
            answers: Executions::new(repeats::ANSWERS_BYTES_MAX),
            base,
            engine,
            document: OnceLock::new(),
        });
        Self {
            router: router(Arc::clone(&shared)),
            shared,
        }
    }

    /// Approvers answer their calls, and an Arcade engine's.
    pub(super) fn set_callers(&self, names: Vec<Arc<str>>) {
        let engine = self.shared.engine.as_ref();
        let engine = engine.map(|engine| Arc::clone(engine.name()));
        *self.shared.callers.write() = names.into_iter().chain(engine).collect();
    }

    /// Needs no principal.
    pub(super) async fn authorization_page(&self, id: &str) -> Option<String> {
        otc::page(&self.shared, id).await
    }

    /// The request is authorized; `None` if it needs no principal.
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
    fn callers(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.callers.read())
    }
}

fn workspace_routes() -> Router<Arc<ApiState>> {
    use workspaces::{
        create, diff, fork, list, read_archive, read_file, remove, remove_file, remove_snapshot,
        restore, show, snapshot, write_archive, write_file,
    };
    Router::new()
        .route("/v1/workspaces", get(list))
        .route(
            "/v1/workspaces/{name}",
            get(show).put(create).delete(remove),
        )
        .route(
            "/v1/workspaces/{name}/files/{*path}",
            get(read_file).put(write_file).delete(remove_file),
        )
        .route(
            "/v1/workspaces/{name}/archive",
            get(read_archive).put(write_archive),
        )
        .route("/v1/workspaces/{name}/diff", get(diff))
        .route("/v1/workspaces/{name}/snapshots", post(snapshot))
        .route(
            "/v1/workspaces/{name}/snapshots/{id}",
            delete(remove_snapshot),
        )
        .route("/v1/workspaces/{name}/restore", post(restore))
        .route("/v1/workspaces/{name}/fork", post(fork))
}

fn router(shared: Arc<ApiState>) -> Router {
    let unknown = || async { Problem::from(ErrorCode::UnknownPath) };
    let wrong = || async { Problem::from(ErrorCode::MethodNotAllowed) };
    let once = from_fn_with_state(Arc::clone(&shared), repeats::answer_once);
    Router::new()
        .route("/v1/tools", get(tools::list))
        .route("/v1/tools/{name}", get(tools::show))
        .route("/v1/search", get(tools::search))
        .route("/v1/surface", get(tools::surface))
        .route("/v1/calls", post(calls::create))
        .route("/v1/calls/{id}", get(calls::show).delete(calls::cancel))
        .route("/v1/calls/{id}/events", get(events::follow))
        .route("/v1/calls/{id}/artifacts/{name}", get(artifacts::fetch))
        .route("/v1/batches", post(batches::create).layer(once.clone()))
        .merge(workspace_routes())
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
            get(registry::entry).merge(post(registry::call).layer(once)),
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
