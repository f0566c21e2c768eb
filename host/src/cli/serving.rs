//! What the commands that serve have in common: load the tools once, offer them, and end when somebody says so.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tokio::runtime::Runtime;

use crate::catalog::Tool;
use crate::config::Home;
use crate::host::Host;
use crate::record::Refusal;
use crate::server::{Offers, Recorder, Server, Settings};

use super::exit::{self, BadRequest, Exit};
use super::options::{GrantOptions, LimitOptions};
use super::target::{self, Target};

/// Which tools a server offers, and with what.
#[derive(Debug, Args)]
pub(super) struct Serving {
    /// A .wasm file, or the source folder of a tool, built when stale; with #NAME for one of its tools
    #[arg(value_name = "TOOL")]
    pub(super) tools: Vec<String>,
    /// Append the record of every call to FILE, one JSON line each
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    grants: GrantOptions,
    #[command(flatten)]
    limits: LimitOptions,
}

/// A server that is ready, or the exit code of why it is not; that was said on standard error.
pub(super) enum Ready {
    Server(Arc<Server>),
    Refused(Exit),
}

impl Serving {
    /// Loads the tools. Every one of them must be there: a server that lacks half of its tools would surprise.
    pub(super) fn server(&self, runtime: &Runtime) -> anyhow::Result<Ready> {
        if self.tools.is_empty() {
            return Err(BadRequest(
                "say which tools to offer: a .wasm file, or the source folder of a tool".to_owned(),
            )
            .into());
        }
        let home = Home::find()?;
        let grants = self.grants.grants()?;
        let limits = self.limits.limits();
        let recorder = self.record.as_deref().map(|file| Recorder::open(file, unwritable)).transpose()?;
        let host = target::host(&home, |settings| {
            settings.pooled = true;
            settings.calls_at_once = crate::host::CALLS_AT_ONCE;
            settings.memory_bytes_max = settings.memory_bytes_max.max(limits.memory_bytes);
        })?;
        let mut tools = Vec::new();
        for typed in &self.tools {
            match runtime.block_on(load(&host, &home, typed)) {
                Ok(loaded) => tools.extend(loaded),
                Err(refusal) => {
                    let _ = writeln!(std::io::stderr(), "error: {typed}: {}", refusal.message);
                    return Ok(Ready::Refused(exit::of_class(refusal.class)));
                }
            }
        }
        let settings =
            Settings { host: Arc::new(host), offers: Offers::new(tools), grants: Arc::new(grants), limits, recorder };
        Ok(Ready::Server(Server::new(settings)))
    }
}

async fn load(host: &Host, home: &Home, typed: &str) -> Result<Vec<Arc<Tool>>, Refusal> {
    let target = Target::parse(typed);
    let component = target.locate(home)?;
    target.tools(&host.load_file(&component).await?)
}

fn unwritable(error: &std::io::Error) {
    super::show::say(&format!("warning: the records of calls cannot be written any more: {error}"));
}

/// An async runtime with a thread for each processor: calls run side by side.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")
}

/// Ends when somebody asks the program to end.
pub(super) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Writes what is left of the records, and leaves the rest to the end of the process: taking the engine apart would only
/// take time, and a guest's blocking read must not hold anybody up.
pub(super) fn finish(runtime: Runtime, server: Arc<Server>) {
    runtime.shutdown_background();
    server.close();
    std::mem::forget(server);
}
