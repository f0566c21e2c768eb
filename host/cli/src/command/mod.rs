//! The command line, with one file for each subcommand that is not in `toolcell-inspect`.

mod batch;
mod build;
mod bundle;
mod call;
mod check;
mod client_servers;
mod clients;
mod completions;
mod configuration;
mod deferred_args;
mod describe;
mod doctor;
mod export;
mod exported;
mod input;
mod install;
mod man;
mod mcp;
mod named_arguments;
mod new;
mod notes;
mod policy;
mod published;
mod push;
mod reproduce;
mod run;
mod saved;
mod search;
mod secret;
mod serve;
mod sign;
mod signed;
mod surface;
mod trust;
mod verify;
mod wrap;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use deferred_args::DeferredArgs;
use toolcell_command::exit::{self, Exit};
use toolcell_command::{
    ask, callable, exporting, folder, hooks, interrupts, kept, options, serving, shipped, show, starting, target,
    terminal, tool_configs,
};

/// Runs untrusted tools: WebAssembly components in a sandbox, with limits, and with the permissions that you grant.
#[derive(Debug, Parser)]
#[command(name = "toolcell", version, max_term_width = 110, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 succeeded, 1 the tool failed, 2 bad request, 3 refused, 4 a limit was hit, 5 canceled, \
                  6 a call needs an approval (policy check) or no policy names the signer (verify), 70 internal error. \
                  `toolcell explain CODE` explains an error.\n\nExamples:\n  toolcell install ghcr.io/example/jq:1\n  \
                  toolcell describe jq\n  toolcell call jq '{\"filter\": \".a\", \"input\": {\"a\": 1}}'\n  \
                  toolcell mcp jq --print-config=claude-code\n  toolcell new word-count"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Call a tool and print its result
    Call(DeferredArgs<call::Call>),
    /// Show what a component's tools are, take, and ask for
    Describe(DeferredArgs<describe::Describe>),
    /// Find tools by words, or by exact names
    Search(DeferredArgs<search::Search>),
    /// Install a tool: check who signed it, show what it could ever ask for, and ask
    Install(DeferredArgs<install::Install>),
    /// List the installed tools
    List(DeferredArgs<install::List>),
    /// Show what a reference stands for, and who signed it, without running anything
    Info(DeferredArgs<install::Info>),
    /// Install what the references of installed tools stand for by now, and ask if that could do more
    Update(DeferredArgs<install::Update>),
    /// List the installed tools whose references stand for other bytes by now
    Outdated(DeferredArgs<install::Outdated>),
    /// Remove an installed tool
    Remove(DeferredArgs<install::Remove>),
    /// Offer tools to an MCP client, on standard input and output
    Mcp(DeferredArgs<mcp::Mcp>),
    /// Offer tools to MCP clients over HTTP
    Serve(DeferredArgs<serve::Serve>),
    /// Start a new tool
    New(DeferredArgs<new::New>),
    /// Build a tool from its source folder
    Build(DeferredArgs<build::Build>),
    /// Check a tool before it is published
    Check(DeferredArgs<check::Check>),
    /// Publish a tool in a registry
    Push(DeferredArgs<push::Push>),
    /// Sign a component with your own key
    Sign(DeferredArgs<sign::Sign>),
    /// Say who signed a component, and whether your policy trusts the signer
    Verify(DeferredArgs<verify::Verify>),
    /// Make one .mcpb file of toolcell, tools, grants and limits, for MCP clients on desktops
    Bundle(DeferredArgs<bundle::Bundle>),
    /// Write names, documentation, a profile or a manifest into a copy of a component of another world
    Wrap(DeferredArgs<wrap::Wrap>),
    /// Say what would be decided on a call and why, and trust a project's toolcell.toml
    Policy(DeferredArgs<policy::Policy>),
    /// See and answer what waits for an approval
    Approvals(DeferredArgs<toolcell_inspect::Approvals>),
    /// Set, list and remove the secrets that tools' requests may carry
    Secret(DeferredArgs<secret::Secret>),
    /// Make many calls, in parallel where they cannot disturb each other
    Batch(DeferredArgs<batch::Batch>),
    /// Make the calls in a model's message, and print the messages that answer it
    Run(DeferredArgs<run::Run>),
    /// Print tools as the API of a model takes them
    Export(DeferredArgs<export::Export>),
    /// Show which tools a caller can select, and why not the others
    Surface(DeferredArgs<surface::ShowSurface>),
    /// List the latest calls, and those that run
    Calls(DeferredArgs<toolcell_inspect::Calls>),
    /// Show what happened in one call
    Show(DeferredArgs<toolcell_inspect::Show>),
    /// Run a recorded call again, and say whether its output is the same
    Replay(DeferredArgs<toolcell_inspect::Replay>),
    /// Print the events of calls, also as they happen
    Events(DeferredArgs<toolcell_inspect::Events>),
    /// Check the record of all calls
    Journal(DeferredArgs<toolcell_inspect::Journal>),
    /// Fetch what a reference in a record refers to
    Artifact(DeferredArgs<toolcell_inspect::Artifact>),
    /// Print the calls of a session as a reasoning trace (agentool), and add steps of the agent to it
    Trace(DeferredArgs<toolcell_inspect::Trace>),
    /// Check the trace of an agent's run against eval cases
    Eval(DeferredArgs<toolcell_inspect::Eval>),
    /// Check and tidy the store of installed components
    Store(DeferredArgs<install::StoreCommand>),
    /// List, print and apply the JSON Schemas of what toolcell prints
    Schema(DeferredArgs<toolcell_inspect::Schema>),
    /// Explain an error code: what it means, its cause, and what to do
    Explain(DeferredArgs<toolcell_inspect::Explain>),
    /// Check what this machine has, and say how to fix what is missing
    Doctor(DeferredArgs<doctor::Doctor>),
    /// Print a script that completes commands and options in a shell
    Completions(DeferredArgs<completions::Completions>),
    /// Print the manual page, or write those of all commands
    Man(DeferredArgs<man::ManPages>),
}

