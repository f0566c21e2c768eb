//! `toolcell check`: what keeps a tool from being published, and what its users would stumble over.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcell::Home;
use toolcell_install::check::Severity;
use toolcell_spec::Refusal;

use super::exit::{self, Exit};
use super::published::{self, CheckedTool};
use super::show;
use super::target::BuildPermission;

/// Checks a tool before it is published.
#[derive(Debug, Args)]
#[command(
    after_help = "It looks at schemas and descriptions, whether the tool asks for more than it could use, its size, its \
                        licence, version and README. Nothing of the tool is run, except to describe itself in an empty \
                        world.\n\n\
                        Exit 0: there are no errors, although there may be warnings. Exit 1: there are errors, which keep \
                        the tool from being pushed. Any other code: the tool cannot be loaded."
)]
pub(super) struct Check {
    /// The source folder of a tool, which was built, or a .wasm file
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let (published, refusal) =
            match CheckedTool::examine(&home, &self.path, BuildPermission::No) {
                Ok(published) => (Some(published), None),
                Err(stop) => (None, Some(stop.refusal()?)),
            };
        refusal.iter().for_each(show::detail);
        let failed = published.as_ref().is_some_and(CheckedTool::has_errors);
        let exit = match &refusal {
            Some(refusal) => exit::of_refusal(refusal),
            None if failed => Exit::ToolFailed,
            None => Exit::Succeeded,
        };
        let found = published
            .as_ref()
            .map(|published| published.found.as_slice())
            .unwrap_or_default();
        if self.json {
            let printed = show::json(&json!({
                "checked": self.path.to_string_lossy(),
                "component": published.as_ref().map(|published| published.digest),
                "size": published.as_ref().map(|published| published.component.size),
                "findings": found,
                "error": refusal.as_ref().map(Refusal::to_error),
            }));
            return printed.map(|()| exit).or_else(show::closed);
        }
        if let Some(refusal) = &refusal {
            show::refused(refusal);
            return Ok(exit);
        }
        for found in found {
            if let Err(error) = writeln!(io::stdout(), "{}", published::line(found)) {
                return show::closed(error);
            }
        }
        let count = |noun, severity| {
            let count = found
                .iter()
                .filter(|found| found.severity == severity)
                .count();
            show::counted(count as u64, noun)
        };
        let errors = count("error", Severity::Error);
        let warnings = count("warning", Severity::Warning);
        let notes = count("note", Severity::Note);
        show::say(&format!("{errors}, {warnings}, {notes}"));
        Ok(exit)
    }
}
