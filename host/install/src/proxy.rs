//! The proxies that the environment names (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), for requests on the operator's
//! behalf. A guest's request goes through none: what it reaches is what the grants say.

use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use url::{Position, Url};

use super::exchange::{ExchangeFailure, HEAD_BYTES_MAX, connect, resolve};

static PROXIES: LazyLock<Matcher> = LazyLock::new(Matcher::from_env);

/// A proxy for one request.
pub(crate) struct Proxy {
    host: String,
    port: u16,
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// `None` if the request goes to its server directly.
    ///
    /// # Errors
    ///
    /// A proxy that speaks another protocol than plain HTTP.
    pub(crate) fn for_url(url: &Url) -> Result<Option<Self>, ExchangeFailure> {
        let uri: Option<Uri> = url[..Position::AfterPath].parse().ok();
        let Some(found) = uri.and_then(|uri| PROXIES.intercept(&uri)) else {
            return Ok(None);
        };
        Self::from_environment(&found).map(Some)
    }

    fn from_environment(found: &Intercept) -> Result<Self, ExchangeFailure> {
        let uri = found.uri();
        let host = uri.host().unwrap_or_default();
        if uri.scheme_str() != Some("http") || host.is_empty() {
            let scheme = uri.scheme_str().unwrap_or_default();
            return Err(ExchangeFailure::Unreachable(format!(
                "the proxy of the environment, {scheme}://{host}, is not one of plain HTTP; set HTTPS_PROXY to a URL that \
                 begins with http://, or NO_PROXY to the host"
            )));
        }
        Ok(Self {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(80),
            authorization: found.basic_auth().cloned(),
        })
    }

    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    pub(crate) async fn connect(&self) -> Result<TcpStream, ExchangeFailure> {
        let reached = async { connect(&resolve(&self.host, self.port).await?).await };
        reached.await.map_err(|failure| self.failed(&failure))
    }

    /// A connection to the server of `url`, of which the proxy sees host and port alone.
    pub(crate) async fn tunnel(&self, url: &Url) -> Result<TokioIo<Upgraded>, ExchangeFailure> {
        let stream = self.connect().await?;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(443);
        let target = format!("{host}:{port}");
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(&target)
            .header(HOST, &target);
        if let Some(authorization) = &self.authorization {
            request = request.header(PROXY_AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| self.broken(&error))?;
        let handshake = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await;
        let (mut sender, connection) = handshake.map_err(|error| self.broken(&error))?;
        tokio::spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| self.broken(&error))?;
        if !answer.status().is_success() {
            return Err(self.broken(&format!("it answers {}", answer.status().as_u16())));
        }
        let upgraded = hyper::upgrade::on(answer).await;
        upgraded
            .map(TokioIo::new)
            .map_err(|error| self.broken(&error))
    }

    fn failed(&self, failure: &ExchangeFailure) -> ExchangeFailure {
        match failure {
            ExchangeFailure::Unreachable(why) => self.broken(why),
            ExchangeFailure::TooSlow(why) => {
                ExchangeFailure::TooSlow(format!("{}: {why}", self.named()))
            }
        }
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> ExchangeFailure {
        ExchangeFailure::Unreachable(format!("{}: {why}", self.named()))
    }

    /// Without the user and password of its URL.
    fn named(&self) -> String {
        format!(
            "through the proxy {}:{} of the environment",
            self.host, self.port
        )
    }
}
