//! `toolcell batch`: many calls, in parallel where they cannot disturb each other.

mod lines;
mod output;
mod questions;
mod tools;

pub(super) use lines::Line;
pub(super) use output::Output;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crate::runtime::Runtime;
use crate::surface;
use clap::Args;
use serde_json::Value;
use toolcell::{
    Batch as Calls, BatchCall, BatchPolicy, CallContext, CallSpec, Cancellation, Home, Host,
    InterruptBehavior, OrderingPolicy, Refusal, Respondent, SiblingFailurePolicy, YieldPolicy,
};
use toolcell_config::InstalledNames;
use toolcell_dialect::{CallTerms, Dialect};
use toolcell_engine::catalog::Surface;
use toolcell_engine::scheduler::batch::PARALLEL_MAX;
use toolcell_server::telemetry::Telemetry;
use toolcell_spec::{AbortReason, ContextModifierPolicy, ExternalMapping};
use toolcell_system::machine::share_bytes;

use super::exit::{self, Exit, Stop};
use super::exported::SurfaceOptions;
use super::exporting::{self, TelemetryGuard};
use super::hosts;
use super::options::{RunOptions, Settings, words};
use super::protected_sources::{self, CommandFiles};
use super::show::{self, Form};
use super::target::Target;
use super::tool_configs::ToolConfigs;
use super::{ask, hooks, interrupts, serving};
use questions::Questions;
use tools::{ChosenTool, Tools};

/// Makes many calls, in parallel where they cannot disturb each other. The grants are for each of them.
#[derive(Debug, Args)]
#[command(
    after_help = "A line is one call: a JSON object with id, tool (as for `toolcell call`, or the name of a tool of \
                        --with), input, and depends_on, the ids of the calls that have to end first.\n\n\
                        Examples:\n  toolcell batch calls.ndjson --allow-read=.\n  \
                        toolcell batch - --with=example-tools/jq --json"
)]
pub(super) struct Batch {
    /// The calls: one JSON object a line. - for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// An installed tool, a .wasm file, or a built source folder, whose tools the lines may name; add #NAME for one of
    /// them
    #[arg(long, value_name = "TOOL")]
    with: Vec<String>,
    /// Print one object with id and result for each call, then one for each call with deferred context modifiers, and nothing
    /// else, on standard output
    #[arg(long, conflicts_with = "print_record")]
    json: bool,
    /// Print the full record of each call, one per line
    #[arg(long)]
    print_record: bool,
    #[command(flatten)]
    order: OrderOptions,
    #[command(flatten)]
    options: RunOptions,
}

/// Parallelism and order of the calls, and the effect of a failure on the others.
#[derive(Debug, Args)]
#[command(next_help_heading = "Order")]
pub(super) struct OrderOptions {
    /// Calls in progress at once, 1 to 64: fewer if the machine's memory is not enough for all of them [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=PARALLEL_MAX as i64))]
    max_parallel: Option<u8>,
    /// Order of calls that change something: the order of their lines, or any; or one call at a time [default:
    /// preserve_terminal_order]
    #[arg(long, value_name = "POLICY", value_parser = words::<OrderingPolicy, 3>(OrderingPolicy::ALL.map(OrderingPolicy::as_str)))]
    ordering: Option<OrderingPolicy>,
    /// When to print results [default: progress_immediate_results_ordered]
    #[arg(long, value_name = "POLICY", value_parser = words::<YieldPolicy, 3>(YieldPolicy::ALL.map(YieldPolicy::as_str)))]
    output_order: Option<YieldPolicy>,
    /// On the first Ctrl-C, wait for running calls (block) or cancel them. No new call starts [default: block]
    #[arg(long, value_name = "POLICY", value_parser = words::<InterruptBehavior, 2>(InterruptBehavior::ALL.map(InterruptBehavior::as_str)))]
    on_interrupt: Option<InterruptBehavior>,
    /// Effect of a failed call on the other calls [default: cancel_dependent]
    #[arg(long, value_name = "POLICY", value_parser = words::<SiblingFailurePolicy, 3>(SiblingFailurePolicy::ALL.map(SiblingFailurePolicy::as_str)))]
    on_failure: Option<SiblingFailurePolicy>,
    /// Context modifiers of tools: the calls run one at a time, or the modifiers apply after all results, or tools can
    /// make none [default: allow_serial_only]
    #[arg(long, value_name = "POLICY", value_parser = words::<ContextModifierPolicy, 3>(ContextModifierPolicy::ALL.map(ContextModifierPolicy::as_str)))]
    context_modifiers: Option<ContextModifierPolicy>,
}

