//! Output of `toolcell replay`.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolcell_engine::approval::legible;
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{InvocationId, ReplayBlocker};

use crate::exit::Exit;
use crate::show;

use super::compare::Difference;

/// Why a call cannot be replayed, or why its replay says nothing.
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
    /// `code`, with the value that caused it.
    pub(super) fn with(code: ReplayBlocker, value: &str) -> Self {
        Self {
            code,
            message: format!("{} ({})", code.message(), legible(value)),
        }
    }

    /// The refusal of a replay before its tool ran.
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

/// Result of a replay.
#[derive(Debug)]
pub(super) enum Outcome {
    Same,
    Differs(Difference),
    Blocked(Vec<ReplayObstacle>),
}

/// Result of the command.
#[derive(Debug)]
pub(super) struct Report {
    /// The call that was to be replayed.
    pub(super) of: String,
    /// The call that replayed it; `None` if there was none.
    pub(super) replayed_as: Option<InvocationId>,
    pub(super) outcome: Outcome,
}

impl Report {
    pub(super) fn print(&self, as_json: bool) -> anyhow::Result<Exit> {
        let exit = match &self.outcome {
            Outcome::Same => Exit::Succeeded,
            Outcome::Differs(_) => Exit::ToolFailed,
            Outcome::Blocked(reasons) => match reasons.as_slice() {
                [
                    ReplayObstacle {
                        code: ReplayBlocker::CanceledNow,
                        ..
                    },
                ] => Exit::Canceled,
                _ => Exit::Refused,
            },
        };
        let printed = if as_json {
            show::json(&self.to_json())
        } else {
            self.for_people()
        };
        show::done(printed, exit)
    }

    fn to_json(&self) -> Value {
        let (verdict, more) = match &self.outcome {
            Outcome::Same => ("same", None),
            Outcome::Differs(difference) => ("differs", Some(("difference", json!(difference)))),
            Outcome::Blocked(reasons) => ("not_replayable", Some(("reasons", json!(reasons)))),
        };
        let id = self.replayed_as.map(|id| ("invocation_id", json!(id)));
        let always = [("replay_of", json!(self.of)), ("verdict", json!(verdict))];
        let fields = always.into_iter().chain(id).chain(more);
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<Map<String, Value>>()
            .into()
    }

    /// Prints a verdict on standard output, and the reasons why there is none on standard error.
    fn for_people(&self) -> io::Result<()> {
        let of = visible(&self.of, Whitespace::WrittenOut);
        let as_call = self
            .replayed_as
            .map(|id| format!(", replayed as {id}"))
            .unwrap_or_default();
        match &self.outcome {
            Outcome::Same => writeln!(io::stdout(), "the output of {of} is the same{as_call}"),
            Outcome::Differs(difference) => {
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
                    let text = text.as_deref().map_or_else(|| "nothing".to_owned(), quoted);
                    writeln!(out, "  {name}: {text}")?;
                }
                Ok(())
            }
            Outcome::Blocked(reasons) => {
                for ReplayObstacle { code, message } in reasons {
                    let code = json!(code);
                    let code = code.as_str().unwrap_or_default();
                    show::say(&format!(
                        "error: {of} cannot be replayed: {message} [{code}]"
                    ));
                }
                Ok(())
            }
        }
    }
}

/// The place of a difference, in words. A pointer comes from a tool.
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

/// Text of a tool, in one row.
fn quoted(text: &str) -> String {
    visible(text, Whitespace::WrittenOut)
}
