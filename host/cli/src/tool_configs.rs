//! The `[[tool]]` entries of the configuration files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use toolcell::{ComponentTools, Home, HostBuilder, Policy, Refusal};
use toolcell_config::{ConfigLayer, ConfigLayers, InstalledNames, ToolEntry, ToolMeter};

use super::target::{BuildPermission, Target};

pub(crate) struct ToolConfigs {
    home: Home,
    named: Vec<(PathBuf, HashSet<PathBuf>)>,
    entries: Vec<Entry>,
}

struct Entry {
    target: Target,
    paths: Vec<PathBuf>,
    /// Found when first needed, because that reads the sources.
    built: OnceLock<Option<PathBuf>>,
    config: Option<String>,
    meter: Option<ToolMeter>,
    /// File and line, for messages.
    place: String,
}

/// Tells `host` which components are metered by CPU time.
pub(crate) fn metered(host: HostBuilder, home: &Home, layers: &ConfigLayers) -> HostBuilder {
    let configs = ToolConfigs::new(home, layers);
    let by_time = |entry: &Entry| entry.meter == Some(ToolMeter::Time);
    if !configs.entries.iter().any(by_time) {
        return host;
    }
    host.metered_by_time(move |path| configs.is_metered_by_time(path))
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
                    .extend((entry.config.is_some() || entry.meter.is_some()).then_some(entry));
            }
            configs.named.push((layer.file.path.clone(), named));
        }
        configs
    }

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

    /// The first entry that says it decides.
    fn is_metered_by_time(&self, path: &Path) -> bool {
        let Ok(own) = path.canonicalize() else {
            return false;
        };
        let mut entries = self.entries.iter().filter(|entry| entry.meter.is_some());
        let entry = entries.find(|entry| entry.leads_to(&own, &self.home));
        entry.is_some_and(|entry| entry.meter == Some(ToolMeter::Time))
    }

    /// Applies [`Self::name`] and [`Self::give`], with the errors of the latter.
    pub(crate) fn apply(
        &self,
        path: &Path,
        policy: &mut Policy,
        loaded: &ComponentTools,
    ) -> Result<(), Refusal> {
        self.name(path, policy, loaded);
        self.give(path, loaded)
    }

    /// A rule of a file that names the component may allow its tools by name.
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

    /// Fails on settings for a component that takes none, that differ from others for the same tool, or that are too
    /// large.
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
            meter: entry.meter,
            place: layer.file.place_of(&entry.component),
        }
    }

    fn leads_to(&self, own: &Path, home: &Home) -> bool {
        self.paths.iter().any(|path| path == own) || self.built(home) == Some(own)
    }

    /// An approved call names the built component in place of the folder.
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
