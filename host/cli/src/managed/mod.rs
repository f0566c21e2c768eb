//! A worker of Anthropic's managed agents: runs the tool calls of their sessions in a self-hosted environment. Every call
//! goes the way of any other call of this program; here is only what the API asks for around it.

mod answer;
mod api;
mod builtin;
mod calls;
mod claims;
mod feed;
mod lease;
mod run;
mod session;
mod sse;
mod wire;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use toolcell::{CallWorkspace, Home};
use toolcell_config::duration;
use toolcell_install::tls;
use toolcell_server::{Server, read_private};
use toolcell_spec::Refusal;
use tracing::info;

use super::exit::{self, BadRequest};
use super::options::{CallOptions, SessionWorkspaces};
use super::protected_sources::KeptFile;
use super::show;
use api::{Api, ApiError, Credential};
use calls::{SessionCalls, Toolbox};
use claims::Claims;
use lease::Lease;
use run::{RunEnd, SessionRun};
use session::SessionState;
use wire::WorkItem;

/// As the official worker names it.
const KEY_VARIABLE: &str = "ANTHROPIC_ENVIRONMENT_KEY";
const URL_VARIABLE: &str = "ANTHROPIC_BASE_URL";
const IDLE: Duration = Duration::from_secs(60);
/// Of a result that stays in its record: more than any answer has, in bytes.
pub(crate) const RESULT_BYTES_MAX: u64 = 8 << 20;
/// Sessions at once.
pub(crate) const PLACES: usize = 8;
const POLL_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether another process of this home still serves a session.
const CLAIM_PAUSE: Duration = Duration::from_secs(1);

/// A self-hosted environment of managed agents.
#[derive(Debug, Args)]
#[command(next_help_heading = "Managed agents")]
pub(crate) struct ManagedOptions {
    /// Run the tool calls of Anthropic's managed agents in a self-hosted environment, in place of those of a cluster
    #[arg(long, requires = "environment", conflicts_with_all = ["cluster", "gateway"])]
    pub(crate) anthropic: bool,
    /// The environment whose work this worker does
    #[arg(long, value_name = "ENV_ID", requires = "anthropic")]
    environment: Option<String>,
    /// Read the environment key from FILE, which only you may read [default: ANTHROPIC_ENVIRONMENT_KEY]
    #[arg(long, value_name = "FILE", requires = "anthropic")]
    environment_key_file: Option<PathBuf>,
    /// The API [default: ANTHROPIC_BASE_URL, or https://api.anthropic.com]
    #[arg(long, value_name = "URL", requires = "anthropic")]
    base_url: Option<String>,
    /// Leave a session whose agent had nothing to do for this long [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "anthropic")]
    idle_timeout: Option<Duration>,
}

impl ManagedOptions {
    /// The files of the command that hold authority.
    pub(crate) fn kept(&self) -> Vec<KeptFile> {
        let file = self.environment_key_file.iter();
        file.map(|file| KeptFile::shut(file, "the key of --environment-key-file"))
            .collect()
    }

    /// Checks everything that needs no network.
    pub(crate) fn worker(
        &self,
        server: Arc<Server>,
        (home, options): (&Home, &CallOptions),
        drain: CancellationToken,
    ) -> anyhow::Result<ManagedWorker> {
        let environment = self.environment.as_deref().unwrap_or_default();
        if !wire::is_id(environment) {
            let message = format!("--environment={environment:?} is not an id, such as env_011CZ");
            return Err(BadRequest(message).into());
        }
        let settings = exit::refusable(options.settings(home))?;
        let settings = settings.map_err(|refusal| BadRequest(refusal.message))?;
        let variables = settings.grants.variables.iter();
        if variables.into_iter().any(|one| one.name == KEY_VARIABLE) {
            let message =
                format!("{KEY_VARIABLE} is the key of this worker: remove the grant for it");
            return Err(BadRequest(message).into());
        }
        let url = self.base_url.clone().or_else(|| variable(URL_VARIABLE));
        let url = api::base_url(url.as_deref().unwrap_or(wire::BASE_URL));
        let roots: Vec<_> = options
            .grants
            .tls_ca()
            .map(PathBuf::from)
            .into_iter()
            .collect();
        let name = worker_name();
        let api = Api::new(
            tls::client(&roots)?,
            url.map_err(BadRequest::from_error)?,
            environment,
            &name,
        )?;
        Ok(ManagedWorker {
            api: Arc::new(api),
            key: self.key().map_err(BadRequest::from_error)?,
            environment: environment.to_owned(),
            name,
            workspaces: options
                .workspace
                .of_sessions(home, settings.layers.workspace),
            home: home.clone(),
            server,
            idle: self.idle_timeout.unwrap_or(IDLE),
            drain,
        })
    }

