//! From what a person types as TOOL to a component in a host: a `.wasm` file, or a source folder, built when stale.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use crate::catalog::Tool;
use crate::config::Home;
use crate::host::{Host, HostSettings, Loaded};
use crate::record::{ErrorClass, Refusal};
use crate::toolchain::{self, BuildSettings, Built, Freshness, Preference, Search};

/// TOOL as it was typed: a path, and the name of one of its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) name: Option<String>,
    typed: String,
}

impl Target {
    pub(super) fn parse(typed: &str) -> Self {
        let whole = Path::new(typed);
        let (path, name) = match typed.rsplit_once('#') {
            Some((path, name)) if !whole.exists() => (PathBuf::from(path), Some(name.to_owned())),
            _ => (whole.to_owned(), None),
        };
        Self { path, name, typed: typed.to_owned() }
    }

    /// The file of the component; a source folder is built first if something in it changed.
    pub(super) fn locate(&self, home: &Home) -> Result<PathBuf, Refusal> {
        let metadata = std::fs::metadata(&self.path).map_err(|error| {
            let message = format!("there is no tool at {}: {error}", self.path.display());
            Refusal::new(ErrorClass::UnknownTool, "unknown_tool", message)
        })?;
        if !metadata.is_dir() {
            return Ok(self.path.clone());
        }
        self.build_if_stale(home)
            .map_err(|error| Refusal::new(ErrorClass::SetupRequired, "build_failed", format!("{error:#}")))
    }

    /// Whether a source folder was built since something in it changed.
    pub(super) fn is_built(&self) -> bool {
        matches!(toolchain::freshness(&self.path, None), Freshness::Fresh(_))
    }

    fn build_if_stale(&self, home: &Home) -> anyhow::Result<PathBuf> {
        match toolchain::freshness(&self.path, None) {
            Freshness::Fresh(component) => Ok(component),
            Freshness::Stale(_) => Ok(build(&self.path, home)?.wasm),
        }
    }

    /// The tools that are meant: all of the component, or the one that was named.
    pub(super) fn tools(&self, loaded: &Loaded) -> Result<Vec<Arc<Tool>>, Refusal> {
        if self.name.is_none() {
            return Ok(loaded.tools.clone());
        }
        let name = self.choose(loaded)?;
        let means = |tool: &&Arc<Tool>| {
            tool.declaration().qualified_name() == name || tool.declaration().aliases.contains(&name)
        };
        Ok(loaded.tools.iter().find(means).cloned().into_iter().collect())
    }

    /// The one tool that is meant, or why that is not clear.
    pub(super) fn choose(&self, loaded: &Loaded) -> Result<String, Refusal> {
        let names: Vec<String> = loaded.tools.iter().map(|tool| tool.declaration().name.clone()).collect();
        let refuse = |what: &str| {
            let choices: Vec<String> = names.iter().map(|name| format!("{}#{name}", self.path.display())).collect();
            let message = format!("{what}; say which: {}", choices.join(", "));
            Refusal::new(ErrorClass::UnknownTool, "unknown_tool", message)
        };
        match (&self.name, loaded.tools.as_slice()) {
            (None, [tool]) => Ok(tool.declaration().qualified_name()),
            (None, _) => Err(refuse(&format!("{} has several tools", self.typed))),
            (Some(name), tools) => {
                let named = tools.iter().find(|tool| {
                    let declaration = tool.declaration();
                    declaration.name == *name
                        || declaration.qualified_name() == *name
                        || declaration.aliases.contains(name)
                });
                // An alias stays an alias: the record says by which name the tool was called.
                named
                    .map(|tool| match tool.declaration().aliases.contains(name) {
                        true => name.clone(),
                        false => tool.declaration().qualified_name(),
                    })
                    .ok_or_else(|| refuse(&format!("{} has no tool `{name}`", self.path.display())))
            }
        }
    }
}

/// Builds the tool in `dir`, and says on standard error what that takes.
pub(super) fn build(dir: &Path, home: &Home) -> anyhow::Result<Built> {
    let search = Search::new(Preference::from_env()?, home.cache());
    let mut settings = BuildSettings::new(search);
    settings.sdk = Some(toolchain::write_sdk(home.folder())?);
    toolchain::build(dir, &settings, &mut super::show::say)
}

/// A host for one command.
pub(super) fn host(home: &Home, change: impl FnOnce(&mut HostSettings)) -> anyhow::Result<Host> {
    let compiler = std::env::current_exe().context("find the toolcell program itself")?;
    let mut settings = HostSettings::new(home.clone(), compiler);
    settings.calls_at_once = 1;
    settings.pooled = false;
    change(&mut settings);
    Host::new(settings)
}
