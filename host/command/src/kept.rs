//! What no tool and no hook of a command may change: the components of hooks, and the sources of every tool that the
//! command names. Write access to them would decide what the next build runs as the user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toolcell::{Grants, Home};
use toolcell_config::Layers;
use toolcell_core::record::RuleSource;
use toolcell_toolchain as toolchain;

use super::hooks;
use super::options::Settings;
use super::target::Target;

/// Denies writing, in the grants of `settings`, to the folders `sources` and to the source folders of the tools and
/// hooks that its files name. Returns everything that hooks may not change either.
pub fn close_sources(home: &Home, settings: &mut Settings, sources: &[PathBuf]) -> Grants {
    let mut kept = settings.layers.kept().clone();
    let own_grants = settings.layers.files().iter().flat_map(|layer| &layer.file.hooks);
    let writes = !settings.grants.write.is_empty() || own_grants.into_iter().any(|hook| !hook.grants.write.is_empty());
    // Without write grants, there is nothing to close.
    if !writes || !guard!("sources_closed") {
        return kept;
    }
    // Files that steer cargo above one tool also steer it above its neighbors, so each place is resolved once. A folder
    // comes before its contents.
    let mut places = BTreeMap::new();
    for folder in all(&settings.layers, sources) {
        let rule = format!("sources of the tool {}", folder.display());
        for place in toolchain::source_places(&folder, &home.builds()) {
            places.entry(place).or_insert_with(|| rule.clone());
        }
    }
    for (place, rule) in &places {
        for grants in [&mut settings.grants, &mut kept] {
            grants.keep_so_far(place, rule, RuleSource::PolicySettings);
        }
    }
    kept
}

/// The source folders among `targets`, as absolute paths, because another process reads them, too.
pub fn source_folders<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Vec<PathBuf> {
    let folders = targets.into_iter().filter_map(Target::source_folder);
    folders.map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned())).collect()
}

fn all(layers: &Layers, sources: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders = sources.to_vec();
    for layer in layers.files() {
        let tools = layer.file.tools.iter().map(|entry| Path::new(&*entry.component));
        let named = tools.chain(layer.file.hooks.iter().map(|entry| entry.component.as_path()));
        for word in named {
            let path = hooks::path(layer, word);
            folders.extend(source_folders(path.to_str().map(Target::parse).as_ref()));
        }
    }
    folders.sort();
    folders.dedup();
    folders
}
