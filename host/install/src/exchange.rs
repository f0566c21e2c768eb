//! One request over HTTP/1.1, on a connection of its own. A general client does not fit: it reads whole answers into
//! memory, and follows redirects before an address can be checked.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, LOCATION, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Position, Url};

use super::proxy::Proxy;

/// Settings may say otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const REDIRECTS_MAX: usize = 5;
/// The time to look up a host and to connect, for each address.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The owner of a name chooses how many addresses it has.
const ADDRESSES_MAX: usize = 8;
/// Fewer bytes in the time of the patience are no progress.
const PROGRESS_BYTES: u64 = 64 << 10;
/// Enough for the largest component at the slowest upload speed.
const BODY_TIME: Duration = Duration::from_secs(4096);
/// Minimum, in bytes per second.
const UPLOAD_SPEED: u64 = 16 << 10;
/// In bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

/// It can be sent again.
#[derive(Clone)]
pub struct HttpCall {
    pub method: Method,
    /// `https`, or `http`.
    pub url: Url,
    /// Its headers, beside those that frame it.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// `true` if `body` has a credential, so that it may not be sent to another host.
    pub is_secret: bool,
}

impl HttpCall {
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            is_secret: false,
        }
    }

    /// A `proxy` gets the whole URL.
    fn request(&self, proxy: Option<&Proxy>) -> Result<Request<Full<Bytes>>, http::Error> {
        let url = &self.url;
        let begin = match proxy {
            Some(_) => Position::BeforeScheme,
            None => Position::BeforePath,
        };
        let target = &url[begin..Position::AfterQuery];
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let body = Full::new(self.body.clone());
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(target)
            .body(body)?;
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        headers.insert(HOST, HeaderValue::try_from(authority)?);
        let agent = concat!("toolcell/", env!("CARGO_PKG_VERSION"));
        let agent = HeaderValue::from_static(agent);
        headers.entry(USER_AGENT).or_insert(agent);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let authorization = proxy.and_then(Proxy::authorization).cloned();
        headers.extend(authorization.map(|value| (PROXY_AUTHORIZATION, value)));
        if self.method != Method::GET && self.method != Method::HEAD {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        }
        Ok(request)
    }
}

#[derive(Debug)]
pub enum ExchangeFailure {
    Unreachable(String),
    /// The server sends nothing, or too slowly.
    TooSlow(String),
}

impl ExchangeFailure {
    fn stalled(patience: Duration) -> Self {
        Self::TooSlow(format!("made no progress for {} s", patience.as_secs()))
    }
}

/// Of a name behind a proxy there is none: the proxy looks it up.
pub async fn look_up(url: &Url) -> Result<Vec<SocketAddr>, ExchangeFailure> {
    let port = url.port_or_known_default().unwrap_or(443);
    let host = url.host_str();
    let host =
        host.ok_or_else(|| ExchangeFailure::Unreachable("its URL has no host".to_owned()))?;
    if Proxy::for_url(url)?.is_some() && matches!(url.host(), Some(Host::Domain(_))) {
        return Ok(Vec::new());
    }
    resolve(host, port).await
}

/// That of an address is not looked up.
pub(crate) async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ExchangeFailure> {
    let name = host.trim_matches(['[', ']']);
    let found = timeout(CONNECT_TIME, tokio::net::lookup_host((name, port))).await;
    let found = found.map_err(|_| ExchangeFailure::stalled(CONNECT_TIME))?;
    let unknown = |error: std::io::Error| {
        ExchangeFailure::Unreachable(format!("its name cannot be looked up: {error}"))
    };
    let found: Vec<SocketAddr> = found.map_err(unknown)?.collect();
    if found.is_empty() {
        Err(ExchangeFailure::Unreachable(
            "its name has no address".to_owned(),
        ))
    } else {
        Ok(found)
    }
}