impl OrderOptions {
    /// Half of the machine's memory bounds the calls at once.
    fn policy(
        &self,
        Settings {
            limits, selection, ..
        }: &Settings,
        calls: usize,
    ) -> BatchPolicy {
        let default = BatchPolicy::default();
        let policy = BatchPolicy {
            max_parallel: selection
                .at_once(self.max_parallel.map_or(default.max_parallel, usize::from)),
            ordering: self.ordering.unwrap_or_default(),
            yields: self.output_order.unwrap_or_default(),
            interrupt: self.on_interrupt.unwrap_or_default(),
            siblings: self.on_failure.unwrap_or_default(),
            context_modifiers: self.context_modifiers.unwrap_or_default(),
        };
        let fitting = usize::try_from(share_bytes() / limits.host_bytes().max(1))
            .unwrap_or(usize::MAX)
            .max(1);
        if fitting < policy.at_once().min(calls) {
            show::say(&format!(
                "note: {fitting} calls run at once, because each may take {} bytes of memory; lower --memory for more",
                limits.host_bytes()
            ));
        }
        BatchPolicy {
            max_parallel: policy.max_parallel.min(fitting),
            ..policy
        }
    }
}

struct BatchContext {
    settings: Settings,
    named: CommandFiles,
    questions: Questions,
    interrupt: Cancellation,
    /// Ends all calls: the settings cannot be used.
    refused: Option<Refusal>,
    telemetry: Option<Arc<Telemetry>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ToolNaming<'a> {
    Typed,
    /// A name of this dialect: a model makes the calls.
    Exported(Dialect, &'a SurfaceOptions, &'a CallTerms),
}

pub(super) struct Job<'a> {
    pub(super) tools: &'a [String],
    pub(super) naming: ToolNaming<'a>,
    pub(super) order: &'a OrderOptions,
    pub(super) options: &'a RunOptions,
}

impl Batch {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let lines = lines::read(&self.file)?;
        let form = form(self.json, self.print_record).unwrap_or(Form::People);
        let output = Arc::new(Output::new(
            Some(form),
            lines.iter().map(|line| line.id.clone()).collect(),
        ));
        let job = Job {
            tools: &self.with,
            naming: ToolNaming::Typed,
            order: &self.order,
            options: &self.options,
        };
        job.run(lines, &output)?.map_or_else(|| output.exit(), Ok)
    }
}

pub(super) fn form(json: bool, record: bool) -> Option<Form> {
    let result = json.then_some(Form::Result);
    record.then_some(Form::Record).or(result)
}

