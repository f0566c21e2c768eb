//! Reports of a command, for people and programs.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use toolcell::Refusal;
use toolcell_engine::approval::legible;
use toolcell_install::lock::LockEntry;

use super::super::exit::{self, Exit, Stop};
use super::super::show;
use super::offer::Offer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Installed,
    Updated,
    Unchanged,
    /// Bytes or entry were missing or changed, and are as they were installed.
    Restored,
    Removed,
}

pub(super) struct Report {
    json: bool,
    is_dry: bool,
    lock: Option<PathBuf>,
    tools: Vec<Value>,
    /// Tools that could not be installed or updated beside others.
    failed: Vec<Refusal>,
}

impl Report {
    pub(super) fn new(json: bool, is_dry: bool) -> Self {
        Self {
            json,
            is_dry,
            lock: None,
            tools: Vec::new(),
            failed: Vec::new(),
        }
    }

    pub(super) fn at(&mut self, lock: &Path) {
        self.lock = Some(lock.to_owned());
    }

    pub(super) fn show(&self, offer: &Offer<'_>) {
        if !self.json {
            offer.text().lines().for_each(show::say);
        }
    }

    pub(super) fn add(
        &mut self,
        state: State,
        entry: &LockEntry,
        offer: Option<&Offer<'_>>,
        notes: &[String],
    ) {
        if !self.json {
            show::say(&self.line(state, entry));
        }
        let plan = offer.map(Offer::json);
        self.tools
            .push(json!({ "state": state, "tool": entry, "plan": plan, "notes": notes }));
    }

    fn line(&self, state: State, entry: &LockEntry) -> String {
        let name = &entry.name;
        let digest = entry.component;
        let version = entry
            .version
            .as_ref()
            .map(|version| format!(" {}", legible(version)))
            .unwrap_or_default();
        let verb = match (state, self.is_dry) {
            (State::Installed, false) => "installed",
            (State::Installed, true) => "would install",
            (State::Updated, false) => "updated",
            (State::Updated, true) => "would update",
            (State::Unchanged, _) => "already installed:",
            (State::Restored, false) => "restored",
            (State::Restored, true) => "would restore",
            (State::Removed, false) => "removed",
            (State::Removed, true) => "would remove",
        };
        let call = match (state, self.is_dry) {
            (State::Installed, false) => format!("; see `toolcell describe {name}`"),
            _ => String::new(),
        };
        format!("{verb} {name}{version}, component {digest}{call}")
    }

    /// The others go on.
    pub(super) fn failed(&mut self, name: &str, refusal: Refusal) {
        let message = format!("{name}: {}", refusal.message);
        self.failed.push(Refusal { message, ..refusal });
    }

    /// Prints what is left to say.
    pub(super) fn end(mut self, done: Result<(), Stop>) -> anyhow::Result<Exit> {
        if let Err(stop) = done {
            self.failed.push(stop.refusal()?);
        }
        let exit = exit::of_refusals(&self.failed);
        for refusal in &self.failed {
            if !self.json {
                show::refused(refusal);
            }
            show::detail(refusal);
        }
        if !self.json {
            return Ok(exit);
        }
        let printed = match self.failed.as_slice() {
            [refusal] if self.tools.is_empty() => json!({ "error": refusal.to_error() }),
            _ => {
                let errors: Vec<_> = self.failed.iter().map(Refusal::to_error).collect();
                json!({ "lock": self.lock, "dry_run": self.is_dry, "tools": self.tools, "errors": errors })
            }
        };
        show::done(show::json(&printed), exit)
    }
}

/// The words of `lines` come from others.
pub(super) fn print(value: &Value, lines: &[String], json: bool) -> anyhow::Result<Exit> {
    if json {
        return show::print_json(value);
    }
    let lines = lines.iter().map(|line| show::printable(line, true) + "\n");
    show::print(lines.collect::<String>())
}
