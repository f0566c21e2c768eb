use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::runtime::Runtime;
use crate::surface;
use clap::Args;
use toolcell::{
    CallContext, CallSpec, Cancellation, Home, Host, Limits, Listener, Policy, Tool, ToolSet,
    ToolTerms,
};
use toolcell_config::ConfigLayers;
use toolcell_engine::pipeline::Callee;
use toolcell_executor::canceled;
use toolcell_spec::{AbortReason, CallRecord, Refusal};

use super::ask::{self, Origin};
use super::bar::Bar;
use super::callable::{self, Callables};
use super::exit::Exit;
use super::exporting::{self, TelemetryGuard};
use super::hosts;
use super::options::{RunOptions, Settings};
use super::protected_sources::{self, CommandFiles};
use super::show::{self, Form};
use super::target::{BuildPermission, Target};
use super::tool_configs::ToolConfigs;
use super::{batch, hooks, input, interrupts, saved};

/// Calls a tool and prints its result. A tool starts with nothing: grant what it needs.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell call example-tools/jq '{\"filter\": \".a\", \"input\": {\"a\": 1}}'\n  \
                        toolcell call example-tools/files#search pattern='fn main' --allow-read=."
)]
pub(super) struct Call {
    /// An installed tool, a .wasm file or a built source folder; add #NAME if it contains several tools
    tool: String,
    /// The arguments: one JSON object, @FILE, - for standard input, or NAME=VALUE pairs, whose types the tool declares.
    /// NAME:=JSON sets any value; repeat a NAME to make a list
    #[arg(value_name = "JSON|@FILE|-|NAME=VALUE")]
    input: Vec<String>,
    /// Build the source folder first if it has changed. A build runs native code as you, outside the sandbox
    #[arg(long)]
    build: bool,
    /// Load further tools that this tool can call if --allow-tool names them: an installed tool, a .wasm file or a built
    /// source folder [default: the tools in toolcell.toml]
    #[arg(long = "with", value_name = "TOOL")]
    callable: Vec<String>,
    /// Print only the tool_result record, as JSON, to standard output
    #[arg(long, conflicts_with = "print_record")]
    json: bool,
    /// Print the full record of the call: declaration, invocation, decisions, progress, result and events
    #[arg(long)]
    print_record: bool,
    /// Save the result's artifacts as new files in this folder, which is created if it is missing
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,
    #[command(flatten)]
    options: RunOptions,
}

