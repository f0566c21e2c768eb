//! `/v1/tools`, `/v1/search` and `/v1/surface`.

use axum::body::Body;
use http::{Method, Response, StatusCode};
use serde::Deserialize;
use toolcell_dialect::http::{ToolDocument, ToolList, tool};
use toolcell_engine::approval::Session;
use toolcell_engine::find::{RESULTS, RESULTS_MAX, ToolQuery as Words};
use toolcell_spec::{ErrorCode, ToolSearchResult};

use crate::ServerTools;
use crate::exposed_tools::ExposedTool;
use crate::http::problem::Problem;

use super::answer::{CallerRequest, PathParams, QueryParams, json};
use super::{ApiCaller, ApiState};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolsParams {
    q: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchParams {
    q: String,
    limit: Option<usize>,
}

/// Lists the tools that the caller can call, or that a search finds among all tools.
#[utoipa::path(
    get, path = "/v1/tools", tag = "tools",
    params(
        ("q" = Option<String>, Query, min_length = 1, max_length = 1000, description = "Words that say what the tool should do, or `select:NAME,NAME`"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 50, description = "Maximum number of tools that are found: 5 by default. Without `q` it does not count"),
    ),
    responses((status = 200, description = "The tools", body = ToolList), (status = 422, description = "The query is empty or too long"), (status = 429, description = "Too many searches run")),
)]
pub(super) async fn list(
    CallerRequest(shared, caller, offering): CallerRequest,
    QueryParams(ToolsParams { q, limit }): QueryParams<ToolsParams>,
) -> Result<Response<Body>, Problem> {
    let limit = limited(limit)?;
    let tools = match q {
        None => {
            let listed = offering
                .offers
                .offered()
                .filter(|offer| caller.is_listed(offer));
            listed.map(|offer| offering.describe(offer, tool)).collect()
        }
        Some(words) => {
            let found = search_for(&shared, &caller, &words, limit).await?;
            let found = found
                .matches
                .iter()
                .filter_map(|found| offering.offers.find(&found.name).ok());
            found.map(|offer| offering.describe(offer, tool)).collect()
        }
    };
    let surface_id = offering.surface_id(&caller.identity.loads).to_string();
    Ok(json(StatusCode::OK, &ToolList { surface_id, tools }))
}

/// Shows a tool with the schema of its input. That loads a deferred tool: from then on, the caller can call it.
#[utoipa::path(
    get, path = "/v1/tools/{name}", tag = "tools",
    params(("name" = String, Path, description = "The name of the tool")),
    responses((status = 200, description = "The tool", body = ToolDocument), (status = 404, description = "There is no such tool")),
)]
pub(super) async fn show(
    CallerRequest(shared, caller, offering): CallerRequest,
    PathParams(name): PathParams<String>,
    method: Method,
) -> Result<Response<Body>, Problem> {
    let offer = offering.offers.find(&name)?;
    caller.load(&shared, &offering, offer, &method).await?;
    Ok(json(StatusCode::OK, &offering.describe(offer, tool)))
}

/// Searches all tools, also those that are not listed.
#[utoipa::path(
    get, path = "/v1/search", tag = "tools",
    params(
        ("q" = String, Query, min_length = 1, max_length = 1000, description = "Words that say what the tool should do, or `select:NAME,NAME`"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 50, description = "Maximum number of tools that are found: 5 by default"),
    ),
    responses((status = 200, description = "What was found", body = ref("#/components/schemas/tool-search-result")), (status = 422, description = "The query is empty or too long"), (status = 429, description = "Too many searches run")),
)]
pub(super) async fn search(
    CallerRequest(shared, caller, _): CallerRequest,
    QueryParams(SearchParams { q, limit }): QueryParams<SearchParams>,
) -> Result<Response<Body>, Problem> {
    let limit = limited(limit)?;
    let found = search_for(&shared, &caller, &q, limit).await?;
    Ok(json(StatusCode::OK, &found))
}

/// Shows which tools the caller can call, and why not the others.
#[utoipa::path(
    get, path = "/v1/surface", tag = "tools",
    responses((status = 200, description = "The surface of the caller", body = ref("#/components/schemas/tool-surface"))),
)]
pub(super) async fn surface(CallerRequest(shared, caller, _): CallerRequest) -> Response<Body> {
    let session = shared.server.offering().approvals.session.clone();
    let session = session.map_or(Session::None, Session::Named);
    let surface = shared
        .server
        .surface_of(&caller.identity, &caller.identity.loads, session);
    json(StatusCode::OK, &surface)
}

fn limited(limit: Option<usize>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(RESULTS);
    if (1..=RESULTS_MAX).contains(&limit) {
        return Ok(limit);
    }
    let why = format!("limit is a number from 1 to {RESULTS_MAX}");
    Err(Problem::new(ErrorCode::QueryInvalid, why))
}

async fn search_for(
    shared: &ApiState,
    caller: &ApiCaller,
    words: &str,
    limit: usize,
) -> Result<ToolSearchResult, Problem> {
    let query = Words::parse(words)?;
    let session = shared.server.offering().approvals.session.clone();
    let loads = (&*caller.identity, &caller.identity.loads);
    Ok(shared.server.search(query, limit, loads, session).await?)
}

impl ApiCaller {
    /// The caller gets the tool's definition, and can call it from then on.
    pub(super) async fn load(
        &self,
        shared: &ApiState,
        offering: &ServerTools,
        offer: &ExposedTool,
        method: &Method,
    ) -> Result<(), Problem> {
        if !self.is_listed(offer) {
            shared.server.providers().check(offer)?;
        }
        // The answer to a HEAD request has no definition.
        if *method == Method::GET {
            let session = offering.approvals.session.clone();
            offering.load(offer, &self.identity.loads, session).await;
        }
        Ok(())
    }
}
