//! Requests to a registry: bounded, with time limits, and with a rule for where a redirect may lead.
//!
//! Plain HTTP/1.1 on a connection for each request, because an install makes a few of them. A general client does not
//! fit: it reads whole answers into memory, and follows redirects before an address can be checked.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use toolcell_core::policy::network::{reached, special};
use toolcell_core::record::Refusal;
use url::{Host, Url};

use super::refusal;

/// Maximum number of redirects of one request.
const REDIRECTS_MAX: usize = 5;
/// Maximum time to look up a host and to connect, for each of its addresses.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Minimum number of bytes that arrive while the registry's patience lasts; fewer are no progress.
const PROGRESS_BYTES: u64 = 64 << 10;
/// Maximum size of the head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// One request, which can be sent again.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    pub(super) fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

/// Sends requests.
pub(super) struct Wire {
    tls: TlsConnector,
    /// Time without progress after which a request is given up.
    patience: Duration,
}

/// The registry that the user named. Its own addresses may be internal, because the user named it.
pub(super) struct Home {
    scheme: &'static str,
    /// As URLs have it.
    host: String,
    port: u16,
}

/// From where an address can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    Public,
    Private,
    Loopback,
}

impl Home {
    /// The registry at `url`, whose path does not count.
    pub(super) fn of(url: &Url) -> Option<Self> {
        let scheme = if url.scheme() == "http" { "http" } else { "https" };
        Some(Self { scheme, host: url.host_str()?.to_owned(), port: url.port_or_known_default()? })
    }

    /// Whether `url` leads to the registry itself.
    pub(super) fn is(&self, url: &Url) -> bool {
        url.scheme() == self.scheme
            && url.host_str() == Some(self.host.as_str())
            && url.port_or_known_default() == Some(self.port)
    }
}

impl Wire {
    /// Trusts Mozilla's root certificates, and those in the PEM file `roots`.
    pub(super) fn new(roots: Option<&Path>, patience: Duration) -> anyhow::Result<Self> {
        let mut trusted = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(file) = roots {
            let read = || format!("cannot read certificates from {}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).with_context(read)? {
                trusted.add(certificate.with_context(read)?).with_context(read)?;
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("cannot speak TLS")?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), patience })
    }

    /// Sends `call` and follows redirects, to where the rule of `home` allows.
    pub(super) async fn send(&self, mut call: Call, home: &Home) -> Result<Answer, Refusal> {
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.once(&call, home).await?;
            match redirect(&answer, &call, home)? {
                Some(next) => call = next,
                None => return Ok(answer),
            }
        }
        Err(refusal::redirected(&home.host, call.url.as_str(), "after too many other redirects"))
    }

    async fn once(&self, call: &Call, home: &Home) -> Result<Answer, Refusal> {
        let host = call.url.host_str().unwrap_or_default().to_owned();
        let addresses = self.addresses(&call.url, home).await?;
        let socket = connect(&addresses, &host).await?;
        let exchange = async {
            if call.url.scheme() == "http" {
                return self.exchange(socket, call, &host).await;
            }
            let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
            let name = name.map_err(|_| refusal::unreachable(&host, "no certificate can be for such a name"))?;
            let stream = self.tls.connect(name, socket).await;
            let stream = stream.map_err(|error| refusal::unreachable(&host, &format!("TLS failed: {error}")))?;
            self.exchange(stream, call, &host).await
        };
        // The head of the answer has to come in this time, after the body of the request was sent.
        let patience = self.patience.saturating_add(upload_time(call.body.len()));
        timeout(patience, exchange).await.unwrap_or_else(|_| Err(refusal::too_slow(&host, patience.as_secs())))
    }

    async fn exchange<S>(&self, stream: S, call: &Call, host: &str) -> Result<Answer, Refusal>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |error: hyper::Error| refusal::unreachable(host, &format!("the connection broke: {error}"));
        let request = request(call).map_err(|_| refusal::unreachable(host, "it cannot be asked for such a name"))?;
        let handshake = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(broken)?;
        let driver = Driver(tokio::spawn(async move {
            let _ = connection.await;
        }));
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok(Answer { host: host.to_owned(), patience: self.patience, response, _driver: driver })
    }

    /// The addresses to connect to. Those of any host but the registry itself must be public, or in the zone of the
    /// registry's own.
    async fn addresses(&self, url: &Url, home: &Home) -> Result<Vec<SocketAddr>, Refusal> {
        let addresses = look_up(url).await?;
        if home.is(url) || !guard!("registry_redirects") {
            return Ok(addresses);
        }
        let refused = |why: &str| Err(refusal::redirected(&home.host, url.as_str(), why));
        let own = format!("{}://{}:{}/", home.scheme, home.host, home.port);
        let own = match Url::parse(&own) {
            Ok(own) => look_up(&own).await?,
            Err(_) => Vec::new(),
        };
        let own: Vec<Option<Zone>> = own.iter().map(|address| zone(address.ip())).collect();
        let zones: Vec<Option<Zone>> = addresses.iter().map(|address| zone(address.ip())).collect();
        let may_be = |found: &Option<Zone>| *found == Some(Zone::Public) || (found.is_some() && own.contains(found));
        if !zones.iter().all(may_be) {
            return refused("which is an address inside of a private network or of this machine");
        }
        let on_this_machine = home.scheme == "http" && zones.iter().all(|zone| *zone == Some(Zone::Loopback));
        if url.scheme() != "https" && !on_this_machine {
            return refused("without TLS");
        }
        Ok(addresses)
    }
}

