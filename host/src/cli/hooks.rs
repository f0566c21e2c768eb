//! The hooks of `hotcell.toml`, loaded before a call.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::config::Home;
use crate::host::{Host, Layer, Provenance};
use crate::record::RuleSource;

use super::exit::BadRequest;
use super::show;
use super::target::Target;

/// Adds the hooks of `layers` to `host`. One that cannot be loaded is said on standard error, and blocks what it guards.
pub(super) async fn add(host: &mut Host, home: &Home, layers: &[Layer]) -> Result<(), BadRequest> {
    for layer in layers {
        let said = Provenance { source: layer.source, file: Some(&layer.file.path) };
        for entry in &layer.file.hooks {
            let component = locate(&path(layer, &entry.component), layer.source, home);
            if let Some(why) = host.add_hook(entry, component, &said).await.map_err(BadRequest)? {
                show::say(&format!("warning: {why}"));
            }
        }
    }
    Ok(())
}

/// `word` of a file, which starts in the file's folder.
pub(super) fn path(layer: &Layer, word: &Path) -> PathBuf {
    layer.file.path.parent().unwrap_or(Path::new(".")).join(word)
}

/// The component of a hook; a source folder is built first if something in it changed. Not one that a project names:
/// building runs the project's own code outside of any sandbox, and who trusts a file has not looked at that.
fn locate(path: &Path, source: RuleSource, home: &Home) -> anyhow::Result<PathBuf> {
    if source == RuleSource::ProjectSettings && path.is_dir() {
        let path = path.display();
        bail!(
            "{path} is a source folder, which is not built for a project; run `hotcell build {path}`, and name the .wasm"
        );
    }
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Target::parse(text).locate(home).map_err(|refusal| anyhow::anyhow!(refusal.message))
}
