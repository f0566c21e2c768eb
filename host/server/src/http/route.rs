mod open;
mod operating;
mod page;
mod refusals;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, LOCATION};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use parking_lot::{Mutex, RwLock};
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;
use toolcell_engine::scheduler::in_turn;
use toolcell_spec::{ErrorCode, Timestamp};

use crate::budget::{ByteBudget, Lease, LeasedBytes};
use crate::frames::{self, NotPending};
use crate::greeting;
use crate::http::problem::Problem;
use crate::otc::{AUTHORIZATIONS, WorkerSecret};
use crate::outline::Outline;
use crate::results::ResultRoom;
use crate::sent_arguments::{SentArguments, weight};
use crate::{GoneToken, Server};

use super::api::Api;
use super::connections::{ClientConnection, Connections};
use super::framing::SoundRequests;
use super::listener::Peer;
use super::metrics::HttpMetrics;
use super::page_sessions::PageSessions;
use super::principals::{
    PrincipalCount, PrincipalService, PrincipalTable, PrincipalTables, TokenHolder,
};
use super::sessions::{ClientSessions, InUse, RequestIdClaim};
use super::sign_in::{SignInTerms, is_metadata};
use super::{HttpLimits, OriginGate, ProxySettings, Tokens, accept, pages};

use refusals::{
    AccessRefused, RefusalForm, RefusalResponse, busy, claim, closing, noted, rpc_error,
    rpc_refusal,
};

const RETRY_AFTER: u64 = 1;

pub(super) const BODY_BYTES_MAX: usize = 4 << 20;

const SESSION_HEADER: HeaderName = HeaderName::from_static(crate::call::SESSION_HEADER);

const API: &str = "/v1/";
const WORKER: &str = "/worker/";
const HEALTH: &str = "/worker/health";

pub(super) struct ConnectionState {
    connection: Arc<ClientConnection>,
    sound: SoundRequests,
    requests: AtomicU64,
    open: AtomicU64,
    peer: Option<Peer>,
}

pub(super) struct OpenRequest(Arc<ConnectionState>);

impl OpenRequest {
    pub(super) fn client(&self) -> &ConnectionState {
        &self.0
    }

    /// The request stays open until the response is sent, or dropped.
    pub(super) fn holds(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| {
            Body::new(body.map_err(move |error| {
                let _open = &self;
                error
            }))
        })
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.connection.rests();
        }
    }
}

impl ConnectionState {
    pub(super) fn new(
        connection: Arc<ClientConnection>,
        sound: SoundRequests,
        peer: Option<Peer>,
    ) -> Self {
        Self {
            connection,
            sound,
            requests: AtomicU64::new(0),
            open: AtomicU64::new(0),
            peer,
        }
    }

    pub(super) fn opens(self: Arc<Self>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self)
    }

    pub(super) fn has_asked(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }
}

/// How far the server's end is, each before the next.
#[derive(Clone, Default)]
pub(super) struct ServerStates {
    /// Load balancers are told to look elsewhere.
    pub(super) unready: CancellationToken,
    /// New requests are refused.
    pub(super) drain: CancellationToken,
    /// Connections are closed.
    pub(super) close: CancellationToken,
}

pub(super) struct Routes {
    server: Arc<Server>,
    gate: OriginGate,
    proxy: ProxySettings,
    /// Metrics have an address of their own.
    measured_apart: bool,
    connections: Arc<Connections>,
    metrics: HttpMetrics,
    /// One principal's sessions do not exist for another.
    table: RwLock<Arc<PrincipalTable>>,
    tables: Arc<PrincipalTables>,
    tokens: Mutex<Tokens>,
    api: Api,
    /// The views of the page, and who is signed in to it.
    views: Router,
    pages: PageSessions,
    engine: Option<(WorkerSecret, TokenHolder)>,
    limits: HttpLimits,
    states: ServerStates,
}

/// Keeps the id claimed while the request is handled.
#[derive(Clone)]
struct ClaimExtension {
    _claim: Arc<RequestIdClaim>,
}

