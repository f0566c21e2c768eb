//! How a command ends: what it prints on standard output, and its exit code.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Exit;
use crate::show;

/// Prints `text`, and ends with `exit`.
pub(super) fn text(text: &str, exit: Exit) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    end(
        out.write_all(text.as_bytes()).and_then(|()| out.flush()),
        exit,
    )
}

/// Prints `value` as one line of JSON, and ends with `exit`.
pub(super) fn json(value: &impl Serialize, exit: Exit) -> anyhow::Result<Exit> {
    end(show::json(value), exit)
}

/// Ends with `exit` after something was printed, also if the reader closed the pipe.
pub(super) fn end(printed: io::Result<()>, exit: Exit) -> anyhow::Result<Exit> {
    printed
        .or_else(|error| show::closed(error).map(drop))
        .map(|()| exit)
}
