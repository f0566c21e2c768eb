//! The common part of the commands that serve: load the tools once, offer them, follow their changes, and end on a
//! signal.

mod joining;
mod limits;
mod named_tool;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};
use toolcell::{Home, Host, HostBuilder, LogSettings};
use toolcell_config::{
    self as config, ConfigLayer, ConfigLayers, ConfigText, GivenServerLimits, InstalledNames,
    ProjectFiles, TrustStore,
};
use toolcell_engine::scheduler::{MemoryBudget, Quotas, ResourceLocks};
use toolcell_journal::{CallLog, Journal, PayloadStore};
use toolcell_sandbox::{Compilation, CompileWatch};
use toolcell_server::telemetry::Telemetry;
use toolcell_server::{
    self as server, ApprovalFallback, ApprovalSettings, CallRecorder, CallStore, OperatorLog,
    Server, ServerTools, TokenIssuers, ToolOffer,
};
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};
use tracing::info;

use super::agreed::AgreedComponents;
use super::ask::{self, Origin};
use super::cluster::ClusterConnection;
use super::compiling;
use super::exit::{BadRequest, Stop};
use super::hosts;
use super::options::{ApprovalOptions, CallOptions, Settings, one_of};
use super::principals::{self, OfferedTools};
use super::protected_sources::{self, CommandFiles, KeptFile};
use super::reload::Reload;
use super::runtime::Runtime;
use super::target::BuildPermission;
use super::tool_configs::ToolConfigs;
use super::watching::{Stamp, WatchedFiles};
use super::{bundled, exporting, hooks, show, sign_in, surface};

pub(crate) use named_tool::{NamedTool, failed, named};
use named_tool::{is_one, of_entry};

/// After a reload that failed because the host was busy.
const RETRY: Duration = Duration::from_secs(1);

/// Names of callers in records.
pub(crate) type TokenCallers = Arc<Mutex<Vec<Arc<str>>>>;

/// Which tools a server offers, and with what.
#[derive(Debug, Args)]
pub(crate) struct ServingOptions {
    /// An installed tool, a .wasm file, a folder of such files, or a built source folder; add #NAME for one of its tools
    /// [default: the tools in toolcell.toml]
    #[arg(value_name = "TOOL")]
    pub(crate) tools: Vec<String>,
    /// Also offer the tools that came with toolcell (`toolcell list` shows them)
    #[arg(long)]
    toolbox: bool,
    /// Number of tools to list up front [default: 125]; clients reach the rest through search_tools and load_tool
    #[arg(long, value_name = "N")]
    max_listed: Option<usize>,
    /// Role of the callers; [surface.roles] in toolcell.toml lists its tools
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Run the calls on the workers (`toolcell work`) of a cluster, with the workers' grants and rules, at the NATS server
    /// URL [default: the servers of [cluster] in toolcell.toml]
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true)]
    cluster: Option<Option<String>>,
    /// Append the record of every call to FILE, as one line of JSON
    #[arg(long, value_name = "FILE")]
    record_to: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: CallOptions,
    /// Memory limit for all calls in total. Each call reserves its --memory, its output limit and some overhead, and waits
    /// until that much is free [default: half of this machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = config::size, help_heading = "Limits")]
    memory_total: Option<u64>,
    /// The memory budget of this process's calls, also after the configuration is replaced.
    #[arg(skip)]
    memory: Mutex<Option<MemoryBudget>>,
    /// The locks that the calls of this process share, also after the configuration was replaced.
    #[arg(skip)]
    locks: ResourceLocks,
    /// The use of each caller of this process, also after the configuration was replaced.
    #[arg(skip)]
    quotas: Quotas,
    /// The telemetry that the files set at the start; later ones do not change it.
    #[arg(skip)]
    telemetry: OnceLock<Option<Arc<Telemetry>>>,
    /// The most access that each component could ask for when it was first served.
    #[arg(skip)]
    agreed: AgreedComponents,
    /// The size of the component that is compiled, in bytes; a change means that a compilation begins.
    #[arg(skip)]
    pub(crate) compiles: watch::Sender<usize>,
    /// The files of the command that hold authority, such as token files.
    #[arg(skip)]
    pub(crate) kept: Vec<KeptFile>,
    /// Those that hold a token of their own, as it was read last.
    #[arg(skip)]
    pub(crate) token_callers: TokenCallers,
    /// `true` if an Arcade engine calls, too.
    #[arg(skip)]
    pub(crate) has_engine: bool,
    /// `true` if clients come over a network: none may get the server killed.
    #[arg(skip)]
    pub(crate) listens: bool,
    /// `true` if they need no token.
    #[arg(skip)]
    pub(crate) is_open: bool,
    /// The limits of the command line.
    #[arg(skip)]
    pub(crate) server_limits: GivenServerLimits,
    #[arg(skip)]
    pub(crate) started_with: OnceLock<GivenServerLimits>,
    /// `true` if there are metrics, whatever the files say.
    #[arg(skip)]
    pub(crate) measures: bool,
    /// Where calls and refused access are told.
    #[arg(skip)]
    pub(crate) log: Option<Arc<OperatorLog>>,
    /// The largest result that stays in its record, in bytes; `None` for the usual.
    #[arg(skip)]
    pub(crate) inline_bytes_max: Option<u64>,
    /// `true` for a worker, which runs the calls of others.
    #[arg(skip)]
    pub(crate) works: bool,
    /// The connection of this process, also after the configuration was replaced.
    #[arg(skip)]
    pub(crate) connection: tokio::sync::OnceCell<Arc<ClusterConnection>>,
    #[command(flatten)]
    approvals: ApprovalOptions,
    /// Do not ask through the client; take answers only from `toolcell approvals`
    #[arg(long, help_heading = "Approvals")]
    no_elicitation: bool,
    /// If the client cannot ask its user: wait for `toolcell approvals`, or return at once so that the client calls
    /// again later [default: wait]
    #[arg(long, value_name = "WHAT", help_heading = "Approvals", value_parser = one_of(FALLBACKS))]
    if_client_cannot_ask: Option<ApprovalFallback>,
}

