//! The door for people: one file for each subcommand.

mod approvals;
mod ask;
mod build;
mod call;
mod clients;
mod configuration;
mod describe;
mod doctor;
mod exit;
mod hooks;
mod input;
mod mcp;
mod new;
mod options;
mod policy;
mod secret;
mod serve;
mod serving;
mod show;
mod target;
mod terminal;
mod watching;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Exit;

/// Runs tools that nobody has to trust: WebAssembly components, sandboxed, limited, and granted only what you grant.
#[derive(Debug, Parser)]
#[command(name = "hotcell", version, max_term_width = 110, propagate_version = true)]
#[command(after_help = "Exit codes: 0 succeeded, 1 the tool failed, 2 bad request, 3 refused, 4 a limit was hit, \
                        5 canceled, 6 somebody would be asked (policy check), 70 fault of hotcell itself.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Call a tool and print its result
    Call(call::Call),
    /// See and answer what waits for an approval
    Approvals(approvals::Approvals),
    /// Show what a component's tools are, take, and ask for
    Describe(describe::Describe),
    /// Build a tool from its source folder
    Build(build::Build),
    /// Offer tools to an MCP client, on standard input and output
    Mcp(mcp::Mcp),
    /// Offer tools to MCP clients over HTTP
    Serve(serve::Serve),
    /// Start a new tool
    New(new::New),
    /// Say what would be decided on a call and why, and trust a project's hotcell.toml
    Policy(policy::Policy),
    /// Set, list and remove the secrets that tools' requests may carry
    Secret(secret::Secret),
    /// Look at what this machine has, and say how to mend what is missing
    Doctor(doctor::Doctor),
    /// Compile one component from standard input; hotcell calls this itself
    #[command(hide = true)]
    CompileComponent { cpu_seconds: u64, memory_bytes: u64 },
}

/// Reads the command line, runs it, and answers the exit code.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Help and version are answers, everything else is a bad request.
            return if error.use_stderr() { Exit::BadRequest.into() } else { Exit::Succeeded.into() };
        }
    };
    let outcome = match cli.command {
        Command::Call(command) => command.run(),
        Command::Approvals(command) => command.run(),
        Command::Describe(command) => command.run(),
        Command::Build(command) => command.run(),
        Command::Mcp(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::New(command) => command.run(),
        Command::Policy(command) => command.run(),
        Command::Secret(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::CompileComponent { cpu_seconds, memory_bytes } => {
            let status = crate::host::compile_worker(cpu_seconds, memory_bytes);
            return ExitCode::from(u8::try_from(status).unwrap_or(1));
        }
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            exit::of_error(&error).into()
        }
    }
}

/// An async runtime on this thread: a command makes one call, and threads would only delay its start.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    use anyhow::Context;
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")
}
