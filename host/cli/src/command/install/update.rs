use clap::Args;
use toolcell::{Home, Refusal};
use toolcell_install::lock::LockEntry;
use toolcell_install::lock_location::InstalledTools;
use toolcell_install::reference::ComponentReference;

use super::super::exit::{Exit, Stop};
use super::options::{Consent, PlaceOptions, SourceOptions};
use super::report::{Report, State};
use super::shop::Shop;
use super::{Want, unknown};

/// Installs what the references of installed tools resolve to now. An update that could do nothing more goes through; one
/// with another signer, more to ask for, or other descriptions or schemas is shown as a difference, and you are asked.
#[derive(Debug, Args)]
pub(in crate::command) struct Update {
    /// The names of the tools [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    sources: SourceOptions,
    #[command(flatten)]
    place: PlaceOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Update {
    pub(in crate::command) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let mut report = Report::new(self.json, self.dry_run);
        let done = self.update(&home, &mut report);
        report.end(done)
    }

    fn update(&self, home: &Home, report: &mut Report) -> Result<(), Stop> {
        let shop = Shop::open(home, &self.place, &self.sources)?;
        report.at(shop.place.file());
        let installed = shop.place.read()?;
        if let Some(name) = self
            .names
            .iter()
            .find(|name| !installed.lock.0.contains_key(*name))
        {
            return Err(unknown(name, shop.place.file()).into());
        }
        let is_meant =
            |entry: &&LockEntry| self.names.is_empty() || self.names.contains(&entry.name);
        for entry in installed.lock.0.values().filter(is_meant) {
            // One that cannot be updated does not keep the others from it.
            if let Err(refusal) = self.one(&shop, &installed, entry, report) {
                report.failed(&entry.name, refusal);
            }
        }
        Ok(())
    }

    fn one(
        &self,
        shop: &Shop,
        installed: &InstalledTools,
        entry: &LockEntry,
        report: &mut Report,
    ) -> Result<(), Refusal> {
        let mut want = shop.again(installed, entry)?;
        // Pinned bytes cannot be others, and still have to be confirmed and in the store.
        if !want.reference.is_pinned() {
            if shop.stands(&want, entry)? && installed.is_confirmed(entry) {
                report.add(State::Unchanged, entry, None, &[]);
                return Ok(());
            }
            want.pinned = None;
        }
        shop.take(&want, &self.consent, self.dry_run, report)
    }
}

impl Shop {
    fn stands(&self, want: &Want, entry: &LockEntry) -> Result<bool, Refusal> {
        let resolving = self.sources.resolve(&want.reference);
        let resolved = self.runtime.block_on(resolving)?;
        let is_there = toolcell_install::store::read(self.home.folder(), &entry.component).is_ok();
        // A version of a package keeps its bytes; its digest is known only once it is unpacked.
        let is_same_version = matches!(want.reference, ComponentReference::Package(_))
            && resolved.version().is_some()
            && resolved.version() == entry.version.as_deref();
        Ok((is_same_version || resolved.digest() == Some(entry.digest)) && is_there)
    }
}
