use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use toolcell::{Home, Refusal};
use toolcell_engine::approval::legible;
use toolcell_install::component::ComponentFile;
use toolcell_install::digest::Digest;
use toolcell_install::lock_location::{InstalledTools, LockLocation};
use toolcell_install::obtain::{FetchRequest, obtain};
use toolcell_install::source::ReferrerKind;
use toolcell_install::store;
use toolcell_install::verifier::Signer;

use super::super::exit::{Exit, Stop};
use super::super::show;
use super::options::{PlaceOptions, SourceOptions};
use super::report;
use super::shop::Shop;

/// Shows what a reference resolves to, and who signed it. The component is fetched and its imports are read, but it is
/// neither compiled nor run, and nothing is installed. `toolcell install --dry-run` shows what it could ask for. Of an
/// installed tool, shows what is installed, and sends no request.
#[derive(Debug, Args)]
pub(in crate::command) struct Info {
    /// An installed tool, HOST/REPOSITORY:TAG of a registry, an https URL, a .wasm file, or a built
    /// source folder
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
            Err(stop) => show::refuse(&stop.refusal()?, self.json),
        }
    }

    fn look(&self, home: &Home) -> Result<(Vec<String>, Value), Stop> {
        let shop = Shop::open(home, &self.place, &self.sources)?;
        let installed = shop.place.read()?;
        let user = LockLocation::beside(&home.user_file()?, home.folder()).read()?;
        for known in [&installed, &user] {
            if let Some(shown) = self.installed(&shop, known)? {
                return Ok(shown.printed());
            }
        }
        let reference = super::reference(&self.reference, &shop, &installed)?;
        let wanted = FetchRequest {
            reference: &reference,
            pinned: None,
            is_unsigned_allowed: self.allow_unsigned,
            last_signer: None,
        };
        let (obtained, sboms) = shop.runtime.block_on(async {
            let place = (&shop.store, home.folder());
            let obtained = obtain(&wanted, &shop.sources, &shop.verifier, place).await?;
            let sboms = shop
                .sources
                .referrers(&obtained.resolved, ReferrerKind::Sbom);
            let sboms = sboms.await?;
            Ok::<_, Refusal>((obtained, sboms))
        })?;
        let shown = ComponentFacts {
            reference: reference.to_string(),
            digest: obtained.digest(),
            component: obtained.component,
            size: obtained.bytes.len(),
            signer: obtained.verdict.signer.as_ref(),
            notes: &obtained.verdict.notes,
            annotations: obtained.resolved.annotations.clone(),
            imports: imports(&obtained.bytes),
            sboms: Some(sboms.len()),
            names: names(&installed, obtained.component),
        };
        Ok(shown.printed())
    }

    /// Skips a name that is a file. Nothing is fetched.
    fn installed<'i>(
        &self,
        shop: &Shop,
        installed: &'i InstalledTools,
    ) -> Result<Option<ComponentFacts<'i>>, Refusal> {
        let here = std::env::current_dir().unwrap_or_default();
        let known = installed.lock.0.contains_key(&self.reference);
        if !known || here.join(&self.reference).symlink_metadata().is_ok() {
            return Ok(None);
        }
        let Some(entry) = installed.get(&self.reference).transpose()? else {
            return Ok(None);
        };
        let bytes = store::read(shop.home.folder(), &entry.component)?;
        let version = entry.version.iter();
        let version = version.map(|version| ("version".to_owned(), version.clone()));
        Ok(Some(ComponentFacts {
            reference: entry.reference.clone(),
            digest: entry.digest,
            component: entry.component,
            size: bytes.len(),
            signer: entry.signer.as_ref(),
            notes: &[],
            annotations: version.collect(),
            imports: imports(&bytes),
            sboms: None,
            names: names(installed, entry.component),
        }))
    }
}

fn names(installed: &InstalledTools, component: Digest) -> Vec<&str> {
    installed
        .entries()
        .filter(|entry| entry.component == component)
        .map(|entry| entry.name.as_str())
        .collect()
}

fn imports(bytes: &[u8]) -> Result<Vec<String>, String> {
    ComponentFile::read(bytes).map(|component| Vec::from_iter(component.imports))
}

struct ComponentFacts<'a> {
    reference: String,
    digest: Digest,
    component: Digest,
    size: usize,
    signer: Option<&'a Signer>,
    notes: &'a [String],
    annotations: BTreeMap<String, String>,
    imports: Result<Vec<String>, String>,
    /// `None` if the registry was not asked.
    sboms: Option<usize>,
    names: Vec<&'a str>,
}

impl ComponentFacts<'_> {
    fn printed(&self) -> (Vec<String>, Value) {
        let mut lines = vec![
            legible(&self.reference),
            format!("  digest: {}", self.digest),
            format!(
                "  component: {}, {}",
                self.component,
                show::counted(self.size as u64, "byte")
            ),
            format!("  signer: {}", legible(&super::signer(self.signer))),
        ];
        // On one line each, because a publisher could write a line that passes for one of these.
        for note in self.notes {
            lines.push(format!("  note: {}", legible(note)));
        }
        for (key, value) in &self.annotations {
            lines.push(format!("  {}: {}", legible(key), legible(value)));
        }
        lines.push(match &self.imports {
            Ok(imports) if imports.is_empty() => "  imports: nothing".to_owned(),
            Ok(imports) => format!("  imports: {}", legible(&imports.join(", "))),
            Err(why) => format!("  imports: not known: {}", legible(why)),
        });
        let sboms = self.sboms;
        lines.extend(sboms.map(|count| format!("  bills of materials: {count}")));
        lines.push(match self.names.as_slice() {
            [] => "  installed: no".to_owned(),
            names => format!("  installed: as {}", names.join(", ")),
        });
        let value = json!({
            "reference": self.reference, "digest": self.digest, "component": self.component, "size": self.size,
            "signer": self.signer, "notes": self.notes, "annotations": self.annotations,
            "imports": self.imports.as_ref().ok(), "sboms": self.sboms, "installed_as": self.names,
        });
        (lines, value)
    }
}
