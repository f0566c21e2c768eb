//! The tools that the tool of `toolcell call` may call: the values of `--with`, else of the configuration files.

use std::path::{Path, PathBuf};

use toolcell::{ComponentTools, Grants, Home, Host, Policy, Refusal};
use toolcell_config::{ConfigLayers, InstalledNames};

use super::protected_sources::absolute;
use super::serving::{self, NamedTool};
use super::target::Target;
use super::tool_configs::ToolConfigs;

/// Why a component is missing matters only to a tool that calls others.
#[derive(Default)]
pub(crate) struct Callables {
    tools: Vec<(NamedTool, Result<PathBuf, Refusal>)>,
}

impl Callables {
    /// If no call of a tool was granted, looks for none. A source folder has to be built before.
    pub(crate) fn find(
        home: &Home,
        typed: &[String],
        layers: &ConfigLayers,
        grants: &Grants,
    ) -> Result<Self, Refusal> {
        let is_named = !typed.is_empty()
            || layers
                .files()
                .iter()
                .any(|layer| !layer.file.tools.is_empty() || !layer.file.declared.is_empty());
        if grants.tools.is_empty() || !is_named {
            return Ok(Self::default());
        }
        let find = |named: NamedTool| {
            let file = named.locate(home);
            let file = file.map(|file| absolute(&file));
            (named, file)
        };
        let named = serving::named(typed, layers)?.into_iter();
        Ok(Self {
            tools: named.map(find).collect(),
        })
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.tools
            .iter()
            .filter_map(|(_, file)| file.as_deref().ok())
    }

    pub(crate) async fn load(
        &self,
        host: &Host,
        caller: &ComponentTools,
        policy: &mut Policy,
        configs: &ToolConfigs,
    ) -> Result<(), Refusal> {
        if !caller.tools.iter().any(|tool| tool.calls_tools()) {
            return Ok(());
        }
        for (named, file) in &self.tools {
            let file = file.as_ref().map_err(Clone::clone)?;
            let path = &named.target.path;
            let ready = host.load_file(file).await.and_then(|loaded| {
                named.target.check(&loaded)?;
                configs.apply(path, policy, &loaded)
            });
            ready.map_err(|refusal| named.failed(refusal))?;
        }
        Ok(())
    }
}

/// No tool may change their sources.
pub(crate) fn targets(typed: &[String], names: &InstalledNames) -> Vec<Target> {
    typed
        .iter()
        .map(|typed| Target::named(typed, names))
        .collect()
}