/// Ways to go on with a call whose client cannot ask its user.
const FALLBACKS: [(&str, ApprovalFallback); 2] = [
    ("wait", ApprovalFallback::Wait),
    ("return", ApprovalFallback::Return),
];

pub(crate) struct ReloadableServer {
    pub(crate) server: Arc<Server>,
    pub(crate) state: ServingState,
    /// Asks to read the configuration again, changed or not.
    pub(crate) reload: UnboundedSender<ReloadAnswer>,
    pub(crate) reloads: UnboundedReceiver<ReloadAnswer>,
}

/// Told once the configuration was read, or could not be.
pub(crate) type ReloadAnswer = oneshot::Sender<()>;

/// The state that loading the tools of a server takes.
pub(crate) struct ServingState {
    pub(crate) serving: Arc<ServingOptions>,
    pub(crate) home: Home,
    pub(crate) components: Components,
    pub(crate) watched: WatchedFiles,
}

/// A change of the sources does not count, because the user has not built them.
pub(crate) type Components = HashMap<PathBuf, PathBuf>;

/// Loads the tools that `typed` names, for a command that calls none, and names them in the policy of `settings`.
pub(crate) fn offered(
    typed: &[String],
    settings: &mut Settings,
    (home, host, runtime): (&Home, &Host, &Runtime),
) -> Result<Vec<ToolOffer>, Refusal> {
    let layers = &settings.layers;
    let named = named(typed, layers)?;
    let components = named.iter().map(|named| named.locate(home));
    let components = components.collect::<Result<Vec<PathBuf>, Refusal>>()?;
    let loaded = runtime.block_on(host.load_files(&components));
    let loaded = loaded.map_err(|(at, refusal)| failed(&named, at, refusal))?;
    let configs = ToolConfigs::new(home, layers);
    let mut offered = Vec::new();
    for (named, loaded) in named.iter().zip(&loaded) {
        let ready = configs.apply(&named.target.path, &mut settings.policy, loaded);
        let tools = ready.and_then(|()| named.target.tools(loaded));
        let tools = tools.map_err(|refusal| named.failed(refusal))?;
        offered.extend(named.offer(tools, None));
    }
    Ok(offered)
}

impl ServingOptions {
    pub(crate) fn settings(&self, home: &Home) -> anyhow::Result<server::ServerSettings> {
        let recorder = match &self.record_to {
            Some(file) => Some(Arc::new(CallRecorder::open(file, unwritable)?)),
            None => None,
        };
        let store = CallStore {
            // For reading: the host of each offering has its own, which writes as its settings say.
            calls: CallLog::new(home.journal(), home.calls_key(), LogSettings::default()),
            approvals: Journal::new(home.journal(), home.journal_key()),
            payloads: PayloadStore::new(home.payloads()),
        };
        Ok(server::ServerSettings {
            recorder,
            announcer: Arc::new(ask::announce),
            store: Some(store),
            log: self.log.clone(),
        })
    }

