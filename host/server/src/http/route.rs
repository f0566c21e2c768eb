use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use rmcp::model::{CancelledNotificationParam, RequestId};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::budget::{Budget, Lease};
use crate::frames::NotPending;
use crate::http::problem::Problem;
use crate::loads::Loads;
use crate::otc::Worker;
use crate::outline::{ARRAY, Outline, is_array};
use crate::payloads::ReadablePayloads;
use crate::sent::{Sent, weight};
use crate::session::{Identity, Session};
use crate::vain_cancels::VainCancels;
use crate::{ARGUMENT_BYTES_MAX, Gone, Server};

use super::api::{Api, Dialects, Principal};
use super::connections::Connection;
use super::framing::Sound;
use super::sessions::{Claim, InUse, Sessions};
use super::{Gate, HttpLimits, Tokens};

/// Maximum size of a request body, in bytes.
const BODY_BYTES_MAX: usize = 4 << 20;

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// The beginning of every path of the plain API.
const API: &str = "/v1/";
/// The beginning of every path of an Arcade worker, and the one that needs no token.
const WORKER: &str = "/worker/";
const HEALTH: &str = "/worker/health";

type Mcp = StreamableHttpService<Session, LocalSessionManager>;

/// Maximum memory for request bodies over all connections, in bytes.
const BODIES_BYTES_MAX: usize = 64 << 20;

/// The state of one connection that its requests share.
pub(super) struct Client {
    connection: Arc<Connection>,
    sound: Sound,
    requests: AtomicU64,
}

/// Authorizes requests, and routes them by path and principal.
pub(super) struct Routes {
    server: Arc<Server>,
    gate: Gate,
    tokens: Tokens,
    /// One per principal, in their order, so that the sessions of one principal do not exist for another.
    doors: Vec<Door>,
    api: Api,
    /// The budgets for request bodies of approvers, who follow the callers in the order of principals, and of an Arcade
    /// engine, which is the last one.
    bodies_of_others: Vec<Budget>,
    body_time: Duration,
    sessions_max: usize,
    drain: CancellationToken,
}

/// The MCP service of one principal, with its sessions and budgets.
struct Door {
    mcp: Mcp,
    sessions: Arc<Sessions>,
    /// The budgets for request bodies, and for the arguments in them.
    bodies: Budget,
    arguments: Budget,
    vain_cancels: Arc<VainCancels>,
}

/// An extension of a request that keeps its id claimed while it is handled.
#[derive(Clone)]
struct Claimed {
    _claim: Arc<Claim>,
}

/// The response to a request that is refused before it reaches MCP.
type Refused = Box<Response<Answer>>;

/// The body of a response. Dropping it before its end cancels the call, because the client is gone.
pub(super) struct Answer {
    body: Content,
    _waits: Option<DropGuard>,
    /// Keeps the session of the request in use.
    _in_use: Option<InUse>,
    _claim: Option<Arc<Claim>>,
}

enum Content {
    Mcp(BoxBody<Bytes, Infallible>),
    Api(axum::body::Body),
}

/// Why a body could not be read.
enum Unread {
    TooLarge,
    TooSlow,
    Broken,
}

impl Unread {
    /// The response, which is a problem for the API (`is_api`).
    fn answer(&self, is_api: bool) -> Response<Answer> {
        let (status, code, why) = match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "a request has at most 4 MiB"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "body_too_slow", "the body took too long"),
            Self::Broken => (StatusCode::BAD_REQUEST, "body_broken", "the body came to no end"),
        };
        let response = match is_api {
            true => problem(&Problem::new(status.as_u16(), code, why)),
            false => plain(status, why),
        };
        if matches!(self, Self::TooLarge) { closing(response) } else { response }
    }
}

impl Answer {
    fn of(body: Content) -> Self {
        Self { body, _waits: None, _in_use: None, _claim: None }
    }
}

