//! `toolcell cluster`: what a cluster has, and the key of this gateway.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolcell::Home;
use toolcell_cluster::{Cluster, ClusterState, OpenCall, Stage, WorkerState, public_key};
use toolcell_config::{ClusterConfig, ConfigLayers, LayerOptions};
use toolcell_spec::{ErrorCode, Refusal, Timestamp};

use super::exit::{BadRequest, Exit};
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
    /// List the calls that have not ended, and for how long each has not changed
    Calls(OpenCalls),
    /// End the calls whose worker is silent, or that no worker began in time. Gateways and workers do this
    /// continuously; use it if none is running
    Sweep(ClusterStatus),
    /// Make a worker accept no more calls, and exit once its calls end
    Drain(DrainWorker),
    /// Print this home's public key. Workers need it in `gateways` to accept its calls, or in `approvers` to accept its
    /// answers
    Key,
    /// List the approval requests that wait at workers, with all their details
    Approvals(ClusterStatus),
    /// Approve a call that waits at a worker
    Approve(AnswerFromHere),
    /// Deny a call that waits at a worker
    Deny(AnswerFromHere),
}

#[derive(Debug, Args)]
struct AnswerFromHere {
    /// The id of the call: `toolcell cluster approvals` lists them
    id: String,
    /// Run the call with this JSON as arguments instead
    #[arg(long, value_name = "JSON")]
    edit: Option<String>,
    /// A note for the caller
    #[arg(long, value_name = "TEXT")]
    feedback: Option<String>,
    /// Approve although the question shows a part of the call only
    #[arg(long)]
    accept_partial_view: bool,
    /// Ask the NATS server at URL, instead of [cluster]'s
    #[arg(long, value_name = "URL")]
    cluster: Option<String>,
}

#[derive(Debug, Args)]
struct OpenCalls {
    /// Only those that this worker has
    #[arg(long, value_name = "WORKER")]
    on: Option<String>,
    #[command(flatten)]
    asked: ClusterStatus,
}

#[derive(Debug, Args)]
struct DrainWorker {
    /// The name of the worker: `toolcell cluster status` lists them
    worker: String,
    #[command(flatten)]
    asked: ClusterStatus,
}

#[derive(Debug, Args)]
struct ClusterStatus {
    /// Ask the NATS server at URL, instead of [cluster]'s
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
            ClusterCommand::Calls(calls) => calls.run(&home, config),
            ClusterCommand::Sweep(sweep) => sweep.sweep(&home, config),
            ClusterCommand::Drain(drain) => drain.run(&home, config),
            ClusterCommand::Approvals(asked) => asked.approvals(&home, config),
            ClusterCommand::Approve(answer) => answer.run(&home, config, true),
            ClusterCommand::Deny(answer) => answer.run(&home, config, false),
        }
    }
}

fn config(home: &Home) -> anyhow::Result<Option<ClusterConfig>> {
    let folder = std::env::current_dir().ok();
    let layers = ConfigLayers::read(home, folder.as_deref(), &LayerOptions::default())?;
    Ok(layers.cluster)
}

impl ClusterStatus {
    fn ask<T>(
        &self,
        home: &Home,
        config: Option<ClusterConfig>,
        question: impl AsyncFnOnce(&Cluster) -> Result<T, Refusal>,
    ) -> anyhow::Result<Result<T, Refusal>> {
        let config = cluster::with_address(config, self.cluster.as_deref());
        let runtime = Runtime::on_all_processors()?;
        Ok(runtime.block_on(async {
            let connection = ClusterConnection::open(home, &config, false).await?;
            question(&connection.cluster).await
        }))
    }

    fn run(self, home: &Home, config: Option<ClusterConfig>) -> anyhow::Result<Exit> {
        let state = match self.ask(home, config, state)? {
            Ok(state) => state,
            Err(refusal) => return show::refuse(&refusal, self.json),
        };
        if self.json {
            return show::print_json(&json!(state));
        }
        show::text(&for_people(&state))?;
        Ok(Exit::Succeeded)
    }