    /// Goes on with what callers have used today.
    pub(crate) fn keep_quotas(&self, home: &Home) {
        if self.listens {
            self.quotas.keep_in(&home.quotas());
        }
    }

    /// The tools of the command line, in the order of their offers.
    fn typed(&self) -> Result<Vec<String>, Refusal> {
        let mut typed = self.tools.clone();
        if self.toolbox {
            let shipped = bundled::names();
            if shipped.is_empty() {
                let message = "--toolbox: no tools came with this program, because it was not installed from a package of \
                               toolcell; name tools instead";
                return Err(Refusal::new(ErrorCode::NoTools, message));
            }
            // One that is named, or installed under this name, counts once.
            let new = shipped
                .into_iter()
                .filter(|name| !self.tools.contains(name));
            typed.extend(new);
        }
        Ok(typed)
    }

    fn compile_watch(&self) -> CompileWatch {
        let compiles = self.compiles.clone();
        let shown = compiling::shown();
        Arc::new(move |step| {
            if let Compilation::Begins { bytes } = step {
                compiles.send_replace(bytes);
            }
            if let Some(shown) = &shown {
                shown(step);
            }
        })
    }

    /// Adds each file to `watched` before it reads it.
    pub(crate) async fn assemble(
        &self,
        home: &Home,
        components: &mut Components,
        watched: &mut WatchedFiles,
        reload: Option<&Reload<'_>>,
    ) -> Result<ServerTools, Stop> {
        let mut settings = self.options.settings(home)?;
        watched.add_layers(settings.layers.files());
        let named = named(&self.typed()?, &settings.layers)?;
        let approvals = self.approvals(&settings.layers)?;
        let expire = self.approvals.expire(settings.expire);
        let memory = self.budget(&settings.layers, &settings.limits)?;
        let alone = named.iter().filter(|tool| tool.is_alone());
        let mut own = CommandFiles::from_targets(alone.map(|tool| &tool.target));
        own.sources.extend(watch_folders(&named, watched));
        let selection = config::selection(&settings.layers, self.max_listed, self.role.as_deref())?;
        let record = self.record_to.iter();
        let record = record.map(|file| KeptFile::shut(file, "the records of --record-to"));
        own.files.extend(record.chain(self.kept.iter().cloned()));
        let closed = protected_sources::close(home, &mut settings, &own);
        let mut layers = std::mem::take(&mut settings.layers);
        layers.telemetry.metrics |= self.measures;
        let calls_at_once = self
            .started_with(&layers)
            .max_calls
            .filter(|_| self.listens);
        let telemetry = self
            .telemetry
            .get_or_init(|| exporting::start(&layers, &self.options.grants));
        let mut host = hosts::host(home, |host| {
            self.inline(hosts::configure(host, home, &layers, &settings.limits))
                .pooled(true)
                .calls_at_once(calls_at_once.unwrap_or(HostBuilder::CALLS_AT_ONCE))
                .callers(self.callers(&layers))
                .quotas(self.quotas.clone())
                .compile_watch(self.compile_watch())
                .network(self.options.grants.network())
                .memory(memory.clone())
                .locks(self.locks.clone())
                .approvals(true)
                .listeners(exporting::listeners(telemetry.as_ref()))
        })?;
        hooks::add(&mut host, home, &layers, &closed).await?;
        let configs = ToolConfigs::new(home, &layers);
        let failed = |(at, refusal): (usize, Refusal)| {
            if let Some(reload) = reload {
                reload.failed(named.get(at), &refusal);
            }
            failed(&named, at, refusal)
        };
        let paths = Self::locate(home, &named, components).map_err(failed)?;
        paths.iter().for_each(|path| watched.add(path.clone()));
        settings.grants.for_one = is_one(&named, &paths);
        if let Some(reload) = reload {
            reload.begins(&named, &paths);
        }
        let loaded = host.load_files(&paths).await.map_err(failed)?;
        self.agreed
            .check(named.iter().zip(&loaded))
            .map_err(failed)?;
        let mut offered = Vec::new();
        for (at, ((tool, path), loaded)) in named.iter().zip(paths).zip(&loaded).enumerate() {
            let ready = configs.apply(&tool.target.path, &mut settings.policy, loaded);
            let tools = ready.and_then(|()| tool.target.tools(loaded));
            let tools = tools.map_err(|refusal| failed((at, refusal)))?;
            let mut origin = Origin::new(&path, &own, &self.options);
            origin.role.clone_from(&self.role);
            offered.extend(tool.offer(tools, origin.words()));
            components.insert(tool.target.path.clone(), path);
        }
        self.agreed.note(named.iter().zip(&loaded));
        watched.add_grants(home, &settings.grants);
        let missing = host.missing_secrets(&settings.grants).await;
        let rules = (&settings.policy, &settings.grants);
        let offers = surface::expose(offered.clone(), selection.clone(), rules, &missing);
        let cluster = self.connect(home, &layers).await?;
        let elsewhere = cluster.filter(|_| !self.works);
        let tools = settings
            .tool_set(Arc::new(host))
            .expire(expire)
            .with_elsewhere(elsewhere.map(|cluster| cluster.elsewhere()));
        let mut offering = ServerTools::new(tools, offers, approvals);
        offering.keep = layers.journal.keep;
        let workspaces = |config| self.options.workspace.service(home, config);
        offering.workspaces = workspaces(layers.workspace)?;
        offering.telemetry.clone_from(telemetry);
        if self.listens {
            let quotas = principals::quotas(&layers);
            offering.issuers = self.issuers(&layers)?;
            let all = OfferedTools {
                offered,
                selection,
                missing,
            };
            offering.principals =
                all.of_principals(layers.principals, &offering, &layers.workspace, workspaces)?;
            self.quotas.set(quotas);
        }
        Ok(offering)
    }

