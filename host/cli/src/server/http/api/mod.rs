//! The plain HTTP API, `/v1`: the calls of MCP without its frames. Requests come through the same gate, with the same
//! tokens, and their calls have the same limits, questions and records.

mod answer;
mod approvals;
mod artifacts;
mod batches;
mod calls;
mod events;
mod feed;
mod keys;
mod live;
mod openapi;
mod start;
mod tools;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tower_service::Service;

use crate::dialect::http::Problem;
use crate::server::Server;
use crate::server::budget::Budget;
use crate::server::loads::Loads;

use keys::Keys;
use live::LiveCalls;

/// The routes, and what the holders of tokens may do.
pub(super) struct Api {
    router: Router,
    roles: Vec<Role>,
}

/// What the handlers share.
struct Shared {
    server: Arc<Server>,
    /// The names of all callers: approvers answer about their calls alone.
    callers: Vec<Arc<str>>,
}

/// What the holder of a token may do.
#[derive(Clone)]
enum Role {
    /// Call tools, and see its own calls.
    Caller(Arc<Caller>),
    /// Answer questions about calls.
    Approver(Arc<str>),
}

/// One principal that calls tools.
struct Caller {
    name: Arc<str>,
    /// The tools that it has loaded, also through MCP without a session.
    loads: Arc<Loads>,
    /// The budget for the arguments of its calls.
    arguments: Budget,
    /// How long a call waits for memory for its arguments.
    wait: Duration,
    calls: Arc<LiveCalls>,
    keys: Keys,
    /// Room for the calls of its batches.
    batched: Arc<Semaphore>,
}

/// What the API and MCP share of one principal.
pub(super) struct Principal {
    pub(super) name: Arc<str>,
    pub(super) loads: Arc<Loads>,
    pub(super) arguments: Budget,
}

impl Api {
    /// Serves `principals`, and after them `approvers`: a role is named by its index.
    pub(super) fn new(
        server: &Arc<Server>,
        principals: Vec<Principal>,
        approvers: Vec<Arc<str>>,
        wait: Duration,
    ) -> Self {
        let callers = principals.iter().map(|principal| Arc::clone(&principal.name)).collect();
        let caller = |Principal { name, loads, arguments }| {
            let (calls, keys) = (Arc::default(), Keys::default());
            let batched = Arc::new(Semaphore::new(batches::CALLS_MAX));
            Role::Caller(Arc::new(Caller { name, loads, arguments, wait, calls, keys, batched }))
        };
        let roles = principals.into_iter().map(caller).chain(approvers.into_iter().map(Role::Approver)).collect();
        let shared = Arc::new(Shared { server: Arc::clone(server), callers });
        Self { router: router(shared), roles }
    }

    /// Answers an authorized request; `role` is the index of its principal.
    pub(super) async fn answer(&self, role: usize, mut request: Request<Full<Bytes>>) -> Response<Body> {
        if let Some(role) = self.roles.get(role) {
            request.extensions_mut().insert(role.clone());
        }
        // A router is always ready.
        let answered: Result<_, Infallible> = self.router.clone().call(request).await;
        let Ok(response) = answered;
        response
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let unknown = || async { Problem::new(404, "unknown_path", "there is nothing here; see /v1/openapi.json") };
    let wrong = || async { Problem::new(405, "method_not_allowed", "use a method that the header Allow names") };
    Router::new()
        .route("/v1/tools", get(tools::list))
        .route("/v1/tools/{name}", get(tools::show))
        .route("/v1/search", get(tools::search))
        .route("/v1/calls", post(calls::create))
        .route("/v1/calls/{id}", get(calls::show).delete(calls::cancel))
        .route("/v1/calls/{id}/events", get(events::follow))
        .route("/v1/calls/{id}/artifacts/{name}", get(artifacts::fetch))
        .route("/v1/batches", post(batches::create))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", get(approvals::show).post(approvals::answer))
        .route("/v1/openapi.json", get(openapi::show))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong)
        // The body was read within its limit already.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}
