//! The command line, with one file for each subcommand.

mod approvals;
mod artifact;
mod backup;
mod batch;
mod build;
mod bundle;
mod call;
mod calls;
mod check;
mod client_servers;
mod clients;
#[cfg(feature = "cluster")]
mod cluster;
mod completions;
mod configuration;
mod connect;
mod deferred_args;
pub(crate) mod describe;
mod doctor;
mod document;
mod eval;
mod events;
mod explain;
mod export;
mod exported;
mod family;
mod groups;
mod input;
mod inspect;
mod install;
mod launch;
mod log;
mod man;
mod mcp;
mod named_arguments;
mod new;
mod notes;
mod page;
mod policy;
mod principal_list;
mod published;
mod push;
mod replay;
mod reproduce;
mod respond;
mod saved;
mod schema;
mod search;
mod secrets;
mod serve;
mod sign;
mod signed;
mod surface;
mod trace;
mod trust;
mod verify;
#[cfg(feature = "cluster")]
mod work;
mod workspace;
mod wrap;
mod zip;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::diagnostics;
use crate::exit::{self, Exit};
use crate::{
    ask, bar, bundled, callable, exporting, folder, hooks, hosts, interrupts, options,
    protected_sources, serving, show, starting, target, terminal, tool_configs,
};
use deferred_args::DeferredArgs;

/// Run untrusted tools in a WebAssembly sandbox, with only the permissions you grant.
#[derive(Debug, Parser)]
#[command(
    name = "toolcell",
    version,
    max_term_width = 110,
    propagate_version = true
)]
#[command(
    after_help = "Exit codes: 0 success, 1 tool failed, 2 bad request, 3 refused, 4 limit reached, 5 canceled, 6 approval \
                  needed (policy check), signer not trusted (verify) or nothing written (connect), 70 internal error. `toolcell explain CODE` \
                  explains an error.\n\nEnvironment: TOOLCELL_HOME is the folder for all state; TOOLCELL_LOG=debug (or \
                  error, warn, info, trace) prints the phases of calls to standard error.\n\nExamples:\n  \
                  toolcell install ./jq.wasm\n  toolcell describe jq\n  toolcell call jq '{\"filter\": \".a\", \"input\": {\"a\": 1}}'\n  \
                  toolcell connect claude-code jq\n  toolcell new word-count"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Call a tool and print its result
    Call(DeferredArgs<call::Call>),
    /// Show a component's tools, their arguments and the permissions they ask for
    Describe(DeferredArgs<describe::Describe>),
    /// Search tools by keyword or exact name
    Search(DeferredArgs<search::Search>),
    /// Install a tool after checking its signature and showing what it can ask for
    Install(DeferredArgs<install::Install>),
    /// List the installed tools
    List(DeferredArgs<install::List>),
    /// Show what a reference resolves to and who signed it, without running it
    Info(DeferredArgs<install::Info>),
    /// Update installed tools; ask first if the signer, the access or a description changed
    Update(DeferredArgs<install::Update>),
    /// List installed tools that changed at their source
    Outdated(DeferredArgs<install::Outdated>),
    /// Remove an installed tool
    Remove(DeferredArgs<install::Remove>),
    /// Add toolcell to a client's configuration, or remove it
    Connect(DeferredArgs<connect::Connect>),
    /// Serve tools to an MCP client over stdio
    Mcp(DeferredArgs<mcp::Mcp>),
    /// Serve tools over HTTP, as MCP and as a plain API
    Serve(DeferredArgs<serve::Serve>),
    /// Run the calls of a cluster on this machine
    #[cfg(feature = "cluster")]
    Work(DeferredArgs<work::Work>),
    /// Show the workers and calls of a cluster
    #[cfg(feature = "cluster")]
    Cluster(DeferredArgs<cluster::ManageCluster>),
    /// Create a tool from a template
    New(DeferredArgs<new::New>),
    /// Build a tool from its source folder
    Build(DeferredArgs<build::Build>),
    /// Lint a tool before you publish it
    Check(DeferredArgs<check::Check>),
    /// Publish a tool to a registry
    Push(DeferredArgs<push::Push>),
    /// Sign a component with your own key
    Sign(DeferredArgs<sign::Sign>),
    /// Verify who signed a component and whether you trust the signer
    Verify(DeferredArgs<verify::Verify>),
    /// Package toolcell, tools, grants and limits as one .mcpb file for desktop clients
    Bundle(DeferredArgs<bundle::Bundle>),
    /// Add names, docs or a permission profile to a component made for another host
    Wrap(DeferredArgs<wrap::Wrap>),
    /// Preview the decision on a call
    Policy(DeferredArgs<policy::Policy>),
    /// Trust a project's toolcell.toml and toolcell.local.toml
    Trust(DeferredArgs<trust::TrustProject>),
    /// List and answer approval requests
    Approvals(DeferredArgs<approvals::Approvals>),
    /// Approve a waiting call
    Approve(DeferredArgs<approvals::Approve>),
    /// Deny a waiting call
    Deny(DeferredArgs<approvals::Deny>),
    /// Set, list and remove secrets for tools' requests
    Secrets(DeferredArgs<secrets::Secrets>),
    /// Manage workspaces: files that tools keep between calls
    Workspace(DeferredArgs<workspace::ManageWorkspaces>),
    /// Make many calls, in parallel where that is safe
    Batch(DeferredArgs<batch::Batch>),
    /// Make the tool calls in a model's response and print the messages to send back
    Respond(DeferredArgs<respond::Respond>),
    /// Print tool definitions for a model API
    Export(DeferredArgs<export::Export>),
    /// Show which tools a caller sees, and why others are hidden
    Surface(DeferredArgs<surface::ShowSurface>),
    /// Show calls, approvals, tools and workspaces in a browser
    Inspect(DeferredArgs<inspect::Inspect>),
    /// List recent and running calls
    Calls(DeferredArgs<calls::Calls>),
    /// Show what happened in one call
    Show(DeferredArgs<calls::Show>),
    /// Rerun a recorded call and compare its output
    Replay(DeferredArgs<replay::Replay>),
    /// Print call events, past or live
    Events(DeferredArgs<events::Events>),
    /// Check the call log for tampering
    Log(DeferredArgs<log::Log>),
    /// Back up all of toolcell's state, even while it is in use
    Backup(DeferredArgs<backup::Backup>),
    /// Fetch a stored result or artifact by its reference
    Artifact(DeferredArgs<artifact::Artifact>),
    /// Print a session's calls as an agentool reasoning trace, or add steps to it
    Trace(DeferredArgs<trace::Trace>),
    /// Score an agent's trace against eval cases
    Eval(DeferredArgs<eval::Eval>),
    /// Verify or prune the store of installed components
    Store(DeferredArgs<install::StoreCommand>),
    /// List, print or validate against toolcell's JSON Schemas
    Schema(DeferredArgs<schema::Schema>),
    /// Explain an error code and how to fix it
    Explain(DeferredArgs<explain::Explain>),
    /// Check this machine's setup and print fixes
    Doctor(DeferredArgs<doctor::Doctor>),
    /// Print a shell completion script
    Completions(DeferredArgs<completions::Completions>),
    /// Print the manual page, or write all of them to a folder
    Man(DeferredArgs<man::ManPages>),
}

