//! URLs as a source of components. A URL says nothing of its bytes before they are fetched, and a server may answer with
//! anything: redirects, sizes and times are bounded.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, LOCATION, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use toolcell_core::executor::BoxFuture;
use toolcell_core::policy::network::{reached, special};
use toolcell_core::record::{ErrorClass, Refusal};
use url::{Host, Url};

use crate::local::SIGNATURES;
use crate::reference::{Reference, is_loopback};
use crate::source::{REFERRER_BYTES_MAX, Referrer, ReferrerKind, Resolved, Sink, Source, too_large};

/// Maximum number of redirects.
const REDIRECTS_MAX: usize = 5;
/// Maximum time until a server has answered with a head.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Maximum time without a byte of a body.
const SILENCE: Duration = Duration::from_secs(30);
/// Maximum time of one body.
const BODY_TIME: Duration = Duration::from_secs(600);

/// Components behind URLs.
pub struct Web {
    tls: TlsConnector,
}

/// A body that is arriving. Its connection ends when this is dropped.
struct Body {
    response: Response<Incoming>,
    connection: JoinHandle<()>,
}

impl Drop for Body {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Web {
    /// Speaks TLS with `config`.
    pub fn new(config: ClientConfig) -> Self {
        Self { tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Requests `url`, and follows redirects. `None` if the server says that there is nothing.
    async fn get(&self, url: &Url) -> Result<Option<Body>, Refusal> {
        let mut at = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let body = self.request(&at, url).await?;
            match body.response.status() {
                status if status.is_success() => return Ok(Some(body)),
                StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
                status if status.is_redirection() => at = redirected(&at, &body, url)?,
                status => {
                    let message = format!("{at} answers {}: check the URL, or try again later", status.as_u16());
                    return Err(Refusal::new(ErrorClass::DependencyUnavailable, "source_refused", message));
                }
            }
        }
        let message = format!("{url} redirects more than {REDIRECTS_MAX} times: use the URL that it ends at");
        Err(Refusal::new(ErrorClass::DependencyUnavailable, "too_many_redirects", message))
    }

    async fn request(&self, at: &Url, first: &Url) -> Result<Body, Refusal> {
        let asking = async {
            let name = at.host_str().unwrap_or_default();
            let port = at.port_or_known_default().unwrap_or(443);
            let stream = connect(at, first, name, port).await?;
            if at.scheme() == "http" {
                return exchange(stream, at).await;
            }
            let host = ServerName::try_from(name.trim_matches(['[', ']']).to_owned());
            let host = host.map_err(|_| unreachable(at, "its host is not a name that TLS knows"))?;
            let stream = self.tls.connect(host, stream).await.map_err(|error| unreachable(at, &error.to_string()))?;
            exchange(stream, at).await
        };
        let answered = tokio::time::timeout(ANSWER_TIME, asking).await;
        answered.unwrap_or_else(|_| Err(slow(at, ANSWER_TIME)))
    }

    async fn all(&self, url: &Url, bytes_max: u64) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(body) = self.get(url).await? else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut sink = Sink::new(&mut bytes, bytes_max);
        pour(body, url, &mut sink).await?;
        Ok(Some(bytes))
    }
}

/// Where the redirect of `at` leads: to https, or as the first URL to this machine.
fn redirected(at: &Url, body: &Body, first: &Url) -> Result<Url, Refusal> {
    let refused = |why: &str| {
        let message = format!("{at} redirects {why}: use the URL that it should end at, if you trust it");
        Refusal::new(ErrorClass::PolicyBlocked, "redirect_refused", message)
    };
    let location = body.response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let to = location.and_then(|location| at.join(location).ok()).ok_or_else(|| refused("to nowhere"))?;
    let is_allowed = match to.scheme() {
        "https" => true,
        "http" => is_loopback(first) && is_loopback(&to),
        _ => false,
    };
    match is_allowed || !guard!("redirect_schemes") {
        true => Ok(to),
        false => Err(refused(&format!("to `{}`, which is not https", to.scheme()))),
    }
}

/// Connects to the host of `at`. The first URL is the user's own word; what a server redirects to, on another host, must
/// be public.
async fn connect(at: &Url, first: &Url, name: &str, port: u16) -> Result<TcpStream, Refusal> {
    let is_own = (at.host(), at.port_or_known_default()) == (first.host(), first.port_or_known_default())
        || (is_loopback(first) && is_loopback(at));
    let found: Vec<SocketAddr> = match at.host() {
        Some(Host::Ipv4(address)) => vec![(address, port).into()],
        Some(Host::Ipv6(address)) => vec![(address, port).into()],
        _ => {
            let found = tokio::net::lookup_host((name, port)).await;
            found.map_err(|error| unreachable(at, &error.to_string()))?.collect()
        }
    };
    if !is_own
        && guard!("redirect_addresses")
        && let Some(what) = found.iter().find_map(|address| special(reached(address.ip())))
    {
        let message = format!(
            "{first} redirects to {name}, whose address is not public ({what}), so nothing was fetched; use another URL"
        );
        return Err(Refusal::new(ErrorClass::PolicyBlocked, "redirect_refused", message));
    }
    let mut failed = unreachable(at, "its host has no address");
    for address in found {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = unreachable(at, &error.to_string()),
        }
    }
    Err(failed)
}

