use std::sync::Arc;

use clap::Args;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::serve::signals;
use super::serving::{self, ServingOptions};
use super::starting::Ready;
use super::{interrupts, show};
use crate::cluster::WorkerCalls;
use crate::managed::{self, ManagedOptions};
use crate::runtime::Runtime;

/// Runs calls that the gateways of a cluster accept (`toolcell serve --cluster`), with the tools, grants, rules and secrets of
/// this machine. [cluster] of toolcell.toml says where the cluster is, and which gateways are trusted. With --anthropic, it
/// runs the calls of Anthropic's managed agents. SIGTERM ends it once its running calls have ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  toolcell work example-tools/jq\n  \
                        toolcell work --cluster=nats://10.0.0.1:4222 example-tools/files --allow-read=/srv/data\n  \
                        toolcell work --anthropic --environment=env_011CZ shell files")]
pub(super) struct Work {
    #[command(flatten)]
    serving: ServingOptions,
    /// Trust the gateway with this public nkey, beside the [cluster] ones
    #[arg(long, value_name = "KEY")]
    gateway: Vec<String>,
    /// Maximum number of calls to run, or agent sessions to serve, at once [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    places: Option<u16>,
    #[command(flatten)]
    managed: ManagedOptions,
}

impl Work {
    pub(super) fn run(mut self) -> anyhow::Result<Exit> {
        self.serving.listens = true;
        if self.managed.anthropic {
            return self.run_managed();
        }
        self.serving.works = true;
        let runtime = Runtime::on_all_processors()?;
        let served = match self.serving.server(&runtime)? {
            Ready::Server(served) => served,
            Ready::Refused(exit) => return Ok(exit),
        };
        let server = Arc::clone(&served.server);
        let Some(connection) = served.state.serving.connection.get().cloned() else {
            anyhow::bail!("a worker without a cluster");
        };
        let mut gateways = connection.config().gateways.clone();
        gateways.extend(self.gateway);
        if gateways.is_empty() {
            show::say(
                "warning: this worker trusts no gateway, so that it runs no call: name their keys under `gateways` of \
                 [cluster], or with --gateway; `toolcell cluster key` on a gateway prints its key",
            );
        }
        let home = served.state.home.clone();
        let places = self.places.map_or(connection.config().places, usize::from);
        runtime.spawn(served.follow());
        runtime.block_on(async {
            let stop = until_interrupted();
            let cluster = &connection.cluster;
            let runner = Arc::new(WorkerCalls {
                server: Arc::clone(&server),
                cluster: Arc::clone(cluster),
                home: home.clone(),
                quota: connection.quota,
                approvers: Arc::new(connection.config().approvers.clone()),
            });
            show::say(&format!(
                "Working as {} with {places} places, for {} gateways",
                cluster.name(),
                gateways.len()
            ));
            signals::tell(&[NotifyState::Ready]);
            let older = connection.older.as_ref();
            cluster
                .work(older, places, gateways.into(), runner, stop)
                .await;
        });
        serving::finish(runtime, server);
        Ok(Exit::Succeeded)
    }

    fn run_managed(mut self) -> anyhow::Result<Exit> {
        self.serving.kept = self.managed.kept();
        self.serving.inline_bytes_max = Some(managed::RESULT_BYTES_MAX);
        let runtime = Runtime::on_all_processors()?;
        let served = match self.serving.server(&runtime)? {
            Ready::Server(served) => served,
            Ready::Refused(exit) => return Ok(exit),
        };
        let server = Arc::clone(&served.server);
        let state = &served.state;
        let stop = runtime.block_on(async { until_interrupted() });
        let with = (&state.home, &state.serving.options);
        let worker = Arc::new(self.managed.worker(Arc::clone(&server), with, stop)?);
        let places = self.places.map_or(managed::PLACES, usize::from);
        runtime.spawn(served.follow());
        worker.greet(places);
        signals::tell(&[NotifyState::Ready]);
        let worked = runtime.block_on(worker.work(places));
        serving::finish(runtime, server);
        worked.map(|()| Exit::Succeeded)
    }
}

/// Canceled by the first signal that ends the program. Must be called within a runtime.
fn until_interrupted() -> CancellationToken {
    let stop = CancellationToken::new();
    let ended = stop.clone();
    let interrupted = interrupts::interrupted();
    tokio::spawn(async move {
        interrupted.await;
        ended.cancel();
    });
    stop
}
