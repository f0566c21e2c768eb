use std::sync::Arc;

use clap::Args;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::serve::signals;
use super::serving::{self, ServingOptions};
use super::show;
use super::starting::Ready;
use crate::cluster::WorkerCalls;
use crate::runtime::Runtime;

/// Runs calls that the gateways of a cluster accept (`toolcell serve --cluster`), with the tools, grants, rules and secrets of
/// this machine. [cluster] of toolcell.toml says where the cluster is, and which gateways are trusted. SIGTERM ends it once
/// its running calls have ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  toolcell work example-tools/jq\n  \
                        toolcell work --cluster=nats://10.0.0.1:4222 example-tools/files --allow-read=/srv/data")]
pub(super) struct Work {
    #[command(flatten)]
    serving: ServingOptions,
    /// Trust the gateway with this public nkey, beside the [cluster] ones
    #[arg(long, value_name = "KEY")]
    gateway: Vec<String>,
    /// Run at most this many calls at once [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    places: Option<u16>,
}

impl Work {
    pub(super) fn run(mut self) -> anyhow::Result<Exit> {
        self.serving.listens = true;
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
            let stop = CancellationToken::new();
            let ended = stop.clone();
            let interrupted = serving::interrupted();
            tokio::spawn(async move {
                interrupted.await;
                ended.cancel();
            });
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
}
