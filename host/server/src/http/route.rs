use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use toolcell_spec::ErrorCode;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{
    self, ALLOW, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use rmcp::model::{CancelledNotificationParam, ErrorData, RequestId};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::budget::{ByteBudget, Lease};
use crate::frames::{self, NotPending};
use crate::greeting;
use crate::http::problem::Problem;
use crate::otc::{ENGINE, Worker};
use crate::outline::{ARRAY, Outline, is_array};
use crate::results::ResultRoom;
use crate::sent_arguments::{SentArguments, weight};
use crate::{GoneToken, Server};

use super::api::{Api, DialectSettings};
use super::connections::ClientConnection;
use super::framing::SoundRequests;
use super::principals::{PrincipalService, PrincipalTable, PrincipalTables};
use super::sessions::{ClientSessions, InUse, RequestIdClaim};
use super::{HttpLimits, OriginGate, Tokens, accept, pages};

/// Message to a client whose principal has no place left, and the time until one may be free, in seconds.
const NO_PLACE: &str = "all of your connections are in use; end one, or wait";
const RETRY_AFTER: u64 = 1;
const NO_MEMORY: &str = "requests of others take all of the memory for bodies; try again later";

/// Maximum size of a request body, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 4 << 20;

const SESSION_HEADER: HeaderName = HeaderName::from_static(crate::call::SESSION_HEADER);

/// The beginning of every path of the plain API.
const API: &str = "/v1/";
/// The beginning of every path of an Arcade worker, and the one that needs no token.
const WORKER: &str = "/worker/";
const HEALTH: &str = "/worker/health";

/// The state of one connection that its requests share.
pub(super) struct ConnectionState {
    connection: Arc<ClientConnection>,
    sound: SoundRequests,
    requests: AtomicU64,
    /// The number of requests that have no answer yet.
    open: AtomicU64,
    /// The address of the client.
    peer: String,
}

/// A request that has no answer yet.
pub(super) struct OpenRequest(Arc<ConnectionState>);

impl OpenRequest {
    pub(super) fn client(&self) -> &ConnectionState {
        &self.0
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Authorizes requests, and routes them by path and principal.
pub(super) struct Routes {
    server: Arc<Server>,
    gate: OriginGate,
    /// One principal's sessions do not exist for another.
    table: RwLock<Arc<PrincipalTable>>,
    tables: PrincipalTables,
    api: Api,
    /// The name of an Arcade engine as a principal, and its budget for request bodies.
    engine: (Arc<str>, ByteBudget),
    limits: HttpLimits,
    drain: CancellationToken,
}

/// An extension of a request that keeps its id claimed while it is handled.
#[derive(Clone)]
struct ClaimExtension {
    _claim: Arc<RequestIdClaim>,
}

/// The response to a request that is refused before it reaches MCP.
type RefusalResponse = Box<Response<ResponseBody>>;

/// The body of a response. Dropping it before its end cancels the call, because the client is gone.
pub(super) struct ResponseBody {
    body: BodyContent,
    _waits: Option<DropGuard>,
    /// Keeps the session of the request in use.
    _in_use: Option<InUse>,
    _claim: Option<Arc<RequestIdClaim>>,
    /// Keeps the memory of large results reserved.
    _results: Option<ResultRoom>,
}

enum BodyContent {
    Mcp(BoxBody<Bytes, Infallible>),
    Api(axum::body::Body),
}

/// Why a body could not be read.
enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
    /// Others take all of the memory for bodies.
    NoMemory,
}

impl BodyError {
    /// The response, which is a problem for the API (`is_api`).
    fn answer(&self, is_api: bool) -> Response<ResponseBody> {
        let (status, code, why) = match self {
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                ErrorCode::BodyTooLarge,
                "a request has at most 4 MiB",
            ),
            Self::TooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                ErrorCode::BodyTooSlow,
                "the body took too long",
            ),
            Self::Broken => (
                StatusCode::BAD_REQUEST,
                ErrorCode::BodyBroken,
                "the body came to no end",
            ),
            Self::NoMemory => (
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::TooMuchMemory,
                NO_MEMORY,
            ),
        };
        let is_full = matches!(self, Self::NoMemory);
        let response = match is_api {
            true => problem(
                &Problem::new(code, why)
                    .with_status(status.as_u16())
                    .after(is_full.then_some(RETRY_AFTER)),
            ),
            false if is_full => busy(why),
            false => plain(status, why),
        };
        if is_full || matches!(self, Self::TooLarge) {
            closing(response)
        } else {
            response
        }
    }
}

