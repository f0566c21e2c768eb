//! Options that say how `toolcell serve` meets its clients, and a deployment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use toolcell_config::{GivenServerLimits, call_count, duration, request_count};
use toolcell_server::{HttpLimits, Peer, PublicUrl};

use super::cannot_listen;
use super::listening::listen_at;
use crate::exit::BadRequest;

/// All rights of a file.
const MODE_MAX: u32 = 0o777;

/// Limits of a server: `[server]` of `toolcell.toml` has the same words.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server limits")]
pub(super) struct LimitOptions {
    /// Maximum number of calls that run at once; further calls wait [default: 64]
    #[arg(long, value_name = "N", value_parser = call_count)]
    max_calls: Option<u32>,
    /// Maximum number of open requests of authenticated clients; further requests wait 5 s, then get 503 [default: 192]
    #[arg(long, value_name = "N", value_parser = request_count)]
    max_requests: Option<u32>,
    /// Close a connection that is idle for this long; use more than the idle time of your proxy [default: 75s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    keep_alive: Option<Duration>,
    /// After SIGTERM, accept new requests for this long while /readyz already answers 503 [default: none]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    drain_delay: Option<Duration>,
    /// Then give running calls this long to finish before they are canceled [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    drain: Option<Duration>,
}

/// A proxy in front, metrics, and a check before a start.
#[derive(Debug, Args)]
#[command(next_help_heading = "Deployment")]
pub(super) struct DeploymentOptions {
    /// URL of the server behind a proxy, such as https://example.com/tools. The server uses it in every URL that it prints
    /// or returns, and accepts requests for its host
    #[arg(long, value_name = "URL", value_parser = PublicUrl::parse)]
    pub(super) public_url: Option<PublicUrl>,
    /// Log the client that X-Forwarded-For names if the request comes from this proxy: an IP address, or `unix` for the
    /// socket of --listen
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(super) trusted_proxy: Vec<Peer>,
    /// Read tokens for /metrics from FILE, in the format of --token-file; callers' tokens no longer open it. Turns metrics
    /// on
    #[arg(long, value_name = "FILE")]
    pub(super) metrics_token_file: Option<PathBuf>,
    /// Serve /metrics and probes at a separate address, without a token unless --metrics-token-file is given. Turns metrics
    /// on
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics_listen: Option<SocketAddr>,
    /// File mode of the socket of --listen=unix:PATH, in octal
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub(super) listen_mode: u32,
    /// Check the configuration, tools, keys, token files and addresses, print the results, and exit with 0 if the server
    /// would start
    #[arg(long)]
    pub(super) check: bool,
    /// Print the checks as JSON
    #[arg(long, requires = "check")]
    pub(super) json: bool,
}

impl LimitOptions {
    pub(super) fn given(&self) -> GivenServerLimits {
        GivenServerLimits {
            max_calls: self.max_calls,
            max_requests: self.max_requests,
            keep_alive: self.keep_alive,
            drain_delay: self.drain_delay,
            drain: self.drain,
        }
    }
}

impl DeploymentOptions {
    /// The beginning of URLs.
    pub(super) fn base(&self, address: Option<SocketAddr>) -> String {
        match (&self.public_url, address) {
            (Some(url), _) => url.to_string(),
            (None, Some(address)) => format!("http://{address}"),
            (None, None) => "http://localhost".to_owned(),
        }
    }

    /// Must be called within a runtime.
    pub(super) fn listen_for_metrics(&self) -> Result<Option<TcpListener>, BadRequest> {
        let listening = self
            .metrics_listen
            .map(|address| listen_at(address).map_err(|error| cannot_listen(&address, &error)));
        listening.transpose()
    }

    /// `true` if the operator wants metrics, whatever the files say.
    pub(super) fn measures(&self) -> bool {
        self.metrics_token_file.is_some() || self.metrics_listen.is_some()
    }
}

/// The limits that `given` leaves to the server are its own.
pub(super) fn http_limits(given: &GivenServerLimits) -> HttpLimits {
    let own = HttpLimits::default();
    HttpLimits {
        requests: given.max_requests.unwrap_or(own.requests),
        keep_alive: given.keep_alive.unwrap_or(own.keep_alive),
        drain_delay: given.drain_delay.unwrap_or(own.drain_delay),
        drain_time: given.drain.unwrap_or(own.drain_time),
        ..own
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| *mode <= MODE_MAX)
        .ok_or_else(|| "give the mode in octal, such as 600 or 660".to_owned())
}
