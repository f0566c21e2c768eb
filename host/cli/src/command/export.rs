//! `toolcell export`: tools in the terms of the APIs of models.

use crate::runtime::Runtime;
use clap::Args;
use toolcell::Home;
use toolcell_dialect::Dialect;

use super::exit::{BadRequest, Exit, Stop};
use super::exported::{self, DialectTools, SurfaceOptions};
use super::hosts;
use super::options::{self, GrantOptions, LimitOptions, PolicyOptions};
use super::{serving, show};

/// Prints a JSON array of tools for a request to a model: those that are listed from the start, and, where the API can
/// search tools, the others with `defer_loading`. No tool runs.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell export example-tools/jq --dialect=openai\n  \
                        toolcell export example-tools/files example-tools/jq --dialect=anthropic"
)]
pub(super) struct Export {
    /// An installed tool, a .wasm file, a folder of such files, or a built source folder; with #NAME for
    /// one of its tools [default: the tools of toolcell.toml]
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    /// The format of the tools
    #[arg(long, value_name = "DIALECT", value_parser = exported::dialect(|_| true))]
    dialect: Dialect,
    /// Print an object with tools, and with tool_choice as [surface] has it: fields of a request to the API of the model
    #[arg(long)]
    request: bool,
    #[command(flatten)]
    surface: SurfaceOptions,
    #[command(flatten)]
    grants: GrantOptions,
    #[command(flatten)]
    policy: PolicyOptions,
}

impl Export {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let exported = match self.exported() {
            Ok(exported) => exported,
            Err(stop) => return show::refuse(&stop.refusal()?, false),
        };
        let (tools, left_out) = exported.described();
        if left_out > 0 {
            let dialect = self.dialect.as_str();
            show::say(&format!(
                "note: {left_out} deferred tools are not in the list, because {dialect} has no words for them there"
            ));
        }
        if !self.request {
            return show::print_json(&tools);
        }
        let dialect = self.dialect.as_str();
        let none = || {
            BadRequest(format!(
                "no request to a model has the tools of {dialect}: leave out --request"
            ))
        };
        show::print_json(&exported.request(&tools).ok_or_else(none)?)
    }

    fn exported(&self) -> Result<DialectTools, Stop> {
        let home = Home::find()?;
        let mut settings =
            options::settings(&home, &self.grants, &LimitOptions::default(), &self.policy)?;
        let selection = self.surface.selection(&settings.layers)?;
        let host = hosts::host(&home, |host| hosts::loading(host, &home, &settings.layers))?;
        let runtime = Runtime::on_this_thread()?;
        let offered = serving::offered(&self.tools, &mut settings, (&home, &host, &runtime))?;
        let exported = DialectTools::build(
            &host,
            offered,
            selection,
            (&settings.policy, &settings.grants),
            self.dialect,
        );
        Ok(runtime.block_on(exported))
    }
}