impl ResponseBody {
    fn from_body(body: BodyContent) -> Self {
        Self {
            body,
            _waits: None,
            _in_use: None,
            _claim: None,
            _results: None,
        }
    }
}

impl ConnectionState {
    pub(super) fn new(
        connection: Arc<ClientConnection>,
        sound: SoundRequests,
        peer: String,
    ) -> Self {
        Self {
            connection,
            sound,
            requests: AtomicU64::new(0),
            open: AtomicU64::new(0),
            peer,
        }
    }

    /// Counts a request as open until the result is dropped.
    pub(super) fn opens(self: Arc<Self>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self)
    }

    /// Returns whether a request is unanswered.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }
}

impl Routes {
    pub(super) fn new(
        server: &Arc<Server>,
        gate: OriginGate,
        (base, worker): (String, Option<Worker>),
        tokens: Tokens,
        limits: &HttpLimits,
        (drain, close): (CancellationToken, CancellationToken),
    ) -> Self {
        let counts = (
            tokens.principals().len(),
            tokens.approvers().len(),
            usize::from(worker.is_some()),
        );
        let tables = PrincipalTables::new(server, limits, counts, close);
        let (of_engine, arguments, results) = tables.budgets();
        let worker = worker.map(|worker| (worker, arguments, results));
        let dialects = DialectSettings {
            base,
            needs_token: tokens.are_required(),
            worker,
        };
        let api = Api::new(server, limits.body_time, dialects);
        let table = RwLock::new(Arc::new(tables.table(tokens, &api, None)));
        let server = Arc::clone(server);
        let limits = limits.clone();
        let engine = (ENGINE.into(), of_engine);
        Self {
            server,
            gate,
            table,
            tables,
            api,
            engine,
            limits,
            drain,
        }
    }

