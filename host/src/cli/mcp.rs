use clap::Args;

use super::exit::Exit;
use super::serving::{self, Ready, Serving};

/// Offers tools to an MCP client, on standard input and output. A tool starts with nothing: grant what it needs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hotcell mcp example-tools/jq example-tools/files --allow-read=.")]
pub(super) struct Mcp {
    #[command(flatten)]
    serving: Serving,
}

impl Mcp {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let runtime = serving::runtime()?;
        let server = match self.serving.server(&runtime)? {
            Ready::Server(server) => server,
            Ready::Refused(exit) => return Ok(exit),
        };
        let served = runtime.block_on(crate::server::serve_stdio(&server, serving::interrupted()));
        serving::finish(runtime, server);
        served.map(|()| Exit::Succeeded)
    }
}