/// The zone of `address`; `None` if nothing that a registry leads to can be there, such as a cloud's metadata.
fn zone(address: IpAddr) -> Option<Zone> {
    match special(reached(address)) {
        None => Some(Zone::Public),
        Some("private" | "shared" | "site-local") => Some(Zone::Private),
        Some("loopback") => Some(Zone::Loopback),
        Some(_) => None,
    }
}

async fn look_up(url: &Url) -> Result<Vec<SocketAddr>, Refusal> {
    let port = url.port_or_known_default().unwrap_or(443);
    let name = match url.host() {
        Some(Host::Ipv4(address)) => return Ok(vec![SocketAddr::new(address.into(), port)]),
        Some(Host::Ipv6(address)) => return Ok(vec![SocketAddr::new(address.into(), port)]),
        Some(Host::Domain(name)) => name,
        None => return Err(refusal::unreachable(url.as_str(), "it has no host")),
    };
    let found = timeout(CONNECT_TIME, tokio::net::lookup_host((name, port))).await;
    let found = found.map_err(|_| refusal::too_slow(name, CONNECT_TIME.as_secs()))?;
    let found: Vec<SocketAddr> =
        found.map_err(|error| refusal::unreachable(name, &format!("its name cannot be looked up: {error}")))?.collect();
    match found.is_empty() {
        true => Err(refusal::unreachable(name, "its name has no address")),
        false => Ok(found),
    }
}

async fn connect(addresses: &[SocketAddr], host: &str) -> Result<TcpStream, Refusal> {
    let mut last = refusal::unreachable(host, "it has no address");
    for address in addresses {
        match timeout(CONNECT_TIME, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = refusal::unreachable(host, &error.to_string()),
            Err(_) => last = refusal::too_slow(host, CONNECT_TIME.as_secs()),
        }
    }
    Err(last)
}

/// Time for the upload of a body of so many bytes, at the slowest speed that counts as progress.
fn upload_time(bytes: usize) -> Duration {
    Duration::from_secs((bytes as u64) / (16 << 10))
}

fn request(call: &Call) -> Result<Request<Full<Bytes>>, http::Error> {
    let (url, path) = (&call.url, call.url.path());
    let target = url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let mut request = Request::builder().method(call.method.clone()).uri(target).body(Full::new(call.body.clone()))?;
    let headers = request.headers_mut();
    headers.extend(call.headers.clone());
    headers.insert(HOST, HeaderValue::try_from(authority)?);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("toolcell/", env!("CARGO_PKG_VERSION"))));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if call.method != Method::GET && call.method != Method::HEAD {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(call.body.len()));
    }
    Ok(request)
}

/// The request to which `answer` redirects; `None` if it is no redirect.
fn redirect(answer: &Answer, call: &Call, home: &Home) -> Result<Option<Call>, Refusal> {
    let reads = call.method == Method::GET || call.method == Method::HEAD;
    match answer.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {}
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER if reads => {}
        _ => return Ok(None),
    }
    let Some(location) = answer.header(LOCATION.as_str()) else {
        return Err(refusal::malformed(&home.host, "a redirect to nowhere"));
    };
    let refused = |why: &str| refusal::redirected(&home.host, location, why);
    let url = call.url.join(location).map_err(|_| refused("which is not a URL"))?;
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return Err(refused("which is neither https nor http"));
    }
    let mut next = Call { url, ..call.clone() };
    if next.url.origin() != call.url.origin() && guard!("registry_credentials") {
        // Credentials are for the origin that they were sent to.
        next.headers.remove(AUTHORIZATION);
    }
    Ok(Some(next))
}

