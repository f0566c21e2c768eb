//! The start of a server: with its tools, or, over standard streams, before a component of them is compiled.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use toolcell::{Home, ToolSet};
use toolcell_engine::catalog::Surface;
use toolcell_server::{ApprovalFallback, ApprovalSettings, ExposedTools, Server, ServerTools};
use toolcell_system::BoxFuture;

use super::exit::{Exit, Stop};
use super::runtime::Runtime;
use super::serving::{Components, ReloadableServer, ServingOptions, ServingState};
use super::watching::WatchedFiles;
use super::{compiling, hosts, show};

/// Otherwise the exit code of a printed refusal.
pub(crate) enum Ready {
    Server(ReloadableServer),
    Refused(Exit),
}

pub(crate) enum Early {
    Ready(Ready),
    Loading(LoadingServer),
}

pub(crate) struct LoadingServer {
    pub(crate) server: Arc<Server>,
    load: Load,
}

type Load = BoxFuture<'static, (ServingState, Result<ServerTools, Stop>)>;

impl ServingOptions {
    /// Refuses to start if a tool is missing, because a server that lacks some would surprise.
    pub(crate) fn server(self, runtime: &Runtime) -> anyhow::Result<Ready> {
        let (start, loaded) = runtime.block_on(ServingState::new(self)?.load());
        start.ready(loaded, runtime)
    }

    /// Loads the tools as [`Self::server`] does, and counts those that callers are offered.
    pub(crate) fn counted(self, runtime: &Runtime) -> Result<usize, Stop> {
        let (_, loaded) = runtime.block_on(ServingState::new(self)?.load());
        let loaded = loaded?;
        let surface = loaded.offers.surface();
        let callable = surface
            .tools()
            .filter(|(tool, availability)| surface.is_callable(tool, *availability));
        Ok(callable.count())
    }

    /// As [`Self::server`], but early if a component has to be compiled.
    pub(crate) fn early_server(self, runtime: &Runtime) -> anyhow::Result<Early> {
        let start = ServingState::new(self)?;
        let serving = Arc::clone(&start.serving);
        let home = start.home.clone();
        let mut compiles = serving.compiles.subscribe();
        let mut load: Load = Box::pin(start.load());
        let loaded = runtime.block_on(async {
            tokio::select! {
                biased;
                loaded = &mut load => Some(loaded),
                _ = compiles.changed() => None,
            }
        });
        if let Some((start, loaded)) = loaded {
            return start.ready(loaded, runtime).map(Early::Ready);
        }
        let reason = compiling::running(*compiles.borrow());
        let server = Server::loading(serving.settings(&home)?, interim(&home, &serving)?, reason);
        Ok(Early::Loading(LoadingServer { server, load }))
    }
}

impl ServingState {
    fn new(serving: ServingOptions) -> anyhow::Result<Self> {
        let home = Home::find()?;
        let watched = WatchedFiles::new(&home, &serving.options.policy);
        serving.keep_quotas(&home);
        Ok(Self {
            serving: Arc::new(serving),
            home,
            components: Components::new(),
            watched,
        })
    }

    async fn load(mut self) -> (Self, Result<ServerTools, Stop>) {
        let loaded = self
            .serving
            .assemble(&self.home, &mut self.components, &mut self.watched, None)
            .await;
        (self, loaded)
    }

    fn ready(self, loaded: Result<ServerTools, Stop>, runtime: &Runtime) -> anyhow::Result<Ready> {
        let offering = match loaded {
            Ok(offering) => offering,
            Err(stop) => return show::refuse(&stop.refusal()?, false).map(Ready::Refused),
        };
        let server = Server::new(self.serving.settings(&self.home)?, offering);
        runtime.block_on(server.announce());
        Ok(Ready::Server(self.served(server)))
    }

    fn served(self, server: Arc<Server>) -> ReloadableServer {
        let (reload, reloads) = mpsc::unbounded_channel();
        ReloadableServer {
            server,
            state: self,
            reload,
            reloads,
        }
    }
}

impl LoadingServer {
    /// The receiver gets what ends the server if tools cannot be loaded, and closes once they are. Then follows their
    /// changes.
    pub(crate) fn spawn(self, runtime: &Runtime) -> oneshot::Receiver<anyhow::Result<Exit>> {
        let (fails, failed) = oneshot::channel();
        runtime.spawn(async move {
            let Self { server, load } = self;
            let (start, loaded) = load.await;
            match loaded {
                Ok(offering) => {
                    server.loaded(offering).await;
                    drop(fails);
                    start.served(server).follow().await;
                }
                Err(stop) => {
                    let refused = stop.refusal();
                    let _ = fails.send(refused.and_then(|refusal| show::refuse(&refusal, false)));
                    server.not_loaded();
                }
            }
        });
        failed
    }
}

/// Has the grants, because a client that connects is told of them.
fn interim(home: &Home, serving: &ServingOptions) -> anyhow::Result<ServerTools> {
    // What is wrong with the files is said when the tools are loaded.
    let grants = serving
        .options
        .settings(home)
        .map(|settings| settings.grants)
        .unwrap_or_default();
    let host = Arc::new(hosts::host(home, |settings| settings)?);
    let offers = ExposedTools::on(Vec::new(), |tools| Surface::new(tools, 0));
    let approvals = ApprovalSettings {
        session: None,
        elicitation: false,
        away: ApprovalFallback::Return,
    };
    let tools = ToolSet::new(host).grants(grants);
    Ok(ServerTools::new(tools, offers, approvals))
}