    fn sweep(self, home: &Home, config: Option<ClusterConfig>) -> anyhow::Result<Exit> {
        let swept = self.ask(home, config, async |cluster| {
            let before = state(cluster).await?.calls.len();
            if before > 0 {
                let watched = cluster.lease() * 3 / 2;
                let calls = show::counted(before as u64, "open call");
                show::say(&format!("watching {calls} for {} s", watched.as_secs()));
                tokio::time::sleep(watched).await;
            }
            Ok(state(cluster).await?.calls)
        })?;
        let calls = match swept {
            Ok(calls) => calls,
            Err(refusal) => return show::refuse(&refusal, self.json),
        };
        if self.json {
            return show::print_json(&json!({ "calls": calls }));
        }
        show::text(&open_lines(&calls))
    }

    fn approvals(self, home: &Home, config: Option<ClusterConfig>) -> anyhow::Result<Exit> {
        let open = self.ask(home, config, async |cluster| {
            cluster.approvals().await.map_err(cluster::unanswered)
        })?;
        let open = match open {
            Ok(open) => open,
            Err(refusal) => return show::refuse(&refusal, self.json),
        };
        if self.json {
            return show::print_json(&json!({ "approvals": open }));
        }
        if open.is_empty() {
            return show::text("no call waits for an approval\n");
        }
        let paragraphs = open.iter().map(|asked| {
            let caller = asked.caller.as_deref().unwrap_or("an unknown caller");
            let cut = if asked.cut { "; a part of it only" } else { "" };
            format!(
                "{} at {}, called by {caller}, open until {}{cut}\n{}\n",
                asked.invocation_id, asked.worker, asked.expires_at, asked.prompt
            )
        });
        show::text(&paragraphs.collect::<Vec<_>>().join("\n"))
    }
}

async fn state(cluster: &Cluster) -> Result<ClusterState, Refusal> {
    cluster.state().await.map_err(cluster::unanswered)
}

impl OpenCalls {
    fn run(self, home: &Home, config: Option<ClusterConfig>) -> anyhow::Result<Exit> {
        let mut calls = match self.asked.ask(home, config, state)? {
            Ok(state) => state.calls,
            Err(refusal) => return show::refuse(&refusal, self.asked.json),
        };
        if let Some(on) = &self.on {
            let has = |call: &OpenCall| call.claim.holder().is_some_and(|by| by.worker == *on);
            calls.retain(has);
        }
        if self.asked.json {
            return show::print_json(&json!({ "calls": calls }));
        }
        show::text(&open_lines(&calls))
    }
}

fn open_lines(calls: &[OpenCall]) -> String {
    if calls.is_empty() {
        return "no call is open\n".to_owned();
    }
    calls.iter().filter_map(call_line).collect()
}

impl DrainWorker {
    fn run(self, home: &Home, config: Option<ClusterConfig>) -> anyhow::Result<Exit> {
        let name = self.worker.as_str();
        let drained = self
            .asked
            .ask(home, config, async |cluster| drained(cluster, name).await)?;
        let left = match drained {
            Ok(left) => left,
            Err(refusal) => return show::refuse(&refusal, self.asked.json),
        };
        if self.asked.json {
            let busy = left.as_ref().map_or(0, |worker| worker.busy);
            let said = json!({ "worker": name, "gone": left.is_none(), "busy": busy });
            return show::print_json(&said);
        }
        show::text(&match left {
            None => format!("{name} has ended\n"),
            Some(worker) => {
                let calls = show::counted(worker.busy as u64, "call");
                format!("{name} takes no more calls, and ends after {calls}\n")
            }
        })
    }
}