    pub(crate) fn issuers(&self, layers: &ConfigLayers) -> Result<Option<TokenIssuers>, Refusal> {
        let unusable = |why| {
            let why = format!("the configuration cannot be used: {why}");
            config::policy_unreadable(why)
        };
        let issuers = sign_in::issuers(layers, self.options.grants.tls_ca());
        let issuers = issuers.map_err(|error| unusable(format!("{error:#}")))?;
        if self.is_open && issuers.is_some() {
            let why = "[[issuer]] says whose tokens are accepted, and --no-token that none is required: leave out one of them";
            return Err(unusable(why.to_owned()));
        }
        Ok(issuers)
    }

    /// Returns `--config` with the project's file if the tools come from it, because a client starts this program in
    /// another folder. Fails if the file is not trusted in its current state, because naming it implies trust, and if
    /// there is a local file beside it, whose settings would be lost.
    pub(crate) fn project_file(
        &self,
        names: &InstalledNames,
        folder: &Path,
    ) -> anyhow::Result<Vec<String>> {
        let is_of_project = |tool: &String| {
            let name = tool.split('#').next().unwrap_or_default();
            names.is_of_project(name).is_some()
        };
        let is_needed =
            (self.tools.is_empty() && !self.toolbox) || self.tools.iter().any(is_of_project);
        if !is_needed || self.options.policy.named().is_some() || self.options.policy.reads_none() {
            return Ok(Vec::new());
        }
        let Some(ProjectFiles {
            shared: file,
            local,
        }) = ProjectFiles::find(folder)
        else {
            return Ok(Vec::new());
        };
        if local.symlink_metadata().is_ok() {
            let message = format!(
                "{} is read in its folder alone, and a client starts this command in another one: move its settings to \
                 toolcell.toml or to your own file",
                local.display()
            );
            return Err(BadRequest(message).into());
        }
        let bytes = config::project_bytes(&file)?.unwrap_or_default();
        let file = file
            .canonicalize()
            .with_context(|| format!("cannot find {}", file.display()))?;
        let trust = TrustStore::at(Home::find()?.trusted());
        if trust.find(&file, &bytes)?.is_none() {
            return Err(BadRequest(config::untrusted(&trust, &file, &bytes)).into());
        }
        Ok(vec![format!("--config={}", file.display())])
    }

    /// The command line takes precedence; but disabled elicitation is stricter, so it counts wherever it is set.
    fn approvals(&self, layers: &ConfigLayers) -> Result<ApprovalSettings, Refusal> {
        let sections = || layers.files().iter().map(|layer| &layer.file.approvals);
        let silent =
            self.no_elicitation || sections().any(|section| section.elicitation == Some(false));
        let away = self.if_client_cannot_ask.or(away_of_files(layers)?);
        Ok(ApprovalSettings {
            session: self.approvals.session(),
            elicitation: !silent,
            away: away.unwrap_or_default(),
        })
    }

    /// Fails with the index of the first tool that has no component.
    fn locate(
        home: &Home,
        named: &[NamedTool],
        components: &Components,
    ) -> Result<Vec<PathBuf>, (usize, Refusal)> {
        let locate = |(at, tool): (usize, &NamedTool)| match components.get(&tool.target.path) {
            Some(component) => Ok(component.clone()),
            None => tool
                .target
                .locate(home, BuildPermission::No)
                .map_err(|refusal| (at, refusal)),
        };
        named.iter().enumerate().map(locate).collect()
    }
}

