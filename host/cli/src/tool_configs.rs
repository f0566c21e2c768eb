//! The `[[tool]]` entries of the configuration files: the components that they name, and the settings that they give.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use toolcell::{ComponentTools, Home, Policy, Refusal};
use toolcell_config::{ConfigLayer, ConfigLayers, InstalledNames, ToolEntry};

use super::target::{BuildPermission, Target};

/// The entries, looked up once for all tools of a command.
pub(crate) struct ToolConfigs {
    home: Home,
    /// The files, and the paths to which the entries of each lead.
    named: Vec<(PathBuf, HashSet<PathBuf>)>,
    /// The entries that have a `config`.
    entries: Vec<Entry>,
}

struct Entry {
    target: Target,
    /// The files that the target stands for, or its source folder.
    paths: Vec<PathBuf>,
    /// The component that was built of the source folder. Found when it is first needed, because that reads the sources.
    built: OnceLock<Option<PathBuf>>,
    config: Option<String>,
    /// The file and the line of the entry, for messages.
    place: String,
}

impl ToolConfigs {
    pub(crate) fn new(home: &Home, layers: &ConfigLayers) -> Self {
        let mut configs = Self {
            home: home.clone(),
            named: Vec::new(),
            entries: Vec::new(),
        };
        for layer in layers.files() {
            let mut named = HashSet::new();
            for entry in &layer.file.tools {
                let entry = Entry::new(layer, entry, &layers.names);
                named.extend(entry.paths.iter().cloned());
                configs
                    .entries
                    .extend(entry.config.is_some().then_some(entry));
            }
            configs.named.push((layer.file.path.clone(), named));
        }
        configs
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
            named: Vec::new(),
            entries: vec![Entry::new(layer, entry, names)],
        }
    }

    /// Applies the entries to `loaded`, which was found at `path`: their names with [`Self::name`], their settings with
    /// [`Self::give`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::give`].
    pub(crate) fn apply(
        &self,
        path: &Path,
        policy: &mut Policy,
        loaded: &ComponentTools,
    ) -> Result<(), Refusal> {
        self.name(path, policy, loaded);
        self.give(path, loaded)
    }

    /// Tells `policy` which files name the component `loaded`, which was found at `path`, as one of their tools, because a
    /// rule of the same file may allow it by name.
    pub(crate) fn name(&self, path: &Path, policy: &mut Policy, loaded: &ComponentTools) {
        // Most files name no tool: then nothing is looked up.
        if self.named.iter().all(|(_, paths)| paths.is_empty()) {
            return;
        }
        let (Some(tool), Ok(own)) = (loaded.tools.first(), path.canonicalize()) else {
            return;
        };
        for (file, _) in self.named.iter().filter(|(_, paths)| paths.contains(&own)) {
            policy.name(file, tool.component());
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
    fn new(layer: &ConfigLayer, entry: &ToolEntry, names: &InstalledNames) -> Self {
        let target = Target::of_entry(layer, &entry.component, names);
        let files = target.files().into_iter();
        Self {
            paths: files.filter_map(|file| file.canonicalize().ok()).collect(),
            target,
            built: OnceLock::new(),
            config: entry.config.as_ref().map(|config| config.json().to_owned()),
            place: layer.file.place_of(&entry.component),
        }
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
        let Some(config) = &self.config else {
            return Ok(());
        };
        for tool in self.target.tools(loaded)? {
            tool.configure(config).map_err(|refusal| {
                let message = format!("{}: {}", self.place, refusal.message);
                Refusal { message, ..refusal }
            })?;
        }
        Ok(())
    }
}