impl Client {
    pub(super) fn new(connection: Arc<Connection>, sound: Sound) -> Self {
        Self { connection, sound, requests: AtomicU64::new(0) }
    }
}

impl Routes {
    pub(super) fn new(
        server: &Arc<Server>,
        gate: Gate,
        (base, worker): (String, Option<Worker>),
        tokens: Tokens,
        limits: &HttpLimits,
        (drain, close): (CancellationToken, CancellationToken),
    ) -> Self {
        let (principals, approvers) = (tokens.principals(), tokens.approvers());
        let (callers, engines) = (principals.len(), usize::from(worker.is_some()));
        let mut bodies = Budget::each(BODIES_BYTES_MAX, callers + approvers.len() + engines);
        let mut arguments = Budget::each(ARGUMENT_BYTES_MAX, callers + engines);
        let of_engine = arguments.split_off(callers).pop();
        let mut of_api = Vec::with_capacity(callers);
        let door = |((principal, bodies), arguments): ((Arc<str>, Budget), Budget)| {
            let sessions = Sessions::new();
            tokio::spawn(Arc::clone(&sessions).end_idle(limits.session_idle, close.clone()));
            // `Gate` has already checked hosts and origins, for every route.
            let config = StreamableHttpServerConfig::default()
                .disable_allowed_hosts()
                .with_max_request_body_bytes(BODY_BYTES_MAX)
                .with_cancellation_token(close.clone());
            let (server, shelf) = (Arc::clone(server), Arc::<ReadablePayloads>::default());
            let (loads, vain_cancels) = (Arc::<Loads>::default(), Arc::<VainCancels>::default());
            let cancels_of_door = Arc::clone(&vain_cancels);
            let (name, arguments_of_api) = (Arc::clone(&principal), arguments.clone());
            of_api.push(Principal {
                name,
                loads: Arc::clone(&loads),
                arguments: arguments_of_api,
                vain_cancels: Arc::clone(&vain_cancels),
            });
            let session = move || {
                let (actor, owner) = (Some(Arc::clone(&principal)), Arc::clone(&principal));
                let (shelf, loads) = (Arc::clone(&shelf), Arc::clone(&loads));
                let vain_cancels = Arc::clone(&vain_cancels);
                let identity = Identity { actor, owner, lasts: false, shelf, loads, vain_cancels };
                Ok(Session::new(Arc::clone(&server), identity))
            };
            let mcp = StreamableHttpService::new(session, sessions.manager(), config);
            Door { mcp, sessions, bodies, arguments, vain_cancels: cancels_of_door }
        };
        let bodies_of_others = bodies.split_off(callers);
        let doors = principals.into_iter().zip(bodies).zip(arguments).map(door).collect();
        let dialects = Dialects { base, needs_token: tokens.are_required(), worker: worker.zip(of_engine) };
        let api = Api::new(server, of_api, approvers, limits.body_time, dialects);
        Self {
            api,
            bodies_of_others,
            server: Arc::clone(server),
            gate,
            tokens,
            doors,
            body_time: limits.body_time,
            sessions_max: limits.sessions,
            drain,
        }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>, client: &Client) -> Response<Answer> {
        if !client.sound.is(client.requests.fetch_add(1, Ordering::Relaxed)) {
            let why = "a request says once, and in one way, how long its body is";
            return closing(refused(&request, StatusCode::BAD_REQUEST, "framing_invalid", why));
        }
        if let Err((status, why)) = self.gate.check(request.uri(), request.headers()) {
            return refused(&request, status, "host_or_origin_refused", why);
        }
        match request.uri().path() {
            path if path.starts_with(API) => self.api(request, client).await.unwrap_or_else(|refused| *refused),
            path if path.starts_with(WORKER) && self.api.worker().is_some() => {
                self.worker(request, client).await.unwrap_or_else(|refused| *refused)
            }
            "/healthz" => probe(&request, true),
            "/readyz" => probe(&request, !self.drain.is_cancelled()),
            "/metrics" => self.metrics(&request),
            "/mcp" => self.mcp(request, client).await.unwrap_or_else(|refused| *refused),
            _ => plain(StatusCode::NOT_FOUND, "there is nothing here; MCP is at /mcp, and the API at /v1"),
        }
    }

