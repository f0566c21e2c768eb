//! Output of `toolcell replay`.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use toolcell_engine::approval::legible;
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{InvocationId, ReplayBlocker};

use crate::exit::Exit;
use crate::show;

use super::compare::Difference;

/// An obstacle to a replay, or to a verdict on it.
#[derive(Debug, Serialize)]
pub(super) struct ReplayObstacle {
    pub(super) code: ReplayBlocker,
    message: String,
}

impl From<ReplayBlocker> for ReplayObstacle {
    fn from(code: ReplayBlocker) -> Self {
        Self {
            code,
            message: code.message().to_owned(),
        }
    }
}

impl ReplayObstacle {
    /// `value` caused it.
    pub(super) fn with(code: ReplayBlocker, value: &str) -> Self {
        Self {
            code,
            message: format!("{} ({})", code.message(), legible(value)),
        }
    }

    pub(super) fn refused(message: &str, error_code: &str) -> Self {
        let code = ReplayBlocker::RefusedNow;
        Self {
            code,
            message: format!("{}: {} [{error_code}]", code.message(), legible(message)),
        }
    }
}

/// All reasons why a replay says nothing.
#[derive(Debug)]
pub(super) struct BlockedReplay(pub(super) Vec<ReplayObstacle>);

impl From<ReplayBlocker> for BlockedReplay {
    fn from(code: ReplayBlocker) -> Self {
        Self(vec![code.into()])
    }
}

impl fmt::Display for BlockedReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call cannot be replayed")
    }
}

impl Error for BlockedReplay {}

#[derive(Debug, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub(super) enum Outcome {
    Same,
    Differs {
        difference: Difference,
    },
    #[serde(rename = "not_replayable")]
    Blocked {
        reasons: Vec<ReplayObstacle>,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The recorded call.
    #[serde(rename = "replay_of")]
    pub(super) of: String,
    /// `None` if no call replayed it.
    #[serde(rename = "invocation_id", skip_serializing_if = "Option::is_none")]
    pub(super) replayed_as: Option<InvocationId>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

impl Report {
    pub(super) fn print(&self, as_json: bool) -> anyhow::Result<Exit> {
        let is_canceled = |reasons: &[ReplayObstacle]| matches!(reasons, [one] if one.code == ReplayBlocker::CanceledNow);
        let exit = match &self.outcome {
            Outcome::Same => Exit::Succeeded,
            Outcome::Differs { .. } => Exit::ToolFailed,
            Outcome::Blocked { reasons } if is_canceled(reasons) => Exit::Canceled,
            Outcome::Blocked { .. } => Exit::Refused,
        };
        let printed = if as_json {
            show::json(self)
        } else {
            self.for_people()
        };
        show::done(printed, exit)
    }

    /// Reasons for no verdict go to standard error.
    fn for_people(&self) -> io::Result<()> {
        let of = visible(&self.of, Whitespace::WrittenOut);
        let as_call = self
            .replayed_as
            .map(|id| format!(", replayed as {id}"))
            .unwrap_or_default();
        match &self.outcome {
            Outcome::Same => writeln!(io::stdout(), "the output of {of} is the same{as_call}"),
            Outcome::Differs { difference } => {
                let mut out = io::stdout().lock();
                writeln!(
                    out,
                    "the output of {of} differs{as_call}: {}",
                    place(difference)
                )?;
                for (name, text) in [
                    ("recorded", &difference.recorded),
                    ("replayed", &difference.replayed),
                ] {
                    let text = text.as_deref().unwrap_or("nothing");
                    let text = visible(text, Whitespace::WrittenOut);
                    writeln!(out, "  {name}: {text}")?;
                }
                Ok(())
            }
            Outcome::Blocked { reasons } => {
                for ReplayObstacle { code, message } in reasons {
                    let code = show::word(code);
                    show::say(&format!(
                        "error: {of} cannot be replayed: {message} [{code}]"
                    ));
                }
                Ok(())
            }
        }
    }
}

fn place(difference: &Difference) -> String {
    let block = difference
        .block
        .map(|block| format!(" block {block}"))
        .unwrap_or_default();
    let pointer = visible(&difference.pointer, Whitespace::WrittenOut);
    let pointer = if pointer.is_empty() {
        pointer
    } else {
        format!(" {pointer}")
    };
    let within = difference
        .line
        .zip(difference.byte)
        .map(|(line, byte)| format!(", line {line}, byte {byte}"));
    format!(
        "{}{block}{pointer}{}",
        difference.part,
        within.unwrap_or_default()
    )
}
