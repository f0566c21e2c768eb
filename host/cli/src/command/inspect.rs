//! `toolcell inspect`: the page of this user's calls, approvals, tools and workspaces.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use toolcell::Home;
use toolcell_config::{ConfigLayers, LayerOptions};
use toolcell_page::{InspectPage, Program, serve};

use super::calls;
use super::exit::{BadRequest, Exit};
use super::interrupts::interrupted;
use super::options::GrantOptions;
use crate::runtime::Runtime;

/// Shows your calls, approvals, tools and workspaces in a browser. The address that it prints lets one browser in, once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  toolcell inspect\n  \
                        toolcell inspect example-tools/files --allow-read=. --listen=127.0.0.1:8080")]
pub(super) struct Inspect {
    /// Also show these tools, which are not installed: .wasm files or source folders of tools that are built
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    /// Loopback address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
    /// Open the address in the default browser
    #[arg(long)]
    open: bool,
    /// For calls that are tried on the page.
    #[command(flatten)]
    grants: GrantOptions,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "give a loopback address with a port, such as 127.0.0.1:8080".to_owned();
    let address: SocketAddr = text.parse().map_err(|_| wrong())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(wrong())
    }
}

impl Inspect {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let log = calls::log(&home)?;
        let program = std::env::current_exe().context("cannot find the toolcell program itself")?;
        let grants = words(&self.grants)?;
        let has_machines = has_machines(&home);
        Runtime::on_all_processors()?.block_on(async {
            let listener = TcpListener::bind(self.listen).await.map_err(|error| {
                BadRequest(format!("cannot listen at {}: {error}", self.listen))
            })?;
            let address = listener.local_addr().context("cannot find the address")?;
            // No tool that is tried here reaches the page.
            let port = address.port();
            let own = [address.to_string(), format!("localhost:{port}")];
            let denials = own.map(|own| format!("--deny-net={own}")).to_vec();
            let program = Program::new(program, self.tools, grants, denials, has_machines);
            let page = InspectPage::new(address, &home, log, program)?;
            writeln!(std::io::stderr(), "Page at {}", page.url())?;
            // Kept until the end: a browser can be slow to start.
            let _opened = self.open.then(|| open(&page.url())).transpose()?;
            tokio::select! {
                never = serve(listener, &page) => match never {},
                () = interrupted() => Ok(Exit::Succeeded),
            }
        })
    }
}

/// Files that cannot be used are told by the commands that need them.
fn has_machines(home: &Home) -> bool {
    let folder = std::env::current_dir().ok();
    let layers = ConfigLayers::read(home, folder.as_deref(), &LayerOptions::default());
    let cluster = layers.ok().and_then(|layers| layers.cluster);
    cfg!(feature = "cluster") && cluster.is_some_and(|cluster| !cluster.servers.is_empty())
}

/// The options as they were typed.
fn words(grants: &GrantOptions) -> anyhow::Result<Vec<String>> {
    let Value::Object(fields) = serde_json::to_value(grants).context("a path is not Unicode")?
    else {
        return Ok(Vec::new());
    };
    let mut words = Vec::new();
    for (name, value) in &fields {
        let option = name.replace('_', "-");
        let values = match value {
            Value::Array(values) => values.iter().collect(),
            value => vec![value],
        };
        let values = values.into_iter().filter_map(Value::as_str);
        words.extend(values.map(|value| format!("--{option}={value}")));
    }
    Ok(words)
}

/// Through a file, because others on this machine see the arguments of programs.
fn open(url: &str) -> anyhow::Result<NamedTempFile> {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let mut file = tempfile::Builder::new()
        .prefix("toolcell-page-")
        .suffix(".html")
        .tempfile()
        .context("cannot create a file for the browser")?;
    write!(
        file,
        "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0; url={url}\">"
    )
    .context("cannot write the file for the browser")?;
    let mut command = Command::new(program);
    command.arg(file.path()).stdin(Stdio::null());
    let opened = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    opened.map_err(|error| BadRequest(format!("cannot open a browser with {program}: {error}")))?;
    Ok(file)
}