    /// The metrics of all callers, for callers alone: they name tools that an approver is not asked about.
    fn metrics(&self, request: &Request<Incoming>) -> Response<Answer> {
        let Some(principal) = self.tokens.bearer(request.headers()) else { return without_token() };
        if self.doors.get(principal).is_none() && guard!("metrics_role") {
            return plain(StatusCode::FORBIDDEN, "metrics are for callers, and this is the token of an approver");
        }
        match self.server.offering().telemetry.as_ref().and_then(|telemetry| telemetry.prometheus()) {
            None => plain(StatusCode::NOT_FOUND, "this server has no metrics; telemetry.metrics = true turns them on"),
            Some(_) if !matches!(*request.method(), Method::GET | Method::HEAD) => get_only(),
            Some(text) => response(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into()),
        }
    }

    /// Answers a request of the plain API, whose body has the limits of MCP.
    async fn api(&self, request: Request<Incoming>, client: &Client) -> Result<Response<Answer>, Refused> {
        let Some(principal) = self.tokens.bearer(request.headers()) else {
            let why = "send a token of this server: Authorization: Bearer TOKEN";
            return Err(problem(&Problem::new(401, "unauthorized", why)).into());
        };
        let request = self.admit(principal, request, client).await?;
        Ok(self.api.answer(principal, request).await.map(|body| Answer::of(Content::Api(body))))
    }

    /// Answers a request of an Arcade engine, which has limits as a principal of tokens has.
    async fn worker(&self, request: Request<Incoming>, client: &Client) -> Result<Response<Answer>, Refused> {
        let is_health = request.uri().path() == HEALTH;
        let request = if is_health {
            request.map(|_| Full::default())
        } else {
            let mut given = request.headers().get_all(AUTHORIZATION).iter();
            let only = given.next().filter(|_| given.next().is_none()).and_then(|value| value.to_str().ok());
            if let Some(refused) = self.api.worker().and_then(|worker| worker.refusal(only)) {
                let body = Bytes::copy_from_slice(refused.body.as_bytes());
                let mut response = response(StatusCode::UNAUTHORIZED, "application/json", body);
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return Err(response.into());
            }
            self.admit(self.doors.len() + self.bodies_of_others.len() - 1, request, client).await?
        };
        Ok(self.api.answer_engine(!is_health, request).await.map(|body| Answer::of(Content::Api(body))))
    }

    /// Gives the connection to `principal`, and reads the whole body within its budget.
    async fn admit(
        &self,
        principal: usize,
        request: Request<Incoming>,
        client: &Client,
    ) -> Result<Request<Full<Bytes>>, Refused> {
        if client.connection.belongs_to(principal).await.is_err() {
            let why = "you have too many connections open; end one, or wait";
            return Err(closing(problem(&Problem::new(503, "too_many_connections", why).after(60))).into());
        }
        let budget = match self.doors.get(principal) {
            Some(door) => Some(&door.bodies),
            None => self.bodies_of_others.get(principal.saturating_sub(self.doors.len())),
        };
        let (head, body) = request.into_parts();
        let body = match budget {
            Some(budget) => self.take(budget, body).await,
            None => Err(Unread::Broken),
        };
        let body = body.map_err(|unread| Box::new(unread.answer(true)))?;
        // The memory stays reserved until a handler drops the bytes.
        Ok(Request::from_parts(head, Full::new(Bytes::from_owner(body))))
    }

