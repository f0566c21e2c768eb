use clap::Args;
use serde_json::{Value, json};
use toolcell::{Home, Refusal};
use toolcell_install::component::Component;
use toolcell_install::lock::Entry;
use toolcell_install::obtain::{Wanted, obtain};
use toolcell_install::reference::Reference;
use toolcell_install::source::ReferrerKind;

use super::super::exit::{Exit, Stop};
use super::options::{PlaceOptions, SourceOptions};
use super::report;
use super::shop::Shop;

/// Shows what a reference stands for, and who signed it. The component is fetched and its imports are read, but it is
/// neither compiled nor run, and nothing is installed. `toolcell install --dry-run` shows what it could ask for.
#[derive(Debug, Args)]
pub(in crate::command) struct Info {
    /// HOST/REPOSITORY:TAG of a registry, an https URL, a .wasm file, or the source folder of a tool that is built
    #[arg(value_name = "REF")]
    reference: String,
    /// Look at it without a signature
    #[arg(long)]
    allow_unsigned: bool,
    #[command(flatten)]
    sources: SourceOptions,
    #[command(flatten)]
    place: PlaceOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub(in crate::command) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        match self.look(&home) {
            Ok((lines, value)) => report::print(&value, &lines, self.json),
            Err(stop) => report::refused(&stop.refusal()?, self.json),
        }
    }

    fn look(&self, home: &Home) -> Result<(Vec<String>, Value), Stop> {
        let shop = Shop::open(home, &self.place, &self.sources)?;
        let here = std::env::current_dir().unwrap_or_default();
        let reference = Reference::parse(&self.reference, &here)?;
        let is_unsigned_allowed = self.allow_unsigned;
        let wanted = Wanted { reference: &reference, pinned: None, is_unsigned_allowed, last_signer: None };
        let (obtained, sboms) = shop.runtime.block_on(async {
            let obtained = obtain(&wanted, &shop.sources, &*shop.verifier, (&shop.store, home.folder())).await?;
            let sboms = shop.sources.of(&reference)?.referrers(&obtained.resolved, ReferrerKind::Sbom).await?;
            Ok::<_, Refusal>((obtained, sboms))
        })?;
        let imports = Component::read(&obtained.bytes).map(|component| Vec::from_iter(component.imports));
        let installed = shop.place.read()?;
        let is_same = |entry: &&Entry| entry.component == obtained.component;
        let names: Vec<&str> = installed.entries().filter(is_same).map(|entry| entry.name.as_str()).collect();
        let (digest, size) = (obtained.digest(), obtained.bytes.len());
        let signer = obtained.verdict.signer.as_ref();
        let mut lines = vec![
            format!("{reference}"),
            format!("  digest: {digest}"),
            format!("  component: {}, {size} bytes", obtained.component),
            format!("  signer: {}", signer.map_or_else(|| report::NO_SIGNER.to_owned(), ToString::to_string)),
        ];
        lines.extend(obtained.verdict.notes.iter().map(|note| format!("  note: {note}")));
        lines.extend(obtained.resolved.annotations.iter().map(|(key, value)| format!("  {key}: {value}")));
        lines.push(match &imports {
            Ok(imports) if imports.is_empty() => "  imports: nothing".to_owned(),
            Ok(imports) => format!("  imports: {}", imports.join(", ")),
            Err(why) => format!("  imports: not known: {why}"),
        });
        lines.push(format!("  bills of materials: {}", sboms.len()));
        lines.push(match names.as_slice() {
            [] => "  installed: no".to_owned(),
            names => format!("  installed: as {}", names.join(", ")),
        });
        let value = json!({
            "reference": reference, "digest": digest, "component": obtained.component, "size": size,
            "signer": signer, "notes": obtained.verdict.notes, "annotations": obtained.resolved.annotations,
            "imports": imports.as_ref().ok(), "sboms": sboms.len(), "installed_as": names,
        });
        Ok((lines, value))
    }
}
