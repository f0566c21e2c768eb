use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolcell::Home;
use toolcell_journal::{Damage, VerifiedLog};

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
        // The end of a log that a killed process left is not damage.
        let closed = log.close_orphans();
        let folder = log.dir().display().to_string();
        let verified = log.verify()?;
        // Damage can be why it cannot be read.
        if verified.is_ok() {
            closed?;
        }
        if json {
            return show::done(
                show::json(&report(log.dir(), &verified)),
                Exit::from_success(verified.is_ok()),
            );
        }
        let text = match &verified {
            Ok(verified) => {
                let evicted = calls::evicted(verified.evicted_calls)
                    .map_or_else(String::new, |said| format!("; {said}"));
                let [records, files] = [(verified.lines, "record"), (verified.segments, "file")]
                    .map(|(count, noun)| show::counted(count, noun));
                format!("{folder}: {records} in {files}, all as they were written{evicted}\n")
            }
            Err(findings) => findings
                .iter()
                .map(|damage| format!("{folder}: {damage}\n"))
                .collect(),
        };
        show::print(text).map(|_| Exit::from_success(verified.is_ok()))
    }
}

pub(super) fn report(folder: &Path, verified: &Result<VerifiedLog, Vec<Damage>>) -> Value {
    match verified {
        Ok(verified) => json!({ "folder": folder, "sound": true, "verified": verified }),
        Err(findings) => {
            json!({ "folder": folder, "sound": false, "damage": findings.first(), "findings": findings })
        }
    }
}
