use clap::Args;
use serde_json::{Value, json};
use toolcell::{Home, Refusal};
use toolcell_engine::approval::legible;
use toolcell_install::component;
use toolcell_install::digest::Digest;
use toolcell_install::lock::LockEntry;
use toolcell_install::lock_location::InstalledTools;
use toolcell_install::source::ComponentSink;
use toolcell_system::component_size::component_bytes_max;

use super::super::exit::{self, Exit, Stop};
use super::super::show;
use super::options::{PlaceOptions, SourceOptions};
use super::report;
use super::shop::Shop;

/// Lists the installed tools that changed at their source. Nothing is loaded.
#[derive(Debug, Args)]
pub(in crate::command) struct Outdated {
    #[command(flatten)]
    sources: SourceOptions,
    #[command(flatten)]
    place: PlaceOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Outdated {
    pub(in crate::command) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        match self.look(&home) {
            Ok((lines, value, failed)) => {
                let printed = report::print(&value, &lines, self.json)?;
                Ok(if failed.is_empty() {
                    printed
                } else {
                    exit::of_refusals(&failed)
                })
            }
            Err(stop) => show::refuse(&stop.refusal()?, self.json),
        }
    }

    fn look(&self, home: &Home) -> Result<(Vec<String>, Value, Vec<Refusal>), Stop> {
        let shop = Shop::open(home, &self.place, &self.sources)?;
        let installed = shop.place.read()?;
        let mut lines = Vec::new();
        let mut outdated = Vec::new();
        let mut errors = Vec::new();
        let mut failed = Vec::new();
        for entry in installed.lock.0.values() {
            match latest(&shop, &installed, entry) {
                Ok((digest, _)) if digest == entry.digest => {}
                Ok((digest, version)) => {
                    let known = |version: &Option<String>| {
                        version.as_deref().map_or_else(|| "-".to_owned(), legible)
                    };
                    let versions = format!("{} -> {}", known(&entry.version), known(&version));
                    lines.push(row(&entry.name, &versions, &legible(&entry.reference)));
                    lines.push(format!(
                        "  installed {}\n  now       {digest}",
                        entry.digest
                    ));
                    outdated.push(json!({ "tool": entry, "latest": { "digest": digest, "version": version } }));
                }
                Err(refusal) => {
                    lines.push(format!(
                        "{:<20} not known: {}",
                        entry.name,
                        legible(&refusal.message)
                    ));
                    errors.push(json!({ "name": entry.name, "error": refusal.to_error() }));
                    failed.push(refusal);
                }
            }
        }
        if lines.is_empty() {
            lines.push("every installed tool is up to date".to_owned());
        } else if !outdated.is_empty() {
            lines.insert(0, row("NAME", "VERSION -> NOW", "FROM"));
            lines.push("`toolcell update --dry-run` shows what would change".to_owned());
        }
        Ok((
            lines,
            json!({ "outdated": outdated, "errors": errors }),
            failed,
        ))
    }
}

fn row(name: &str, versions: &str, from: &str) -> String {
    format!("{name:<20} {versions:<24} {from}")
}

/// Resolves the reference of `entry` now, to a digest and a version. Fetches the component only if nothing else tells the
/// digest, or the version of a new one.
fn latest(
    shop: &Shop,
    installed: &InstalledTools,
    entry: &LockEntry,
) -> Result<(Digest, Option<String>), Refusal> {
    let want = shop.again(installed, entry)?;
    let sources = &shop.sources;
    shop.runtime.block_on(async {
        let resolved = sources.resolve(&want.reference).await?;
        let digest = resolved.digest();
        let version = resolved.version().map(str::to_owned);
        if let Some(digest) = digest.filter(|digest| *digest == entry.digest || version.is_some()) {
            return Ok((digest, version));
        }
        let mut bytes = Vec::new();
        let mut sink =
            ComponentSink::new(&mut bytes, resolved.size.unwrap_or(component_bytes_max()));
        let archive = sources.archive(&resolved).await?;
        let outcome = sources.fetch(&resolved, archive.as_ref(), &mut sink).await;
        let fetched = sink.finish();
        let version = || component::version(&bytes);
        match digest {
            None => outcome.map(|()| (fetched, version())),
            // Without the component, the tool is as outdated as with it.
            Some(digest) => Ok((digest, outcome.ok().and_then(|()| version()))),
        }
    })
}
