//! `/v1/dialects/{otc|otc-seed|arcade}`: Open Tool Calling (requirements 2.3, O-19). Its calls are `/v1/calls` in other
//! terms: with the same decision, limits and record.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Response, StatusCode};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use toolcell::CallSpec;
use toolcell_dialect::ListedTool;
use toolcell_dialect::otc::{OtcMode, OtcToolName, RequestReading};
use toolcell_policy::secret::Secrets;
use toolcell_spec::{Extra, Input, TraceContext};

use crate::ServerTools;
use crate::exposed_tools::ExposedTool;
use crate::http::problem::Problem;
use crate::otc::{OtcAnswer, OtcService, OtcSettings, OtcTool, ParsedCall};
use crate::trace::of_headers;

use super::answer::{JSON, PROBLEM, PathParams, RequestCaller, is_media_type, text};
use super::calls::lost;
use super::start::{ApiCall, DialectCall, mapping};
use super::{ApiCaller, ApiState};

/// `source` of the mapping in the record of a call.
const SOURCE: &str = "open-tool-calling";

/// A format in a path.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OtcFormat {
    Otc,
    OtcSeed,
    Arcade,
}

impl From<OtcFormat> for OtcMode {
    fn from(dialect: OtcFormat) -> Self {
        match dialect {
            OtcFormat::Otc => Self::Otc,
            OtcFormat::OtcSeed => Self::OtcSeed,
            OtcFormat::Arcade => Self::Arcade,
        }
    }
}

/// The tools of the server in the terms of Open Tool Calling, and what is remembered of their calls.
pub(super) struct Otc {
    service: Arc<OtcService>,
    /// The offering whose tools the service has.
    offered: Mutex<Weak<ServerTools>>,
}

impl Otc {
    /// `base` is what the URLs of the server begin with.
    pub(super) fn new(base: &str) -> Self {
        let settings = OtcSettings {
            reading: RequestReading::Lenient,
            authorizations: format!("{base}/v1/dialects/otc/authorizations/"),
            calls: format!("{base}/v1/calls/"),
        };
        Self {
            service: Arc::new(OtcService::new(settings)),
            offered: Mutex::default(),
        }
    }

    /// The service, with the tools of `offering`.
    fn with(&self, offering: &Arc<ServerTools>) -> &Arc<OtcService> {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(offered.as_ptr(), Arc::as_ptr(offering)) {
            let inline = offering.tools.host.keeping().inline;
            let tools = offering.offers.describe(|listed, _| {
                // Output that is kept by reference is never in a response.
                let output_schema = listed.output_schema.filter(|_| inline);
                OtcTool::new(&ListedTool {
                    output_schema,
                    ..listed
                })
            });
            self.service.offer(tools);
            *offered = Arc::downgrade(offering);
        }
        &self.service
    }

    /// The tool of `offering` with the fully qualified name `name`. Fails with the answer to a request for an unknown one.
    pub(super) fn find<'a>(
        &self,
        offering: &'a Arc<ServerTools>,
        name: &str,
    ) -> Result<(OtcToolName, &'a Arc<ExposedTool>), OtcAnswer> {
        let named = self
            .with(offering)
            .find(name)
            .ok_or_else(OtcAnswer::unknown_tool)?;
        let offer = find(offering, &named).ok_or_else(OtcAnswer::unknown_tool)?;
        Ok((named, offer))
    }

    /// The definitions of the tools that `caller` can call, if only with a secret that its request brings.
    pub(super) fn list(
        &self,
        offering: &Arc<ServerTools>,
        caller: &ApiCaller,
        mode: OtcMode,
    ) -> Response<Body> {
        let is_listed = |named: &OtcToolName| {
            find(offering, named).is_some_and(|offer| caller.is_defined(offer))
        };
        answered(&self.with(offering).list(mode, is_listed))
    }
}

/// The tool that the service knows by this name.
fn find<'a>(offering: &'a ServerTools, named: &OtcToolName) -> Option<&'a Arc<ExposedTool>> {
    let name = named.qualified_name();
    offering
        .offers
        .find(&name)
        .ok()
        .filter(|offer| offer.qualified_name == name)
}

/// An answer of the service.
pub(in crate::http) fn answered(answer: &OtcAnswer) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::copy_from_slice(answer.body.as_bytes())));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, if answer.is_problem { PROBLEM } else { JSON });
    response
}

/// Lists the definitions of the tools that the caller can call.
#[utoipa::path(
    get, path = "/v1/dialects/{dialect}/tools", tag = "open tool calling",
    params(("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`")),
    responses((status = 200, description = "The definitions"), (status = 404, description = "There is no such dialect")),
)]
pub(super) async fn list(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(dialect): PathParams<OtcFormat>,
) -> Response<Body> {
    shared
        .otc
        .list(&shared.server.offering(), &caller, dialect.into())
}

/// Shows the definition of a tool. That loads a deferred tool: from then on, the caller can call it.
#[utoipa::path(
    get, path = "/v1/dialects/{dialect}/tools/{name}", tag = "open tool calling",
    params(
        ("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`"),
        ("name" = String, Path, description = "`Toolkit.Tool@version`, or `Toolkit.Tool`"),
    ),
    responses((status = 200, description = "The definition"), (status = 404, description = "There is no such dialect or tool")),
)]
pub(super) async fn show(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
    PathParams((dialect, name)): PathParams<(OtcFormat, String)>,
    method: Method,
) -> Response<Body> {
    let offering = shared.server.offering();
    if let Ok((_, offer)) = shared.otc.find(&offering, &name) {
        caller.load(&offering, offer, &method).await;
    }
    answered(&shared.otc.with(&offering).definition(&name, dialect.into()))
}

