//! The requests to the collector: HTTP/1.1, one connection each, with a time limit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use toolcell_config::Collector;
use toolcell_install::exchange::{self, ExchangeFailure, HttpCall};
use toolcell_install::tls::{self, TlsConnector};
use url::Url;

const REQUEST_TIME: Duration = Duration::from_secs(5);

pub(super) struct CollectorClient {
    endpoint: Url,
    headers: HeaderMap,
    tls: TlsConnector,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PostFailure {
    #[error("cannot be reached")]
    Unreachable,
    #[error("does not answer within {} seconds", REQUEST_TIME.as_secs())]
    TimedOut,
    #[error("answers {}", .0.as_u16())]
    Refused(StatusCode),
}

impl PostFailure {
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

impl From<ExchangeFailure> for PostFailure {
    fn from(failure: ExchangeFailure) -> Self {
        match failure {
            ExchangeFailure::Unreachable(_) => Self::Unreachable,
            ExchangeFailure::TooSlow(_) => Self::TimedOut,
        }
    }
}

impl CollectorClient {
    /// Trusts Mozilla's root certificates, and those in the file `roots`.
    pub(super) fn new(collector: &Collector, roots: Option<&Path>) -> anyhow::Result<Self> {
        // Without the URL, which may hold a key.
        let endpoint = Url::parse(&collector.endpoint.to_string())
            .context("the endpoint of telemetry is not a URL")?;
        let mut trusted: Vec<PathBuf> = Vec::new();
        if endpoint.scheme() == "https" {
            let host = endpoint.host_str().unwrap_or_default();
            ServerName::try_from(host.trim_matches(['[', ']']))
                .context("cannot verify a server of that name")?;
            trusted.extend(roots.map(Path::to_owned));
        }
        let tls = tls::client(&trusted)?;
        let mut headers: HeaderMap = collector.headers.iter().cloned().collect();
        // Last, because the form of the body is not a setting.
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json);
        Ok(Self {
            endpoint,
            headers,
            tls,
        })
    }

    pub(super) async fn post(&self, path: &str, body: String) -> Result<(), PostFailure> {
        let mut url = self.endpoint.clone();
        url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        let mut call = HttpCall::new(Method::POST, url);
        call.body = body.into();
        call.headers = self.headers.clone();
        let sending = async {
            let addresses = exchange::look_up(&call.url).await?;
            let reply = exchange::send(&self.tls, &call, &addresses, REQUEST_TIME).await?;
            // The head is enough: what it says of a part that was not taken cannot be sent again.
            match reply.status() {
                status if status.is_success() => Ok(()),
                status => Err(PostFailure::Refused(status)),
            }
        };
        let sent = timeout(REQUEST_TIME, sending).await;
        // Ends the connection, whose task runs only inside of `block_on`.
        tokio::task::yield_now().await;
        sent.unwrap_or(Err(PostFailure::TimedOut))
    }
}
