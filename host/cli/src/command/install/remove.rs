use clap::Args;
use toolcell::Home;
use toolcell_install::store::ComponentStore;

use super::super::exit::{Exit, Stop};
use super::options::PlaceOptions;
use super::report::{Report, State};
use super::{shop, unknown};

/// Removes installed tools from the lock and from [tools]. Their components stay in the store for other projects, until `toolcell store
/// prune`.
#[derive(Debug, Args)]
pub(in crate::command) struct Remove {
    /// The names of the tools
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    place: PlaceOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Remove {
    pub(in crate::command) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let mut report = Report::new(self.json, false);
        let done = self.remove(&home, &mut report);
        report.end(done)
    }

    fn remove(&self, home: &Home, report: &mut Report) -> Result<(), Stop> {
        let place = shop::place(home, &self.place)?;
        // Held while the lock is changed.
        let _store = ComponentStore::open(home.folder())?;
        report.at(place.file());
        let known = place.read()?;
        // All of them, or none. A name that was confirmed stays bound to its bytes, even if the lock was deleted.
        if let Some(name) = self.names.iter().find(|name| !known.has(name)) {
            return Err(unknown(name, place.file()).into());
        }
        let mut gone = Vec::new();
        let (config, _) = shop::config(home, &self.place)?;
        place.change(|installed| {
            // Else `toolcell install` would bring them back.
            self.names
                .iter()
                .try_for_each(|name| shop::declare(home, &config, name, None))?;
            gone.extend(self.names.iter().filter_map(|name| installed.remove(name)));
            Ok(())
        })?;
        gone.iter()
            .for_each(|entry| report.add(State::Removed, entry, None, &[]));
        Ok(())
    }
}
