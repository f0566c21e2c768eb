//! Writes the entry that starts toolcell into the configuration of a client, and takes it out again.

mod client_file;
mod diff;
mod edit;
mod entry;
mod json;
mod kept;
mod node;
mod toml;
mod yaml;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use toolcell::Home;

use self::client_file::ClientFile;
use self::diff::DiffSide;
pub(super) use self::edit::{Format, Slot};
pub(super) use self::entry::{ServerEntry, server_entries};
use self::kept::{Change, ChangeStore};
use super::clients::{Client, Scope};
use super::exit::{BadRequest, Exit};
use super::launch::Launch;
use super::serving::ServingOptions;
use super::{show, terminal};

/// Of the entry.
pub(super) const NAME: &str = "toolcell";

/// Shows what would change in the configuration file of an MCP client so that it starts toolcell with these tools and
/// options, and writes it after a yes. All else in the file stays as it is.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell connect claude-code jq\n  toolcell connect cursor example-tools/files \
                  --allow-read=.\n  toolcell connect cursor --undo"
)]
pub(super) struct Connect {
    /// The client
    client: Client,
    /// Remove the entry, or restore the one that it replaced. If nothing else changed in the file, restore it from
    /// the backup
    #[arg(long)]
    undo: bool,
    /// Name of the entry
    #[arg(long, default_value = NAME)]
    name: String,
    /// Use the project's file, if the client has a project file and a user file
    #[arg(long, conflicts_with = "user")]
    project: bool,
    /// Use your own file
    #[arg(long)]
    user: bool,
    /// Use FILE, in the client's format
    #[arg(long, value_name = "FILE", conflicts_with_all = ["project", "user"])]
    file: Option<PathBuf>,
    /// Write without a question; for scripts
    #[arg(long, short)]
    yes: bool,
    /// Print JSON, without content of the file
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    serving: ServingOptions,
}

/// The change of a file.
struct Plan {
    slot: Slot,
    action: &'static str,
    /// `None`: without the file.
    after: Option<String>,
    /// To undo it; without, what was kept is forgotten.
    change: Option<Change>,
    /// The text before toolcell, if there was one.
    before: String,
    entry: Option<Value>,
}

const NONE: &str = "none";

/// Printed by `--json`.
#[derive(Serialize)]
struct ConnectReport<'t> {
    client: String,
    file: &'t Path,
    name: &'t str,
    action: &'t str,
    written: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<&'t Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<&'t PathBuf>,
}