impl Call {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        // A call that is refused by its policy still ends in a result.
        let (mut settings, refused) = match self.options.call.settings(&home) {
            Ok(settings) => (settings, None),
            Err(stop) => (Settings::default(), Some(stop.refusal()?)),
        };
        let input = input::read(&self.input)?;
        let artifacts = self
            .artifacts
            .as_deref()
            .map(saved::Folder::make)
            .transpose()?;
        let is_for_people = !self.json && !self.print_record;
        let bar = is_for_people.then(Bar::if_seen).flatten();
        let target = Target::named(&self.tool, &settings.layers.names);
        // Located before interrupts cancel the call, so that an interrupt during the build ends the program.
        let located = match refused {
            Some(refusal) => Err(refusal),
            None => self.locate(&home, &target, &settings),
        };
        let callables = callable::targets(&self.callable, &settings.layers.names);
        let named = CommandFiles::from_targets(callables.iter().chain([&target]));
        let closed = protected_sources::close(&home, &mut settings, &named);
        settings.grants.for_one = callables.is_empty();
        self.options.retry.apply(&mut settings.policy);
        let layers = std::mem::take(&mut settings.layers);
        let selection = std::mem::take(&mut settings.selection);
        let expire = self.options.approvals.expire(settings.expire);
        let exporting = TelemetryGuard(exporting::start(&layers, &self.options.call.grants));
        let listeners = listeners(&exporting, bar.as_ref());
        let mut host = self.host(&home, &settings.limits, &layers, listeners)?;
        let runtime = Runtime::on_this_thread()?;
        let (tools, record) = runtime.block_on(async {
            let cancellation = Cancellation::new();
            interrupts::cancel(cancellation.clone())?;
            tokio::select! {
                biased;
                () = cancellation.cancelled() => {}
                added = hooks::add(&mut host, &home, &layers, &closed) => added?,
            }
            let workspace = self.options.call.workspace.open(&home);
            let (workspace, located) = match workspace {
                Ok(workspace) => (workspace, located),
                Err(refusal) => (None, located.and(Err(refusal))),
            };
            let origin = located.as_ref().ok().and_then(|(component, callables)| {
                let callable = callables.files().map(Path::to_owned).collect();
                let origin = Origin::new(component, &named, &self.options.call);
                Origin { callable, ..origin }.words()
            });
            let naming = (&mut settings.policy, ToolConfigs::new(&home, &layers));
            let prepared = prepare(&host, located, &target, naming, &cancellation).await;
            let cluster = self.options.elsewhere(&home, layers.cluster.clone()).await;
            let (elsewhere, prepared) = match cluster {
                Ok(elsewhere) => (elsewhere, prepared),
                Err(refusal) => (None, prepared.and(Err(refusal))),
            };
            let tools = settings
                .tool_set(Arc::new(host))
                .expire(expire)
                .with_elsewhere(elsewhere);
            let (tools, spec, refusal) = match prepared {
                Ok(callee) => {
                    let sent = input.input(callee.tool().map(AsRef::as_ref));
                    let spec = CallSpec::from_callee(&callee, sent);
                    let terms = ToolTerms { origin, wall: None };
                    let name = |tool: &Arc<Tool>| tool.declaration().qualified_name();
                    let terms = callee.tool().map(|tool| (name(tool), terms));
                    let all = tools.host.catalog().tools();
                    let terms = HashMap::from_iter(terms);
                    let tools = surface::select(tools, all, selection, terms).await;
                    (tools, spec, None)
                }
                Err(refusal) => {
                    show::detail(&refusal);
                    let spec = CallSpec::new(self.tool.as_str(), input.input(None));
                    (tools, spec, Some(refusal))
                }
            };
            let session = self.options.approvals.call_session();
            let spec = CallSpec {
                trace: exporting::trace(exporting.0.as_ref(), &session),
                session,
                ..spec.actor(ask::actor())
            };
            let context = CallContext {
                cancellation,
                workspace,
                respondent: ask::respondent(),
                refusal,
                ..CallContext::default()
            };
            let tools = Arc::new(tools);
            let record = tools.call(spec, context).await;
            anyhow::Ok((tools, record))
        })?;
        bar.iter().for_each(|bar| bar.clear());
        self.finish(runtime, tools, &record, artifacts.as_ref())
    }

    fn finish(
        &self,
        runtime: Runtime,
        tools: Arc<ToolSet>,
        record: &CallRecord,
        artifacts: Option<&saved::Folder>,
    ) -> anyhow::Result<Exit> {
        let saved = match artifacts {
            Some(folder) => runtime.block_on(saved::save(&tools.host, record, folder)),
            None => Ok(()),
        };
        // A blocking read of the guest may still wait for a file; it must not delay the result.
        runtime.shutdown_background();
        // The process ends now, so dropping the engine would only take time.
        std::mem::forget(tools);
        let exit = show::record(record, self.form())?;
        saved.map(|()| exit)
    }

    fn locate(
        &self,
        home: &Home,
        target: &Target,
        settings: &Settings,
    ) -> Result<(PathBuf, Callables), Refusal> {
        // A build can take minutes, and would be in vain.
        let refusal = target
            .source_folder()
            .and_then(|_| settings.grants.refusal(&home.protected()));
        refusal.map_or(Ok(()), Err)?;
        let component = target.locate(
            home,
            if self.build {
                BuildPermission::Yes
            } else {
                BuildPermission::Asked
            },
        )?;
        Ok((
            component,
            Callables::find(home, &self.callable, &settings.layers, &settings.grants)?,
        ))
    }

    fn host(
        &self,
        home: &Home,
        limits: &Limits,
        layers: &ConfigLayers,
        listeners: Vec<Arc<dyn Listener>>,
    ) -> anyhow::Result<Host> {
        hosts::host(home, |settings| {
            hosts::configure(settings, home, layers, limits)
                .network(self.options.call.grants.network())
                .approver(ask::approver())
                .listeners(listeners)
        })
    }

    fn form(&self) -> Form {
        batch::form(self.json, self.print_record).unwrap_or(Form::People)
    }
}

fn listeners(exporting: &TelemetryGuard, bar: Option<&Arc<Bar>>) -> Vec<Arc<dyn Listener>> {
    let mut listeners = exporting::listeners(exporting.0.as_ref());
    listeners.extend(bar.map(|bar| Arc::<Bar>::clone(bar) as Arc<dyn Listener>));
    listeners
}

/// Stops if the call is canceled. The files that name the tools give them their settings.
async fn prepare(
    host: &Host,
    located: Result<(PathBuf, Callables), Refusal>,
    target: &Target,
    (policy, configs): (&mut Policy, ToolConfigs),
    cancellation: &Cancellation,
) -> Result<Callee, Refusal> {
    let (component, callables) = located?;
    let load = async {
        let loaded = host.load_file(&component).await?;
        let tool = target.choose(&loaded)?;
        configs.apply(&target.path, policy, &loaded)?;
        callables.load(host, &loaded, policy, &configs).await?;
        Ok(tool)
    };
    tokio::select! {
        biased;
        () = cancellation.cancelled() => {
            Err(canceled(cancellation.requested().unwrap_or(AbortReason::UserInterruption)))
        }
        tool = load => tool,
    }
}
