//! Lists, shows and answers calls that wait for an approval, outside the process that asked.

mod answer;
mod id;
mod look;
mod unattended;

use clap::{Args, Subcommand};
use id::CallId;
use toolcell::Home;
use toolcell_journal::{Journal, StoreError};
use toolcell_spec::{Input, Refusal};

use crate::exit::{self, BadRequest, Exit};
use crate::show;

/// Shows and answers calls that wait for an approval.
#[derive(Debug, Args)]
pub(crate) struct Approvals {
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
    /// Show a call's approval request and its outcome
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
    /// Approve one run of a call; it runs here if the process that asked has ended
    Approve(Approve),
    /// Revoke all session approvals
    Revoke {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Refuse a call
    Deny(Deny),
}

/// Lets a call run, once; if the process that asked has ended, it runs here.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// The id of the call, or its last letters, at least 4
    id: CallId,
    /// Run it with these arguments instead; - reads them from standard input
    #[arg(long, value_name = "JSON")]
    edit: Option<String>,
    /// Do not ask again for this tool with this access in the session of the call
    #[arg(long)]
    always: bool,
    /// Run it although the prompt shows a part of the call only: `toolcell approvals show --full` shows all of it
    #[arg(long)]
    accept_partial_view: bool,
    /// A note for the caller
    #[arg(long, value_name = "TEXT")]
    feedback: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Refuses a call.
#[derive(Debug, Args)]
pub(crate) struct Deny {
    /// The id of the call, or its last letters, at least 4
    id: CallId,
    /// A note for the caller
    #[arg(long, value_name = "TEXT")]
    feedback: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Approve {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        Command::Approve(self).run()
    }

    fn answer(mut self, desk: &ApprovalCommands) -> anyhow::Result<Exit> {
        if self.edit.as_deref() == Some("-") {
            self.edit = Some(std::io::read_to_string(std::io::stdin())?);
        }
        if let Some(edit) = &self.edit {
            Input::from_text(edit.as_str())
                .value()
                .map_err(|error| BadRequest(format!("--edit: not valid JSON: {error}")))?;
        }
        desk.answer(self, true)
    }
}

impl Deny {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        Command::Deny(self).run()
    }

    fn answer(self, desk: &ApprovalCommands) -> anyhow::Result<Exit> {
        let answer = Approve {
            id: self.id,
            edit: None,
            always: false,
            accept_partial_view: false,
            feedback: self.feedback,
            json: self.json,
        };
        desk.answer(answer, false)
    }
}

impl Approvals {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.command.run()
    }
}

impl Command {
    fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let desk = ApprovalCommands {
            journal: Journal::new(home.journal(), home.journal_key()),
            home,
        };
        let done = match self {
            Self::List { all, json } => desk.list(all, json),
            Self::Show { id, full, json } => {
                desk.find(&id).and_then(|id| desk.show(id, full, json))
            }
            Self::Approve(approve) => approve.answer(&desk),
            Self::Revoke { json } => desk.forget(json),
            Self::Deny(deny) => deny.answer(&desk),
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
