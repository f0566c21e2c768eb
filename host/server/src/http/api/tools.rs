//! `/v1/tools`, `/v1/search` and `/v1/surface`.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::{Method, Response, StatusCode};
use serde::Deserialize;
use toolcell_dialect::http::{ToolDocument, ToolList, tool};
use toolcell_engine::find::{RESULTS, RESULTS_MAX, SELECT, ToolQuery as Words};
use toolcell_spec::{ErrorCode, LoadingState, ToolSearchResult};
use toolcell_system::pool::STORE;

use crate::ServerTools;
use crate::exposed_tools::ExposedTool;
use crate::http::problem::Problem;

use super::answer::{PathParams, QueryParams, RequestCaller, json};
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
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(ToolsParams { q, limit }): QueryParams<ToolsParams>,
) -> Result<Response<Body>, Problem> {
    let limit = limited(limit)?;
    let offering = shared.server.offering();
    let tools = match q {
        None => {
            let listed = offering
                .offers
                .offered()
                .filter(|offer| caller.is_listed(offer));
            listed.map(|offer| document(&offering, offer)).collect()
        }
        Some(words) => {
            let found = search_for(&shared, &caller, &words, limit).await?;
            let found = found
                .matches
                .iter()
                .filter_map(|found| offering.offers.find(&found.name).ok());
            found.map(|offer| document(&offering, offer)).collect()
        }
    };
    let surface_id = caller.surface_id(&offering).to_string();
    Ok(json(StatusCode::OK, &ToolList { surface_id, tools }))
}

/// Shows a tool with the schema of its input. That loads a deferred tool: from then on, the caller can call it.
#[utoipa::path(
    get, path = "/v1/tools/{name}", tag = "tools",
    params(("name" = String, Path, description = "The name of the tool")),
    responses((status = 200, description = "The tool", body = ToolDocument), (status = 404, description = "There is no such tool")),
)]
pub(super) async fn show(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(name): PathParams<String>,
    method: Method,
) -> Result<Response<Body>, Problem> {
    let offering = shared.server.offering();
    let offer = offering
        .offers
        .find(&name)
        .map_err(|refusal| Problem::from_refusal(&refusal))?;
    caller.load(&offering, offer, &method).await;
    Ok(json(StatusCode::OK, &document(&offering, offer)))
}

/// Searches all tools, also those that are not listed.
#[utoipa::path(
    get, path = "/v1/search", tag = "tools",
    params(
        ("q" = String, Query, min_length = 1, max_length = 1000, description = "Words that say what the tool should do, or `select:NAME,NAME`"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 50, description = "Maximum number of tools that are found: 5 by default"),
    ),
    responses((status = 200, description = "What was found"), (status = 422, description = "The query is empty or too long"), (status = 429, description = "Too many searches run")),
)]
pub(super) async fn search(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(SearchParams { q, limit }): QueryParams<SearchParams>,
) -> Result<Response<Body>, Problem> {
    let limit = limited(limit)?;
    Ok(json(
        StatusCode::OK,
        &search_for(&shared, &caller, &q, limit).await?,
    ))
}

/// Shows which tools the caller can call, and why not the others.
#[utoipa::path(
    get, path = "/v1/surface", tag = "tools",
    responses((status = 200, description = "The surface of the caller")),
)]
pub(super) async fn surface(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
) -> Response<Body> {
    // Before the offering, because a provider that is loaded in between must be in one of the two.
    let providers = shared.server.providers();
    let offering = shared.server.offering();
    json(
        StatusCode::OK,
        &offering.surface_of(caller.surface_id(&offering), &caller.loads, &providers),
    )
}

fn limited(limit: Option<usize>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(RESULTS);
    let wrong = || {
        Problem::new(
            ErrorCode::QueryInvalid,
            format!("limit is a number from 1 to {RESULTS_MAX}"),
        )
    };
    (1..=RESULTS_MAX)
        .contains(&limit)
        .then_some(limit)
        .ok_or_else(wrong)
}

async fn search_for(
    shared: &ApiState,
    caller: &ApiCaller,
    words: &str,
    limit: usize,
) -> Result<ToolSearchResult, Problem> {
    let query = Words::parse(words).map_err(|refusal| Problem::from_refusal(&refusal))?;
    // Before the offering, because a provider that is loaded in between must be in one of the two.
    let providers = shared.server.providers();
    let offering = shared.server.offering();
    let host = Arc::clone(&offering.tools.host);
    let surface = caller.surface_id(&offering);
    let session = offering.approvals.session.clone();
    let loaded: HashSet<String> = caller.loads.names();
    // The first search builds the index, which takes long enough to delay other requests of this thread.
    let searched = Arc::clone(&offering);
    let found = STORE
        .run(move || searched.offers.search(&query, limit, &loaded))
        .await;
    let busy = |_| {
        Problem::new(
            ErrorCode::TooManySearches,
            "the tools cannot be searched now; search again later",
        )
        .after(1)
    };
    let mut found = found
        .map_err(busy)?
        .map_err(|refusal| Problem::from_refusal(&refusal))?;
    providers.tell(&mut found, &offering.offers);
    host.announce_discovered(&surface, &found, session).await;
    Ok(found)
}

fn document(offering: &ServerTools, offer: &ExposedTool) -> ToolDocument {
    let mut document = offer.listed(|listed| tool(&listed));
    if !offering.tools.host.keeping().inline {
        document.output_schema = None;
    }
    document
}

impl ApiCaller {
    /// Notes that the caller gets the definition of a tool. From then on, it can call a deferred one. That loads no code:
    /// the first call does.
    pub(super) async fn load(&self, offering: &ServerTools, offer: &ExposedTool, method: &Method) {
        // The answer to a HEAD request has no definition.
        if *method == Method::GET
            && matches!(
                offer.standing.state,
                LoadingState::Deferred | LoadingState::Discoverable
            )
            && self
                .loads
                .add(&offer.qualified_name, |name| offering.offers.has(name))
        {
            let surface = self.surface_id(offering);
            let selected = format!("{SELECT}{}", offer.name);
            let tool_id = &offer.tool.declaration().tool_id;
            let session = offering.approvals.session.clone();
            offering
                .tools
                .host
                .announce_loaded(&surface, tool_id, &selected, session)
                .await;
        }
    }
}
