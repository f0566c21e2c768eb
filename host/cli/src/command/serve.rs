mod checking;
mod listening;
mod open_files;
mod options;
pub(super) mod signals;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use crate::runtime::Runtime;
use anyhow::Context;
use clap::Args;
use sd_notify::NotifyState;
use tokio::sync::mpsc::unbounded_channel;
use toolcell_policy::network::Authority;
use toolcell_server::otc::WorkerSecret;
use toolcell_server::{
    HttpListener, HttpSettings, LogForm, LogLevel, OperatorLog, OriginGate, ProxySettings,
    PublicUrl, Tokens, read_private, serve_http,
};

use listening::{ListenPlace, PassedSocket, SocketFile, listen_at, listen_in};
use options::{DeploymentOptions, LimitOptions, http_limits};

use super::exit::{BadRequest, Exit};
use super::options::one_of;
use super::protected_sources::KeptFile;
use super::serving::{self, ServingOptions, TokenCallers};
use super::starting::Ready;
use super::{interrupts, show};

/// Offers tools over HTTP: to MCP clients at /mcp, and to any program at /v1. Clients need a token, printed once on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  toolcell serve example-tools/jq\n  \
                        toolcell serve example-tools/files --allow-read=. --token-file=tokens --listen=127.0.0.1:8080")]
pub(super) struct Serve {
    #[command(flatten)]
    serving: ServingOptions,
    /// Address to listen on, or unix:PATH for a socket in the file system; port 0 picks a free port. A socket passed by
    /// systemd replaces it
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:4780",
        value_parser = ListenPlace::parse,
        help_heading = "HTTP"
    )]
    listen: ListenPlace,
    /// Read tokens from FILE, one `NAME TOKEN` or `TOKEN` per line, instead of generating one
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "no_token",
        help_heading = "HTTP"
    )]
    token_file: Option<PathBuf>,
    /// Read tokens of approvers from FILE, one `NAME TOKEN` or `TOKEN` per line. Approvers answer approval requests at
    /// /v1/approvals and cannot make calls
    #[arg(long, value_name = "FILE", help_heading = "HTTP")]
    approver_token_file: Option<PathBuf>,
    /// Serve an Arcade engine at /worker. It signs its tokens with the secret in FILE, which has at least 16 characters
    #[arg(long, value_name = "FILE", help_heading = "HTTP")]
    arcade_secret_file: Option<PathBuf>,
    /// Do not require a token. Any program on this machine can then call the tools. Loopback only
    #[arg(long, help_heading = "HTTP")]
    no_token: bool,
    /// Accept requests for this Host, such as tools.example.com, in addition to the loopback names
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = host, help_heading = "HTTP")]
    allow_host: Vec<Authority>,
    /// Accept requests from web pages of this Origin, such as https://app.example.com
    #[arg(long, value_name = "URL", value_delimiter = ',', help_heading = "HTTP")]
    allow_origin: Vec<String>,
    /// Format of the log on standard error, which has a line for each call and each refused request
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        value_parser = one_of([("text", LogForm::Text), ("json", LogForm::Json)]),
        help_heading = "Log"
    )]
    log: LogForm,
    /// Lowest level to log: info logs every call, warning only failed calls and refused requests, error only problems that
    /// stop calls from running
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
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    deployment: DeploymentOptions,
}

/// Tokens are read again at each SIGHUP.
struct TokenSource {
    /// The callers of the start, where no file names them.
    callers: Tokens,
    /// Of callers, approvers and metrics.
    files: [Option<PathBuf>; 3],
    /// Those that were read last, for the parts of each.
    read: TokenCallers,
}

