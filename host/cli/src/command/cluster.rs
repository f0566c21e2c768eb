//! `toolcell cluster`: what a cluster has, and the key of this gateway.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::json;
use toolcell::Home;
use toolcell_cluster::{ClusterState, OpenCall, Stage, WorkerState, public_key};
use toolcell_config::{ClusterConfig, ConfigLayers, LayerOptions};

use super::exit::Exit;
use super::show;
use crate::cluster::{self, ClusterConnection};
use crate::runtime::Runtime;

/// Shows the workers and calls of a cluster, and the key of this gateway.
#[derive(Debug, Args)]
pub(super) struct ManageCluster {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// List the workers, their tools, and the calls that have not ended
    Status(ClusterStatus),
    /// Print the public key with which this gateway signs its calls, for `gateways` of its workers
    Key,
}

#[derive(Debug, Args)]
struct ClusterStatus {
    /// Ask the NATS server at URL, instead of those of [cluster]
    #[arg(long, value_name = "URL")]
    cluster: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ManageCluster {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let config = config(&home)?;
        match self.command {
            ClusterCommand::Key => {
                let seed = cluster::gateway_key(&home, &config.unwrap_or_default())?;
                show::text(&format!("{}\n", public_key(&seed)?))
            }
            ClusterCommand::Status(status) => status.run(&home, config),
        }
    }
}

fn config(home: &Home) -> anyhow::Result<Option<ClusterConfig>> {
    let folder = std::env::current_dir().ok();
    let layers = ConfigLayers::read(home, folder.as_deref(), &LayerOptions::default())?;
    Ok(layers.cluster)
}

impl ClusterStatus {
    fn run(self, home: &Home, config: Option<ClusterConfig>) -> anyhow::Result<Exit> {
        let config = cluster::with_address(config, self.cluster.as_deref());
        let runtime = Runtime::on_all_processors()?;
        let state = runtime.block_on(async {
            let connection = ClusterConnection::open(home, &config, false).await?;
            connection
                .cluster
                .state()
                .await
                .map_err(cluster::unanswered)
        });
        let state = match state {
            Ok(state) => state,
            Err(refusal) => return show::refuse(&refusal, self.json),
        };
        if self.json {
            return show::print_json(&json!(state));
        }
        show::text(&for_people(&state))?;
        Ok(Exit::Succeeded)
    }
}

fn for_people(state: &ClusterState) -> String {
    let mut text = format!(
        "NATS {}, {} calls in the queue\n",
        state.server, state.queued
    );
    if state.workers.is_empty() {
        text.push_str("no worker is there: `toolcell work` on a machine makes one of it\n");
    }
    state
        .workers
        .iter()
        .for_each(|worker| add_worker(&mut text, worker));
    state
        .calls
        .iter()
        .for_each(|call| add_call(&mut text, call));
    text
}

fn add_worker(text: &mut String, worker: &WorkerState) {
    let drains = if worker.drains { ", takes no more" } else { "" };
    let _ = writeln!(
        text,
        "\nworker {}  toolcell {}, {} of {} places busy{drains}",
        worker.name, worker.version, worker.busy, worker.places
    );
    for tool in &worker.tools {
        let _ = writeln!(text, "  {}  {}", tool.name, tool.component);
    }
}

fn add_call(text: &mut String, call: &OpenCall) {
    let stage = match &call.claim.stage {
        Stage::Queued => "waits".to_owned(),
        Stage::Claimed { holder } => format!("is decided by {}", holder.worker),
        Stage::Started { holder, .. } => format!("runs at {}", holder.worker),
        Stage::Ended { .. } => return,
    };
    let _ = writeln!(text, "\ncall {}  {} {stage}", call.call, call.claim.tool);
}