/// Ends the connection once its answer was read, or is not needed any more.
struct Driver(tokio::task::JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer whose body is still arriving.
pub(super) struct Answer {
    /// Host that sent it, for messages.
    host: String,
    patience: Duration,
    response: Response<Incoming>,
    _driver: Driver,
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The value of a header, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// All values of a header that are text.
    pub(super) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.response.headers().get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    /// The size of the body, if the answer says it.
    pub(super) fn length(&self) -> Option<u64> {
        self.header(CONTENT_LENGTH.as_str())?.parse().ok()
    }

    /// Reads a body of at most `bytes_max` bytes.
    pub(super) async fn bytes(self, bytes_max: u64) -> Result<Vec<u8>, Refusal> {
        let host = self.host.clone();
        let too_long = |bytes: u64| bytes > bytes_max && guard!("registry_answers");
        if self.length().is_some_and(too_long) {
            return Err(refusal::too_long(&host, bytes_max));
        }
        let mut read = Vec::new();
        let pouring = self.pour(|part| {
            if too_long((read.len() + part.len()) as u64) {
                return Err(refusal::too_long(&host, bytes_max));
            }
            read.extend_from_slice(part);
            Ok(())
        });
        pouring.await?;
        Ok(read)
    }

    /// Reads at most the first `bytes_max` bytes, of an answer that only explains an error. Never fails.
    pub(super) async fn start(self, bytes_max: usize) -> Vec<u8> {
        let mut read = Vec::new();
        let stop = || refusal::too_long("", 0);
        let reading = self.pour(|part| {
            read.extend_from_slice(part);
            if read.len() >= bytes_max { Err(stop()) } else { Ok(()) }
        });
        let _ = reading.await;
        read.truncate(bytes_max);
        read
    }

    /// Gives each part of the body to `take`. Fails if too few bytes arrive while the patience lasts, also if they never
    /// stop.
    pub(super) async fn pour(mut self, mut take: impl FnMut(&[u8]) -> Result<(), Refusal>) -> Result<(), Refusal> {
        let (mut until, mut arrived) = (Instant::now() + self.patience, 0);
        loop {
            let frame = timeout_at(until, self.response.body_mut().frame()).await;
            match frame {
                Ok(None) => return Ok(()),
                Ok(Some(Ok(frame))) => {
                    if let Some(part) = frame.data_ref() {
                        arrived += part.len() as u64;
                        take(part)?;
                    }
                }
                Ok(Some(Err(error))) => {
                    return Err(refusal::unreachable(&self.host, &format!("its answer broke off: {error}")));
                }
                Err(_) => {}
            }
            if Instant::now() >= until {
                if arrived < PROGRESS_BYTES && guard!("registry_patience") {
                    return Err(refusal::too_slow(&self.host, self.patience.as_secs()));
                }
                (until, arrived) = (Instant::now() + self.patience, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_zones() {
        let of = |text: &str| zone(text.parse().unwrap());
        assert_eq!(of("1.1.1.1"), Some(Zone::Public));
        assert_eq!((of("10.0.0.1"), of("fd00::1")), (Some(Zone::Private), Some(Zone::Private)));
        for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(loopback), Some(Zone::Loopback), "{loopback}");
        }
        assert_eq!((of("169.254.169.254"), of("169.254.1.1"), of("224.0.0.1")), (None, None, None));
    }

    #[test]
    fn a_registry_is_its_scheme_host_and_port() {
        let home = Home::of(&Url::parse("https://ghcr.io/v2/").unwrap()).unwrap();
        for (url, is) in [
            ("https://ghcr.io:443/x", true),
            ("https://ghcr.io/other", true),
            ("http://ghcr.io/x", false),
            ("https://ghcr.io:444/x", false),
            ("https://ghcr.io.example.org/x", false),
        ] {
            assert_eq!(home.is(&Url::parse(url).unwrap()), is, "{url}");
        }
    }
}
