//! The hooks of `toolcell.toml`, loaded before a call.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use toolcell::{Grants, Home, Host};
use toolcell_config::{self as config, ConfigLayer, ConfigLayers, ConfiguredHook};
use toolcell_policy::Provenance;
use toolcell_spec::RuleSource;

use super::exit::BadRequest;
use super::show;
use super::target::{BuildPermission, Target};

/// No hook may change what `kept` closes. A hook that cannot be loaded is reported, and blocks the calls that it
/// guards.
pub(crate) async fn add(
    host: &mut Host,
    home: &Home,
    layers: &ConfigLayers,
    kept: &Grants,
) -> Result<(), BadRequest> {
    for layer in layers.files() {
        for (at, entry) in layer.file.hooks.iter().enumerate() {
            let component = locate(&path(layer, &entry.component), layer.source, home);
            let configured = ConfiguredHook {
                entry,
                said: Provenance {
                    source: layer.source,
                    file: Some(&layer.file.path),
                },
                digest: layer.trusted.get(at).map(String::as_str),
                kept,
            };
            if let Some(why) = config::add_hook(host, &configured, component)
                .await
                .map_err(BadRequest)?
            {
                show::say(&format!("warning: {why}"));
            }
        }
    }
    Ok(())
}

pub(crate) fn path(layer: &ConfigLayer, word: &Path) -> PathBuf {
    layer.file.folder.join(word)
}

/// A source folder must be built already. A project can only name a component: see [`toolcell_config::hook_digests`].
fn locate(path: &Path, source: RuleSource, home: &Home) -> anyhow::Result<PathBuf> {
    if source.is_in_checkout() {
        return Ok(path.to_owned());
    }
    let text = path
        .to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))?;
    let target = Target::parse(text);
    if target.name.is_some() {
        bail!("a hook is a whole component, and has no #NAME: there is no {text}");
    }
    target
        .locate(home, BuildPermission::No)
        .map_err(|refusal| anyhow::anyhow!(refusal.message))
}