impl Routes {
    pub(super) fn new(
        server: &Arc<Server>,
        (gate, proxy, measured_apart): (OriginGate, ProxySettings, bool),
        (base, resource, worker): (String, String, Option<WorkerSecret>),
        tokens: Tokens,
        (limits, connections): (&HttpLimits, Arc<Connections>),
        states: ServerStates,
    ) -> Self {
        let count = PrincipalCount::new(&tokens, &server.offering(), worker.is_some());
        let log = server.settings.log.clone();
        let sign_in = SignInTerms::new(resource, proxy.public_url.as_ref(), log);
        let close = states.close.clone();
        let tables = Arc::new(PrincipalTables::new(server, limits, sign_in, count, close));
        let (engine, caller) = worker
            .map(|secret| {
                let (holder, caller) = tables.engine();
                ((secret, holder), caller)
            })
            .unzip();
        let api = Api::new(server, base, tokens.are_required(), caller);
        Self {
            server: Arc::clone(server),
            views: toolcell_page::views(),
            pages: PageSessions::new(gate.port(), proxy.public_url.as_ref()),
            gate,
            proxy,
            measured_apart,
            connections,
            metrics: HttpMetrics::default(),
            table: RwLock::new(Arc::new(tables.table(
                &tokens,
                &server.offering(),
                &api,
                None,
            ))),
            tokens: Mutex::new(tokens),
            tables,
            api,
            engine,
            limits: limits.clone(),
            states,
        }
    }

    fn table(&self) -> Arc<PrincipalTable> {
        Arc::clone(&self.table.read())
    }

    /// With `tokens`, or the same as before, and the principals of now. A request that was authorized goes on.
    pub(super) fn renew(&self, tokens: Option<Tokens>) {
        let mut own = self.tokens.lock();
        *own = tokens.unwrap_or_else(|| own.clone());
        let offering = self.server.offering();
        // The lock of the tokens keeps another renewal out; requests go on meanwhile.
        let before = self.table();
        let count = PrincipalCount::new(&own, &offering, self.engine.is_some());
        self.tables.divide(count);
        self.connections.divide(count.all());
        let new = (self.tables).table(&own, &offering, &self.api, Some(&before));
        *self.table.write() = Arc::new(new);
    }

