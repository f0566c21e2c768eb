use std::io::IsTerminal;
use std::sync::Arc;

use crate::runtime::Runtime;
use anyhow::Context;
use clap::Args;
use toolcell::Home;
use toolcell_config::InstalledNames;

use super::clients::{self, Client};
use super::exit::{BadRequest, Exit};
use super::serving::{self, ServingOptions};
use super::starting::{Early, Ready};
use super::target::{BuildPermission, Target};
use super::{ask, folder, show};

/// Offers tools to an MCP client, on standard input and output. A tool starts with nothing: grant what it needs.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell mcp example-tools/jq example-tools/files --allow-read=.\n  \
                        toolcell mcp --print-config=claude-code example-tools/jq"
)]
pub(super) struct Mcp {
    #[command(flatten)]
    serving: ServingOptions,
    /// Print the configuration entry that makes CLIENT start this command, and exit
    #[arg(long, value_name = "CLIENT")]
    print_config: Option<Client>,
}

impl Mcp {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if let Some(client) = self.print_config {
            return self.print(client);
        }
        let runtime = Runtime::on_all_processors()?;
        let (server, failed) = match self.serving.early_server(&runtime)? {
            Early::Ready(Ready::Server(served)) => {
                let server = Arc::clone(&served.server);
                runtime.spawn(served.follow());
                (server, None)
            }
            Early::Loading(loading) => (Arc::clone(&loading.server), Some(loading.spawn(&runtime))),
            Early::Ready(Ready::Refused(exit)) => return Ok(exit),
        };
        if std::io::stdin().is_terminal() {
            show::say(
                "toolcell mcp speaks MCP on standard input and output, and an MCP client starts it; for the entry in a \
                 client's configuration: toolcell mcp --print-config=CLIENT TOOL...",
            );
        }
        let done = runtime.block_on(async {
            let interrupted = serving::interrupted();
            let served =
                toolcell_server::serve_stdio(&server, ask::actor(), serving::interrupted()).await;
            let Some(failed) = failed else {
                return served.map(|()| Exit::Succeeded);
            };
            // The exit code of tools that cannot be loaded counts even if the client left before that was known.
            tokio::select! {
                biased;
                failed = failed => failed.unwrap_or_else(|_| served.map(|()| Exit::Succeeded)),
                () = interrupted => served.map(|()| Exit::Succeeded),
            }
        });
        serving::finish(runtime, server);
        done
    }

    fn print(&self, client: Client) -> anyhow::Result<Exit> {
        let folder = std::env::current_dir().context("cannot find the current folder")?;
        let typed: Option<Vec<String>> = std::env::args_os()
            .skip(1)
            .map(|argument| argument.into_string().ok())
            .collect();
        let typed = typed.ok_or_else(|| {
            BadRequest("a configuration cannot hold what is not Unicode".to_owned())
        })?;
        let home = Home::find()?;
        let names = InstalledNames::here(&home, self.serving.options.policy.named());
        let extra = self.serving.project_file(&names, &folder)?;
        let text = clients::config(client, &typed, &extra, (&folder, &names))?;
        // A configuration that cannot be served is not worth pasting.
        for tool in &self.serving.tools {
            let target = Target::named(tool, &names);
            if !target.is_installed()
                && folder::components(&target.path).is_ok_and(|found| found.is_some())
            {
                continue;
            }
            target
                .locate(&home, BuildPermission::No)
                .map_err(|refusal| BadRequest(refusal.message))?;
        }
        show::say(&format!("paste this into {}:", client.file()));
        show::print(show::json_for_terminals(&text).as_bytes())
    }
}
