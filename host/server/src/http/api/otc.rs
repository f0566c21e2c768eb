//! `/v1/dialects/{otc|otc-seed|arcade}`: Open Tool Calling (requirements 2.3, O-19). Its calls are `/v1/calls` in other
//! terms.

use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use tokio_util::sync::CancellationToken;
use toolcell::CallSpec;
use toolcell_dialect::otc::{OtcMode, OtcRequest, OtcToolName};
use toolcell_policy::secret::Secrets;
use toolcell_spec::{
    ErrorCode, Extra, Input, LoadingState, SurfaceReason, TraceContext, TypedFields,
};

use crate::ServerTools;
use crate::exposed_tools::ExposedTool;
use crate::http::problem::Problem;
use crate::otc::{ENGINE, OtcAnswer, OtcTool, ParsedCall, SecretAccess};
use crate::trace::of_headers;

use super::answer::{CallerRequest, JSON, PathParams, is_media_type, json, text};
use super::calls::lost;
use super::start::{ApiCall, DialectCall, mapping};
use super::workspaces::WORKSPACE;
use super::{ApiCaller, ApiState};

const SOURCE: &str = "open-tool-calling";

/// `name` is fully qualified.
pub(super) fn find<'a>(
    offering: &'a ServerTools,
    name: &str,
) -> Result<(&'a OtcTool, &'a Arc<ExposedTool>), Problem> {
    let found = offering.otc().find(name);
    let found = found.and_then(|tool| Some((tool, exposed(offering, &tool.named)?)));
    found.ok_or_else(|| {
        let message =
            "there is no tool of that name here; the list of tools of this dialect has the names";
        Problem::new(ErrorCode::UnknownTool, message)
    })
}

fn exposed<'a>(offering: &'a ServerTools, named: &OtcToolName) -> Option<&'a Arc<ExposedTool>> {
    let name = named.qualified_name();
    let found = offering.offers.find(&name).ok();
    found.filter(|offer| offer.qualified_name == name)
}

/// Tools that `caller` can call, if only with a secret that its request brings (OTC-D-15).
pub(super) fn definitions(
    offering: &ServerTools,
    caller: &ApiCaller,
    mode: OtcMode,
) -> Response<Body> {
    let listed = offering.otc().all.iter().filter(|tool| {
        exposed(offering, &tool.named).is_some_and(|offer| caller.is_defined(offer))
    });
    let definitions: Vec<_> = listed.filter_map(|tool| tool.definition(mode)).collect();
    json(StatusCode::OK, &definitions)
}

/// Lists the definitions of the tools that the caller can call.
#[utoipa::path(
    get, path = "/v1/dialects/{dialect}/tools", tag = "open tool calling",
    params(("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`")),
    responses((status = 200, description = "The definitions", body = ref("#/components/schemas/otc-definitions")), (status = 404, description = "There is no such dialect")),
)]
pub(super) async fn list(
    CallerRequest(_, caller, offering): CallerRequest,
    PathParams(dialect): PathParams<OtcMode>,
) -> Response<Body> {
    definitions(&offering, &caller, dialect)
}

/// Shows the definition of a tool. That loads a deferred tool: from then on, the caller can call it.
#[utoipa::path(
    get, path = "/v1/dialects/{dialect}/tools/{name}", tag = "open tool calling",
    params(
        ("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`"),
        ("name" = String, Path, description = "`Toolkit.Tool@version`, or `Toolkit.Tool`"),
    ),
    responses((status = 200, description = "The definition", body = ref("#/components/schemas/otc-definition")), (status = 404, description = "There is no such dialect or tool")),
)]
pub(super) async fn show(
    CallerRequest(shared, caller, offering): CallerRequest,
    PathParams((dialect, name)): PathParams<(OtcMode, String)>,
    method: Method,
) -> Result<Response<Body>, Problem> {
    let (tool, offer) = find(&offering, &name)?;
    caller.load(&shared, &offering, offer, &method).await?;
    Ok(json(StatusCode::OK, &tool.definition(dialect)))
}