/// A component that a tool puts into such a folder would be served with the grants of all.
fn watch_folders(named: &[NamedTool], watched: &mut WatchedFiles) -> Vec<PathBuf> {
    let folders: BTreeMap<&PathBuf, Stamp> =
        named.iter().rev().filter_map(NamedTool::folder).collect();
    let places = folders
        .keys()
        .map(|folder| folder.canonicalize().unwrap_or_else(|_| (*folder).clone()))
        .collect();
    for (folder, state) in folders {
        watched.add_stamped(folder.clone(), state);
    }
    places
}

impl ReloadableServer {
    /// The limits that the server started with.
    pub(crate) fn limits(&self) -> GivenServerLimits {
        let limits = self.state.serving.started_with.get();
        limits.cloned().unwrap_or_default()
    }

    /// A state that cannot be used keeps the old offering, with a warning.
    pub(crate) async fn follow(mut self) {
        let ServingState {
            serving,
            home,
            mut components,
            mut watched,
        } = self.state;
        loop {
            // Answered when it is dropped.
            let (changed, _asked) = tokio::select! {
                changed = watched.changed() => (changed, None),
                asked = self.reloads.recv() => (Vec::new(), asked),
            };
            let begun = Instant::now();
            let reload = Reload::new(&self.server, &changed, &components);
            let mut read = WatchedFiles::new(&home, &serving.options.policy);
            let assembled = loop {
                let assembling = serving.assemble(&home, &mut components, &mut read, Some(&reload));
                match assembling.await {
                    // The change counts as seen, so it would be lost without a retry.
                    Err(Stop::Refused(busy)) if busy.class == ErrorClass::RateLimited => {
                        tokio::time::sleep(RETRY).await
                    }
                    assembled => break assembled,
                }
            };
            info!(
                changed = changed.len(),
                is_new = assembled.is_ok(),
                took = ?begun.elapsed(),
                "the tools were loaded again"
            );
            match assembled {
                Ok(offering) => {
                    watched = read;
                    let changed = self.server.replace(offering).await;
                    show::say("tools or configuration changed; now serving the new version");
                    if let Some(reason) = changed {
                        show::say(&format!(
                            "the list of tools that clients can call changed ({reason})"
                        ));
                    }
                }
                Err(stop) => {
                    // What could not be loaded is looked for again when it changes, or appears.
                    watched.add_all(read);
                    reload.ends();
                    match stop {
                        Stop::Refused(refusal) => {
                            kept(&format!("{} [{}]", refusal.message, refusal.code))
                        }
                        Stop::Failed(error) => kept(&format!("{error:#}")),
                    }
                }
            }
        }
    }
}

/// Checks the settings for servers. Does not load the tools that they name.
pub(crate) fn understands(layers: &ConfigLayers) -> Result<(), Refusal> {
    for layer in layers.files() {
        for entry in &layer.file.tools {
            of_entry(layer, entry, &layers.names)?;
        }
    }
    config::selection(layers, None, None)?;
    away_of_files(layers).map(|_| ())
}

/// `[approvals] if_client_cannot_ask` of the last file that has one.
fn away_of_files(layers: &ConfigLayers) -> Result<Option<ApprovalFallback>, Refusal> {
    let mut away = None;
    for layer in layers.files() {
        if let Some(word) = &layer.file.approvals.if_client_cannot_ask {
            let known = FALLBACKS.iter().find(|(known, _)| *known == &**word);
            let (_, fallback) = known.ok_or_else(|| {
                let why = format!(
                    "[approvals] if_client_cannot_ask = {word:?} is not one of: wait, return"
                );
                unreadable(layer, &why, word)
            })?;
            away = Some(*fallback);
        }
    }
    Ok(away)
}

fn kept(why: &str) {
    show::say(&format!(
        "warning: cannot load the change; still serving the previous version: {why}"
    ));
}

fn unreadable(layer: &ConfigLayer, why: &str, word: &ConfigText) -> Refusal {
    config::policy_unreadable(format!(
        "the configuration cannot be read: {}: {why}",
        layer.file.place_of(word)
    ))
}

fn unwritable(error: &std::io::Error) {
    show::say(&format!(
        "warning: the records of calls cannot be written any more: {error}"
    ));
}

/// Dropping the engine would only take time, and a guest's blocking read must not delay the exit.
pub(crate) fn finish(runtime: Runtime, server: Arc<Server>) {
    runtime.shutdown_background();
    server.close();
    std::mem::forget(server);
}
