//! Lists, shows and answers calls that wait for an approval, outside the process that asked.

mod answer;
mod look;
mod unattended;

use clap::{Args, Subcommand};

use crate::config::Home;
use crate::host::{Journal, StoreError};
use crate::record::{Input, InvocationId, Refusal};

use super::exit::{self, BadRequest, Exit};
use super::show;

use answer::Words;

/// Shows and answers calls that wait for an approval.
#[derive(Debug, Args)]
pub(super) struct Approvals {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the calls that wait, or were running when their process ended
    List {
        /// Also those that have ended
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what was asked about a call, and what became of it
    Show {
        id: InvocationId,
        /// Show all of the arguments
        #[arg(long)]
        full: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a call run, once; if the process that asked is gone, it runs here
    Approve {
        id: InvocationId,
        /// Run it with these arguments instead
        #[arg(long, value_name = "JSON")]
        edit: Option<String>,
        /// Do not ask again for this tool with this access in the session of the call
        #[arg(long)]
        always: bool,
        /// Run it although the question shows a part of the call only: `toolcell approvals show --full` shows all of it
        #[arg(long)]
        although_cut: bool,
        /// A note for the caller
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget what was approved for whole sessions: everything is asked about again
    Forget {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Refuse a call
    Deny {
        id: InvocationId,
        /// A note for the caller
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Approvals {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let desk = Desk { journal: Journal::new(home.journal(), home.journal_key()), home };
        let done = match self.command {
            Command::List { all, json } => desk.list(all, json),
            Command::Show { id, full, json } => desk.show(id, full, json),
            Command::Approve { id, edit, always, although_cut, feedback, json } => {
                if let Some(edit) = &edit {
                    Input::from_text(edit.as_str())
                        .value()
                        .map_err(|error| BadRequest(format!("--edit: these are not JSON: {error}")))?;
                }
                desk.answer(id, Words { approved: true, edit, always, although_cut, feedback }, json)
            }
            Command::Forget { json } => desk.forget(json),
            Command::Deny { id, feedback, json } => desk.answer(
                id,
                Words { approved: false, edit: None, always: false, although_cut: false, feedback },
                json,
            ),
        };
        done.or_else(|error| match error.downcast::<StoreError>() {
            Ok(error) => {
                show::say(&format!("error: {}: {error}", desk.journal.dir().display()));
                Ok(exit::of_refusal(&Refusal::from(error)))
            }
            Err(error) => Err(error),
        })
    }
}

/// The journal of this user.
struct Desk {
    home: Home,
    journal: Journal,
}

fn unknown(id: InvocationId) -> anyhow::Error {
    BadRequest(format!("there is no approval request for a call {id}: toolcell approvals list --all")).into()
}
