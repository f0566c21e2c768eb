use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::runtime::Runtime;
use anyhow::Context;
use clap::Args;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use toolcell_policy::network::Authority;
use toolcell_server::otc::WorkerSecret;
use toolcell_server::{
    HttpLimits, HttpSettings, LogForm, LogLevel, OperatorLog, OriginGate, Tokens, read_private,
    serve_http,
};

use super::exit::{BadRequest, Exit};
use super::options::one_of;
use super::protected_sources::KeptFile;
use super::serving::{self, ServingOptions};
use super::show;
use super::starting::Ready;

/// Offers tools over HTTP: to MCP clients at /mcp, and to any program at /v1. Clients need a token, printed once on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  toolcell serve example-tools/jq\n  \
                        toolcell serve example-tools/files --allow-read=. --token-file=tokens --listen=127.0.0.1:8080")]
pub(super) struct Serve {
    #[command(flatten)]
    serving: ServingOptions,
    /// Address to listen on; port 0 picks a free port
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:4780",
        help_heading = "HTTP"
    )]
    listen: SocketAddr,
    /// Read tokens from FILE, one `NAME TOKEN` or `TOKEN` per line, instead of generating one
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "no_token",
        help_heading = "HTTP"
    )]
    token_file: Option<PathBuf>,
    /// Take the tokens of approvers in FILE, one a line, `NAME TOKEN` or `TOKEN`: they answer questions about calls at
    /// /v1/approvals, and make no calls
    #[arg(long, value_name = "FILE", help_heading = "HTTP")]
    approver_token_file: Option<PathBuf>,
    /// Serve an Arcade engine at /worker: it signs its tokens with the secret in FILE, of at least 16 characters
    #[arg(long, value_name = "FILE", help_heading = "HTTP")]
    arcade_secret_file: Option<PathBuf>,
    /// Do not require a token. Any program on this machine can then call the tools. Loopback only
    #[arg(long, help_heading = "HTTP")]
    no_token: bool,
    /// A Host that requests may name, beside the loopback names, such as tools.example.com
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = host, help_heading = "HTTP")]
    allow_host: Vec<Authority>,
    /// An Origin that requests may come from, such as https://app.example.com
    #[arg(long, value_name = "URL", value_delimiter = ',', help_heading = "HTTP")]
    allow_origin: Vec<String>,
    /// How standard error has a line for each call and for refused access
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        value_parser = one_of([("text", LogForm::Text), ("json", LogForm::Json)]),
        help_heading = "Log"
    )]
    log: LogForm,
    /// Leave out what matters less: info has every call, warning those that failed and refused access, error what keeps
    /// calls from running
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        value_parser = one_of([
            ("info", LogLevel::Info),
            ("warning", LogLevel::Warning),
            ("error", LogLevel::Error)
        ]),
        help_heading = "Log"
    )]
    log_level: LogLevel,
}

/// Tokens are read again at each SIGHUP.
struct TokenSource {
    /// The callers of the start, where no file names them.
    callers: Tokens,
    files: [Option<PathBuf>; 2],
}

impl Serve {
    pub(super) fn run(mut self) -> anyhow::Result<Exit> {
        let (source, generated) = self.tokens()?;
        let tokens = source.read()?;
        let worker = self.worker()?;
        self.serving.callers = tokens.principals().len() + usize::from(worker.is_some());
        self.serving.listens = true;
        self.serving.is_open = self.no_token;
        self.serving.kept = self.kept();
        let runtime = Runtime::on_all_processors()?;
        self.serving.log = Some(self.log()?);
        // From now on: without a listener, the signal ends the process.
        let hangups = runtime
            .block_on(async { signal(SignalKind::hangup()) })
            .context("cannot listen to SIGHUP")?;
        let served = match self.serving.server(&runtime)? {
            Ready::Server(served) => served,
            Ready::Refused(exit) => return Ok(exit),
        };
        let server = served.server.clone();
        let (renew, new_tokens) = unbounded_channel();
        runtime.spawn(read_again(
            hangups,
            source,
            renew,
            Arc::clone(&served.reload),
        ));
        runtime.spawn(served.follow());
        let done = runtime.block_on(async {
            let listener = listen(self.listen);
            let listener = listener.map_err(|error| {
                BadRequest(format!("cannot listen at {}: {error}", self.listen))
            })?;
            let address = listener.local_addr().context("cannot find the address")?;
            let gate = OriginGate::new(address.port(), &self.allow_host, &self.allow_origin);
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
            let new_tokens = Some(new_tokens);
            let settings = HttpSettings {
                listener,
                gate,
                tokens,
                limits,
                name,
                worker,
                new_tokens,
            };
            serve_http(&server, settings, interrupted).await
        });
        serving::finish(runtime, server);
        done.map(|()| Exit::Succeeded)
    }