pub(super) fn run() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Help and version are successful output; everything else is a bad request.
            return if error.use_stderr() {
                Exit::BadRequest.into()
            } else {
                Exit::Succeeded.into()
            };
        }
    };
    if let Err(error) = diagnostics::start() {
        return failed(&error.into());
    }
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
        Command::Connect(DeferredArgs(command)) => command.run(),
        Command::Mcp(DeferredArgs(command)) => command.run(),
        Command::Serve(DeferredArgs(command)) => command.run(),
        #[cfg(feature = "cluster")]
        Command::Work(DeferredArgs(command)) => command.run(),
        #[cfg(feature = "cluster")]
        Command::Cluster(DeferredArgs(command)) => command.run(),
        Command::New(DeferredArgs(command)) => command.run(),
        Command::Build(DeferredArgs(command)) => command.run(),
        Command::Check(DeferredArgs(command)) => command.run(),
        Command::Push(DeferredArgs(command)) => command.run(),
        Command::Sign(DeferredArgs(command)) => command.run(),
        Command::Verify(DeferredArgs(command)) => command.run(),
        Command::Bundle(DeferredArgs(command)) => command.run(),
        Command::Wrap(DeferredArgs(command)) => command.run(),
        Command::Policy(DeferredArgs(command)) => command.run(),
        Command::Trust(DeferredArgs(command)) => command.run(),
        Command::Approvals(DeferredArgs(command)) => command.run(),
        Command::Approve(DeferredArgs(command)) => command.run(),
        Command::Deny(DeferredArgs(command)) => command.run(),
        Command::Secrets(DeferredArgs(command)) => command.run(),
        Command::Workspace(DeferredArgs(command)) => command.run(),
        Command::Batch(DeferredArgs(command)) => command.run(),
        Command::Respond(DeferredArgs(command)) => command.run(),
        Command::Export(DeferredArgs(command)) => command.run(),
        Command::Surface(DeferredArgs(command)) => command.run(),
        Command::Inspect(DeferredArgs(command)) => command.run(),
        Command::Calls(DeferredArgs(command)) => command.run(),
        Command::Show(DeferredArgs(command)) => command.run(),
        Command::Replay(DeferredArgs(command)) => command.run(),
        Command::Events(DeferredArgs(command)) => command.run(),
        Command::Log(DeferredArgs(command)) => command.run(),
        Command::Backup(DeferredArgs(command)) => command.run(),
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
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // The error may quote a file or an argument, and may be read on a terminal later.
    show::say(&show::printable(&format!("error: {error:#}"), true));
    exit::of_error(error).into()
}

/// Not inlined, because its stack frame would then be held while the command runs.
#[inline(never)]
fn parse() -> Result<Cli, clap::Error> {
    // Left to itself, clap colours errors wherever the variable CI is set, whatever TERM says.
    let colours = if show::wants_colours() {
        ColorChoice::Auto
    } else {
        ColorChoice::Never
    };
    let mut command = groups::shown(Cli::command()).color(colours);
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}