impl Serve {
    pub(super) fn run(mut self) -> anyhow::Result<Exit> {
        // First, because it changes the environment.
        let passed = PassedSocket::take()?;
        if let Some(passed) = &passed {
            self.deployment.listen_mode = passed.mode();
        }
        self.prepare();
        if self.deployment.check {
            return self.check(passed);
        }
        let place = self.place(passed.as_ref())?;
        let (source, generated) = self.tokens(&place)?;
        let tokens = source.read()?;
        let worker = self.worker()?;
        self.serving.has_engine = worker.is_some();
        let runtime = Runtime::on_all_processors()?;
        self.serving.log = Some(self.log()?);
        // From now on: without a listener, the signal ends the process.
        let hangups = runtime.block_on(async { interrupts::hangups() })?;
        let served = match self.serving.server(&runtime)? {
            Ready::Server(served) => served,
            Ready::Refused(exit) => return Ok(exit),
        };
        let server = served.server.clone();
        let limits = http_limits(&served.limits());
        if let Some(too_few) = open_files::provide(&served.limits()) {
            show::say(&format!("warning: {too_few}"));
        }
        let (renew, new_tokens) = unbounded_channel();
        runtime.spawn(signals::read_again(
            hangups,
            source,
            renew,
            served.reload.clone(),
        ));
        runtime.spawn(served.follow());
        let done = runtime.block_on(async {
            let (listener, _file) = match passed {
                Some(passed) => (passed.listen().context("cannot use the socket")?, None),
                None => listen(&self.listen, self.deployment.listen_mode)?,
            };
            let metrics_listener = self.deployment.listen_for_metrics()?;
            let address = listener.address()?;
            let port = address.map_or(0, |address| address.port());
            let gate = OriginGate::new(port, &self.allow_host, &self.allow_origin);
            let interrupted = signals::interrupted();
            let base = self.deployment.base(address);
            let measured = match &metrics_listener {
                Some(listener) => Some(listener.local_addr().context("cannot find the address")?),
                None => None,
            };
            let here = address.map_or_else(|| place.to_string(), |address| address.to_string());
            greet([
                generated.map(|token| format!("Authorization: Bearer {token}")),
                (!base.ends_with(&here)).then(|| format!("Listening at {here}")),
                measured.map(|address| format!("Metrics at http://{address}/metrics")),
                worker
                    .is_some()
                    .then(|| format!("Arcade worker at {base}/worker")),
                server.has_page(&tokens).then(|| format!("Page at {base}/")),
                Some(format!("API at {base}/v1/openapi.json")),
                // Last, because this line says that the server is ready.
                Some(format!("MCP at {base}/mcp")),
            ]);
            signals::tell(&[NotifyState::Ready]);
            let settings = HttpSettings {
                listener,
                metrics_listener,
                gate,
                tokens,
                limits,
                name: self.allow_host.first().map(named),
                worker,
                new_tokens: Some(new_tokens),
                proxy: ProxySettings {
                    public_url: self.deployment.public_url,
                    trusted: self.deployment.trusted_proxy,
                },
            };
            serve_http(&server, settings, interrupted).await
        });
        serving::finish(runtime, server);
        done.map(|()| Exit::Succeeded)
    }

    fn prepare(&mut self) {
        self.serving.listens = true;
        self.serving.is_open = self.no_token;
        self.serving.kept = self.kept();
        self.serving.server_limits = self.limits.given();
        self.serving.measures = self.deployment.measures();
        let public = self.deployment.public_url.as_ref();
        // Last, because URLs have the first one.
        self.allow_host
            .extend(public.and_then(PublicUrl::authority));
    }

    /// Where this server listens.
    fn place(&self, passed: Option<&PassedSocket>) -> anyhow::Result<ListenPlace> {
        match passed {
            Some(passed) => passed.place().context("cannot find the address"),
            None => Ok(self.listen.clone()),
        }
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
                &self.deployment.metrics_token_file,
                "the tokens of --metrics-token-file",
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

    fn tokens(&self, place: &ListenPlace) -> anyhow::Result<(TokenSource, Option<String>)> {
        let mode = self.deployment.listen_mode;
        let is_here = match place {
            ListenPlace::Address(address) => address.ip().is_loopback(),
            ListenPlace::File(_) => mode & 0o077 == 0 || !self.no_token,
        };
        if !is_here {
            if self.no_token {
                let why =
                    "--no-token is for loopback addresses, and for a socket of mode 600, only";
                return Err(BadRequest(why.to_owned()).into());
            }
            if self.allow_host.is_empty() {
                let why = "clients on other machines reach this server by a name: allow it with --allow-host=NAME";
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
                files: [
                    self.token_file.clone(),
                    self.approver_token_file.clone(),
                    self.deployment.metrics_token_file.clone(),
                ],
                read: Arc::clone(&self.serving.token_callers),
            },
            generated,
        ))
    }
}

impl TokenSource {
    fn read(&self) -> anyhow::Result<Tokens> {
        let [callers, approvers, measurers] = &self.files;
        let read = |file: &PathBuf| Tokens::read(file).map_err(BadRequest::from_error);
        let mut tokens = match callers {
            Some(file) => read(file)?,
            None => self.callers.clone(),
        };
        if let Some(file) = approvers {
            let added = tokens.with_approvers(read(file)?);
            tokens = added.map_err(BadRequest::from_error)?;
        }
        if let Some(file) = measurers {
            let added = tokens.with_measurers(read(file)?);
            tokens = added.map_err(BadRequest::from_error)?;
        }
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = tokens.principals();
        Ok(tokens)
    }
}

fn greet(lines: [Option<String>; 7]) {
    let mut err = std::io::stderr();
    for line in lines.into_iter().flatten() {
        let _ = writeln!(err, "{line}");
    }
}

/// The file exists as long as what is returned with the listener.
fn listen(place: &ListenPlace, mode: u32) -> anyhow::Result<(HttpListener, Option<SocketFile>)> {
    let listening = match place {
        ListenPlace::Address(address) => {
            listen_at(*address).map(|listener| (HttpListener::Tcp(listener), None))
        }
        ListenPlace::File(path) => {
            listen_in(path, mode).map(|(listener, file)| (HttpListener::Unix(listener), Some(file)))
        }
    };
    listening.map_err(|error| cannot_listen(place, &error).into())
}

pub(super) fn cannot_listen(place: &impl fmt::Display, error: &std::io::Error) -> BadRequest {
    BadRequest(format!("cannot listen at {place}: {error}"))
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
