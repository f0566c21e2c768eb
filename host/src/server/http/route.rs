use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::server::session::{Identity, Session};
use crate::server::shelf::Shelf;
use crate::server::{Gone, Server};

use super::sessions::{InUse, Sessions};
use super::{Gate, HttpLimits, Tokens};

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 4 << 20;

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

type Mcp = StreamableHttpService<Session, LocalSessionManager>;

/// What the server answers under which path, and to whom.
pub(super) struct Routes {
    gate: Gate,
    tokens: Tokens,
    /// One for each principal, in their order: a session of one does not exist for another.
    doors: Vec<Door>,
    body_time: Duration,
    sessions_max: usize,
    drain: CancellationToken,
}

/// What one principal reaches.
struct Door {
    mcp: Mcp,
    sessions: Arc<Sessions>,
}

/// The body of an answer. When it is dropped before its end, nobody waits for the answer any more.
pub(super) struct Answer {
    body: BoxBody<Bytes, Infallible>,
    _waits: Option<DropGuard>,
    /// Of the session that it belongs to.
    _in_use: Option<InUse>,
}

impl Routes {
    pub(super) fn new(
        server: &Arc<Server>,
        gate: Gate,
        tokens: Tokens,
        limits: &HttpLimits,
        drain: CancellationToken,
        close: CancellationToken,
    ) -> Self {
        let door = |principal: Arc<str>| {
            let sessions = Sessions::new();
            tokio::spawn(Arc::clone(&sessions).end_idle(limits.session_idle, close.clone()));
            // `Gate` has checked hosts and origins by then, for every route.
            let config = StreamableHttpServerConfig::default()
                .disable_allowed_hosts()
                .with_max_request_body_bytes(BODY_BYTES_MAX)
                .with_cancellation_token(close.clone());
            let (server, shelf): (_, Arc<Shelf>) = (Arc::clone(server), Arc::default());
            let session = move || {
                let (actor, owner) = (Some(Arc::clone(&principal)), Arc::clone(&principal));
                let identity = Identity { actor, owner, lasts: false, shelf: Arc::clone(&shelf) };
                Ok(Session::new(Arc::clone(&server), identity))
            };
            Door { mcp: StreamableHttpService::new(session, sessions.manager(), config), sessions }
        };
        let doors = tokens.principals().into_iter().map(door).collect();
        Self { gate, tokens, doors, body_time: limits.body_time, sessions_max: limits.sessions, drain }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        if let Err((status, why)) = self.gate.check(request.uri(), request.headers()) {
            return plain(status, why);
        }
        match request.uri().path() {
            "/healthz" => probe(&request, true),
            "/readyz" => probe(&request, !self.drain.is_cancelled()),
            "/mcp" => self.mcp(request).await,
            _ => plain(StatusCode::NOT_FOUND, "there is nothing here; MCP is at /mcp"),
        }
    }

    async fn mcp(&self, request: Request<Incoming>) -> Response<Answer> {
        let Some(door) = self.tokens.bearer(request.headers()).and_then(|at| self.doors.get(at)) else {
            let mut refused =
                plain(StatusCode::UNAUTHORIZED, "send the token of this server: Authorization: Bearer TOKEN");
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refused;
        };
        let (mut head, body) = request.into_parts();
        let body = match tokio::time::timeout(self.body_time, Limited::new(body, BODY_BYTES_MAX).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return plain(StatusCode::PAYLOAD_TOO_LARGE, "a request has at most 4 MiB");
            }
            Ok(Err(_)) => return plain(StatusCode::BAD_REQUEST, "the body came to no end"),
            Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
        };
        if opens_session(&head, &body) && door.sessions.count().await >= self.sessions_max {
            let mut busy = plain(StatusCode::SERVICE_UNAVAILABLE, "too many sessions are open; end one, or wait");
            busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
            return busy;
        }
        let gone = CancellationToken::new();
        head.extensions.insert(Gone(gone.clone()));
        // Also when the connection ends before there is an answer.
        let waits = gone.drop_guard();
        let mut in_use = named(&head.headers, &door.sessions).await;
        let response = door.mcp.handle(Request::from_parts(head, Full::new(body))).await;
        if in_use.is_none() {
            // The session that was just opened.
            in_use = named(response.headers(), &door.sessions).await;
        }
        response.map(|body| Answer { body, _waits: Some(waits), _in_use: in_use })
    }
}

/// Holds the session that `headers` name, if there is one.
async fn named(headers: &HeaderMap, sessions: &Arc<Sessions>) -> Option<InUse> {
    sessions.begin(headers.get(SESSION_HEADER)?.to_str().ok()?).await
}

/// Only what can open a session is looked into.
fn opens_session(head: &http::request::Parts, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Named {
        method: String,
    }
    head.method == Method::POST
        && !head.headers.contains_key(SESSION_HEADER)
        && serde_json::from_slice::<Named>(body).is_ok_and(|named| named.method == "initialize")
}

fn probe(request: &Request<Incoming>, well: bool) -> Response<Answer> {
    match (request.method(), well) {
        (&Method::GET | &Method::HEAD, true) => plain(StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, false) => plain(StatusCode::SERVICE_UNAVAILABLE, "ending"),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "GET only"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Answer> {
    let mut response = Response::new(Answer { body: Full::from(text).boxed(), _waits: None, _in_use: None });
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
