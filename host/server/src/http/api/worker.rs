//! `/worker`: the routes that an Arcade engine calls of a worker. [`Routes`](super::super::route::Routes) checks its
//! token before it reads a body.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use serde_json::json as value;
use toolcell_dialect::otc::OtcMode;
use toolcell_spec::ErrorCode;

use super::ApiState;
use super::answer::{RequestEngine, json};
use super::otc::{definitions, invoke};
use crate::http::problem::Problem;

/// Tells an engine that the worker runs, and how many tools it has. Needs no token.
#[utoipa::path(
    get, path = "/worker/health", tag = "arcade", security(()),
    responses((status = 200, description = "The worker runs", body = ref("#/components/schemas/otc-worker-health"))),
)]
pub(super) async fn health(State(shared): State<Arc<ApiState>>) -> Result<Response<Body>, Problem> {
    let engine = shared.engine.as_ref().ok_or(ErrorCode::UnknownPath)?;
    let offering = shared.server.offering();
    let tools = offering.offers.offered();
    let count = tools.filter(|offer| engine.is_defined(offer)).count();
    let health = value!({ "status": "ok", "tool_count": count.to_string() });
    Ok(json(StatusCode::OK, &health))
}

/// Lists the definitions of all tools. None is deferred, because an engine has no other way to get a definition.
#[utoipa::path(
    get, path = "/worker/tools", tag = "arcade", security(("worker" = [])),
    responses((status = 200, description = "The definitions", body = ref("#/components/schemas/otc-arcade-definitions"))),
)]
pub(super) async fn tools(
    State(shared): State<Arc<ApiState>>,
    RequestEngine(engine): RequestEngine,
) -> Response<Body> {
    definitions(&shared.server.offering(), &engine, OtcMode::Arcade)
}

/// Calls a tool, once for each `execution_id` of a run.
#[utoipa::path(
    post, path = "/worker/tools/invoke", tag = "arcade", security(("worker" = [])),
    request_body = ref("#/components/schemas/otc-call"),
    responses(
        (status = 200, description = "How the call ended, also if it failed", body = ref("#/components/schemas/otc-arcade-tool-call-response")),
        (status = 409, description = "The execution id is that of another request, or its answer is not kept"),
    ),
)]
pub(super) async fn call(
    State(shared): State<Arc<ApiState>>,
    RequestEngine(engine): RequestEngine,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    invoke(
        &shared,
        &engine,
        OtcMode::Arcade,
        "POST /worker/tools/invoke",
        &headers,
        body,
    )
    .await
}