/// Parses and runs the command line, and returns the exit code.
pub(super) fn run() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Help and version are successful output; everything else is a bad request.
            return if error.use_stderr() { Exit::BadRequest.into() } else { Exit::Succeeded.into() };
        }
    };
    let outcome = match cli.command {
        Command::Call(DeferredArgs(command)) => command.run(),
        Command::Describe(DeferredArgs(command)) => command.run(),
        Command::Search(DeferredArgs(command)) => command.run(),
        Command::Install(DeferredArgs(command)) => command.run(),
        Command::List(DeferredArgs(command)) => command.run(),
        Command::Info(DeferredArgs(command)) => command.run(),
        Command::Update(DeferredArgs(command)) => command.run(),
        Command::Outdated(DeferredArgs(command)) => command.run(),
        Command::Remove(DeferredArgs(command)) => command.run(),
        Command::Mcp(DeferredArgs(command)) => command.run(),
        Command::Serve(DeferredArgs(command)) => command.run(),
        Command::New(DeferredArgs(command)) => command.run(),
        Command::Build(DeferredArgs(command)) => command.run(),
        Command::Check(DeferredArgs(command)) => command.run(),
        Command::Push(DeferredArgs(command)) => command.run(),
        Command::Sign(DeferredArgs(command)) => command.run(),
        Command::Verify(DeferredArgs(command)) => command.run(),
        Command::Bundle(DeferredArgs(command)) => command.run(),
        Command::Wrap(DeferredArgs(command)) => command.run(),
        Command::Policy(DeferredArgs(command)) => command.run(),
        Command::Approvals(DeferredArgs(command)) => command.run(),
        Command::Secret(DeferredArgs(command)) => command.run(),
        Command::Batch(DeferredArgs(command)) => command.run(),
        Command::Run(DeferredArgs(command)) => command.run(),
        Command::Export(DeferredArgs(command)) => command.run(),
        Command::Surface(DeferredArgs(command)) => command.run(),
        Command::Calls(DeferredArgs(command)) => command.run(),
        Command::Show(DeferredArgs(command)) => command.run(),
        Command::Replay(DeferredArgs(command)) => command.run(),
        Command::Events(DeferredArgs(command)) => command.run(),
        Command::Journal(DeferredArgs(command)) => command.run(),
        Command::Artifact(DeferredArgs(command)) => command.run(),
        Command::Trace(DeferredArgs(command)) => command.run(),
        Command::Eval(DeferredArgs(command)) => command.run(),
        Command::Store(DeferredArgs(command)) => command.run(),
        Command::Schema(DeferredArgs(command)) => command.run(),
        Command::Explain(DeferredArgs(command)) => command.run(),
        Command::Doctor(DeferredArgs(command)) => command.run(),
        Command::Completions(DeferredArgs(command)) => command.run(),
        Command::Man(DeferredArgs(command)) => command.run(),
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
    // Left to itself, clap colours errors wherever the variable CI is set, whatever TERM says.
    let colours = if show::wants_colours() { ColorChoice::Auto } else { ColorChoice::Never };
    let mut command = Cli::command().color(colours);
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}
