use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::body::{RequestBody, ResponseBody};
use super::connect::{self, ByteStream};
use super::gate::NetworkGate;
use super::target::RequestTarget;
use super::{ConnectionFuture, ExchangeResult};

/// Hyper keeps an index of that size.
const RESPONSE_HEADERS_MAX: usize = 128;
const BUFFER_BYTES_MIN: usize = 8 << 10;

pub(super) async fn send(
    gate: Arc<NetworkGate>,
    request: Request<WasiBody>,
    options: RequestOptions,
) -> ExchangeResult {
    let answer = exchange(Arc::clone(&gate), request, options).await;
    gate.ended(answer.as_ref().err());
    answer
}

/// The connection must be polled for as long as the body is read, and closes when it is dropped.
async fn exchange(
    gate: Arc<NetworkGate>,
    request: Request<WasiBody>,
    options: RequestOptions,
) -> ExchangeResult {
    let (parts, body) = request.into_parts();
    // Neither here nor below what the guest wanted of the origin: paths, headers and bodies may hold secrets.
    let target = gate
        .admit(&parts)
        .inspect_err(|_| debug!(method = known(&parts.method), "a request was refused"))?;
    let begun = Instant::now();
    let patience = RequestTimeouts::new(&gate, options);
    let answer = async {
        let place = Arc::clone(&gate.connections)
            .acquire_owned()
            .await
            .map_err(|_| Error::ConnectionLimitReached)?;
        let opening = timeout(
            patience.connect,
            connect::open(&gate, &target, patience.connect),
        );
        let stream = opening
            .await
            .map_err(|_| Error::ConnectionTimeout)?
            .map_err(|error| gate.explain(error))?;
        let request = outgoing(&gate, &target, parts, body)?;
        let noted = gate.requested(&target);
        let (response, connection) = ask(&gate, stream, request, patience.first_byte).await?;
        gate.answered(noted, response.status());
        let connection: ConnectionFuture = Box::new(async move {
            let _place = place;
            match connection {
                Some(connection) => connection.await,
                None => Ok(()),
            }
        });
        Ok::<_, Error>((response, connection))
    };
    let answered = timeout_at(patience.deadline, answer)
        .await
        .unwrap_or(Err(Error::HttpResponseTimeout));
    let status = answered
        .as_ref()
        .ok()
        .map(|(response, _)| response.status().as_u16());
    debug!(method = known(&target.method), origin = %target.origin, status, took = ?begun.elapsed(), "a request ended");
    let (mut response, connection) = answered?;
    if let Some(credentials) = gate.credentials.as_ref().filter(|_| guard!("scrub_head")) {
        credentials.scrub_head(response.headers_mut())?;
    }
    let response = response.map(|body| {
        ResponseBody::new(body, gate, patience.between_bytes, patience.deadline).boxed_unsync()
    });
    Ok((response, connection))
}

struct RequestTimeouts {
    connect: Duration,
    first_byte: Duration,
    between_bytes: Duration,
    deadline: Instant,
}

impl RequestTimeouts {
    fn new(gate: &NetworkGate, options: RequestOptions) -> Self {
        let limits = gate.limits();
        let shorter =
            |wish: Option<Duration>, limit: Duration| wish.map_or(limit, |wish| wish.min(limit));
        let now = Instant::now();
        Self {
            connect: shorter(options.connect_timeout, limits.connect),
            first_byte: shorter(options.first_byte_timeout, limits.first_byte),
            between_bytes: shorter(options.between_bytes_timeout, limits.between_bytes),
            deadline: now.checked_add(limits.total).unwrap_or(now),
        }
    }
}

fn outgoing(
    gate: &NetworkGate,
    target: &RequestTarget,
    parts: Parts,
    body: WasiBody,
) -> Result<Request<RequestBody>, Error> {
    let mut headers = parts.headers;
    let declared = declared_length(&headers)?;
    headers.remove(CONTENT_LENGTH);
    let authority =
        HeaderValue::from_str(&target.authority()).map_err(|_| Error::HttpRequestUriInvalid)?;
    headers.insert(HOST, authority);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let mut path_and_query = target.path_and_query().to_owned();
    if let Some(credentials) = &gate.credentials {
        credentials.put_into(&target.origin, &mut headers, &mut path_and_query)?;
    }
    let mut request = Request::new(RequestBody::new(body, declared));
    *request.method_mut() = target.method.clone();
    *request.uri_mut() = path_and_query
        .parse()
        .map_err(|_| Error::HttpRequestUriInvalid)?;
    *request.headers_mut() = headers;
    Ok(request)
}

fn declared_length(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let digits = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let length = value
        .to_str()
        .ok()
        .filter(digits)
        .and_then(|text| text.parse().ok());
    match (length, values.next()) {
        (Some(length), None) => Ok(Some(length)),
        _ => Err(Error::HttpRequestBodySize(None)),
    }
}

type ConnectionDriver = std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Speaks HTTP/1.1 until the head of the response has arrived.
async fn ask(
    gate: &Arc<NetworkGate>,
    stream: Box<dyn ByteStream>,
    request: Request<RequestBody>,
    patience: Duration,
) -> Result<(Response<Incoming>, Option<ConnectionDriver>), Error> {
    let head = usize::try_from(gate.limits().header_bytes)
        .unwrap_or(usize::MAX)
        .max(BUFFER_BYTES_MIN);
    let mut http = http1::Builder::new();
    http.max_buf_size(head).max_headers(RESPONSE_HEADERS_MAX);
    let (mut sender, connection) = http
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(gate, &error))?;
    let explaining = Arc::clone(gate);
    let mut driver: ConnectionDriver = Box::pin(async move {
        connection
            .await
            .map_err(|error| failed(&explaining, &error))
    });
    let answer = async {
        let mut sending = std::pin::pin!(sender.send_request(request));
        tokio::select! {
            biased;
            response = &mut sending => Ok::<_, Error>((response.map_err(|error| failed(gate, &error))?, Some(driver))),
            ended = &mut driver => {
                ended?;
                // The connection is over, so the response has arrived, or never will.
                Ok((sending.await.map_err(|error| failed(gate, &error))?, None))
            }
        }
    };
    let (response, driver) = timeout(patience, answer)
        .await
        .map_err(|_| Error::HttpResponseTimeout)??;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::HttpUpgradeFailed);
    }
    Ok((response, driver))
}

fn failed(gate: &NetworkGate, error: &hyper::Error) -> Error {
    let otherwise = match error {
        error if error.is_parse_too_large() => {
            Error::HttpResponseHeaderSectionSize(Some(gate.limits().header_bytes))
        }
        error if error.is_parse() => Error::HttpProtocolError,
        error if error.is_incomplete_message() => Error::HttpResponseIncomplete,
        error if error.is_user() => Error::HttpRequestBodySize(None),
        error if error.is_canceled() || error.is_closed() => Error::ConnectionTerminated,
        _ => Error::HttpProtocolError,
    };
    gate.explain(otherwise)
}

fn known(method: &Method) -> &str {
    match *method {
        Method::GET
        | Method::HEAD
        | Method::POST
        | Method::PUT
        | Method::PATCH
        | Method::DELETE
        | Method::OPTIONS => method.as_str(),
        _ => "other",
    }
}