impl Connect {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        check_name(&self.name, self.client.name_max())?;
        let home = Home::find()?;
        let folder = std::env::current_dir().context("cannot find the current folder")?;
        let (path, others) = match &self.file {
            Some(file) => (folder.join(file), Vec::new()),
            None => self.client.find(self.scope(), &folder)?,
        };
        let file = ClientFile::read(path)?;
        let kept = ChangeStore::of(&home, &file.real, &self.name);
        let plan = if self.undo {
            self.undoing(&file, &kept)?
        } else {
            self.connecting(&file, &kept, &folder)?
        };
        let is_wanted = plan.action != NONE && self.is_wanted(&file, &plan)?;
        if is_wanted {
            write(&file, &kept, &plan)?;
        } else if plan.action == NONE && self.undo {
            kept.forget();
        }
        self.report(&file, &kept, &plan, is_wanted)?;
        for other in others {
            show::say(&format!(
                "note: {} has a file at {}, too (--file={})",
                self.client.name(),
                other.display(),
                other.display()
            ));
        }
        Ok(if is_wanted || plan.action == NONE {
            Exit::Succeeded
        } else {
            Exit::WouldAsk
        })
    }

    fn scope(&self) -> Scope {
        match (self.project, self.user) {
            (true, _) => Scope::Project,
            (false, true) => Scope::User,
            (false, false) => Scope::Default,
        }
    }

    fn connecting(
        &self,
        file: &ClientFile,
        kept: &ChangeStore,
        folder: &Path,
    ) -> anyhow::Result<Plan> {
        let format = self.client.format();
        let in_file = |fault: edit::Fault| BadRequest(format!("{}: {fault}", file.path.display()));
        let text = file.text.as_deref();
        // A second entry replaces the first, and undoing both leads to the text before them.
        let own = match (kept.read()?, text) {
            (Some((change, before)), Some(text)) => {
                Some(change.undone(format, text, &before).map_err(in_file)?)
            }
            _ => None,
        };
        let is_update = own.is_some();
        let before = own.unwrap_or_else(|| file.text.clone());
        let base = before.as_deref().filter(|text| !text.trim().is_empty());
        let base = base.unwrap_or(self.client.head());
        let (slot, is_made) = self.slot(base).map_err(in_file)?;
        let source = format.source(base, &slot).map_err(in_file)?;
        let launch = Launch::typed(&self.serving, 2, folder)?;
        let entry = self.client.entry(&self.name, &launch);
        let after = format.put(base, &slot, &entry).map_err(in_file)?;
        let action = match &source {
            _ if text == Some(&after) => NONE,
            _ if is_update => "update",
            Some(_) => "replace",
            None => "add",
        };
        let (inserted, removed) = kept::difference(base, &after);
        let change = Change {
            file: file.real.clone(),
            section: slot.section.clone(),
            name: slot.name.clone(),
            is_list: slot.is_list,
            is_made,
            source,
            existed: before.is_some(),
            folders: Vec::new(),
            digest: kept::digest(&after),
            inserted,
            removed,
        };
        Ok(Plan {
            slot,
            action,
            after: Some(after),
            change: Some(change),
            before: before.unwrap_or_default(),
            entry: Some(entry),
        })
    }

    /// The place in this text, and whether its section is missing.
    fn slot(&self, text: &str) -> Result<(Slot, bool), edit::Fault> {
        let root = self.client.format().read(text)?;
        let mut slots = self.client.slots(&self.name);
        let last = slots.pop().unwrap_or_default();
        for slot in slots {
            let section = root.follow(&slot.section)?;
            // A section of servers has no member that is not one.
            let has_servers = |node: &node::Node| {
                node.members().is_some_and(|members| {
                    members
                        .iter()
                        .all(|member| member.value.members().is_some())
                })
            };
            if section.is_some_and(has_servers) {
                return Ok((slot, false));
            }
        }
        let is_made = root.follow(&last.section)?.is_none();
        Ok((last, is_made))
    }

    fn undoing(&self, file: &ClientFile, kept: &ChangeStore) -> anyhow::Result<Plan> {
        let Some((change, before)) = kept.read()? else {
            let message = format!(
                "toolcell did not add `{}` to {}, or has undone it; nothing was changed",
                self.name,
                file.path.display()
            );
            return Err(BadRequest(message).into());
        };
        let after = match &file.text {
            None => None,
            Some(text) => change
                .undone(self.client.format(), text, &before)
                .map_err(|fault| {
                    BadRequest(format!(
                        "{}: {fault}. Its content before toolcell is in {}",
                        file.path.display(),
                        kept.backup.display()
                    ))
                })?,
        };
        Ok(Plan {
            slot: change.slot(),
            action: match &change.source {
                _ if after == file.text => NONE,
                Some(_) => "restore",
                None => "remove",
            },
            after,
            change: None,
            before,
            entry: None,
        })
    }

    /// Shows the difference, and asks.
    fn is_wanted(&self, file: &ClientFile, plan: &Plan) -> anyhow::Result<bool> {
        if !self.json {
            let before = file.text.as_deref();
            let after = plan.after.as_deref();
            // All of a file that comes or goes is toolcell's.
            let is_whole = before.is_none() || after.is_none();
            let shown = |text: &str| {
                if is_whole {
                    return std::iter::once(0..text.len()).collect();
                }
                let extents = self.client.format().extents(text, &plan.slot);
                extents.unwrap_or_default()
            };
            let [before, after] = [before, after].map(|text| text.unwrap_or_default());
            let [before, after] = [before, after].map(|text| DiffSide {
                text,
                extents: shown(text),
            });
            let diff = diff::unified(&file.real.display().to_string(), &before, &after);
            show::text(&diff)?;
        }
        if plan.action == "replace" {
            show::say(&format!(
                "warning: `{}` is in this file already, and is not toolcell's; it would be replaced",
                self.name
            ));
        }
        Ok(self.yes || terminal::agrees("Write this?", |_| {}))
    }

    fn report(
        &self,
        file: &ClientFile,
        kept: &ChangeStore,
        plan: &Plan,
        is_written: bool,
    ) -> anyhow::Result<()> {
        let is_connected = is_written && !self.undo;
        let has_backup = plan.change.as_ref().is_some_and(|change| change.existed);
        let backup = Some(&kept.backup).filter(|_| is_connected && has_backup);
        if self.json {
            let told = ConnectReport {
                client: self.client.name(),
                file: &file.real,
                name: &self.name,
                action: plan.action,
                written: is_written,
                entry: plan.entry.as_ref(),
                backup,
            };
            show::print_json(&told)?;
            return Ok(());
        }
        let path = file.path.display();
        show::say(&match plan.action {
            NONE => format!("nothing to change in {path}"),
            _ if !is_written => {
                format!("nothing was written to {path}; agree at a terminal, or with --yes")
            }
            _ if is_connected => {
                let backup = backup.map(|backup| format!(" (backup: {})", backup.display()));
                format!(
                    "wrote {path}{}; restart the client. `{}` takes it back",
                    backup.unwrap_or_default(),
                    self.undo_command()
                )
            }
            _ if plan.after.is_none() => format!("removed {path}"),
            _ => format!("wrote {path}"),
        });
        Ok(())
    }

    fn undo_command(&self) -> String {
        let mut command = format!("toolcell connect {} --undo", self.client.name());
        if self.name != NAME {
            command.push_str(&format!(" --name={}", self.name));
        }
        match (self.project, self.user, &self.file) {
            (true, ..) => command.push_str(" --project"),
            (_, true, _) => command.push_str(" --user"),
            (.., Some(file)) => command.push_str(&format!(" --file={}", file.display())),
            (false, false, None) => {}
        }
        command
    }
}

