//! The calls of a session, and what the agent said between them, as a reasoning trace of agentool.

mod people;
mod posts;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use toolcell::Home;
use toolcell_dialect::agentool::{Detectors, TraceBuilder};
use toolcell_journal::{CallLog, CallQuery, Keep};
use toolcell_spec::{ToolInvocation, ToolResult};

use super::calls;
use crate::exit::{BadRequest, Exit};
use crate::show;

/// The latest calls of a trace.
const CALLS_MAX: u32 = 10_000;
/// In bytes: a trace is made in memory.
const RECORDS_BYTES_MAX: u64 = 64 << 20;

/// Prints the calls of a session as a reasoning trace of agentool, with the steps that the agent added: what it thought,
/// handed off and remembered is not known to toolcell.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "The added `end` sets the status. Without one it is timeout if the last call ended so, error \
                        if any call failed, and otherwise success. loop_detected and context_overflow are found by \
                        toolcell, and take precedence. Calls that tools made are not steps of the agent.\n\n\
                        Examples:\n  toolcell trace --session=review --json\n  \
                        echo '{\"type\": \"reasoning\", \"content\": \"look it up\"}' | toolcell trace add --session=review -"
)]
pub(crate) struct Trace {
    #[command(subcommand)]
    command: Option<Command>,
    /// The session, as `toolcell calls --json` names it [default: the latest call's]
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// The status is loop_detected after so many calls of one tool with equal arguments
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..))]
    loop_after: u32,
    /// The status is context_overflow if the trace, or the context of one step, has more tokens
    #[arg(long, value_name = "N")]
    token_budget: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add steps to the trace of a session
    ///
    /// They are kept as they are: nothing is removed from them, so they must hold no secrets.
    #[command(
        after_help = "The types and their fields:\n  start: input, agent_id\n  reasoning: content, context_tokens\n  \
                            handoff: to_agent, message\n  memory_read: query, results\n  memory_write: content, key\n  \
                            end: output, status, total_tokens, total_cost_usd\n\nA `timestamp` is the present unless it is \
                            given. Statuses: success, error, loop_detected, context_overflow, timeout, refusal."
    )]
    Add {
        /// The session
        #[arg(long, value_name = "NAME")]
        session: String,
        /// The steps: JSON objects, one a line, or one array; at most 1 MiB; - for standard input
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
    },
}

impl Trace {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let log = calls::log(&home)?;
        match self.command {
            Some(Command::Add { session, file }) => posts::add(&home, &log, &session, &file),
            None => self.print(&home, &log),
        }
    }

    fn print(self, home: &Home, log: &CallLog) -> anyhow::Result<Exit> {
        if log.settings().keep == Keep::None {
            show::say("note: the call log is turned off: [log] keep = \"none\" in toolcell.toml");
        }
        let session = self.session.map_or_else(|| latest(log), Ok)?;
        let detectors = Detectors {
            loop_after: self.loop_after,
            token_budget: self.token_budget,
        };
        let mut builder = TraceBuilder::new(&session, detectors);
        let mut unreadable = add_calls(log, &session, &mut builder)?;
        for post in posts::read(home, log, &session)? {
            match post {
                Some(post) => builder.post(post),
                None => unreadable += 1,
            }
        }
        if unreadable > 0 {
            show::say(&format!(
                "note: {unreadable} records of the session cannot be read, and are left out"
            ));
        }
        let Some(trace) = builder.finish() else {
            let message = format!(
                "cannot print a trace: no call and no step has the session {session:?}; `toolcell calls --json` prints \
                 the sessions"
            );
            return Err(BadRequest(message).into());
        };
        if self.json {
            show::print_json(&trace)
        } else {
            show::print(people::page(&trace))
        }
    }
}

fn latest(log: &CallLog) -> anyhow::Result<String> {
    let calls = log.calls(&CallQuery {
        limit: 1,
        ..CallQuery::default()
    })?;
    let session = calls.into_iter().next().and_then(|call| call.session);
    Ok(session.ok_or_else(|| {
        BadRequest(
            "cannot choose a session: there is no call yet; name one with --session".to_owned(),
        )
    })?)
}

/// Returns how many records cannot be read.
fn add_calls(log: &CallLog, session: &str, builder: &mut TraceBuilder) -> anyhow::Result<usize> {
    let query = |limit| CallQuery {
        session: Some(session.to_owned()),
        limit,
        ..CallQuery::default()
    };
    let known = log.calls(&query(CALLS_MAX + 1))?.len();
    let mut unreadable = 0;
    let read = log.each_record(&query(CALLS_MAX), RECORDS_BYTES_MAX, |record| {
        let part = |name: &str| record.get(name).filter(|part| !part.is_null());
        let invocation = part("invocation").and_then(|part| ToolInvocation::deserialize(part).ok());
        let result = part("result").map(ToolResult::deserialize);
        match (invocation, result) {
            (Some(invocation), Some(Ok(result))) => builder.call(&invocation, Some(&result)),
            (Some(invocation), None) => builder.call(&invocation, None),
            _ => unreadable += 1,
        }
    })?;
    if read < known {
        builder.leave_out_earlier(u32::try_from(read).unwrap_or(CALLS_MAX));
    }
    Ok(unreadable)
}
