use std::io::IsTerminal;
use std::sync::Arc;

use crate::runtime::Runtime;
use anyhow::Context;
use clap::Args;

use super::clients::Client;
use super::exit::Exit;
use super::launch::Launch;
use super::serving::{self, ServingOptions};
use super::starting::{Early, Ready};
use super::{ask, connect, interrupts, show};

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
                 client's configuration: toolcell connect CLIENT TOOL...",
            );
        }
        let done = runtime.block_on(async {
            let interrupted = interrupts::interrupted();
            let served =
                toolcell_server::serve_stdio(&server, ask::actor(), interrupts::interrupted())
                    .await;
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
        let launch = Launch::typed(&self.serving, 1, &folder)?;
        let entry = client.entry(connect::NAME, &launch);
        let slot = client.slots(connect::NAME).pop().unwrap_or_default();
        let text = client.format().snippet(&slot, &entry)?;
        show::say(&format!("paste this into {}:", client.file()));
        if client.format() == connect::Format::Json {
            return show::print(show::json_for_terminals(&text).as_bytes());
        }
        show::text(&text)
    }
}