    async fn mcp(&self, request: Request<Incoming>, client: &Client) -> Result<Response<Answer>, Refused> {
        let principal = self.tokens.bearer(request.headers());
        let Some((principal, door)) = principal.and_then(|at| Some((at, self.doors.get(at)?))) else {
            return Err(without_token().into());
        };
        if client.connection.belongs_to(principal).await.is_err() {
            return Err(closing(busy("you have too many connections open; end one, or wait")).into());
        }
        let (head, body) = request.into_parts();
        let body = self.body(door, &head, body).await?;
        let (mut head, body, request_id) = self.read(door, head, body).await?;
        let gone = CancellationToken::new();
        head.extensions.insert(Gone(gone.clone()));
        // Cancels `gone` also if the connection closes before there is a response.
        let waits = gone.drop_guard();
        let mut in_use = named(&head.headers, &door.sessions).await;
        let (mut claim, has_id) = (None, request_id.is_some());
        if let (Some(in_use), Some(id)) = (&in_use, request_id) {
            let taken = || rpc_error(Some(&id), "this id is that of a request that still runs: take another one");
            let claimed = door.sessions.claim(in_use, id.clone()).ok_or_else(taken)?;
            let claimed = claim.insert(Arc::new(claimed));
            head.extensions.insert(Claimed { _claim: Arc::clone(claimed) });
        }
        if !has_id && let Some(id) = canceled(&head, &body) {
            match &in_use {
                Some(in_use) if door.sessions.cancel(in_use, &id) => {}
                Some(_) => _ = head.extensions.insert(NotPending),
                // Without a session, a client ends the connection of a request instead: rmcp ignores the notification.
                None if !head.headers.contains_key(SESSION_HEADER) => {
                    door.vain_cancels.tell(&self.server.offering().host, &id.to_string(), None).await;
                }
                None => {}
            }
        }
        let response = door.mcp.handle(Request::from_parts(head, Full::new(body))).await;
        if in_use.is_none() {
            // The request has just opened this session.
            in_use = named(response.headers(), &door.sessions).await;
        }
        let body = |body| Answer { body: Content::Mcp(body), _waits: Some(waits), _in_use: in_use, _claim: claim };
        Ok(response.map(body))
    }

    /// Reads the body of a request of MCP.
    async fn body(&self, door: &Door, head: &Parts, body: Incoming) -> Result<Lent, Refused> {
        match self.take(&door.bodies, body).await {
            Ok(body) if opens_session(head, &body.bytes) && door.sessions.count().await >= self.sessions_max => {
                Err(busy("too many sessions are open; end one, or wait").into())
            }
            Ok(body) => Ok(body),
            Err(unread) => Err(unread.answer(false).into()),
        }
    }

    /// Reads the whole body, after reserving memory for it.
    async fn take(&self, budget: &Budget, body: Incoming) -> Result<Lent, Unread> {
        let expected =
            body.size_hint().upper().map_or(BODY_BYTES_MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if expected > BODY_BYTES_MAX {
            return Err(Unread::TooLarge);
        }
        let read = async {
            // Twice the size: for the pieces and for the whole.
            let lease = budget.take(expected * 2).await;
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Lent { bytes: body.to_bytes(), _lease: lease })
        };
        match tokio::time::timeout(self.body_time, read).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Unread::TooLarge),
            Ok(Err(_)) => Err(Unread::Broken),
            Err(_) => Err(Unread::TooSlow),
        }
    }

    /// Returns what rmcp is to parse, with the arguments of a call as an extension of the head, and the id of a
    /// request. Releases the body's memory reservation.
    async fn read(
        &self,
        door: &Door,
        mut head: Parts,
        body: Lent,
    ) -> Result<(Parts, Bytes, Option<RequestId>), Refused> {
        let outline = Outline::of(&body.bytes).map_err(|unread| rpc_error(unread.id.as_ref(), &unread.why))?;
        if is_array(&body.bytes) {
            return Err(rpc_error(None, ARRAY));
        }
        let Some(outline) = outline else { return Ok((head, body.bytes, None)) };
        let id = outline.request_id();
        let Some(arguments) = outline.arguments() else { return Ok((head, body.bytes, id)) };
        let lease = tokio::time::timeout(self.body_time, door.arguments.take(weight(arguments))).await;
        let lease = lease.map_err(|_| busy("the arguments of your calls take too much memory; wait for answers"))?;
        let sent = Sent::new(arguments, lease);
        // rmcp checks headers that repeat arguments against the body.
        let whole = sent.arguments.value().is_ok() && self.server.offering().offers.mirrors();
        let left = if whole { body.bytes.clone() } else { outline.without_arguments().into() };
        head.extensions.insert(sent);
        Ok((head, left, id))
    }
}

