//! Lists, shows and answers calls that wait for an approval, outside the process that asked.

mod answer;
mod id;
mod look;
mod unattended;

use answer::AnswerOptions;
use clap::{Args, Subcommand};
use id::CallId;
use toolcell::Home;
use toolcell_core::journal::{Journal, StoreError};
use toolcell_core::record::{Input, Refusal};

use super::exit::{self, BadRequest, Exit};
use super::show;

/// Shows and answers calls that wait for an approval.
#[derive(Debug, Args)]
pub struct Approvals {
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
        /// The id of the call, or its last letters, at least 4
        id: CallId,
        /// Show all of the arguments
        #[arg(long)]
        full: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a call run, once; if the process that asked has ended, it runs here
    Approve {
        /// The id of the call, or its last letters, at least 4
        id: CallId,
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
        /// The id of the call, or its last letters, at least 4
        id: CallId,
        /// A note for the caller
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Approvals {
    pub fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let desk = ApprovalCommands {
            journal: Journal::new(home.journal(), home.journal_key()),
            home,
        };
        let done = match self.command {
            Command::List { all, json } => desk.list(all, json),
            Command::Show { id, full, json } => {
                desk.find(&id).and_then(|id| desk.show(id, full, json))
            }
            Command::Approve {
                id,
                edit,
                always,
                although_cut,
                feedback,
                json,
            } => {
                if let Some(edit) = &edit {
                    Input::from_text(edit.as_str()).value().map_err(|error| {
                        BadRequest(format!("--edit: these are not JSON: {error}"))
                    })?;
                }
                let words = AnswerOptions {
                    approved: true,
                    edit,
                    always,
                    although_cut,
                    feedback,
                };
                desk.find(&id).and_then(|id| desk.answer(id, words, json))
            }
            Command::Forget { json } => desk.forget(json),
            Command::Deny { id, feedback, json } => {
                let words = AnswerOptions {
                    approved: false,
                    edit: None,
                    always: false,
                    although_cut: false,
                    feedback,
                };
                desk.find(&id).and_then(|id| desk.answer(id, words, json))
            }
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
struct ApprovalCommands {
    home: Home,
    journal: Journal,
}

fn unknown(id: impl std::fmt::Display) -> anyhow::Error {
    BadRequest(format!(
        "there is no approval request for a call {id}; `toolcell approvals list --all` lists those that there are"
    ))
    .into()
}
