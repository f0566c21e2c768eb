use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;

use crate::config::Home;
use crate::host::{Cancellation, Host, Layers, Limits, Listener, Loaded, Request, canceled};
use crate::record::{AbortReason, Refusal};

use super::ask::{self, Origin};
use super::exit::Exit;
use super::hooks;
use super::input;
use super::kept;
use super::options::{self, ApprovalOptions, GrantOptions, LimitOptions, PolicyOptions, Settings};
use super::show::{self, Bar, Form};
use super::target::{self, Building, Target};

/// Calls a tool and prints its result. A tool starts with nothing: grant what it needs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  toolcell call example-tools/jq '{\"filter\": \".a\", \"input\": {\"a\": 1}}'\n  \
                        toolcell call example-tools/files#search '{\"pattern\": \"fn main\"}' --allow-read=.")]
pub(super) struct Call {
    /// A .wasm file, or the source folder of a tool, which has to be built; with #NAME if it has several tools
    tool: String,
    /// The arguments: JSON, @FILE, or - for standard input
    #[arg(default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,
    /// Build the tool first if it is a source folder and has changed. Building runs its code as you, outside of the sandbox
    #[arg(long)]
    build: bool,
    /// Print the tool_result record, and nothing else, on standard output
    #[arg(long, conflicts_with = "record")]
    json: bool,
    /// Print everything that is known of the call: declaration, invocation, decisions, progress, result, events
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    grants: GrantOptions,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    policy: PolicyOptions,
    #[command(flatten)]
    approvals: ApprovalOptions,
}

impl Call {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let settings = options::settings(&home, &self.grants, &self.limits, &self.policy)?;
        let input = input::read(&self.input)?;
        let bar = if self.json || self.record { None } else { Bar::if_seen() };
        // A call that is refused by its policy still ends in a result.
        let (mut settings, refused) = match settings {
            Ok(settings) => (settings, None),
            Err(refusal) => (Settings::default(), Some(refusal)),
        };
        let target = Target::parse(&self.tool);
        // Located before interrupts cancel the call, so that an interrupt during the build ends the program.
        let component = match refused {
            Some(refusal) => Err(refusal),
            None => target.locate(&home, if self.build { Building::Yes } else { Building::Asked }),
        };
        let sources = kept::source_folders([&target]);
        let closed = kept::close_sources(&home, &mut settings, &sources);
        let Settings { grants, limits, mut policy, expire, layers } = settings;
        let mut host = self.host(&home, &limits, &layers, bar.as_ref())?;
        let runtime = super::runtime()?;
        let record = runtime.block_on(async {
            let cancellation = Cancellation::new();
            interrupts(cancellation.clone())?;
            tokio::select! {
                biased;
                () = cancellation.cancelled() => {}
                added = hooks::add(&mut host, &home, &layers, &closed) => added?,
            }
            let mut request = Request {
                tool: self.tool.clone(),
                input,
                native_call_id: None,
                actor_ref: ask::actor(),
                grants: Arc::new(grants),
                policy: Arc::default(),
                limits,
                approval: self.approvals.terms(expire),
                cancellation: cancellation.clone(),
                unavailable: None,
                listener: None,
                respondent: ask::respondent(),
                mapping: None,
            };
            if let Ok(component) = &component {
                let options = (&self.grants, &self.limits, &self.policy);
                request.approval.origin = Origin::new(component, &sources, options).words();
            }
            match prepare(&host, component, &target, &cancellation).await {
                Ok((tool, loaded)) => {
                    request.tool = tool;
                    target.name(&mut policy, &layers, &loaded);
                }
                Err(refusal) => {
                    show::detail(&refusal);
                    request.unavailable = Some(refusal);
                }
            }
            request.policy = Arc::new(policy);
            anyhow::Ok(host.call(request).await)
        })?;
        if let Some(bar) = bar {
            bar.clear();
        }
        // A blocking read of the guest may still wait for a file; it must not delay the result.
        runtime.shutdown_background();
        // The process ends now, so dropping the engine would only take time.
        std::mem::forget(host);
        show::record(&record, self.form())
    }

    fn host(&self, home: &Home, limits: &Limits, layers: &Layers, bar: Option<&Arc<Bar>>) -> anyhow::Result<Host> {
        target::host(home, |settings| {
            self.grants.reach(&mut settings.network);
            settings.memory_bytes_max = settings.memory_bytes_max.max(limits.memory_bytes);
            settings.cache_bytes_max = layers.cache_bytes_max();
            settings.approvals = true;
            settings.approver = Some(ask::approver());
            settings.listeners = bar.into_iter().map(|bar| Arc::<Bar>::clone(bar) as Arc<dyn Listener>).collect();
        })
    }

    fn form(&self) -> Form {
        match (self.record, self.json) {
            (true, _) => Form::Record,
            (false, true) => Form::Result,
            (false, false) => Form::People,
        }
    }
}

/// Loads the component and chooses the tool, unless the call is canceled.
async fn prepare(
    host: &Host,
    component: Result<PathBuf, Refusal>,
    target: &Target,
    cancellation: &Cancellation,
) -> Result<(String, Loaded), Refusal> {
    let component = component?;
    tokio::select! {
        biased;
        () = cancellation.cancelled() => {
            Err(canceled(cancellation.requested().unwrap_or(AbortReason::UserInterruption)))
        }
        loaded = host.load_file(&component) => {
            let loaded = loaded?;
            Ok((target.choose(&loaded)?, loaded))
        }
    }
}

/// The first interrupt cancels the call, so that it still ends in a result; the second one ends the program.
pub(super) fn interrupts(cancellation: Cancellation) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to interrupts")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to termination")?;
    tokio::spawn(async move {
        let reason = tokio::select! {
            _ = interrupt.recv() => AbortReason::UserInterruption,
            _ = terminate.recv() => AbortReason::RuntimeShutdown,
        };
        cancellation.cancel(reason);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}
