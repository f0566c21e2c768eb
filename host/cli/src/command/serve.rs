use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use toolcell_command::runtime::Runtime;
use toolcell_core::policy::network::Authority;
use toolcell_server::otc::WorkerSecret;
use toolcell_server::{Gate, HttpLimits, HttpSettings, Tokens, read_private, serve_http};

use super::exit::{BadRequest, Exit};
use super::serving::{self, Serving};
use super::starting::Ready;

/// Offers tools over HTTP: to MCP clients at /mcp, and to any program at /v1. Clients need a token, printed once on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  toolcell serve example-tools/jq\n  \
                        toolcell serve example-tools/files --allow-read=. --token-file=tokens --listen=127.0.0.1:8080")]
pub(super) struct Serve {
    #[command(flatten)]
    serving: Serving,
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4780", help_heading = "HTTP")]
    listen: SocketAddr,
    /// Take the tokens in FILE, one a line, `NAME TOKEN` or `TOKEN`, instead of a new one
    #[arg(long, value_name = "FILE", conflicts_with = "no_token", help_heading = "HTTP")]
    token_file: Option<PathBuf>,
    /// Take the tokens of approvers in FILE, one a line, `NAME TOKEN` or `TOKEN`: they answer questions about calls at
    /// /v1/approvals, and make no calls
    #[arg(long, value_name = "FILE", help_heading = "HTTP")]
    approver_token_file: Option<PathBuf>,
    /// Serve an Arcade engine at /worker: it signs its tokens with the secret in FILE, of at least 16 characters
    #[arg(long, value_name = "FILE", help_heading = "HTTP")]
    arcade_secret_file: Option<PathBuf>,
    /// Require no token: every program on this machine may call the tools. Loopback only
    #[arg(long, help_heading = "HTTP")]
    no_token: bool,
    /// A Host that requests may name, beside the loopback names, such as tools.example.com
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = host, help_heading = "HTTP")]
    allow_host: Vec<Authority>,
    /// An Origin that requests may come from, such as https://app.example.com
    #[arg(long, value_name = "URL", value_delimiter = ',', help_heading = "HTTP")]
    allow_origin: Vec<String>,
}

impl Serve {
    pub(super) fn run(mut self) -> anyhow::Result<Exit> {
        let (tokens, generated) = self.tokens()?;
        let worker = self.worker()?;
        self.serving.callers = tokens.principals().len() + usize::from(worker.is_some());
        let runtime = Runtime::on_all_processors()?;
        let served = match self.serving.server(&runtime)? {
            Ready::Server(served) => served,
            Ready::Refused(exit) => return Ok(exit),
        };
        let server = served.server.clone();
        runtime.spawn(served.follow());
        let done = runtime.block_on(async {
            let listener = TcpListener::bind(self.listen).await;
            let listener =
                listener.map_err(|error| BadRequest(format!("cannot listen at {}: {error}", self.listen)))?;
            let address = listener.local_addr().context("cannot find the address")?;
            let gate = Gate::new(address.port(), &self.allow_host, &self.allow_origin);
            let interrupted = serving::interrupted();
            let mut err = std::io::stderr();
            if let Some(token) = generated {
                let _ = writeln!(err, "Authorization: Bearer {token}");
            }
            if worker.is_some() {
                let _ = writeln!(err, "Arcade worker at http://{address}/worker");
            }
            // MCP last, because that line says that the server is ready.
            let _ = writeln!(err, "API at http://{address}/v1/openapi.json");
            let _ = writeln!(err, "MCP at http://{address}/mcp");
            let name = self.allow_host.first().map(named);
            let limits = HttpLimits::default();
            let settings = HttpSettings { listener, gate, tokens, limits, name, worker };
            serve_http(&server, settings, interrupted).await
        });
        serving::finish(runtime, server);
        done.map(|()| Exit::Succeeded)
    }

    /// The secret of an Arcade engine.
    fn worker(&self) -> anyhow::Result<Option<WorkerSecret>> {
        let wrong = |error: anyhow::Error| BadRequest(format!("{error:#}"));
        let Some(file) = &self.arcade_secret_file else { return Ok(None) };
        let text = read_private(file, "secret of the Arcade engine").map_err(wrong)?;
        Ok(Some(WorkerSecret::new(text.trim()).map_err(wrong)?))
    }

    fn tokens(&self) -> anyhow::Result<(Tokens, Option<String>)> {
        if !self.listen.ip().is_loopback() {
            if self.no_token {
                return Err(BadRequest("--no-token is for loopback addresses only".to_owned()).into());
            }
            if self.allow_host.is_empty() {
                let why = "others reach this server by a name: say which with --allow-host=NAME";
                return Err(BadRequest(why.to_owned()).into());
            }
        }
        let wrong = |error: anyhow::Error| BadRequest(format!("{error:#}"));
        let (tokens, generated) = match (&self.token_file, self.no_token) {
            (Some(file), _) => (Tokens::read(file).map_err(wrong)?, None),
            (None, true) => (Tokens::none(), None),
            (None, false) => Tokens::generate().map(|(tokens, text)| (tokens, Some(text)))?,
        };
        let Some(file) = &self.approver_token_file else { return Ok((tokens, generated)) };
        let approvers = Tokens::read(file).map_err(wrong)?;
        Ok((tokens.with_approvers(approvers).map_err(wrong)?, generated))
    }
}

/// The name as a URL has it.
fn named(authority: &Authority) -> String {
    match authority.port {
        Some(port) => format!("{}:{port}", authority.host),
        None => authority.host.to_string(),
    }
}

/// Parses `NAME` or `NAME:PORT`, with at most a `/` after it. A name that no request could have would never match.
fn host(text: &str) -> Result<Authority, String> {
    let host = Authority::parse(text.strip_suffix('/').unwrap_or(text));
    host.map_err(|why| format!("{why}; give NAME or NAME:PORT, such as tools.example.com"))
}