impl Job<'_> {
    /// Returns the exit code of a refusal that was printed because a tool cannot be offered.
    pub(super) fn run(
        self,
        lines: Vec<Line>,
        output: &Arc<Output>,
    ) -> anyhow::Result<Option<Exit>> {
        let home = Home::find()?;
        // Calls that are refused by their policy still end in results.
        let (mut settings, refused) = match self.settings(&home) {
            Ok(settings) => (settings, None),
            Err(stop) => (Settings::default(), Some(stop.refusal()?)),
        };
        self.options.retry.apply(&mut settings.policy);
        let named = self.named(&lines, &settings.layers.names);
        let closed = protected_sources::close(&home, &mut settings, &named);
        let mut policy = self.order.policy(&settings, lines.len());
        if matches!(self.naming, ToolNaming::Exported(.., terms) if terms.is_serial()) {
            policy.max_parallel = 1;
        }
        let questions = Questions::new(output);
        let exporting = TelemetryGuard(exporting::start(
            &settings.layers,
            &self.options.call.grants,
        ));
        let mut host = self.host(&home, &settings, policy, &questions, exporting.0.as_ref())?;
        let runtime = Runtime::on_all_processors()?;
        let batched = runtime.block_on(async {
            let interrupt = Cancellation::new();
            interrupts::cancel(interrupt.clone())?;
            tell_of_interrupt(interrupt.clone(), policy.interrupt);
            tokio::select! {
                biased;
                () = interrupt.cancelled() => {}
                added = hooks::add(&mut host, &home, &settings.layers, &closed) => added?,
            }
            let host = Arc::new(host);
            let mut shared = BatchContext {
                settings,
                named,
                questions,
                interrupt: interrupt.clone(),
                refused,
                telemetry: exporting.0.clone(),
            };
            let calls = match self.calls(&host, &home, &mut shared, lines).await {
                Ok(calls) => calls,
                Err(refusal) => {
                    show::refused(&refusal);
                    return anyhow::Ok((host, Some(exit::of_refusal(&refusal))));
                }
            };
            let batch = Calls {
                policy,
                interrupt,
                ..Calls::new(calls, Arc::<Output>::clone(output))
            };
            host.batch(batch).await?;
            anyhow::Ok((host, None))
        });
        let (host, refused) = batched?;
        // A blocking read of a guest may still wait for a file, and dropping the engine would only take time.
        runtime.shutdown_background();
        std::mem::forget(host);
        Ok(refused)
    }

    fn settings(&self, home: &Home) -> Result<Settings, Stop> {
        let mut settings = self.options.call.settings(home)?;
        if let ToolNaming::Exported(_, surface, _) = self.naming {
            settings.selection = surface.selection(&settings.layers)?;
        }
        Ok(settings)
    }

    /// The sources and components that the command and the lines name. A model names none.
    fn named(&self, lines: &[Line], names: &InstalledNames) -> CommandFiles {
        let typed = if matches!(self.naming, ToolNaming::Typed) {
            lines
        } else {
            &[]
        };
        let named = self.tools.iter().chain(typed.iter().map(|line| &line.tool));
        let targets: BTreeMap<&str, Target> = named
            .map(|typed| (typed.as_str(), Target::named(typed, names)))
            .collect();
        CommandFiles::from_targets(targets.values())
    }

    fn host(
        &self,
        home: &Home,
        settings: &Settings,
        policy: BatchPolicy,
        questions: &Questions,
        telemetry: Option<&Arc<Telemetry>>,
    ) -> anyhow::Result<Host> {
        hosts::host(home, |host| {
            hosts::configure(host, home, &settings.layers, &settings.limits)
                .network(self.options.call.grants.network())
                .calls_at_once(u32::try_from(policy.at_once()).unwrap_or(1))
                .approver(questions.in_turn(ask::approver()))
                .listeners(exporting::listeners(telemetry))
        })
    }

    /// Fails if a tool of the command cannot be offered. One that only a line names becomes the refusal of that line.
    async fn calls(
        &self,
        host: &Arc<Host>,
        home: &Home,
        shared: &mut BatchContext,
        lines: Vec<Line>,
    ) -> Result<Vec<BatchCall>, Refusal> {
        let mut settings = std::mem::take(&mut shared.settings);
        let (chosen, surface): (Vec<Result<ChosenTool, Refusal>>, Option<Surface>) =
            match &shared.refused {
                Some(refusal) => (lines.iter().map(|_| Err(refusal.clone())).collect(), None),
                None => {
                    self.choose(host, home, &mut settings, shared, &lines)
                        .await?
                }
            };
        let expire = self.options.approvals.expire(settings.expire);
        let workspace = self.options.call.workspace.open(home)?;
        let cluster = settings.layers.cluster.take();
        let elsewhere = match &shared.refused {
            // No call is made, and each still gets its result.
            Some(_) => None,
            None => self.options.elsewhere(home, cluster).await?,
        };
        let tools = settings
            .tool_set(Arc::clone(host))
            .expire(expire)
            .with_elsewhere(elsewhere);
        let tools = match surface {
            Some(surface) => {
                let terms = chosen.iter().flatten().filter_map(ChosenTool::named_terms);
                tools.on_surface(surface, terms.collect())
            }
            None => tools,
        };
        let respondent = ask::respondent()
            .map(|asked| -> Arc<dyn Respondent> { shared.questions.in_turn(asked) });
        let make = |(line, chosen): (Line, Result<ChosenTool, Refusal>)| {
            let described = chosen
                .as_ref()
                .ok()
                .and_then(|chosen| chosen.described.as_ref());
            let mapping = self.mapping(&line, described);
            let (spec, refusal) = match chosen {
                Ok(chosen) => (CallSpec::from_callee(&chosen.tool, line.input), None),
                Err(refusal) => (CallSpec::new(line.tool, line.input), Some(refusal)),
            };
            let session = self.options.approvals.call_session();
            let spec = CallSpec {
                native_call_id: line.native_id,
                mapping,
                trace: exporting::trace(shared.telemetry.as_ref(), &session),
                session,
                ..spec.actor(ask::actor())
            };
            let context = CallContext {
                respondent: respondent.clone(),
                workspace: workspace.clone(),
                refusal,
                ..CallContext::default()
            };
            tools
                .batch_call(line.id, spec, context)
                .after(line.depends_on)
        };
        Ok(lines.into_iter().zip(chosen).map(make).collect())
    }

    /// The record says how the API of a model identifies the call (AT-MAP-03).
    fn mapping(&self, line: &Line, described: Option<&Value>) -> Option<ExternalMapping> {
        let ToolNaming::Exported(dialect, _, terms) = self.naming else {
            return None;
        };
        Some(terms.mapping(
            dialect.as_str(),
            (line.native_id.as_deref()?, &line.tool),
            described,
        ))
    }

    async fn choose(
        &self,
        host: &Host,
        home: &Home,
        settings: &mut Settings,
        shared: &BatchContext,
        lines: &[Line],
    ) -> Result<(Vec<Result<ChosenTool, Refusal>>, Option<Surface>), Refusal> {
        let layers = &settings.layers;
        let selection = std::mem::take(&mut settings.selection);
        let mut tools = Tools {
            host,
            home,
            configs: ToolConfigs::new(home, layers),
            names: &layers.names,
            policy: &mut settings.policy,
            named: &shared.named,
            options: &self.options.call,
            interrupt: &shared.interrupt,
            role: match self.naming {
                ToolNaming::Typed => None,
                ToolNaming::Exported(_, surface, _) => surface.role(),
            },
            offered: Vec::new(),
            components: HashMap::new(),
        };
        let mut chosen = Vec::with_capacity(lines.len());
        match self.naming {
            ToolNaming::Typed => {
                for typed in self.tools {
                    let target = Target::named(typed, tools.names);
                    tools.offer(&target, None).await.map_err(|refusal| {
                        let message = format!("{typed}: {}", refusal.message);
                        Refusal { message, ..refusal }
                    })?;
                }
                for line in lines {
                    chosen.push(tools.find(&line.tool).await);
                }
                let surface = surface::build(
                    host,
                    host.catalog().tools(),
                    selection,
                    (&*tools.policy, &settings.grants),
                )
                .await;
                Ok((chosen, Some(surface)))
            }
            ToolNaming::Exported(dialect, ..) => {
                for named in serving::named(self.tools, layers)? {
                    let offered = tools.offer(&named.target, named.timeout).await;
                    offered.map_err(|refusal| named.failed(refusal))?;
                }
                let exported = tools.export(selection, &settings.grants, dialect).await;
                for line in lines {
                    chosen.push(tools.find_exported(&exported, &line.tool).await);
                }
                Ok((chosen, Some(exported.surface().clone())))
            }
        }
    }
}

fn tell_of_interrupt(interrupt: Cancellation, behavior: InterruptBehavior) {
    tokio::spawn(async move {
        interrupt.cancelled().await;
        let waits = behavior == InterruptBehavior::Block;
        if waits && interrupt.requested() == Some(AbortReason::UserInterruption) {
            show::say(
                "note: the calls that run go on to their end, and no other call starts; interrupt again to end toolcell \
                 without their results",
            );
        }
    });
}