    /// The files that hold authority over this server.
    fn kept(&self) -> Vec<KeptFile> {
        let files = [
            (&self.token_file, "the tokens of --token-file"),
            (
                &self.approver_token_file,
                "the tokens of --approver-token-file",
            ),
            (
                &self.arcade_secret_file,
                "the secret of --arcade-secret-file",
            ),
        ];
        files
            .into_iter()
            .filter_map(|(file, what)| Some(KeptFile::shut(file.as_deref()?, what)))
            .collect()
    }

    /// The secret of an Arcade engine.
    fn worker(&self) -> anyhow::Result<Option<WorkerSecret>> {
        let Some(file) = &self.arcade_secret_file else {
            return Ok(None);
        };
        let text =
            read_private(file, "secret of the Arcade engine").map_err(BadRequest::from_error)?;
        Ok(Some(
            WorkerSecret::new(text.trim()).map_err(BadRequest::from_error)?,
        ))
    }

    /// If the lines are JSON, every other line is one of the log, too.
    fn log(&self) -> anyhow::Result<Arc<OperatorLog>> {
        let form = self.log;
        let log = OperatorLog::new(form, self.log_level, std::io::stderr())
            .context("cannot start the log")?;
        if form == LogForm::Json {
            let lines = Arc::clone(&log);
            show::say_through(move |line| {
                let (level, text) =
                    match (line.strip_prefix("error: "), line.strip_prefix("warning: ")) {
                        (Some(text), _) => (LogLevel::Error, text),
                        (None, Some(text)) => (LogLevel::Warning, text),
                        (None, None) => (LogLevel::Info, line),
                    };
                lines.write(
                    level,
                    "notice",
                    text,
                    &serde_json::json!({ "message": text }),
                );
            });
        }
        Ok(log)
    }

    fn tokens(&self) -> anyhow::Result<(TokenSource, Option<String>)> {
        if !self.listen.ip().is_loopback() {
            if self.no_token {
                return Err(
                    BadRequest("--no-token is for loopback addresses only".to_owned()).into(),
                );
            }
            if self.allow_host.is_empty() {
                let why = "others reach this server by a name: say which with --allow-host=NAME";
                return Err(BadRequest(why.to_owned()).into());
            }
        }
        let (callers, generated) = match (&self.token_file, self.no_token) {
            (Some(_), _) | (None, true) => (Tokens::none(), None),
            (None, false) => Tokens::generate().map(|(tokens, text)| (tokens, Some(text)))?,
        };
        Ok((
            TokenSource {
                callers,
                files: [self.token_file.clone(), self.approver_token_file.clone()],
            },
            generated,
        ))
    }
}

impl TokenSource {
    fn read(&self) -> anyhow::Result<Tokens> {
        let [callers, approvers] = &self.files;
        let tokens = match callers {
            Some(file) => Tokens::read(file).map_err(BadRequest::from_error)?,
            None => self.callers.clone(),
        };
        let Some(file) = approvers else {
            return Ok(tokens);
        };
        let approvers = Tokens::read(file).map_err(BadRequest::from_error)?;
        Ok(tokens
            .with_approvers(approvers)
            .map_err(BadRequest::from_error)?)
    }
}

/// Unreadable files change nothing.
async fn read_again(
    mut hangups: Signal,
    source: TokenSource,
    renew: UnboundedSender<Tokens>,
    reload: Arc<Notify>,
) {
    while hangups.recv().await.is_some() {
        match source.read() {
            Ok(tokens) => {
                let _ = renew.send(tokens);
                show::say("SIGHUP: the tokens were read again");
            }
            Err(error) => show::say(&format!(
                "warning: the tokens cannot be read again, and stay as they were: {error:#}"
            )),
        }
        reload.notify_one();
    }
}

/// A burst of more is accepted seconds later.
const BACKLOG: u32 = 1_024;

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    // A server that follows another one takes its port at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn named(authority: &Authority) -> String {
    match authority.port {
        Some(port) => format!("{}:{port}", authority.host),
        None => authority.host.to_string(),
    }
}

/// `NAME` or `NAME:PORT`, with at most a `/` after it. A name that no request could have would never match.
fn host(text: &str) -> Result<Authority, String> {
    let host = Authority::parse(text.strip_suffix('/').unwrap_or(text));
    host.map_err(|why| format!("{why}; give NAME or NAME:PORT, such as tools.example.com"))
}