/// A body, and the memory that is reserved for it.
struct Lent {
    bytes: Bytes,
    _lease: Option<Lease>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Keeps the session that `headers` name in use; `None` if there is none.
async fn named(headers: &HeaderMap, sessions: &Arc<Sessions>) -> Option<InUse> {
    sessions.begin(headers.get(SESSION_HEADER)?.to_str().ok()?).await
}

fn opens_session(head: &Parts, body: &[u8]) -> bool {
    let opens = || matches!(Outline::of(body), Ok(Some(outline)) if outline.is("initialize"));
    head.method == Method::POST && !head.headers.contains_key(SESSION_HEADER) && opens()
}

/// The id of the request that a notification cancels; `None` if `body` is not such a notification.
fn canceled(head: &Parts, body: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Notification {
        params: CancelledNotificationParam,
    }
    let cancels = || matches!(Outline::of(body), Ok(Some(outline)) if outline.is("notifications/cancelled"));
    let notification = || serde_json::from_slice::<Notification>(body).ok()?.params.request_id;
    (head.method == Method::POST && cancels()).then(notification)?
}

fn probe(request: &Request<Incoming>, well: bool) -> Response<Answer> {
    match (request.method(), well) {
        (&Method::GET | &Method::HEAD, true) => plain(StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, false) => plain(StatusCode::SERVICE_UNAVAILABLE, "ending"),
        _ => get_only(),
    }
}

fn get_only() -> Response<Answer> {
    let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only");
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    refused
}

fn without_token() -> Response<Answer> {
    let mut refused = plain(StatusCode::UNAUTHORIZED, "send the token of this server: Authorization: Bearer TOKEN");
    refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refused
}

/// Refuses a request that did not get past the gate.
fn refused(request: &Request<Incoming>, status: StatusCode, code: &'static str, why: &'static str) -> Response<Answer> {
    let path = request.uri().path();
    match path.starts_with(API) || path.starts_with(WORKER) {
        true => problem(&Problem::new(status.as_u16(), code, why)),
        false => plain(status, why),
    }
}

fn problem(problem: &Problem) -> Response<Answer> {
    problem.clone().into_response().map(|body| Answer::of(Content::Api(body)))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Answer> {
    response(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn busy(why: &'static str) -> Response<Answer> {
    let mut busy = plain(StatusCode::SERVICE_UNAVAILABLE, why);
    busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
    busy
}

/// Makes `response` the last one of its connection.
fn closing(mut response: Response<Answer>) -> Response<Answer> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Returns a JSON-RPC error with code -32600 (invalid request).
fn rpc_error(id: Option<&RequestId>, why: &str) -> Refused {
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32600, "message": why } });
    response(StatusCode::BAD_REQUEST, "application/json", error.to_string().into()).into()
}

fn response(status: StatusCode, media_type: &'static str, body: Bytes) -> Response<Answer> {
    let mut response = Response::new(Answer::of(Content::Mcp(Full::new(body).boxed())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.body {
            Content::Mcp(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Content::Api(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Content::Mcp(body) => body.is_end_stream(),
            Content::Api(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Content::Mcp(body) => body.size_hint(),
            Content::Api(body) => body.size_hint(),
        }
    }
}