/// Waits for the head of the answer as long as `patience` lasts.
pub async fn send(
    tls: &TlsConnector,
    call: &HttpCall,
    addresses: &[SocketAddr],
    patience: Duration,
) -> Result<HttpReply, ExchangeFailure> {
    let proxy = Proxy::for_url(&call.url)?;
    let is_plain = call.url.scheme() == "http";
    let asking = async {
        match &proxy {
            Some(proxy) if is_plain => exchange(proxy.connect().await?, call, Some(proxy)).await,
            Some(proxy) => secured(tls, proxy.tunnel(&call.url).await?, call).await,
            None if is_plain => exchange(connect(addresses).await?, call, None).await,
            None => secured(tls, connect(addresses).await?, call).await,
        }
    };
    // The head of the answer has to come in this time, after the body of the request was sent.
    let upload = Duration::from_secs(call.body.len() as u64 / UPLOAD_SPEED);
    let patience = patience.saturating_add(upload);
    timeout(patience, asking)
        .await
        .unwrap_or_else(|_| Err(ExchangeFailure::stalled(patience)))
}

async fn secured<S>(
    tls: &TlsConnector,
    stream: S,
    call: &HttpCall,
) -> Result<HttpReply, ExchangeFailure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let host = call.url.host_str().unwrap_or_default();
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|_| {
        ExchangeFailure::Unreachable("no certificate can be for such a name".to_owned())
    })?;
    let stream = tls.connect(name, stream).await;
    let failed = |error: std::io::Error| {
        ExchangeFailure::Unreachable(format!(
            "TLS failed: {error}; SSL_CERT_FILE can name a file with more trusted certificates"
        ))
    };
    exchange(stream.map_err(failed)?, call, None).await
}

pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, ExchangeFailure> {
    let mut last = ExchangeFailure::Unreachable("it has no address".to_owned());
    for address in addresses.iter().take(ADDRESSES_MAX) {
        match timeout(CONNECT_TIME, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = ExchangeFailure::Unreachable(error.to_string()),
            Err(_) => last = ExchangeFailure::stalled(CONNECT_TIME),
        }
    }
    Err(last)
}

async fn exchange<S>(
    stream: S,
    call: &HttpCall,
    proxy: Option<&Proxy>,
) -> Result<HttpReply, ExchangeFailure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| {
        ExchangeFailure::Unreachable(format!("the connection broke: {error}"))
    };
    let unnamed = |error: http::Error| {
        ExchangeFailure::Unreachable(format!("it cannot be asked for such a name: {error}"))
    };
    let request = call.request(proxy).map_err(unnamed)?;
    let handshake = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await;
    let (mut sender, connection) = handshake.map_err(broken)?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        let _ = connection.await;
    });
    let response = sender.send_request(request).await.map_err(broken)?;
    Ok(HttpReply {
        response,
        _driver: driver,
    })
}

/// The body is still arriving.
pub struct HttpReply {
    response: Response<Incoming>,
    /// Ends the connection once the answer was read, or is not needed any more.
    _driver: JoinSet<()>,
}

impl HttpReply {
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next bytes of the body; `None` at its end. For a stream, whose reader decides how long it waits.
    ///
    /// # Errors
    ///
    /// The connection broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ExchangeFailure> {
        while let Some(frame) = self.response.body_mut().frame().await {
            let frame = frame.map_err(|error| broken_off(&error))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.response
            .headers()
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.header(LOCATION.as_str())
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.header(CONTENT_LENGTH.as_str())?.parse().ok()
    }

    /// Fails on too few bytes while `patience` lasts, on bytes that never stop, and as `take` does.
    pub(crate) async fn pour<E>(
        mut self,
        patience: Duration,
        failed: impl Fn(ExchangeFailure) -> E,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = Instant::now() + BODY_TIME;
        let mut until = Instant::now() + patience;
        let mut arrived = 0;
        loop {
            match timeout_at(until.min(end), self.response.body_mut().frame()).await {
                Ok(None) => return Ok(()),
                Ok(Some(Ok(frame))) => {
                    if let Some(part) = frame.data_ref() {
                        arrived += part.len() as u64;
                        take(part)?;
                    }
                }
                Ok(Some(Err(error))) => return Err(failed(broken_off(&error))),
                Err(_) => {}
            }
            let now = Instant::now();
            if now >= end {
                let why = format!(
                    "sent its answer for {} s without an end",
                    BODY_TIME.as_secs()
                );
                return Err(failed(ExchangeFailure::TooSlow(why)));
            }
            if now >= until {
                if arrived < PROGRESS_BYTES {
                    return Err(failed(ExchangeFailure::stalled(patience)));
                }
                (until, arrived) = (now + patience, 0);
            }
        }
    }
}

fn broken_off(error: &hyper::Error) -> ExchangeFailure {
    ExchangeFailure::Unreachable(format!("its answer broke off: {error}"))
}
