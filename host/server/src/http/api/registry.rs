//! `/v1/dialects/agentool`: the tools of the server as agentool describes them, each with its endpoint (AO-RG-02,
//! AO-RG-03).

use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolcell::CallSpec;
use toolcell_dialect::agentool::{
    self, Auth, RegistryEntry, RegistryQuery, ToolRegistry, ToolSpec, is_named, query,
};
use toolcell_spec::{ErrorCode, Extra, Input, LoadingState, POSTED_CALL, Timestamp};

use crate::ServerTools;
use crate::discovery::unavailable;
use crate::exposed_tools::ExposedTool;
use crate::http::problem::Problem;
use crate::trace::of_headers;

use super::answer::{CallerRequest, PathParams, QueryParams, json, located, read, unreadable};
use super::calls::{NATIVE_ID_BYTES_MAX, lost};
use super::start::ApiCall;
use super::{ApiCaller, ApiState};

const REGISTRY_ID: &str = "toolcell";
/// Unknown fields of a call; of more, the record has the number alone.
const REST_BYTES_MAX: usize = 4 << 10;
const TOOLS: &str = "/v1/dialects/agentool/tools/";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistryParams {
    q: Option<String>,
    tag: Option<String>,
    category: Option<String>,
}

/// A `tool_call`, or an object that has one; the rest of it changes nothing.
#[derive(Deserialize)]
struct ToolCall {
    id: Option<String>,
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
    /// Only checked here: the record has it as it was sent.
    #[serde(rename = "timestamp")]
    _timestamp: Option<Timestamp>,
    tool_call: Option<Box<Self>>,
}

/// Kept of a `tool_call` in the record of the call: all but what the call itself has (AO-TC-04, AO-P-03).
fn rest(body: &[u8]) -> Extra {
    // It was read already, with its arguments as they were written, which serde cannot do beside unknown fields.
    let mut sent: Extra = serde_json::from_slice(body).unwrap_or_default();
    if let Some(Value::Object(inner)) = sent.remove("tool_call") {
        sent = inner;
    }
    for known in ["id", "name", "arguments"] {
        sent.remove(known);
    }
    let time = sent.remove("timestamp");
    if Value::Object(sent.clone()).to_string().len() > REST_BYTES_MAX {
        let count = sent.len();
        sent = Extra::from_iter([("fields_left_out".to_owned(), count.into())]);
    }
    sent.extend(time.map(|time| ("timestamp".to_owned(), time)));
    sent
}

fn whole<'o>(
    shared: &ApiState,
    caller: &ApiCaller,
    offering: &'o ServerTools,
) -> (Vec<&'o Arc<ExposedTool>>, ToolRegistry) {
    let auth = if shared.needs_token {
        Auth::Bearer
    } else {
        Auth::None
    };
    let can_be_called =
        |offer: &&Arc<ExposedTool>| offer.standing.state != LoadingState::Unavailable;
    let offers: Vec<&Arc<ExposedTool>> = offering.offers.offered().filter(can_be_called).collect();
    let entry = |offer: &&Arc<ExposedTool>| {
        let endpoint = format!("{}{TOOLS}{}", shared.base, offer.name);
        offering.describe(offer, |listed| {
            RegistryEntry::from_offer(&agentool::RegistryOffer {
                listed: *listed,
                endpoint: Some(endpoint.as_str()),
                auth,
            })
        })
    };
    let entries = offers.iter().map(entry).collect();
    let all = agentool::registry(
        REGISTRY_ID,
        &offering.surface_id(&caller.identity.loads),
        offering.since,
        entries,
    );
    (offers, all)
}

