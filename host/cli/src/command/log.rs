use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::json;
use toolcell::Home;

use super::calls;
use crate::exit::Exit;
use crate::show;

/// Checks the call log.
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check that no record was edited, removed or reordered, and say where if one was; exit 1 if so
    Verify {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Log {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let Command::Verify { json } = self.command;
        let log = calls::log(&Home::find()?)?;
        // What a killed process left is no damage.
        log.close_orphans()?;
        let folder = log.dir().display().to_string();
        let (exit, said, text) = match log.verify()? {
            Ok(verified) => {
                let evicted = calls::evicted(verified.evicted_calls)
                    .map_or_else(String::new, |said| format!("; {said}"));
                let [records, files] = [(verified.lines, "record"), (verified.segments, "file")]
                    .map(|(count, noun)| show::counted(count, noun));
                let text =
                    format!("{folder}: {records} in {files}, all as they were written{evicted}");
                (
                    Exit::Succeeded,
                    json!({ "folder": folder, "sound": true, "verified": verified }),
                    text,
                )
            }
            Err(damage) => {
                let text = format!("{folder}: {damage}");
                (
                    Exit::ToolFailed,
                    json!({ "folder": folder, "sound": false, "damage": damage }),
                    text,
                )
            }
        };
        let text = if json {
            show::json_line(&said)
        } else {
            text + "\n"
        };
        std::io::stdout()
            .write_all(text.as_bytes())
            .map(|()| exit)
            .or_else(show::closed)
    }
}