    fn table(&self) -> Arc<PrincipalTable> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the tokens. A request that was authorized goes on.
    pub(super) fn renew(&self, tokens: Tokens) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        *table = Arc::new(self.tables.table(tokens, &self.api, Some(&table)));
    }

    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Response<ResponseBody> {
        let reader = self.gate.reader(request.headers()).cloned();
        let log = self.server.settings.log.as_ref();
        let line = log.map(|log| {
            (
                log,
                format!("{} {}", request.method(), request.uri().path()),
            )
        });
        let mut response = self.answer_anybody(request, client).await;
        if let (Some((log, line)), Some(_)) = (line, response.extensions().get::<AccessRefused>()) {
            log.refused(response.status().as_u16(), &line, &client.peer);
        }
        if let Some(origin) = reader {
            pages::share_with(origin, response.headers_mut());
        }
        if self.drain.is_cancelled() {
            closing(response)
        } else {
            response
        }
    }

    async fn answer_anybody(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Response<ResponseBody> {
        if !client
            .sound
            .is(client.requests.fetch_add(1, Ordering::Relaxed))
        {
            let why = "a request says once, and in one way, how long its body is";
            return closing(refused(
                &request,
                StatusCode::BAD_REQUEST,
                ErrorCode::FramingInvalid,
                why,
            ));
        }
        if let Err((status, why)) = self.gate.check(request.uri(), request.headers()) {
            return refused(&request, status, ErrorCode::HostOrOriginRefused, why);
        }
        if pages::asks(request.method(), request.headers())
            && self.gate.reader(request.headers()).is_some()
        {
            let mut permission = Response::new(ResponseBody::from_body(BodyContent::Mcp(
                Full::<Bytes>::default().boxed(),
            )));
            *permission.status_mut() = StatusCode::NO_CONTENT;
            *permission.headers_mut() = pages::permission(request.headers());
            return permission;
        }
        match request.uri().path() {
            "/healthz" => probe(&request, None),
            "/readyz" => probe(&request, self.unready().await),
            // An accepted request continues; another server takes this one.
            _ if self.drain.is_cancelled() => ending(&request),
            path if path.starts_with(API) => self
                .api(request, client)
                .await
                .unwrap_or_else(|refused| *refused),
            path if path.starts_with(WORKER) && self.api.worker().is_some() => self
                .worker(request, client)
                .await
                .unwrap_or_else(|refused| *refused),
            "/metrics" => self.metrics(&request),
            "/mcp" | "/mcp/" => self
                .mcp(request, client)
                .await
                .unwrap_or_else(|refused| *refused),
            _ => plain(
                StatusCode::NOT_FOUND,
                "there is nothing here; MCP is at /mcp, and the API at /v1",
            ),
        }
    }

    /// Why the server takes no calls.
    async fn unready(&self) -> Option<String> {
        if self.drain.is_cancelled() {
            return Some("ending".to_owned());
        }
        let why = self.server.unready().await?;
        Some(format!(
            "not ready: calls cannot be put on record, and so do not run: {why}"
        ))
    }

    /// The metrics of all callers, only for callers: they name tools that an approver is not asked about.
    fn metrics(&self, request: &Request<Incoming>) -> Response<ResponseBody> {
        let table = self.table();
        let Some(holder) = table.holder(request.headers()) else {
            return without_token();
        };
        if holder.service.is_none() && guard!("metrics_role") {
            return noted(plain(
                StatusCode::FORBIDDEN,
                "metrics are for callers, and this is the token of an approver",
            ));
        }
        match self
            .server
            .offering()
            .telemetry
            .as_ref()
            .and_then(|telemetry| telemetry.prometheus())
        {
            None => plain(
                StatusCode::NOT_FOUND,
                "this server has no metrics; telemetry.metrics = true turns them on",
            ),
            Some(_) if !matches!(*request.method(), Method::GET | Method::HEAD) => get_only(),
            Some(text) => response(
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                text.into(),
            ),
        }
    }

    /// Answers a request of the plain API, whose body has the limits of MCP.
    async fn api(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Response<ResponseBody>, RefusalResponse> {
        let table = self.table();
        let Some(holder) = table.holder(request.headers()) else {
            let why = "send a token of this server: Authorization: Bearer TOKEN";
            return Err(noted(problem(&Problem::new(ErrorCode::Unauthorized, why))).into());
        };
        let request = self
            .admit((&holder.name, &holder.bodies), request, client)
            .await?;
        Ok(self
            .api
            .answer(&holder.role, request)
            .await
            .map(|body| ResponseBody::from_body(BodyContent::Api(body))))
    }

    /// Answers a request of an Arcade engine, which has limits as a principal of tokens has.
    async fn worker(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Response<ResponseBody>, RefusalResponse> {
        let is_health = request.uri().path() == HEALTH;
        let request = if is_health {
            request.map(|_| Full::default())
        } else {
            let mut given = request.headers().get_all(AUTHORIZATION).iter();
            let only = given
                .next()
                .filter(|_| given.next().is_none())
                .and_then(|value| value.to_str().ok());
            if let Some(refused) = self.api.worker().and_then(|worker| worker.refusal(only)) {
                let mut response = super::api::answered(&refused)
                    .map(|body| ResponseBody::from_body(BodyContent::Api(body)));
                response
                    .headers_mut()
                    .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return Err(noted(response).into());
            }
            let (name, bodies) = &self.engine;
            self.admit((name, bodies), request, client).await?
        };
        Ok(self
            .api
            .answer_engine(!is_health, request)
            .await
            .map(|body| ResponseBody::from_body(BodyContent::Api(body))))
    }

    /// Gives the connection to the principal, and reads the whole body within its budget.
    async fn admit(
        &self,
        (principal, budget): (&Arc<str>, &ByteBudget),
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Request<Full<Bytes>>, RefusalResponse> {
        if client.connection.belongs_to(principal).await.is_err() {
            let problem =
                problem(&Problem::new(ErrorCode::TooManyConnections, NO_PLACE).after(RETRY_AFTER));
            return Err(closing(noted(problem)).into());
        }
        let (head, body) = request.into_parts();
        let body = self
            .take(budget, body)
            .await
            .map_err(|unread| Box::new(unread.answer(true)))?;
        // The memory stays reserved until a handler drops the bytes.
        Ok(Request::from_parts(
            head,
            Full::new(Bytes::from_owner(body)),
        ))
    }

    async fn mcp(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Response<ResponseBody>, RefusalResponse> {
        let table = self.table();
        let found = table
            .holder(request.headers())
            .and_then(|holder| Some((&holder.name, holder.service.as_ref()?)));
        let Some((principal, service)) = found else {
            return Err(without_token().into());
        };
        if client.connection.belongs_to(principal).await.is_err() {
            return Err(closing(noted(busy(NO_PLACE))).into());
        }
        let (mut head, body) = request.into_parts();
        accept::name_answers(&head.method, &mut head.headers);
        let body = self.body(service, &head, body).await?;
        let (mut head, body, request_id) = self.read(service, head, body).await?;
        let results = ResultRoom::new(service.results.clone());
        head.extensions.insert(results.clone());
        let gone = CancellationToken::new();
        head.extensions.insert(GoneToken(gone.clone()));
        // Cancels `gone` also if the connection closes before there is a response.
        let waits = gone.drop_guard();
        let mut in_use = named(&head.headers, &service.sessions).await;
        let mut claim = None;
        let has_id = request_id.is_some();
        if let (Some(in_use), Some(id)) = (&in_use, request_id) {
            let taken = || {
                rpc_error(
                    Some(&id),
                    "this id is that of a request that still runs: take another one",
                )
            };
            let claimed = service
                .sessions
                .claim(in_use, id.clone())
                .ok_or_else(taken)?;
            let claimed = claim.insert(Arc::new(claimed));
            head.extensions.insert(ClaimExtension {
                _claim: Arc::clone(claimed),
            });
        }
        if !has_id && let Some(id) = canceled(&head, &body) {
            match &in_use {
                Some(in_use) if service.sessions.cancel(in_use, &id) => {}
                Some(_) => _ = head.extensions.insert(NotPending),
                // Without a session, a client ends the connection of a request instead: rmcp ignores the notification.
                None if !head.headers.contains_key(SESSION_HEADER) => {
                    service
                        .unknown_cancels
                        .tell(&self.server.offering().tools.host, &id.to_string(), None)
                        .await;
                }
                None => {}
            }
        }
        let ends_session = head.method == Method::DELETE;
        let mut response = service
            .mcp
            .handle(Request::from_parts(head, Full::new(body)))
            .await;
        // Official clients warn of any other success.
        if ends_session && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        if in_use.is_none() {
            // The request has just opened this session.
            in_use = named(response.headers(), &service.sessions).await;
        }
        Ok(response.map(|body| ResponseBody {
            body: BodyContent::Mcp(body),
            _waits: Some(waits),
            _in_use: in_use,
            _claim: claim,
            _results: Some(results),
        }))
    }

    /// Reads the body of a request of MCP.
    async fn body(
        &self,
        service: &PrincipalService,
        head: &Parts,
        body: Incoming,
    ) -> Result<LeasedBody, RefusalResponse> {
        match self.take(&service.bodies, body).await {
            Ok(body)
                if opens_session(head, &body.bytes)
                    && service.sessions.count().await >= self.limits.sessions =>
            {
                Err(busy("too many sessions are open; end one, or wait").into())
            }
            Ok(body) => Ok(body),
            Err(unread) => Err(unread.answer(false).into()),
        }
    }

    /// Reads the whole body, after reserving memory for it.
    async fn take(&self, budget: &ByteBudget, body: Incoming) -> Result<LeasedBody, BodyError> {
        let expected = body.size_hint().upper().map_or(BODY_BYTES_MAX, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        });
        if expected > BODY_BYTES_MAX {
            return Err(BodyError::TooLarge);
        }
        // Twice the size: for the pieces and for the whole.
        let lease = tokio::time::timeout(self.limits.body_time, budget.take(expected * 2)).await;
        let lease = lease.map_err(|_| BodyError::NoMemory)?;
        let read = async {
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(LeasedBody {
                bytes: body.to_bytes(),
                _lease: lease,
            })
        };
        match tokio::time::timeout(self.limits.body_time, read).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
            Ok(Err(_)) => Err(BodyError::Broken),
            Err(_) => Err(BodyError::TooSlow),
        }
    }

    /// Returns what rmcp is to parse, with the arguments of a call as an extension of the head, and the id of a
    /// request. Releases the body's memory reservation.
    async fn read(
        &self,
        service: &PrincipalService,
        mut head: Parts,
        body: LeasedBody,
    ) -> Result<(Parts, Bytes, Option<RequestId>), RefusalResponse> {
        let outline = Outline::scan(&body.bytes)
            .map_err(|unread| rpc_error(unread.id.as_ref(), &unread.why))?;
        if is_array(&body.bytes) {
            return Err(rpc_error(None, ARRAY));
        }
        let Some(outline) = outline else {
            return if head.method == Method::POST {
                Err(unreadable(&body.bytes))
            } else {
                Ok((head, body.bytes, None))
            };
        };
        let id = outline.request_id();
        if outline.is("initialize") {
            let completed = greeting::complete(&body.bytes)
                .map_err(|wrong| rpc_refusal(id.as_ref(), &wrong))?;
            return Ok((
                head,
                completed.map_or_else(|| body.bytes.clone(), Bytes::from),
                id,
            ));
        }
        let Some(arguments) = outline.arguments() else {
            return Ok((head, body.bytes, id));
        };
        let lease = tokio::time::timeout(
            self.limits.body_time,
            service.arguments.take(weight(arguments)),
        )
        .await;
        let lease = lease.map_err(|_| {
            busy("the arguments of your calls take too much memory; wait for answers")
        })?;
        let sent = SentArguments::new(arguments, lease);
        // rmcp checks headers that repeat arguments against the body.
        let whole = sent.arguments.value().is_ok() && self.server.offering().offers.mirrors();
        let left = if whole {
            body.bytes.clone()
        } else {
            outline.without_arguments().into()
        };
        head.extensions.insert(sent);
        Ok((head, left, id))
    }
}

/// A body, and the memory that is reserved for it.
struct LeasedBody {
    bytes: Bytes,
    _lease: Option<Lease>,
}

impl AsRef<[u8]> for LeasedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Keeps the session that `headers` name in use; `None` if there is none.
async fn named(headers: &HeaderMap, sessions: &Arc<ClientSessions>) -> Option<InUse> {
    sessions
        .begin(headers.get(SESSION_HEADER)?.to_str().ok()?)
        .await
}

fn opens_session(head: &Parts, body: &[u8]) -> bool {
    let opens = || matches!(Outline::scan(body), Ok(Some(outline)) if outline.is("initialize"));
    head.method == Method::POST && !head.headers.contains_key(SESSION_HEADER) && opens()
}

/// The id of the request that a notification cancels; `None` if `body` is not such a notification.
fn canceled(head: &Parts, body: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Notification {
        params: CancelledNotificationParam,
    }
    let cancels = || matches!(Outline::scan(body), Ok(Some(outline)) if outline.is("notifications/cancelled"));
    let notification = || {
        serde_json::from_slice::<Notification>(body)
            .ok()?
            .params
            .request_id
    };
    (head.method == Method::POST && cancels()).then(notification)?
}

/// The answer to a probe; `why` the server is not well.
fn probe(request: &Request<Incoming>, why: Option<String>) -> Response<ResponseBody> {
    match (request.method(), why) {
        (&Method::GET | &Method::HEAD, None) => plain(StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, Some(why)) => response(
            StatusCode::SERVICE_UNAVAILABLE,
            "text/plain; charset=utf-8",
            why.into(),
        ),
        _ => get_only(),
    }
}

/// The answer to a request that comes after the server was told to stop.
fn ending(request: &Request<Incoming>) -> Response<ResponseBody> {
    let why = "the server ends; send the request again, to the one that follows";
    let path = request.uri().path();
    if path.starts_with(API) || path.starts_with(WORKER) {
        problem(&Problem::new(ErrorCode::ServerEnding, why).after(RETRY_AFTER))
    } else {
        busy(why)
    }
}

/// Marks an answer as that to a client that was refused access.
#[derive(Clone)]
struct AccessRefused;

fn noted(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.extensions_mut().insert(AccessRefused);
    response
}

fn get_only() -> Response<ResponseBody> {
    let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only");
    refused
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    refused
}

fn without_token() -> Response<ResponseBody> {
    let mut refused = plain(
        StatusCode::UNAUTHORIZED,
        "send the token of this server: Authorization: Bearer TOKEN",
    );
    refused
        .headers_mut()
        .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    noted(refused)
}

/// Refuses a request that did not get past the gate.
fn refused(
    request: &Request<Incoming>,
    status: StatusCode,
    code: ErrorCode,
    why: &'static str,
) -> Response<ResponseBody> {
    let path = request.uri().path();
    noted(if path.starts_with(API) || path.starts_with(WORKER) {
        problem(&Problem::new(code, why).with_status(status.as_u16()))
    } else {
        plain(status, why)
    })
}

fn problem(problem: &Problem) -> Response<ResponseBody> {
    problem
        .clone()
        .into_response()
        .map(|body| ResponseBody::from_body(BodyContent::Api(body)))
}

fn plain(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    response(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(text.as_bytes()),
    )
}

fn busy(why: &'static str) -> Response<ResponseBody> {
    let mut busy = plain(StatusCode::SERVICE_UNAVAILABLE, why);
    busy.headers_mut()
        .insert(header::RETRY_AFTER, RETRY_AFTER.into());
    busy
}

/// Makes `response` the last one of its connection.
fn closing(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Returns a JSON-RPC error with code -32600 (invalid request).
fn rpc_error(id: Option<&RequestId>, why: &str) -> RefusalResponse {
    rpc_refusal(id, &ErrorData::invalid_request(why.to_owned(), None))
}

/// The answer to a body that is no JSON object.
fn unreadable(body: &[u8]) -> RefusalResponse {
    rpc_refusal(None, &frames::unreadable(body))
}

fn rpc_refusal(id: Option<&RequestId>, error: &ErrorData) -> RefusalResponse {
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    response(
        StatusCode::BAD_REQUEST,
        "application/json",
        error.to_string().into(),
    )
    .into()
}

fn response(status: StatusCode, media_type: &'static str, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from_body(BodyContent::Mcp(
        Full::new(body).boxed(),
    )));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.body {
            BodyContent::Mcp(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|never| match never {}),
            BodyContent::Api(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            BodyContent::Mcp(body) => body.is_end_stream(),
            BodyContent::Api(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            BodyContent::Mcp(body) => body.size_hint(),
            BodyContent::Api(body) => body.size_hint(),
        }
    }
}
