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
            let folder = layer.file.path.parent().unwrap_or(Path::new("."));
            let component = locate(&folder.join(&entry.component), layer.source, home);
            if let Some(why) = host.add_hook(entry, component, &said).await.map_err(BadRequest)? {
                show::say(&format!("warning: {why}"));
            }
        }
    }
    Ok(())
}

/// The component of a hook; a source folder is built first if something in it changed. Not one that a project names:
/// building runs the project's own code outside of any sandbox, and who trusts a file has not looked at that.
fn locate(path: &Path, source: RuleSource, home: &Home) -> anyhow::Result<PathBuf> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    let target = Target::parse(text);
    if target.name.is_some() {
        bail!("a hook is a whole component, and has no #NAME: there is no {text}");
    }
    // Of the path that would be built, whatever was written.
    if source == RuleSource::ProjectSettings && target.path.is_dir() {
        bail!(
            "{text} is a source folder, which is not built for a project; run `hotcell build {text}`, and name the .wasm"
        );
    }
    target.locate(home).map_err(|refusal| anyhow::anyhow!(refusal.message))
}