    fn key(&self) -> anyhow::Result<Credential> {
        if let Some(file) = &self.environment_key_file {
            let text = read_private(file, "environment key")?;
            return Credential::new(&text)
                .with_context(|| format!("cannot use {}", file.display()));
        }
        let text = variable(KEY_VARIABLE).with_context(|| {
            format!("there is no environment key: set {KEY_VARIABLE}, or name its file with --environment-key-file")
        })?;
        Credential::new(&text).with_context(|| format!("cannot use {KEY_VARIABLE}"))
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn worker_name() -> String {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let plain = machine.chars().filter(char::is_ascii_graphic).take(64);
    let plain: String = plain.collect();
    format!("{plain}-{:08x}", fastrand::u32(..))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct ManagedWorker {
    api: Arc<Api>,
    key: Credential,
    environment: String,
    name: String,
    workspaces: SessionWorkspaces,
    home: Home,
    server: Arc<Server>,
    idle: Duration,
    drain: CancellationToken,
}

impl ManagedWorker {
    pub(crate) fn greet(&self, places: usize) {
        for missing in Toolbox::new(self.server.offering()).missing() {
            show::say(&format!("warning: {missing}"));
        }
        show::say(&format!(
            "Working as {} for {} ({}), with {places} sessions at once",
            self.name,
            self.environment,
            wire::BETA
        ));
    }

    /// Takes work until the drain begins, and returns once all sessions are left.
    ///
    /// # Errors
    ///
    /// The API refuses the environment or its key.
    pub(crate) async fn work(self: Arc<Self>, places: usize) -> anyhow::Result<()> {
        let places = Arc::new(Semaphore::new(places));
        let mut sessions = JoinSet::new();
        let ended = self.take_work(&places, &mut sessions).await;
        if !sessions.is_empty() {
            show::say(&format!("leaving {} sessions", sessions.len()));
        }
        self.drain.cancel();
        while let Some(session) = sessions.join_next().await {
            lost(session);
        }
        ended
    }

    async fn take_work(
        self: &Arc<Self>,
        places: &Arc<Semaphore>,
        sessions: &mut JoinSet<()>,
    ) -> anyhow::Result<()> {
        let mut attempt = 0;
        loop {
            while let Some(session) = sessions.try_join_next() {
                lost(session);
            }
            let polled = async {
                let place = Arc::clone(places).acquire_owned().await;
                (place, self.api.poll(&self.key).await)
            };
            let (place, polled) = tokio::select! {
                biased;
                () = self.drain.cancelled() => return Ok(()),
                polled = polled => polled,
            };
            let pause = match polled {
                Ok(Some(item)) => {
                    attempt = 0;
                    let worker = Arc::clone(self);
                    sessions.spawn(async move {
                        worker.take(item).await;
                        drop(place);
                    });
                    continue;
                }
                Ok(None) => {
                    attempt = 0;
                    Duration::from_secs_f64(1.0 + 2.0 * fastrand::f64())
                }
                Err(error) if error.is_final() => {
                    anyhow::bail!("cannot ask for work of {}: {error}", self.environment)
                }
                Err(error) => {
                    let pause = error.pause(attempt, POLL_PAUSE_MAX);
                    show::say(&format!(
                        "warning: {error}; asking again in {} s",
                        pause.as_secs().max(1)
                    ));
                    attempt += 1;
                    pause
                }
            };
            tokio::select! {
                () = self.drain.cancelled() => return Ok(()),
                () = sleep(pause) => {}
            }
        }
    }

    async fn take(self: &Arc<Self>, item: WorkItem) {
        if !wire::is_id(&item.id) {
            return show::say("warning: the queue gave work whose id is none; it is left");
        }
        match self.api.ack(&self.key, &item.id).await {
            Ok(()) => {}
            Err(error) => {
                // It comes again, unless it cannot be taken at all.
                if error.is_final() {
                    self.stop(&self.key, &item.id, &error.to_string()).await;
                }
                return;
            }
        }
        if item.data.kind != "session" || !wire::is_id(&item.data.id) {
            info!(
                work = item.id,
                kind = item.data.kind,
                "work of another kind"
            );
            return self.stop(&self.key, &item.id, "").await;
        }
        let key = item
            .sessions_token()
            .and_then(|token| Credential::new(&token).ok());
        let key = key.unwrap_or_else(|| self.key.clone());
        let lease = match Lease::take(&self.api, &key, &item.id).await {
            Ok(lease) => lease,
            // 412: another worker has it.
            Err(error) => return info!(work = item.id, %error, "the lease was not taken"),
        };
        let (session, work) = (&item.data.id, &item.id);
        info!(session, work, "a session is taken up");
        match self.serve(&item, &key, &lease).await {
            Ok(RunEnd::Done { .. }) if !lease.is_lost() => self.stop(&key, work, "").await,
            Ok(end) => info!(session, work, ?end, "the work is left"),
            Err(refusal) => show::say(&format!("warning: session {session}: {}", refusal.message)),
        }
    }

    /// # Errors
    ///
    /// What this machine lacks for the session; another one may serve it.
    async fn serve(
        self: &Arc<Self>,
        item: &WorkItem,
        key: &Credential,
        lease: &Lease,
    ) -> Result<RunEnd, Refusal> {
        let session = item.data.id.as_str();
        let Some(mut claims) = self.claims(session, lease).await? else {
            return Ok(RunEnd::Lost);
        };
        match self.api.session(key, session).await {
            Ok(found) if found.has_terminated() => return Ok(RunEnd::Done { is_settled: false }),
            Ok(found) if found.has_mounts() => show::say(&format!(
                "warning: session {session} has files, repositories, memory stores or skills, which this worker does not \
                 give to its tools"
            )),
            Err(error) if error.is_final() => {
                show::say(&format!("warning: session {session}: {error}"));
                return Ok(RunEnd::Done { is_settled: false });
            }
            // The events tell the rest.
            Ok(_) | Err(_) => {}
        }
        let had_it = claims
            .take_work(&item.id)
            .map_err(|error| unwritten(&error))?;
        let claims = Arc::new(Mutex::new(claims));
        let run = SessionRun {
            api: Arc::clone(&self.api),
            key: key.clone(),
            calls: Arc::new(self.calls(item, &claims).await?),
            idle: self.idle,
            drain: self.drain.clone(),
            was_elsewhere: !had_it && item.latest_heartbeat_at.is_some(),
            state: SessionState::default(),
            computed: HashMap::new(),
            suspects: None,
            running: None,
            attempts: 0,
        };
        let end = run.run(lease).await;
        if end == (RunEnd::Done { is_settled: true })
            && let Some(claims) = Arc::into_inner(claims)
        {
            let claims = claims.into_inner().unwrap_or_else(PoisonError::into_inner);
            claims.remove().map_err(|error| unwritten(&error))?;
        }
        Ok(end)
    }

    /// Waits while another process of this home, which lost the lease, ends its call. `None` if this one loses it, too.
    async fn claims(&self, session: &str, lease: &Lease) -> Result<Option<Claims>, Refusal> {
        let folder = self.home.managed().join(&self.environment);
        loop {
            let opened = Claims::open(&folder, session);
            if let Some(claims) = opened.map_err(|error| unwritten(&error))? {
                return Ok(Some(claims));
            }
            tokio::select! {
                _ = lease.ended() => return Ok(None),
                () = self.drain.cancelled() => return Ok(None),
                () = sleep(CLAIM_PAUSE) => {}
            }
        }
    }

    async fn calls(
        &self,
        item: &WorkItem,
        claims: &Arc<Mutex<Claims>>,
    ) -> Result<SessionCalls, Refusal> {
        let session = item.data.id.clone();
        let (workspaces, name) = (self.workspaces.clone(), session.clone());
        let opened = tokio::task::spawn_blocking(move || workspaces.open(&name)).await;
        let lost = |error: tokio::task::JoinError| Refusal::host_fault(error.to_string());
        let workspace: CallWorkspace = opened.map_err(lost)??;
        Ok(SessionCalls {
            server: Arc::clone(&self.server),
            home: self.home.clone(),
            environment: self.environment.clone(),
            work: item.id.clone(),
            session,
            workspace,
            claims: Arc::clone(claims),
            toolbox: Mutex::new(Arc::new(Toolbox::new(self.server.offering()))),
        })
    }

    /// The queue keeps work that is not stopped until its lease runs out.
    async fn stop(&self, key: &Credential, work: &str, why: &str) {
        if !why.is_empty() {
            show::say(&format!("warning: {work} cannot be done: {why}"));
        }
        for attempt in 0..STOPS_MAX {
            let error: ApiError = match self.api.stop(key, work).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if error.is_final() {
                return show::say(&format!("warning: {work} was not stopped: {error}"));
            }
            sleep(error.pause(attempt, CLAIM_PAUSE)).await;
        }
    }
}

const STOPS_MAX: u32 = 5;

/// A session that panics ends alone; its work comes again.
fn lost(session: Result<(), tokio::task::JoinError>) {
    if let Err(error) = session {
        show::say(&format!("warning: a session was lost: {error}"));
    }
}

fn unwritten(error: &std::io::Error) -> Refusal {
    Refusal::host_fault(format!("the list of begun calls cannot be used: {error}"))
}
