//! `toolcell surface`: which tools the calls of a server could select.

use std::collections::HashSet;

use crate::runtime::Runtime;
use crate::surface;
use clap::Args;
use toolcell::Home;
use toolcell_config as config;
use toolcell_dialect::Dialect;
use toolcell_spec::{Lifecycle, SurfaceScope, ToolSurface, WithheldTool};

use super::exit::{Exit, Stop};
use super::exported::{self, DialectTools};
use super::hosts;
use super::options::{self, ApprovalOptions, GrantOptions, LimitOptions, PolicyOptions};
use super::{serving, show};

const SHOWN: &str = "created: toolcell surface shows it";

/// Shows which tools a server would list, defer, block and exclude, and why. No tool runs.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell surface example-tools/files example-tools/jq\n  \
                        toolcell surface --role=reviewer --json"
)]
pub(super) struct ShowSurface {
    /// An installed tool, a .wasm file, a folder of such files, or a built source folder; with #NAME for
    /// one of its tools [default: the tools of toolcell.toml]
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    /// How many tools are loaded from the start [default: 125]
    #[arg(long, value_name = "N")]
    max_listed: Option<usize>,
    /// The role of the callers; [surface.roles] of toolcell.toml says which tools it has
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Show the surface of one request to a model, under which `toolcell respond` decides on its calls, with the names of
    /// the tools there
    #[arg(long, value_name = "DIALECT", value_parser = exported::dialect(|dialect| dialect.exchange().is_some()))]
    dialect: Option<Dialect>,
    /// Print the tool_surface record
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    grants: GrantOptions,
    #[command(flatten)]
    policy: PolicyOptions,
}

impl ShowSurface {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let surface = match self.surface() {
            Ok(surface) => surface,
            Err(stop) => return show::refuse(&stop.refusal()?, self.json),
        };
        if self.json {
            show::print_json(&surface)
        } else {
            show::lines(for_people(&surface))
        }
    }

    fn surface(&self) -> Result<ToolSurface, Stop> {
        let home = Home::find()?;
        let mut settings =
            options::settings(&home, &self.grants, &LimitOptions::default(), &self.policy)?;
        let selection = config::selection(&settings.layers, self.max_listed, self.role.as_deref())?;
        let host = hosts::host(&home, |host| hosts::loading(host, &home, &settings.layers))?;
        let runtime = Runtime::on_this_thread()?;
        let offered = serving::offered(&self.tools, &mut settings, (&home, &host, &runtime))?;
        let session = ApprovalOptions::default().call_session().reference();
        if let Some(dialect) = self.dialect {
            let given = (&settings.policy, &settings.grants);
            let exported = DialectTools::build(&host, offered, selection, given, dialect);
            let exported = runtime.block_on(exported);
            let surface = exported.surface();
            let scope = SurfaceScope::ModelRequest;
            let names = exported.names();
            return Ok(surface.record(&names, scope, host.producer(), &session, SHOWN));
        }
        let mut known = HashSet::new();
        let tools = offered.into_iter().map(|offered| offered.tool);
        let tools: Vec<_> = tools
            .filter(|tool| known.insert(tool.declaration().qualified_name()))
            .collect();
        let names: Vec<String> = tools
            .iter()
            .map(|tool| tool.declaration().qualified_name())
            .collect();
        let surface = runtime.block_on(surface::build(
            &host,
            tools,
            selection,
            (&settings.policy, &settings.grants),
        ));
        let scope = match surface.selection().role {
            Some(_) => SurfaceScope::Role,
            None if self.tools.is_empty() => SurfaceScope::Workspace,
            None => SurfaceScope::Task,
        };
        Ok(surface.record(&names, scope, host.producer(), &session, SHOWN))
    }
}

fn for_people(surface: &ToolSurface) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {} loaded, {} deferred, {} blocked, {} excluded",
        surface.surface_id,
        surface.loaded_tools.len(),
        surface.deferred_tools.len(),
        surface.blocked_tools.len(),
        surface.excluded_tools.len()
    )];
    let loaded = surface.loaded_tools.iter();
    lines.extend(loaded.map(|id| format!("  loaded    {id}")));
    let deferred = surface.deferred_tools.iter();
    lines.extend(deferred.map(|tool| format!("  deferred  {}", tool.tool_id)));
    let blocked = surface.blocked_tools.iter();
    lines.extend(blocked.map(|tool| format!("  blocked   {}", why(tool))));
    let excluded = surface.excluded_tools.iter();
    lines.extend(excluded.map(|tool| format!("  excluded  {}", why(tool))));
    lines
}

fn why(tool: &WithheldTool) -> String {
    let id = &tool.tool_id;
    let reason = tool.reason.as_str();
    match tool.policy_refs.as_slice() {
        [] if tool.lifecycle == Lifecycle::Available => format!("{id}: {reason}"),
        [] => format!(
            "{id}: {reason} (its lifecycle is {})",
            format!("{:?}", tool.lifecycle).to_lowercase()
        ),
        refs => format!("{id}: {reason} ({})", refs.join("; ")),
    }
}