/// Acknowledges a tool that the server has. No client can install another one.
#[utoipa::path(
    post, path = "/v1/dialects/{dialect}/tools", tag = "open tool calling",
    request_body = ref("#/components/schemas/otc-definition"),
    params(("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`")),
    responses(
        (status = 201, description = "The server has the tool, whose definition is at Location", body = ref("#/components/schemas/otc-registration")),
        (status = 403, description = "It does not, and no client may install one"),
        (status = 404, description = "There is no such dialect"),
        (status = 422, description = "The body is not the definition of a tool"),
    ),
)]
pub(super) async fn register(
    CallerRequest(_, _, offering): CallerRequest,
    PathParams(dialect): PathParams<OtcMode>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    is_media_type(&headers, &["application/json"])?;
    let registered = offering.otc().register(text(&body)?, dialect)?;
    let id = registered.text("id").unwrap_or_default();
    let place = HeaderValue::from_str(&format!("/v1/dialects/{}/tools/{id}", dialect.into_str()));
    let place: HeaderMap = place.into_iter().map(|place| (LOCATION, place)).collect();
    Ok((place, json(StatusCode::CREATED, &registered)).into_response())
}

/// Calls a tool, once for each `execution_id` of a run: the same request again gets the same answer.
#[utoipa::path(
    post, path = "/v1/dialects/{dialect}/execute", tag = "open tool calling",
    request_body = ref("#/components/schemas/otc-execution"),
    params(
        ("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`"),
        ("Toolcell-Workspace" = Option<String>, Header, description = "The name of the caller's workspace for the call, if the server gives any; `default` without it"),
        ("traceparent" = Option<String>, Header, description = "The trace of the client (W3C Trace Context), which the record of the call names; with `tracestate`"),
    ),
    responses(
        (status = 200, description = "How the call ended, also if it failed", body = ref("#/components/schemas/otc-response")),
        (status = 404, description = "There is no such dialect"),
        (status = 409, description = "The execution id is that of another request, or its answer is not kept"),
    ),
)]
pub(super) async fn execute(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams(dialect): PathParams<OtcMode>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    invoke(
        &shared,
        &caller,
        dialect,
        "POST /v1/dialects/{dialect}/execute",
        &headers,
        body,
    )
    .await
}

pub(super) async fn invoke(
    shared: &Arc<ApiState>,
    caller: &Arc<ApiCaller>,
    mode: OtcMode,
    route: &'static str,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    is_media_type(headers, &["application/json"])?;
    let offering = caller.offering(&shared.server);
    let request = OtcRequest::read(text(&body)?, mode)
        .map_err(|refusal| Problem::from(refusal).with_status(400))?;
    let lease = caller.reserve(&request.inputs).await?;
    // Only now: what waits for its place has that of its body.
    drop(body);
    // An engine does not tell its users apart.
    let workspace = if **caller.name() == *ENGINE {
        Ok(None)
    } else {
        shared.workspace(caller, headers).await
    };
    let named = headers
        .get(WORKSPACE)
        .map_or_else(Vec::new, |name| name.as_bytes().to_vec());
    let trace = of_headers(headers);
    // A client with an execution id comes back for the answer. Without one, nothing finds the call again.
    let gone = CancellationToken::new();
    let _waits = request
        .execution_id
        .is_none()
        .then(|| gone.clone().drop_guard());
    let shared = Arc::clone(shared);
    let caller = Arc::clone(caller);
    let execution = tokio::spawn(async move {
        let call = async |parsed: ParsedCall| {
            let wish = ApiCall {
                workspace,
                ..wish(parsed, route, trace)
            };
            let server = (&shared.server, &offering);
            let mut record = *caller.finish(server, wish, lease, &gone).await?;
            offering.fit(&mut record.result);
            Some(record)
        };
        shared
            .otc
            .execute(offering.otc(), caller.name(), request, (mode, &named), call)
            .await
    });
    let OtcAnswer { status, body } = execution.await.map_err(|_| lost())?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok((status, [(CONTENT_TYPE, JSON)], body.to_string()).into_response())
}