async fn exchange<S>(stream: S, at: &Url) -> Result<Body, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |error: hyper::Error| unreachable(at, &error.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let connection = tokio::spawn(async move { drop(connection.await) });
    let authority = match at.port() {
        Some(port) => format!("{}:{port}", at.host_str().unwrap_or_default()),
        None => at.host_str().unwrap_or_default().to_owned(),
    };
    let path = at.query().map_or_else(|| at.path().to_owned(), |query| format!("{}?{query}", at.path()));
    let request = Request::get(path)
        .header(HOST, authority)
        .header(USER_AGENT, concat!("toolcell/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new());
    let request = request.map_err(|error| unreachable(at, &error.to_string()))?;
    match sender.send_request(request).await {
        Ok(response) => Ok(Body { response, connection }),
        Err(error) => {
            connection.abort();
            Err(failed(error))
        }
    }
}

/// Writes `body` into `sink`, within its bounds.
async fn pour(mut body: Body, url: &Url, sink: &mut Sink<'_>) -> Result<(), Refusal> {
    let length = body.response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > sink.room()) {
        return Err(too_large(sink.room()));
    }
    let pouring = async {
        loop {
            let next = tokio::time::timeout(SILENCE, body.response.body_mut().frame()).await;
            match next.map_err(|_| slow(url, SILENCE))? {
                None => return Ok(()),
                Some(Err(error)) => return Err(unreachable(url, &format!("its answer ended early: {error}"))),
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        sink.write(bytes)?;
                    }
                }
            }
        }
    };
    tokio::time::timeout(BODY_TIME, pouring).await.unwrap_or_else(|_| Err(slow(url, BODY_TIME)))
}

impl Source for Web {
    fn resolve<'a>(&'a self, reference: &'a Reference) -> BoxFuture<'a, Result<Resolved, Refusal>> {
        Box::pin(async move {
            Ok(Resolved {
                reference: reference.clone(),
                manifest: None,
                component: None,
                size: None,
                annotations: BTreeMap::new(),
            })
        })
    }

    fn fetch<'a>(&'a self, resolved: &'a Resolved, sink: &'a mut Sink<'_>) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move {
            let url = of(&resolved.reference)?;
            let Some(body) = self.get(url).await? else {
                let message = format!("there is nothing at {url}: check the URL");
                return Err(Refusal::new(ErrorClass::UnknownTool, "reference_not_found", message));
            };
            pour(body, url, sink).await
        })
    }

    fn referrers<'a>(
        &'a self,
        resolved: &'a Resolved,
        kind: ReferrerKind,
    ) -> BoxFuture<'a, Result<Vec<Referrer>, Refusal>> {
        Box::pin(async move {
            let (url, mut found) = (of(&resolved.reference)?, Vec::new());
            for (ending, media_type) in SIGNATURES {
                if kind == ReferrerKind::Sbom {
                    break;
                }
                let mut beside = url.clone();
                beside.set_path(&format!("{}{ending}", url.path()));
                if let Some(bytes) = self.all(&beside, REFERRER_BYTES_MAX).await? {
                    found.push(Referrer { media_type: media_type.to_owned(), found: beside.to_string(), bytes });
                }
            }
            Ok(found)
        })
    }
}

fn of(reference: &Reference) -> Result<&Url, Refusal> {
    match reference {
        Reference::Url(url) => Ok(url),
        other => Err(Refusal::host_fault(format!("{other} is not a URL"))),
    }
}

fn unreachable(url: &Url, why: &str) -> Refusal {
    let message = format!("{url} cannot be reached: {why}; check the URL and the network");
    Refusal::new(ErrorClass::DependencyUnavailable, "source_unreachable", message)
}

fn slow(url: &Url, limit: Duration) -> Refusal {
    let message = format!("{url} takes more than {} seconds: try again later", limit.as_secs());
    Refusal::new(ErrorClass::DependencyUnavailable, "source_too_slow", message)
}
