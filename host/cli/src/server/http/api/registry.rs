//! `/v1/dialects/agentool/registry`: the tools of the server as agentool describes them (AO-RG-03).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use serde::Deserialize;
use toolcell_core::record::LoadingState;

use crate::dialect::Listed;
use crate::dialect::agentool::{Auth, Entry, Offer, Query, query, registry};

use super::Shared;
use super::answer::{Asked, Who, json};

const REGISTRY_ID: &str = "toolcell";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    q: Option<String>,
    tag: Option<String>,
    category: Option<String>,
}

/// Lists the tools that the caller can call as a registry of agentool, or those of all tools that match.
#[utoipa::path(
    get, path = "/v1/dialects/agentool/registry", tag = "agentool",
    params(
        ("q" = Option<String>, Query, description = "Words, each of which is in the name, the description, the provider or a tag"),
        ("tag" = Option<String>, Query, description = "A tag, in upper or lower case"),
        ("category" = Option<String>, Query, description = "A category, such as `io`"),
    ),
    responses((status = 200, description = "The registry")),
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Who(caller): Who,
    Asked(Wanted { q, tag, category }): Asked<Wanted>,
) -> Response<Body> {
    let offering = shared.server.offering();
    let inline = offering.host.keeping().inline;
    let auth = if shared.needs_token { Auth::Bearer } else { Auth::None };
    let offered = || offering.offers.offered().filter(|offer| offer.standing.state != LoadingState::Unavailable);
    let entry = |listed: Listed<'_>| {
        let output_schema = listed.output_schema.filter(|_| inline);
        // `/v1/calls` takes the calls of the API, not those of agentool.
        Entry::of(&Offer { listed: Listed { output_schema, ..listed }, endpoint: None, auth })
    };
    let entries = offered().map(|offer| offer.listed(entry)).collect();
    let mut all = registry(REGISTRY_ID, &caller.surface_id(&offering), offering.since, entries);
    let wanted = Query { words: q.as_deref(), tag: tag.as_deref(), category: category.as_deref() };
    if q.is_none() && tag.is_none() && category.is_none() {
        let mut listed = offered().map(|offer| caller.is_listed(offer));
        all.tools.retain(|_| listed.next().unwrap_or(false));
    } else {
        let found = query(&all, &wanted).into_iter().cloned().collect();
        all.tools = found;
    }
    json(StatusCode::OK, &all)
}