/// What is needed to undo is on disk before the file changes.
fn write(file: &ClientFile, kept: &ChangeStore, plan: &Plan) -> anyhow::Result<()> {
    let old = kept.read()?;
    let Some(change) = &plan.change else {
        file.write(plan.after.as_deref())?;
        if let (Some((old, _)), None) = (old, &plan.after) {
            // One that others use by now is not empty, and stays.
            let _ = old.folders.iter().try_for_each(std::fs::remove_dir);
        }
        kept.forget();
        return Ok(());
    };
    let mut change = change.clone();
    change.folders = file.make_folders()?;
    change
        .folders
        .extend(old.iter().flat_map(|(old, _)| old.folders.clone()));
    kept.write(&change, &plan.before)?;
    let written = file.write(plan.after.as_deref());
    if written.is_err() {
        match old {
            Some((old, backup)) => kept.write(&old, &backup)?,
            None => kept.forget(),
        }
    }
    Ok(written?)
}

/// Clients make parts of tool names of it.
fn check_name(name: &str, chars_max: usize) -> Result<(), BadRequest> {
    let fits = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '-';
    let is_name = !name.starts_with('-') && !name.is_empty() && name.chars().all(fits);
    if is_name && name.len() <= chars_max {
        return Ok(());
    }
    Err(BadRequest(format!(
        "--name takes 1 to {chars_max} letters, digits, `_` and `-`, without `-` in front, for this client"
    )))
}
