use clap::{Args, Subcommand};
use serde_json::json;
use toolcell::Home;
use toolcell_install::lock_location;
use toolcell_install::store::ComponentStore;

use super::super::exit::{Exit, Stop};
use super::super::show;
use super::report;

/// Looks after the components that were installed, which all projects share.
#[derive(Debug, Args)]
pub(in crate::command) struct StoreCommand {
    #[command(subcommand)]
    action: Action,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Read every component, and compare it with its digest: exit 0 if all are as they were installed, else 1
    Verify,
    /// Remove the components that no lock names any more
    Prune,
}

impl StoreCommand {
    pub(in crate::command) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let done = match self.action {
            Action::Verify => self.verify(&home),
            Action::Prune => self.prune(&home),
        };
        match done {
            Ok(exit) => Ok(exit),
            Err(stop) => show::refuse(&stop.refusal()?, self.json),
        }
    }

    fn verify(&self, home: &Home) -> Result<Exit, Stop> {
        let store = ComponentStore::open(home.folder())?;
        let components = store.components()?;
        let damages = store.verify()?;
        let mut lines: Vec<String> = damages
            .iter()
            .map(|damage| format!("{}: {}", damage.file.display(), damage.why))
            .collect();
        lines.push(match damages.len() {
            0 => format!("{} components, all as they were installed", components.len()),
            // A file whose name is not that of a component is none of those that are counted.
            count => format!("{count} files are not as they were installed; remove them, then run `toolcell install`"),
        });
        let damaged: Vec<_> = damages
            .iter()
            .map(|damage| json!({ "file": damage.file, "why": damage.why }))
            .collect();
        let value = json!({ "components": components.len(), "damaged": damaged });
        report::print(&value, &lines, self.json)?;
        Ok(Exit::from_success(damages.is_empty()))
    }

    fn prune(&self, home: &Home) -> Result<Exit, Stop> {
        let pruned =
            ComponentStore::open(home.folder())?.prune(|| lock_location::used(home.folder()))?;
        let line = match pruned {
            Some((count, bytes)) => format!(
                "removed {}, {bytes} bytes",
                show::counted(count as u64, "component")
            ),
            None => "nothing was removed, because another process is installing; try again later"
                .to_owned(),
        };
        let (count, bytes) = pruned.unwrap_or_default();
        let value = json!({ "is_busy": pruned.is_none(), "removed": count, "bytes": bytes });
        Ok(report::print(&value, &[line], self.json)?)
    }
}