/// Waits until the worker says that it drains, and returns what it said; `None`: it is gone.
async fn drained(cluster: &Cluster, name: &str) -> Result<Option<WorkerState>, Refusal> {
    let worker = async || cluster.worker(name).await.map_err(cluster::unanswered);
    if worker().await?.is_none() {
        let message = format!("no worker {name} is there: toolcell cluster status");
        return Err(Refusal::new(ErrorCode::UnknownRequest, message));
    }
    cluster.drain(name).await.map_err(cluster::unanswered)?;
    for _ in 0..DRAIN_LOOKS {
        tokio::time::sleep(LOOK_EVERY).await;
        match worker().await? {
            Some(worker) if !worker.drains => {}
            drains => return Ok(drains),
        }
    }
    let message = format!("the worker {name} does not answer: end its process on its machine");
    Err(Refusal::new(ErrorCode::ClusterUnavailable, message))
}

/// A worker looks every 5 s, and is forgotten 15 s after it was killed.
const DRAIN_LOOKS: u32 = 200;

impl AnswerFromHere {
    fn run(
        self,
        home: &Home,
        config: Option<ClusterConfig>,
        approved: bool,
    ) -> anyhow::Result<Exit> {
        let edit = self.edit.as_deref().map(serde_json::from_str::<Value>);
        let edit = edit
            .transpose()
            .map_err(|error| BadRequest(format!("--edit is no JSON: {error}")))?;
        let answer = json!({
            "approved": approved,
            "accept_partial_view": self.accept_partial_view,
            "edit": edit,
            "feedback": self.feedback,
        });
        let config = cluster::with_address(config, self.cluster.as_deref());
        let runtime = Runtime::on_all_processors()?;
        let taken = runtime.block_on(async {
            let connection = ClusterConnection::open(home, &config, true).await?;
            answered(&connection.cluster, &self.id, answer.to_string()).await
        });
        match taken {
            Err(refusal) => show::refuse(&refusal, false),
            Ok(Some(why)) => {
                show::say(&format!("the worker did not take the answer: {why}"));
                Ok(Exit::Refused)
            }
            Ok(None) => {
                let what = if approved { "approved" } else { "denied" };
                show::say(&format!("{}: {what}", self.id));
                Ok(Exit::Succeeded)
            }
        }
    }
}

/// Waits until the worker has taken the answer. Returns why it did not.
async fn answered(cluster: &Cluster, id: &str, answer: String) -> Result<Option<String>, Refusal> {
    let unknown = || {
        let message = format!("no question about a call {id} is open: toolcell cluster approvals");
        Refusal::new(ErrorCode::UnknownRequest, message)
    };
    let is_id = !id.is_empty() && id.chars().all(|letter| letter.is_ascii_alphanumeric());
    if !is_id {
        return Err(unknown());
    }
    let asked = cluster.approval(id).await.map_err(cluster::unanswered)?;
    let asked = asked.ok_or_else(unknown)?;
    let sent = cluster.answer_approval(asked, answer).await;
    sent.map_err(cluster::unanswered)?;
    for _ in 0..LOOKS {
        tokio::time::sleep(LOOK_EVERY).await;
        match cluster.approval(id).await.map_err(cluster::unanswered)? {
            None => return Ok(None),
            Some(asked) if asked.refused.is_some() => return Ok(asked.refused),
            Some(_) => {}
        }
    }
    Ok(Some("it does not answer".to_owned()))
}

const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOKS: u32 = 100;

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
    let calls = state.calls.iter().filter_map(call_line);
    calls.for_each(|line| _ = write!(text, "\n{line}"));
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

/// `None`: it has ended.
fn call_line(call: &OpenCall) -> Option<String> {
    let stage = match &call.claim.stage {
        Stage::Queued => "waits".to_owned(),
        Stage::Claimed { holder } => format!("is decided by {}", holder.worker),
        Stage::Started { holder, .. } => format!("runs at {}", holder.worker),
        Stage::Ended { .. } => return None,
    };
    let id = &call.call;
    let tool = &call.claim.tool;
    let unchanged = Timestamp::now().since(call.changed_at).as_secs();
    Some(format!(
        "call {id}  {tool} {stage}, unchanged for {unchanged} s\n"
    ))
}