/// Lists the tools that the caller can call, or all matching tools, as a registry of agentool.
#[utoipa::path(
    get, path = "/v1/dialects/agentool/registry", tag = "agentool",
    params(
        ("q" = Option<String>, Query, description = "Words, each of which is in the name, the description, the provider or a tag"),
        ("tag" = Option<String>, Query, description = "A tag, in upper or lower case"),
        ("category" = Option<String>, Query, description = "A category, such as `io`"),
    ),
    responses((status = 200, description = "The registry", body = ref("#/components/schemas/agentool-tool-registry"))),
)]
pub(super) async fn show(
    CallerRequest(shared, caller, offering): CallerRequest,
    QueryParams(RegistryParams { q, tag, category }): QueryParams<RegistryParams>,
) -> Response<Body> {
    let (offers, mut all) = whole(&shared, &caller, &offering);
    let wanted = RegistryQuery {
        words: q.as_deref(),
        tag: tag.as_deref(),
        category: category.as_deref(),
    };
    if q.is_none() && tag.is_none() && category.is_none() {
        let mut listed = offers.iter().map(|offer| caller.is_listed(offer));
        all.tools.retain(|_| listed.next().unwrap_or(false));
    } else {
        let found = query(&all, &wanted).into_iter().cloned().collect();
        all.tools = found;
    }
    json(StatusCode::OK, &all)
}

/// Shows the entry of one tool. That loads a deferred tool: from then on, the caller can call it.
#[utoipa::path(
    get, path = "/v1/dialects/agentool/tools/{name}", tag = "agentool",
    params(("name" = String, Path, description = "The name of the tool")),
    responses((status = 200, description = "The registry with this tool alone", body = ref("#/components/schemas/agentool-tool-registry")), (status = 404, description = "There is no such tool")),
)]
pub(super) async fn entry(
    CallerRequest(shared, caller, offering): CallerRequest,
    PathParams(name): PathParams<String>,
    method: Method,
) -> Result<Response<Body>, Problem> {
    let offer = offering.offers.find(&name)?;
    let found = alone(&shared, &caller, &offering, offer, &method).await?;
    Ok(json(StatusCode::OK, &found))
}

/// The caller can then call the tool. Fails if no caller can.
async fn alone(
    shared: &ApiState,
    caller: &ApiCaller,
    offering: &Arc<ServerTools>,
    offer: &Arc<ExposedTool>,
    method: &Method,
) -> Result<ToolRegistry, Problem> {
    if offer.standing.state == LoadingState::Unavailable {
        return Err(unavailable(offer).into());
    }
    caller.load(shared, offering, offer, method).await?;
    let (offers, mut all) = whole(shared, caller, offering);
    let mut is_meant = offers.iter().map(|other| Arc::ptr_eq(other, offer));
    all.tools.retain(|_| is_meant.next().unwrap_or(false));
    Ok(all)
}

/// Imports a ToolSpec that toolcell exported: finds its tool, of that very component, which the caller can call from then on.
/// A specification brings no code, so nothing is installed. Its unknown fields are in the answer.
#[utoipa::path(
    post, path = "/v1/dialects/agentool/registry", tag = "agentool",
    request_body = ref("#/components/schemas/agentool-tool-spec"),
    responses(
        (status = 200, description = "The registry with the tool of the specification alone", body = ref("#/components/schemas/agentool-tool-registry")),
        (status = 404, description = "There is no such tool"),
        (status = 409, description = "The tool is that of another component"),
    ),
)]
pub(super) async fn import(
    CallerRequest(shared, caller, offering): CallerRequest,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    let spec: ToolSpec = read(&headers, &body)?;
    drop(body);
    let foreign = || {
        let why = "cannot import the specification: it has no tool_id and component, which `toolcell export` writes";
        Problem::new(ErrorCode::BodyInvalid, why)
    };
    let (tool_id, component) = spec.origin().ok_or_else(foreign)?;
    let found = offering
        .offers
        .offered()
        .find(|offer| offer.tool.declaration().tool_id == tool_id);
    let unknown = || {
        let why = format!(
            "there is no tool {tool_id:?} here; only the operator adds components to this server"
        );
        Problem::new(ErrorCode::UnknownTool, why)
    };
    let offer = found.ok_or_else(unknown)?;
    let known = offer.listed(|listed| listed.component.to_owned());
    if known != component {
        let why = format!(
            "the tool {tool_id:?} is that of {known} here, and the specification is of {component:?}"
        );
        return Err(Problem::new(ErrorCode::VersionMismatch, why).with_status(409));
    }
    // The answer has its definition, as that to a GET request.
    let mut found = alone(&shared, &caller, &offering, offer, &Method::GET).await?;
    if let Some(entry) = found.tools.first_mut() {
        entry.spec.keep_unknown(spec);
    }
    Ok(json(StatusCode::OK, &found))
}

