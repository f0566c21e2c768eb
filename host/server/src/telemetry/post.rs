//! The requests to the collector: HTTP/1.1, one connection each, with a time limit.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use toolcell_config::Collector;
use toolcell_system::named_file;

/// Maximum size of a file of certificates, in bytes.
const ROOTS_BYTES_MAX: u64 = 4 << 20;
/// Maximum time of one request.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Sends to one collector.
pub(super) struct CollectorClient {
    collector: Collector,
    /// `None` for plain HTTP.
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// Why the collector did not take something.
pub(super) enum PostFailure {
    Unreachable,
    TimedOut,
    Refused(StatusCode),
}

impl PostFailure {
    /// Returns whether a retry may work.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable | Self::TimedOut => true,
            // A collector that fails, unless it says that it cannot do what was asked for at all.
            Self::Refused(status) => {
                let is_busy = matches!(
                    *status,
                    StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
                );
                is_busy || (status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED)
            }
        }
    }
}

impl fmt::Display for PostFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("cannot be reached"),
            Self::TimedOut => write!(
                f,
                "does not answer within {} seconds",
                REQUEST_TIME.as_secs()
            ),
            Self::Refused(status) => write!(f, "answers {}", status.as_u16()),
        }
    }
}

impl CollectorClient {
    /// Trusts Mozilla's root certificates, and those in the file `roots`.
    pub(super) fn new(collector: Collector, roots: Option<&Path>) -> anyhow::Result<Self> {
        let tls = match collector.endpoint.scheme_str() {
            Some("https") => {
                let host = collector
                    .endpoint
                    .host()
                    .unwrap_or_default()
                    .trim_matches(['[', ']'])
                    .to_owned();
                let name =
                    ServerName::try_from(host).context("cannot verify a server of that name")?;
                Some((TlsConnector::from(Arc::new(trusting(roots)?)), name))
            }
            _ => None,
        };
        Ok(Self { collector, tls })
    }

    /// Sends `body`, JSON, to `path` below the collector's URL.
    pub(super) async fn post(&self, path: &str, body: String) -> Result<(), PostFailure> {
        let sending = async {
            let endpoint = &self.collector.endpoint;
            let host = endpoint.host().unwrap_or_default().trim_matches(['[', ']']);
            let port = endpoint
                .port_u16()
                .unwrap_or(if self.tls.is_some() { 443 } else { 80 });
            let socket = TcpStream::connect((host, port))
                .await
                .map_err(|_| PostFailure::Unreachable)?;
            match &self.tls {
                None => self.send(socket, path, body).await,
                Some((tls, name)) => {
                    let stream = tls
                        .connect(name.clone(), socket)
                        .await
                        .map_err(|_| PostFailure::Unreachable)?;
                    self.send(stream, path, body).await
                }
            }
        };
        tokio::time::timeout(REQUEST_TIME, sending)
            .await
            .unwrap_or(Err(PostFailure::TimedOut))
    }

    async fn send<S>(&self, stream: S, path: &str, body: String) -> Result<(), PostFailure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let request = self
            .request(path, body)
            .map_err(|_| PostFailure::Unreachable)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|_| PostFailure::Unreachable)?;
        let mut connection = std::pin::pin!(connection);
        let mut answer = std::pin::pin!(sender.send_request(request));
        // The head is enough: what it says of a part that was not taken cannot be sent again.
        let response = tokio::select! {
            biased;
            response = &mut answer => response,
            _ = &mut connection => answer.await,
        };
        match response.map_err(|_| PostFailure::Unreachable)?.status() {
            status if status.is_success() => Ok(()),
            status => Err(PostFailure::Refused(status)),
        }
    }

    fn request(&self, path: &str, body: String) -> Result<Request<Full<Bytes>>, http::Error> {
        let endpoint = &self.collector.endpoint;
        let authority = endpoint
            .authority()
            .map_or("", |authority| authority.as_str());
        let mut request = Request::post(format!("{}{path}", endpoint.path().trim_end_matches('/')))
            .header(HOST, authority)
            .header(USER_AGENT, concat!("toolcell/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(Bytes::from(body)))?;
        let headers = request.headers_mut();
        headers.extend(self.collector.headers.iter().cloned());
        // Last, because the framing of a request and the form of its body are not settings.
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        Ok(request)
    }
}

fn trusting(roots: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let mut trusted = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(file) = roots {
        let read = || format!("cannot read certificates from {}", file.display());
        let text = named_file::read(file, ROOTS_BYTES_MAX).with_context(read)?;
        for certificate in CertificateDer::pem_slice_iter(&text) {
            trusted
                .add(certificate.with_context(read)?)
                .with_context(read)?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("cannot speak TLS")?;
    Ok(config.with_root_certificates(trusted).with_no_client_auth())
}
