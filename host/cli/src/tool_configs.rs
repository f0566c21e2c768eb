//! The settings that the `[[tool]]` entries of the configuration files give to tools.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use toolcell::{ComponentTools, Home, Refusal};
use toolcell_config::{ConfigLayer, ConfigLayers, InstalledNames, ToolEntry};

use super::target::{BuildPermission, Target};

/// The entries that have a `config`.
pub(crate) struct ToolConfigs {
    home: Home,
    entries: Vec<Entry>,
}

struct Entry {
    target: Target,
    /// The files that the target stands for, or its source folder.
    paths: Vec<PathBuf>,
    /// The component that was built of the source folder. Found when it is first needed, because that reads the sources.
    built: OnceLock<Option<PathBuf>>,
    config: String,
    /// The file and the line of the entry, for messages.
    place: String,
}

impl ToolConfigs {
    pub(crate) fn new(home: &Home, layers: &ConfigLayers) -> Self {
        let entries = layers
            .files()
            .iter()
            .flat_map(|layer| layer.file.tools.iter().map(move |entry| (layer, entry)));
        let entries = entries
            .filter_map(|(layer, entry)| Entry::new(layer, entry, layers.names()))
            .collect();
        Self {
            home: home.clone(),
            entries,
        }
    }

    /// The one entry of a file.
    pub(crate) fn of_entry(
        home: &Home,
        layer: &ConfigLayer,
        entry: &ToolEntry,
        names: &InstalledNames,
    ) -> Self {
        Self {
            home: home.clone(),
            entries: Entry::new(layer, entry, names).into_iter().collect(),
        }
    }

    /// Gives the tools of `loaded`, which was found at `path`, their settings. `path` is a component, or a source folder.
    ///
    /// # Errors
    ///
    /// Settings for a component that takes none, or that differ from others for the same tool, or are too large.
    pub(crate) fn give(&self, path: &Path, loaded: &ComponentTools) -> Result<(), Refusal> {
        // Most files have no settings: then nothing is looked up.
        if self.entries.is_empty() {
            return Ok(());
        }
        let Ok(own) = path.canonicalize() else {
            return Ok(());
        };
        self.entries
            .iter()
            .filter(|entry| entry.leads_to(&own, &self.home))
            .try_for_each(|entry| entry.give(loaded))
    }
}

impl Entry {
    fn new(layer: &ConfigLayer, entry: &ToolEntry, names: &InstalledNames) -> Option<Self> {
        let config = entry.config.as_ref()?.json().to_owned();
        let target = Target::of_entry(layer, &entry.component, names);
        let paths = target
            .files()
            .into_iter()
            .filter_map(|file| file.canonicalize().ok())
            .collect();
        let built = OnceLock::new();
        let place = layer.file.place_of(&entry.component);
        Some(Self {
            target,
            paths,
            built,
            config,
            place,
        })
    }

    fn leads_to(&self, own: &Path, home: &Home) -> bool {
        self.paths.iter().any(|path| path == own) || self.built(home) == Some(own)
    }

    /// The component of a source folder: an approved call names it in place of the folder.
    fn built(&self, home: &Home) -> Option<&Path> {
        let find = || {
            self.target.source_folder()?;
            self.target
                .locate(home, BuildPermission::No)
                .ok()?
                .canonicalize()
                .ok()
        };
        self.built.get_or_init(find).as_deref()
    }

    fn give(&self, loaded: &ComponentTools) -> Result<(), Refusal> {
        for tool in self.target.tools(loaded)? {
            tool.configure(&self.config).map_err(|refusal| {
                let message = format!("{}: {}", self.place, refusal.message);
                Refusal { message, ..refusal }
            })?;
        }
        Ok(())
    }
}
