//! The command line: one file per subcommand.

mod approvals;
mod ask;
mod build;
mod call;
mod client_servers;
mod clients;
mod configuration;
mod describe;
mod doctor;
mod exit;
mod hooks;
mod input;
mod kept;
mod lazily;
mod mcp;
mod new;
mod notes;
mod options;
mod policy;
mod secret;
mod serve;
mod serving;
mod show;
mod target;
mod terminal;
mod watching;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Exit;
use lazily::Lazily;

/// Runs untrusted tools: WebAssembly components in a sandbox, with limits, and with the permissions that you grant.
#[derive(Debug, Parser)]
#[command(name = "toolcell", version, max_term_width = 110, propagate_version = true)]
#[command(after_help = "Exit codes: 0 succeeded, 1 the tool failed, 2 bad request, 3 refused, 4 a limit was hit, \
                        5 canceled, 6 needs an approval (policy check), 70 internal error.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Call a tool and print its result
    Call(Lazily<call::Call>),
    /// See and answer what waits for an approval
    Approvals(Lazily<approvals::Approvals>),
    /// Show what a component's tools are, take, and ask for
    Describe(Lazily<describe::Describe>),
    /// Build a tool from its source folder
    Build(Lazily<build::Build>),
    /// Offer tools to an MCP client, on standard input and output
    Mcp(Lazily<mcp::Mcp>),
    /// Offer tools to MCP clients over HTTP
    Serve(Lazily<serve::Serve>),
    /// Start a new tool
    New(Lazily<new::New>),
    /// Say what would be decided on a call and why, and trust a project's toolcell.toml
    Policy(Lazily<policy::Policy>),
    /// Set, list and remove the secrets that tools' requests may carry
    Secret(Lazily<secret::Secret>),
    /// Check what this machine has, and say how to fix what is missing
    Doctor(Lazily<doctor::Doctor>),
    /// Compile one component from standard input; toolcell calls this itself
    #[command(hide = true)]
    CompileComponent { cpu_seconds: u64, memory_bytes: u64, parent: u32 },
}

/// Parses and runs the command line, and returns the exit code.
pub fn run() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Help and version are successful output; everything else is a bad request.
            return if error.use_stderr() { Exit::BadRequest.into() } else { Exit::Succeeded.into() };
        }
    };
    let outcome = match cli.command {
        Command::Call(Lazily(command)) => command.run(),
        Command::Approvals(Lazily(command)) => command.run(),
        Command::Describe(Lazily(command)) => command.run(),
        Command::Build(Lazily(command)) => command.run(),
        Command::Mcp(Lazily(command)) => command.run(),
        Command::Serve(Lazily(command)) => command.run(),
        Command::New(Lazily(command)) => command.run(),
        Command::Policy(Lazily(command)) => command.run(),
        Command::Secret(Lazily(command)) => command.run(),
        Command::Doctor(Lazily(command)) => command.run(),
        Command::CompileComponent { cpu_seconds, memory_bytes, parent } => {
            let status = crate::host::compile_worker(cpu_seconds, memory_bytes, parent);
            return ExitCode::from(u8::try_from(status).unwrap_or(1));
        }
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The error may quote a file or an argument, and may be read on a terminal later.
            show::say(&show::printable(&format!("error: {error:#}"), true));
            exit::of_error(&error).into()
        }
    }
}

/// Parses the command line. Not inlined, because its stack frame would then be held while the command runs, and the
/// command would touch new stack pages instead of reusing them.
#[inline(never)]
fn parse() -> Result<Cli, clap::Error> {
    Cli::try_parse()
}

/// Returns an async runtime on this thread, because a command makes one call and threads would only delay its start.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    use anyhow::Context;
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}