fn wish(parsed: ParsedCall, route: &'static str, trace: Option<TraceContext>) -> ApiCall {
    let ParsedCall {
        request,
        tool,
        secrets,
        ignored_secrets,
    } = parsed;
    let mut fields = Extra::new();
    if ignored_secrets > 0 {
        // Not their names: a client that mixes them up with the values would find a value in the record.
        fields.insert("ignored_secrets".to_owned(), ignored_secrets.into());
    }
    for (name, said) in [("run_id", request.run_id), ("user_id", request.user_id)] {
        fields.extend(said.map(|said| (name.to_owned(), said.into())));
    }
    fields.extend(request.user_info.map(|info| ("user_info".to_owned(), info)));
    // An id is unique in its run.
    let key = request.execution_id.as_ref().map(|id| {
        let run = fields.get("run_id").cloned().unwrap_or_default();
        serde_json::json!([run, id]).to_string()
    });
    let name = match &tool {
        Ok(named) => named.qualified_name(),
        Err(_) => format!("{}.{}", request.tool.toolkit, request.tool.name),
    };
    let mut spec = CallSpec {
        native_call_id: request.execution_id,
        idempotency_key: key,
        trace,
        ..CallSpec::new(name, Input::from_text(request.inputs))
    };
    spec.mapping = Some(mapping(SOURCE, route, &spec, fields));
    let secrets = Secrets::new(secrets);
    ApiCall {
        spec,
        foreign: Some(DialectCall { tool, secrets }),
        workspace: Ok(None),
    }
}

/// Shows the state of an authorization that an execution waits for.
#[utoipa::path(
    get, path = "/v1/dialects/{dialect}/authorizations/{id}", tag = "open tool calling",
    params(
        ("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`"),
        ("id" = String, Path, description = "The id in the answer to the execution"),
    ),
    responses(
        (status = 200, description = "The authorization; `completed` once the operator has set the secret", body = ref("#/components/schemas/otc-authorization")),
        (status = 404, description = "There is no such dialect, or no such authorization of the caller"),
    ),
)]
pub(super) async fn authorization(
    CallerRequest(shared, caller, offering): CallerRequest,
    PathParams((dialect, id)): PathParams<(OtcMode, String)>,
) -> Result<Response<Body>, Problem> {
    let access = access(&offering).await;
    let found = shared
        .otc
        .authorization(caller.name(), &id, dialect, access)?;
    Ok(json(StatusCode::OK, &found))
}

/// The page of an authorization, for the person who can give the access; `None` if there is none of that id.
pub(super) async fn page(shared: &ApiState, id: &str) -> Option<String> {
    // A look into the store of secrets is for known ids alone: no token is needed here.
    if !shared.otc.has_authorization(id) {
        return None;
    }
    let offering = shared.server.offering();
    let access = access(&offering).await;
    shared.otc.authorization_page(id, access)
}

async fn access(offering: &ServerTools) -> impl Fn(&OtcToolName, &str) -> SecretAccess {
    let grants = &offering.tools.grants;
    let missing = offering.tools.host.missing_secrets(grants).await;
    move |named, secret| {
        let is_granted = grants.secrets.iter().any(|grant| grant.name == secret);
        let standing = exposed(offering, named).map(|offer| offer.standing);
        let is_open = standing.is_some_and(|standing| {
            standing.state != LoadingState::Unavailable
                || standing.reason == Some(SurfaceReason::CredentialMissing)
        });
        match (is_granted && is_open, missing.contains(secret)) {
            (false, _) => SecretAccess::Refused,
            (true, true) => SecretAccess::Awaited,
            (true, false) => SecretAccess::Given,
        }
    }
}
