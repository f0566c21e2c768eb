//! The tools that a command or a file names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolcell::{Home, Tool, ToolTerms};
use toolcell_config::{self as config, ConfigLayer, ConfigLayers, InstalledNames};
use toolcell_server::{Provider, ToolOffer};
use toolcell_spec::{ErrorCode, Refusal};

use super::super::target::{BuildPermission, Target};
use super::super::watching::{self, Stamp};
use super::super::{folder, hooks};
use super::unreadable;

pub(crate) struct NamedTool {
    pub(crate) target: Target,
    pub(crate) typed: String,
    pub(crate) timeout: Option<Duration>,
    /// A folder of components, and its state before it was read.
    pub(super) folder: Option<(PathBuf, Stamp)>,
}

impl NamedTool {
    pub(crate) fn folder(&self) -> Option<(&PathBuf, Stamp)> {
        self.folder.as_ref().map(|(folder, state)| (folder, *state))
    }

    /// Has the name of the file or folder.
    pub(crate) fn provider(&self) -> Provider {
        let file = self.target.path.clone();
        let name = match file.file_name() {
            _ if self.target.is_installed() => self.target.shown(),
            Some(name) => name.to_string_lossy().into_owned(),
            None => "a component".to_owned(),
        };
        Provider { name, file }
    }

    pub(super) fn offer(
        &self,
        tools: Vec<Arc<Tool>>,
        origin: Option<Arc<Value>>,
    ) -> impl Iterator<Item = ToolOffer> {
        let terms = ToolTerms {
            wall: self.timeout,
            origin,
        };
        let provider = Arc::new(self.provider());
        let one = move |tool| ToolOffer {
            tool,
            terms: terms.clone(),
            provider: Some(Arc::clone(&provider)),
        };
        tools.into_iter().map(one)
    }

    /// `true` if it is closed by itself, not with the folder that it was found in.
    pub(super) fn is_alone(&self) -> bool {
        self.folder.is_none() || self.target.path.is_symlink()
    }

    /// A source folder has to be built before.
    pub(crate) fn locate(&self, home: &Home) -> Result<PathBuf, Refusal> {
        let file = self.target.locate(home, BuildPermission::No);
        file.map_err(|refusal| self.failed(refusal))
    }

    pub(crate) fn failed(&self, refusal: Refusal) -> Refusal {
        let message = format!("{}: {}", self.typed, refusal.message);
        Refusal { message, ..refusal }
    }
}

/// As [`NamedTool::failed`], for the tool with the index `at`.
pub(crate) fn failed(named: &[NamedTool], at: usize, refusal: Refusal) -> Refusal {
    match named.get(at) {
        Some(named) => named.failed(refusal),
        None => refusal,
    }
}

pub(super) fn is_one(named: &[NamedTool], paths: &[PathBuf]) -> bool {
    paths.iter().all(|path| Some(path) == paths.first())
        && named.iter().all(|tool| tool.folder().is_none())
}

pub(crate) fn named(typed: &[String], layers: &ConfigLayers) -> Result<Vec<NamedTool>, Refusal> {
    let mut named = Vec::new();
    for typed in typed {
        let target = Target::named(typed, &layers.names);
        named.extend(each(target, typed.clone(), None)?);
    }
    if typed.is_empty() {
        for layer in layers.files() {
            for entry in &layer.file.tools {
                named.extend(of_entry(layer, entry, &layers.names)?);
            }
            // Those that no entry names already.
            let tools = &layer.file.tools;
            let is_entry = |name: &str| {
                let mut words = tools.iter().map(|entry| entry.component.split('#').next());
                words.any(|word| word == Some(name))
            };
            for name in layer.file.declared.keys().filter(|name| !is_entry(name)) {
                let target = Target::declared(layer, name, &layers.names);
                named.extend(each(target, name.clone(), None)?);
            }
        }
    }
    if named.is_empty() {
        let message = "no tools to serve: name an installed tool, a .wasm file or a source folder, or list tools under \
         [tools] or [[tool]] in toolcell.toml";
        return Err(Refusal::new(ErrorCode::NoTools, message));
    }
    Ok(named)
}

pub(super) fn of_entry(
    layer: &ConfigLayer,
    entry: &config::ToolEntry,
    names: &InstalledNames,
) -> Result<Vec<NamedTool>, Refusal> {
    let word = &entry.component;
    let path = hooks::path(layer, Path::new(&**word));
    if path.to_str().is_none() {
        return Err(unreadable(layer, "the path of a tool is not UTF-8", word));
    }
    let timeout = entry.timeout.as_ref().map(|word| {
        config::duration(word).map_err(|error| {
            let why = format!("[[tool]] timeout = {word:?}: {error}");
            unreadable(layer, &why, word)
        })
    });
    let target = Target::of_entry(layer, word, names);
    each(target, String::from(&**word), timeout.transpose()?)
}

pub(super) fn each(
    target: Target,
    typed: String,
    timeout: Option<Duration>,
) -> Result<Vec<NamedTool>, Refusal> {
    let unreadable = |why: &str| {
        let message = format!(
            "{typed}: the folder of components cannot be read: {why}; name its files one by one"
        );
        Refusal::new(ErrorCode::FolderUnreadable, message)
    };
    let state = watching::stamp(&target.path);
    let found = match target.name {
        None if !target.is_installed() => {
            folder::components(&target.path).map_err(|error| unreadable(&error.to_string()))?
        }
        _ => None,
    };
    let Some(files) = found else {
        return Ok(vec![NamedTool {
            target,
            typed,
            timeout,
            folder: None,
        }]);
    };
    let one = |file: PathBuf| -> Result<NamedTool, Refusal> {
        let text = file
            .to_str()
            .ok_or_else(|| unreadable("the name of a file is not UTF-8"))?;
        let folder = Some((target.path.clone(), state));
        Ok(NamedTool {
            target: Target::parse(text),
            typed: text.to_owned(),
            timeout,
            folder,
        })
    };
    files.into_iter().map(one).collect()
}