/// Calls a tool: the endpoint of its entry.
#[utoipa::path(
    post, path = "/v1/dialects/agentool/tools/{name}", tag = "agentool",
    request_body = ref("#/components/schemas/agentool-tool-call"),
    params(
        ("name" = String, Path, description = "The name of the tool"),
        ("Toolcell-Workspace" = Option<String>, Header, description = "The name of the caller's workspace for the call, if the server gives any; `default` without it"),
        ("Idempotency-Key" = Option<String>, Header, description = "A name for this request, of at most 256 bytes: the same request again gets the same answer, and makes no second call"),
        ("traceparent" = Option<String>, Header, description = "The trace of the client (W3C Trace Context), which the record of the call names; with `tracestate`"),
    ),
    responses(
        (status = 200, description = "How the call ended, also if it failed; Location says where its state is", body = ref("#/components/schemas/agentool-tool-result")),
        (status = 404, description = "There is no such tool"),
        (status = 410, description = "The call ran under this key, and its answer is not kept"),
        (status = 422, description = "The key belongs to another request"),
    ),
)]
pub(super) async fn call(
    CallerRequest(shared, caller, offering): CallerRequest,
    PathParams(name): PathParams<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    let sent: ToolCall = read(&headers, &body)?;
    let rest = rest(&body);
    let sent = match sent {
        ToolCall {
            tool_call: Some(inner),
            ..
        } => *inner,
        plain => plain,
    };
    let (id, called, arguments) = match sent {
        ToolCall {
            id,
            name: Some(name),
            arguments: Some(arguments),
            ..
        } => (id, name, arguments),
        _ => return Err(unreadable("name or arguments is missing")),
    };
    if id
        .as_ref()
        .is_some_and(|id| id.is_empty() || id.len() > NATIVE_ID_BYTES_MAX)
    {
        return Err(unreadable(format!(
            "id has 1 to {NATIVE_ID_BYTES_MAX} bytes"
        )));
    }
    let offer = offering.offers.find(&name)?;
    if !is_named(&called, &offer.name) {
        let why = "its name is not that of the tool of this endpoint";
        return Err(unreadable(format!("{why}, {}", offer.name)));
    }
    let route = "POST /v1/dialects/agentool/tools/{name}";
    let trace = of_headers(&headers);
    let input = Input::from_text(arguments.get());
    let spec = CallSpec {
        native_call_id: id,
        trace,
        ..CallSpec::new(name, input)
    };
    let mut wish = ApiCall::from_route(route, spec);
    wish.workspace = shared.workspace(&caller, &headers).await;
    if let Some(mapping) = wish.spec.mapping.as_mut().filter(|_| !rest.is_empty()) {
        mapping.fields.insert(POSTED_CALL.to_owned(), rest.into());
    }
    let lease = caller.reserve(wish.spec.input.text()).await?;
    // Only now: what waits for its place has that of its body.
    drop(body);
    // Nothing finds the call again, so it ends with its request.
    let gone = CancellationToken::new();
    let _waits = gone.clone().drop_guard();
    let server = Arc::clone(&shared.server);
    let tools = Arc::clone(&offering);
    let run =
        tokio::spawn(async move { caller.finish((&server, &tools), wish, lease, &gone).await });
    let mut record = *run.await.ok().flatten().ok_or_else(lost)?;
    offering.fit(&mut record.result);
    let result = agentool::result(&record.invocation, &record.result);
    let place = located(record.invocation.invocation_id);
    Ok((place, json(StatusCode::OK, &result)).into_response())
}
