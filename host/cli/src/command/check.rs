//! `toolcell check`: what keeps a tool from being published, and what its users would stumble over.

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
    after_help = "It checks schemas, descriptions, size, licence, version and README, and whether the tool asks for more \
                        access than it can use. The tool runs only to describe itself, without any access.\n\n\
                        Exit 0: there are no errors, although there may be warnings. Exit 1: there are errors, which keep \
                        the tool from being pushed. Any other code: the tool cannot be loaded."
)]
pub(super) struct Check {
    /// A built source folder, or a .wasm file
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let checked = CheckedTool::examine(&home, &self.path, BuildPermission::No);
        let checked = exit::refusable(checked)?;
        let published = checked.as_ref().ok();
        let exit = match &checked {
            Err(refusal) => exit::of_refusal(refusal),
            Ok(published) => Exit::from_success(!published.has_errors()),
        };
        let found = published.map_or(&[][..], |published| &published.found);
        if self.json {
            let refusal = checked.as_ref().err();
            refusal.into_iter().for_each(show::detail);
            let printed = show::json(&json!({
                "checked": self.path.to_string_lossy(),
                "component": published.map(|published| published.digest),
                "size": published.map(|published| published.component.size),
                "findings": found,
                "error": refusal.map(Refusal::to_error),
            }));
            return show::done(printed, exit);
        }
        if let Err(refusal) = &checked {
            return show::refuse(refusal, false);
        }
        let lines = found.iter().map(|found| published::line(found) + "\n");
        show::print(lines.collect::<String>())?;
        let count = |noun, severity| {
            let found = found.iter().filter(|found| found.severity == severity);
            show::counted(found.count() as u64, noun)
        };
        let errors = count("error", Severity::Error);
        let warnings = count("warning", Severity::Warning);
        let notes = count("note", Severity::Note);
        show::say(&format!("{errors}, {warnings}, {notes}"));
        Ok(exit)
    }
}