    pub(super) async fn answer(
        &self,
        mut request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Response<Body> {
        let public = self.proxy.public_url.as_ref();
        if let Some(uri) = public.and_then(|url| url.inner(request.uri())) {
            *request.uri_mut() = uri;
        }
        let reader = self.gate.reader(request.headers()).cloned();
        let interface = operating::interface(request.uri().path());
        let log = self.server.settings.log.as_ref();
        let line = log.map(|log| {
            let peer = self.proxy.client(client.peer, request.headers());
            let line = format!("{} {}", request.method(), request.uri().path());
            (log, line, peer)
        });
        let answer = self.answer_anybody(request, client).await;
        let mut response = answer.unwrap_or_else(|refused| *refused);
        let status = response.status().as_u16();
        self.metrics.answered(interface, status);
        if let (Some((log, line, peer)), Some(_)) =
            (line, response.extensions().get::<AccessRefused>())
        {
            log.refused(status, &line, &peer);
        }
        let location = response.headers().get(LOCATION);
        if let Some(outer) = location.and_then(|location| public?.outer(location)) {
            response.headers_mut().insert(LOCATION, outer);
        }
        if let Some(origin) = reader {
            pages::share_with(origin, response.headers_mut());
        }
        if self.states.drain.is_cancelled() {
            closing(response)
        } else {
            response
        }
    }

    async fn answer_anybody(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Response<Body>, RefusalResponse> {
        let form = RefusalForm::of_path(request.uri().path());
        if !client
            .sound
            .is(client.requests.fetch_add(1, Ordering::Relaxed))
        {
            let refused = form.answer(ErrorCode::FramingInvalid.into());
            return Err(closing(noted(refused)).into());
        }
        if let Some(answer) = self.probed(&request).await {
            return Ok(answer);
        }
        self.gate
            .check(request.uri(), request.headers())
            .map_err(|problem| noted(form.answer(problem)))?;
        if pages::asks(request.method(), request.headers())
            && self.gate.reader(request.headers()).is_some()
        {
            let permission = pages::permission(request.headers());
            return Ok((StatusCode::NO_CONTENT, permission).into_response());
        }
        match request.uri().path() {
            // An accepted request continues; another server takes this one.
            _ if self.states.drain.is_cancelled() => {
                let problem = Problem::from(ErrorCode::ServerEnding).after(RETRY_AFTER);
                Err(form.answer(problem).into())
            }
            path if path.starts_with(API) => self.api(request, client).await,
            path if path.starts_with(WORKER)
                && let Some((secret, engine)) = &self.engine =>
            {
                self.worker(secret, engine, request, client).await
            }
            "/metrics" => self.metrics(&request).await,
            path if is_metadata(path, self.proxy.public_url.as_ref()) => {
                Ok(open::metadata(request.method(), self.table().metadata()))
            }
            path if let Some(id) = path.strip_prefix(AUTHORIZATIONS) => {
                Ok(self.authorization_page(id, request.method()).await)
            }
            "/mcp" | "/mcp/" => self.mcp(request, client).await,
            path if self.has_page_at(path) => Ok(self.page(request, client).await),
            _ => {
                let why = "there is nothing here; MCP is at /mcp, and the API at /v1";
                Ok((StatusCode::NOT_FOUND, why).into_response())
            }
        }
    }

    async fn api(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Response<Body>, RefusalResponse> {
        let table = self.table();
        let holder = holder(&table, &request, RefusalForm::Document).await?;
        let answer = async {
            let form = RefusalForm::Document;
            let request = self.admit(holder, request, client, form).await?;
            Ok(self.api.answer(Some(&holder.role), request).await)
        };
        in_turn(Some(&holder.name), Box::pin(answer)).await
    }

    async fn worker(
        &self,
        secret: &WorkerSecret,
        engine: &TokenHolder,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Response<Body>, RefusalResponse> {
        if request.uri().path() == HEALTH {
            let request = request.map(|_| Full::default());
            return Ok(self.api.answer(None, request).await);
        }
        let mut given = request.headers().get_all(AUTHORIZATION).iter();
        let only = given
            .next()
            .filter(|_| given.next().is_none())
            .and_then(|value| value.to_str().ok());
        secret
            .verify(only, Timestamp::now())
            .map_err(|why| noted(Problem::new(ErrorCode::Unauthorized, why).into_response()))?;
        let form = RefusalForm::Document;
        let request = self.admit(engine, request, client, form).await?;
        Ok(self.api.answer(Some(&engine.role), request).await)
    }

    async fn admit(
        &self,
        holder: &TokenHolder,
        request: Request<Incoming>,
        client: &ConnectionState,
        form: RefusalForm,
    ) -> Result<Request<Full<Bytes>>, RefusalResponse> {
        claim(client, &holder.name, form).await?;
        let (head, body) = request.into_parts();
        let body = self
            .take(&holder.bodies, body)
            .await
            .map_err(|code| form.unread(code))?;
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
    ) -> Result<Response<Body>, RefusalResponse> {
        let table = self.table();
        let holder = holder(&table, &request, RefusalForm::Text).await?;
        let no_caller = || noted(RefusalForm::Text.answer(ErrorCode::Unauthorized.into()));
        let service = holder.service.as_ref().ok_or_else(no_caller)?;
        let answer = Box::pin(self.mcp_of(holder, service, request, client));
        in_turn(Some(&holder.name), answer).await
    }

    async fn mcp_of(
        &self,
        holder: &TokenHolder,
        service: &PrincipalService,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Response<Body>, RefusalResponse> {
        claim(client, &holder.name, RefusalForm::Text).await?;
        let (mut head, body) = request.into_parts();
        accept::name_answers(&head.method, &mut head.headers);
        let body = self
            .take(&holder.bodies, body)
            .await
            .map_err(|code| RefusalForm::Text.unread(code))?;
        let McpBody {
            bytes,
            request_id,
            greets,
            cancels,
        } = self.read(service, &mut head, body).await?;
        if greets
            && !head.headers.contains_key(SESSION_HEADER)
            && service.sessions.count().await >= self.limits.sessions
        {
            return Err(busy("too many sessions are open; end one, or wait"));
        }
        let results = ResultRoom::new(service.caller.results.clone());
        head.extensions.insert(results.clone());
        let gone = CancellationToken::new();
        head.extensions.insert(GoneToken(gone.clone()));
        // Cancels `gone` also if the connection closes before there is a response.
        let waits = gone.drop_guard();
        let mut in_use = named(&head.headers, &service.sessions).await;
        let mut claimed = None;
        if let (Some(in_use), Some(id)) = (&in_use, request_id) {
            let taken = || {
                rpc_error(
                    Some(&id),
                    "this id is that of a request that still runs: take another one",
                )
            };
            let claim = service
                .sessions
                .claim(in_use, id.clone())
                .ok_or_else(taken)?;
            let claim = claimed.insert(Arc::new(claim));
            head.extensions.insert(ClaimExtension {
                _claim: Arc::clone(claim),
            });
        }
        if let Some(id) = cancels {
            match &in_use {
                Some(in_use) if service.sessions.cancel(in_use, &id) => {}
                Some(_) => _ = head.extensions.insert(NotPending),
                // Without a session, a client ends the connection of a request instead: rmcp ignores the notification.
                None if !head.headers.contains_key(SESSION_HEADER) => {
                    service
                        .caller
                        .identity
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
            .handle(Request::from_parts(head, Full::new(bytes)))
            .await;
        // Official clients warn of any other success.
        if ends_session && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        if in_use.is_none() {
            // The request has just opened this session.
            in_use = named(response.headers(), &service.sessions).await;
        }
        // Held until the body ends or is dropped: dropping it early cancels the call, because the client is gone.
        let held = (waits, in_use, claimed, results);
        Ok(response.map(|body| {
            Body::new(body.map_err(move |never: Infallible| {
                let _held = &held;
                never
            }))
        }))
    }

    async fn take(&self, budget: &ByteBudget, body: Incoming) -> Result<LeasedBody, ErrorCode> {
        let expected = body.size_hint().upper().map_or(BODY_BYTES_MAX, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        });
        if expected > BODY_BYTES_MAX {
            return Err(ErrorCode::BodyTooLarge);
        }
        // Twice the size: for the pieces and for the whole.
        let lease = tokio::time::timeout(self.limits.body_time, budget.take(expected * 2)).await;
        let lease = lease.map_err(|_| ErrorCode::TooMuchMemory)?;
        let read = async {
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(LeasedBody {
                bytes: body.to_bytes(),
                leases: lease,
            })
        };
        match tokio::time::timeout(self.limits.body_time, read).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ErrorCode::BodyTooLarge),
            Ok(Err(_)) => Err(ErrorCode::BodyBroken),
            Err(_) => Err(ErrorCode::BodyTooSlow),
        }
    }

    /// The arguments of a call become an extension of the head. Releases the body's memory reservation.
    async fn read(
        &self,
        service: &PrincipalService,
        head: &mut Parts,
        body: LeasedBody,
    ) -> Result<McpBody, RefusalResponse> {
        let outline = Outline::scan(&body.bytes)
            .map_err(|unread| rpc_refusal(unread.id.as_ref(), &unread.error))?;
        let is_post = head.method == Method::POST;
        let mut read = McpBody {
            bytes: body.bytes.clone(),
            request_id: None,
            greets: false,
            cancels: None,
        };
        let Some(outline) = outline else {
            return if is_post {
                Err(rpc_refusal(None, &frames::unreadable(&body.bytes)))
            } else {
                Ok(read)
            };
        };
        read.request_id = outline.request_id();
        if outline.is("initialize") {
            let completed = greeting::complete(&body.bytes)
                .map_err(|wrong| rpc_refusal(read.request_id.as_ref(), &wrong))?;
            read.bytes = completed.map_or(read.bytes, Bytes::from);
            read.greets = is_post;
        } else if outline.is("notifications/cancelled") && read.request_id.is_none() {
            read.cancels = frames::canceled(&body.bytes).filter(|_| is_post);
        }
        let Some(arguments) = outline.arguments() else {
            return Ok(read);
        };
        let lease = service.caller.arguments.take(weight(arguments));
        let lease = tokio::time::timeout(self.limits.body_time, lease).await;
        let lease = lease.map_err(|_| {
            busy("the arguments of your calls take too much memory; wait for answers")
        })?;
        let sent = SentArguments::new(arguments, lease);
        // rmcp checks headers that repeat arguments against the body.
        let caller = service.caller.identity.actor.as_deref();
        let offering = self.server.offering_of(caller);
        let whole = sent.arguments.value().is_ok() && offering.offers.mirrors();
        if !whole {
            read.bytes = outline.without_arguments().into();
        }
        head.extensions.insert(sent);
        Ok(read)
    }
}

struct McpBody {
    bytes: Bytes,
    request_id: Option<RequestId>,
    greets: bool,
    cancels: Option<RequestId>,
}

type LeasedBody = LeasedBytes<Bytes, Option<Lease>>;

async fn named(headers: &HeaderMap, sessions: &Arc<ClientSessions>) -> Option<InUse> {
    sessions
        .begin(headers.get(SESSION_HEADER)?.to_str().ok()?)
        .await
}

async fn holder<'t>(
    table: &'t PrincipalTable,
    request: &Request<Incoming>,
    form: RefusalForm,
) -> Result<&'t TokenHolder, RefusalResponse> {
    let (uri, headers) = (request.uri(), request.headers());
    let found = table.holder(uri, headers).await;
    found.map_err(|problem| {
        let refused = noted(form.answer(problem));
        // The body is not read, which ends the connection; a client that is not told so would use it again.
        if request.body().is_end_stream() {
            refused.into()
        } else {
            closing(refused).into()
        }
    })
}