/// Acknowledges a tool that the server has. No client can install another one.
#[utoipa::path(
    post, path = "/v1/dialects/{dialect}/tools", tag = "open tool calling",
    params(("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`")),
    responses(
        (status = 200, description = "The server has the tool"),
        (status = 403, description = "It does not, and no client may install one"),
        (status = 404, description = "There is no such dialect"),
        (status = 422, description = "The body is not the definition of a tool"),
    ),
)]
pub(super) async fn register(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(_): RequestCaller,
    PathParams(dialect): PathParams<OtcFormat>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    is_media_type(&headers, &["application/json"])?;
    let offering = shared.server.offering();
    Ok(answered(
        &shared
            .otc
            .with(&offering)
            .register(text(&body)?, dialect.into()),
    ))
}

/// Calls a tool, once for each `execution_id` of a run: the same request again gets the same answer.
#[utoipa::path(
    post, path = "/v1/dialects/{dialect}/execute", tag = "open tool calling",
    params(
        ("dialect" = String, Path, description = "`otc`, `otc-seed` or `arcade`"),
        ("traceparent" = Option<String>, Header, description = "The trace of the client (W3C Trace Context), which the record of the call names; with `tracestate`"),
    ),
    responses(
        (status = 200, description = "How the call ended, also if it failed"),
        (status = 404, description = "There is no such dialect"),
        (status = 409, description = "The execution id is that of another request, or its answer is not kept"),
    ),
)]
pub(super) async fn execute(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(dialect): PathParams<OtcFormat>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    invoke(
        &shared,
        &caller,
        dialect.into(),
        "POST /v1/dialects/{dialect}/execute",
        &headers,
        body,
    )
    .await
}

/// Makes the call that a request asks for.
pub(super) async fn invoke(
    shared: &Arc<ApiState>,
    caller: &Arc<ApiCaller>,
    mode: OtcMode,
    route: &'static str,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Problem> {
    is_media_type(headers, &["application/json"])?;
    let offering = shared.server.offering();
    let service = Arc::clone(shared.otc.with(&offering));
    let request = match service.read(text(&body)?, mode) {
        Ok(request) => request,
        Err(answer) => return Ok(answered(&answer)),
    };
    drop(body);
    let lease = caller.reserve(&request.inputs).await?;
    let trace = of_headers(headers);
    // A client with an execution id comes back for the answer. Without one, nothing finds the call again.
    let gone = CancellationToken::new();
    let _waits = request
        .execution_id
        .is_none()
        .then(|| gone.clone().drop_guard());
    let server = Arc::clone(&shared.server);
    let caller = Arc::clone(caller);
    let execution = tokio::spawn(async move {
        let call = async |parsed: ParsedCall| {
            let wish = wish(parsed, route, trace);
            let mut record = *caller
                .finish((&server, &offering), wish, lease, &gone)
                .await?;
            offering
                .offers
                .surface()
                .selection()
                .fit(&mut record.result.model_facing_content);
            Some(record)
        };
        service.execute(&caller.name, request, mode, call).await
    });
    execution
        .await
        .map(|answer| answered(&answer))
        .map_err(|_| lost())
}

/// The call in the terms of the host.
fn wish(parsed: ParsedCall, route: &'static str, trace: Option<TraceContext>) -> ApiCall {
    let ParsedCall {
        requested,
        tool,
        input,
        execution_id,
        run_id,
        user_id,
        user_info,
        secrets,
        ignored_secrets,
        ..
    } = parsed;
    let mut fields = Extra::new();
    if ignored_secrets > 0 {
        // Not their names: a client that mixes them up with the values would find a value in the record.
        fields.insert("ignored_secrets".to_owned(), ignored_secrets.into());
    }
    for (name, said) in [("run_id", run_id), ("user_id", user_id)] {
        if let Some(said) = said {
            fields.insert(name.to_owned(), said.into());
        }
    }
    fields.extend(user_info.map(|info| ("user_info".to_owned(), info)));
    let name = tool.as_ref().map_or(requested, OtcToolName::qualified_name);
    let mut spec = CallSpec {
        native_call_id: execution_id,
        trace,
        ..CallSpec::new(name, Input::from_text(input))
    };
    spec.mapping = Some(mapping(SOURCE, route, &spec, fields));
    ApiCall {
        spec,
        foreign: Some(DialectCall {
            tool,
            secrets: Secrets::new(secrets),
        }),
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
        (status = 200, description = "The authorization; `completed` once the operator has set the secret"),
        (status = 404, description = "There is no such dialect, or no such authorization of the caller"),
    ),
)]
pub(super) async fn authorization(
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
    PathParams((dialect, id)): PathParams<(OtcFormat, String)>,
) -> Response<Body> {
    let offering = shared.server.offering();
    let missing = offering
        .tools
        .host
        .missing_secrets(&offering.tools.grants)
        .await;
    let is_granted = |name: &str| {
        offering
            .tools
            .grants
            .secrets
            .iter()
            .any(|grant| grant.name == name)
    };
    let is_set = |name: &str| is_granted(name) && !missing.contains(name);
    answered(
        &shared
            .otc
            .with(&offering)
            .authorization(&caller.name, &id, dialect.into(), is_set),
    )
}
