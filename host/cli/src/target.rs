//! Resolves TOOL on the command line to a component. Building a source folder runs its code as the user, outside of any
//! sandbox, so it needs the user's consent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use toolcell::{ComponentTools, Home};
use toolcell_config::{self as config, ConfigLayer, InstalledComponent, InstalledNames};
use toolcell_engine::approval::legible;
use toolcell_engine::catalog::{Tool, pick};
use toolcell_engine::find::SELECT;
use toolcell_engine::pipeline::Callee;
use toolcell_install::lock::is_name;
use toolcell_install::package::PackageInfo;
use toolcell_install::store;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_toolchain::{
    self as toolchain, BuildOutcome, BuildSettings, BuildState, Language, Preference,
    ToolchainSearch,
};

use super::{bundled, folder, terminal};

/// A path or an installed name, and the name of one of its tools.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    pub(crate) name: Option<String>,
    typed: String,
    /// `None` unless the name is an installed tool's.
    installed: Option<Result<InstalledComponent, Refusal>>,
}

impl Target {
    /// An installed name precedes a path, because a file that a tool creates must not take its place; `./NAME` is the
    /// path.
    pub(crate) fn named(typed: &str, names: &InstalledNames) -> Self {
        Self::installed(typed, |name| names.find(name)).unwrap_or_else(|| Self::parse(typed))
    }

    fn installed(
        typed: &str,
        find: impl FnOnce(&str) -> Option<Result<InstalledComponent, Refusal>>,
    ) -> Option<Self> {
        let (word, name) = match typed.split_once('#') {
            Some((word, name)) => (word, Some(name.to_owned())),
            None => (typed, None),
        };
        let found = find(word)?;
        let path = found
            .as_ref()
            .map_or_else(|_| PathBuf::from(word), |found| found.file.clone());
        Some(Self {
            path,
            name,
            typed: typed.to_owned(),
            installed: Some(found),
        })
    }

    pub(crate) fn declared(layer: &ConfigLayer, name: &str, names: &InstalledNames) -> Self {
        let config = &layer.file.path;
        let find = |name: &str| {
            Some(
                names
                    .find_beside(config, name)
                    .unwrap_or_else(|| Err(config::not_installed(name, config))),
            )
        };
        Self::installed(name, find).unwrap_or_else(|| Self::parse(name))
    }

    pub(crate) fn found(&self) -> Option<&InstalledComponent> {
        self.installed.as_ref()?.as_ref().ok()
    }

    pub(crate) fn is_installed(&self) -> bool {
        self.installed.is_some()
    }

    pub(crate) fn shown(&self) -> String {
        match &self.installed {
            Some(_) => self.typed.split('#').next().unwrap_or_default().to_owned(),
            None => self.path.display().to_string(),
        }
    }

    /// Fails if an installed tool was loaded from other bytes than those installed.
    pub(crate) fn check(&self, loaded: &ComponentTools) -> Result<(), Refusal> {
        let Some(found) = self.found() else {
            return Ok(());
        };
        let expected = found.component.to_string();
        match loaded
            .tools
            .iter()
            .find(|tool| **tool.component() != *expected)
        {
            Some(tool) if guard!("store_digests") => Err(store::changed(
                &found.file,
                &format!("its bytes have the digest {}", tool.component()),
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn parse(typed: &str) -> Self {
        let whole = Path::new(typed);
        let (path, name) = match typed.rsplit_once('#') {
            Some((path, name)) if !whole.exists() => (PathBuf::from(path), Some(name.to_owned())),
            _ => (whole.to_owned(), None),
        };
        let path = bundled::component(&path).unwrap_or(path);
        Self {
            path,
            name,
            typed: typed.to_owned(),
            installed: None,
        }
    }

    /// A folder that was never built is built if `building` allows it, else refused. One that changed since is used as
    /// built, unless `building` is [`BuildPermission::Yes`].
    pub(crate) fn locate(
        &self,
        home: &Home,
        building: BuildPermission,
    ) -> Result<PathBuf, Refusal> {
        match &self.installed {
            Some(Err(refusal)) => return Err(refusal.clone()),
            Some(Ok(found)) if !self.path.exists() => return Err(store::missing(&found.component)),
            _ => {}
        }
        let metadata = std::fs::metadata(&self.path).map_err(|error| {
            let none = if is_name(&self.typed) {
                "; no installed tool has that name either (see `toolcell list`)"
            } else {
                ""
            };
            let message = format!("no tool at {}: {error}{none}", self.path.display());
            Refusal::new(ErrorCode::UnknownTool, message)
        })?;
        if !metadata.is_dir() {
            return Ok(self.path.clone());
        }
        match self.standing(home)? {
            BuildState::Built(component) => Ok(component),
            BuildState::Outdated(..) if building == BuildPermission::Yes => self.build(home),
            // What was built was agreed to, so it runs, whatever its sources are now.
            BuildState::Outdated(component, why) => {
                note_age(&self.path, &why);
                Ok(component)
            }
            BuildState::NotBuilt(why) if building.is_agreed(&self.path, &why) => self.build(home),
            BuildState::NotBuilt(why) => Err(not_built(&self.path, &why, building)),
        }
    }

    fn standing(&self, home: &Home) -> Result<BuildState, Refusal> {
        if Language::detect(&self.path).is_none() {
            let message = toolchain::no_project(&self.path);
            return Err(Refusal::new(ErrorCode::NotAToolFolder, message));
        }
        Ok(toolchain::standing(&self.path, &home.builds()))
    }

    fn build(&self, home: &Home) -> Result<PathBuf, Refusal> {
        build(&self.path, home)
            .map_err(|error| Refusal::new(ErrorCode::BuildFailed, format!("{error:#}")))?;
        match self.standing(home)? {
            // A source that changed during the build and that it did not read is one for the next.
            BuildState::Built(component) | BuildState::Outdated(component, _) => Ok(component),
            BuildState::NotBuilt(why) => Err(not_built(&self.path, &why, BuildPermission::No)),
        }
    }

    pub(crate) fn source_folder(&self) -> Option<&Path> {
        (!self.is_installed() && self.path.is_dir()).then_some(self.path.as_path())
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match &self.installed {
            Some(Ok(found)) => return vec![found.file.clone()],
            // A file of that name is not what was installed.
            Some(Err(_)) => return Vec::new(),
            None => {}
        }
        let of_folder = folder::components(&self.path).ok().flatten();
        of_folder.unwrap_or_else(|| vec![self.path.clone()])
    }

    /// An installed tool, or a path.
    pub(crate) fn of_entry(layer: &ConfigLayer, component: &str, names: &InstalledNames) -> Self {
        Self::installed(component, |name| names.find_beside(&layer.file.path, name))
            .unwrap_or_else(|| Self::parse(&layer.file.folder.join(component).to_string_lossy()))
    }

    pub(crate) fn tools(&self, loaded: &ComponentTools) -> Result<Vec<Arc<Tool>>, Refusal> {
        self.check(loaded)?;
        match self.name {
            None => Ok(loaded.tools.clone()),
            Some(_) => self
                .find(loaded, self.name.as_deref())
                .map(|tool| vec![tool]),
        }
    }

    /// Fails if no tool is selected, or if the choice is ambiguous. `select:` before the name loads a deferred tool
    /// (AT-DEF-17).
    pub(crate) fn choose(&self, loaded: &ComponentTools) -> Result<Callee, Refusal> {
        let typed = self.name.as_deref();
        let selected = typed.and_then(|name| name.strip_prefix(SELECT));
        let name = selected.or(typed);
        let tool = self.find(loaded, name)?;
        let mut callee = Callee::from(Arc::clone(&tool));
        if selected.is_some() {
            callee = callee.loaded(true);
        }
        Ok(match name {
            // An alias is kept, because the record says by which name the tool was called. The host does not look it up,
            // because a tool of another component may have the same name.
            Some(name) if tool.declaration().aliases.iter().any(|alias| alias == name) => {
                callee.called(name)
            }
            _ => callee,
        })
    }

    fn find(&self, loaded: &ComponentTools, name: Option<&str>) -> Result<Arc<Tool>, Refusal> {
        self.check(loaded)?;
        let refuse = |what: &str| {
            // Only available tools are suggested, not deprecated ones.
            let offered = loaded.tools.iter().filter(|tool| tool.is_offered());
            let choices: Vec<String> = offered
                .map(|tool| format!("{}#{}", self.shown(), tool.declaration().name))
                .collect();
            let message = format!("{what}; use one of: {}", choices.join(", "));
            Refusal::new(ErrorCode::UnknownTool, message)
        };
        match (name, loaded.tools.as_slice()) {
            (None, [tool]) => Ok(Arc::clone(tool)),
            (None, tools) => {
                // Of `shell` and `shell_online`, the one that is called as the component is meant.
                let mut own = tools.iter().filter(|tool| {
                    let declared = tool.declaration();
                    declared.name == declared.namespace
                });
                match (own.next(), own.next()) {
                    (Some(tool), None) => Ok(Arc::clone(tool)),
                    _ => Err(refuse(&format!("{} has several tools", self.typed))),
                }
            }
            (Some(name), tools) => pick(tools, name)?
                .ok_or_else(|| refuse(&format!("{} has no tool `{name}`", self.shown()))),
        }
    }
}

const FOLDER_ROWS_MAX: usize = 2;
const WHY_ROWS_MAX: usize = 4;

/// Building runs the folder's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildPermission {
    /// Looking at a tool, or serving it, builds nothing.
    No,
    Asked,
    Yes,
}

impl BuildPermission {
    fn is_agreed(self, folder: &Path, why: &str) -> bool {
        match self {
            Self::No => !guard!("building_is_consent"),
            Self::Yes => true,
            Self::Asked => terminal::agrees("Build it?", |sheet| {
                sheet.host("This source folder is not built:");
                sheet.value("folder", &folder.display().to_string(), FOLDER_ROWS_MAX);
                // The reason names a changed file, whose name is untrusted.
                sheet.value("because", why, WHY_ROWS_MAX);
                for row in building(folder) {
                    sheet.host(&row);
                }
            }),
        }
    }
}

fn building(folder: &Path) -> Vec<String> {
    let lang = Language::detect(folder);
    let mut rows = match lang.filter(|lang| lang.name() != "rust") {
        Some(lang) => {
            vec![format!(
                "Building runs the toolchain of {} on it as you, outside of the sandbox.",
                lang.title()
            )]
        }
        None => vec![
            "A build runs native code as you, outside the sandbox: build scripts and".to_owned(),
            "macros, its own and those of everything that it depends on.".to_owned(),
        ],
    };
    let preference = Preference::from_env().unwrap_or_default();
    let search = Home::find().map(|home| ToolchainSearch {
        dir: folder.to_owned(),
        ..ToolchainSearch::new(preference, home.cache())
    });
    let fetches = lang
        .zip(search.ok())
        .map(|(lang, search)| lang.fetches(&search))
        .unwrap_or_default();
    rows.extend(
        fetches
            .into_iter()
            .map(|fetch| format!("It fetches {fetch}.")),
    );
    rows
}

/// Once for each folder.
fn note_age(folder: &Path, why: &str) {
    static NOTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let fresh = NOTED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(folder.to_owned());
    if fresh {
        let folder = folder.display();
        let why = legible(why);
        let note = format!(
            "note: {folder} is older than its sources: {why}; `toolcell build {folder}` builds it again"
        );
        super::show::say(&note);
    }
}

fn not_built(folder: &Path, why: &str, building: BuildPermission) -> Refusal {
    let folder = folder.display();
    let why = legible(why);
    let or = if building == BuildPermission::No {
        ""
    } else {
        ", or add --build"
    };
    let message = format!(
        "{folder} is a source folder that is not built: {why}. Building runs its code as you: look at it, \
         then run `toolcell build {folder}`{or}"
    );
    Refusal::new(ErrorCode::NotBuilt, message)
}

pub(crate) fn build_settings(home: &Home) -> anyhow::Result<BuildSettings> {
    let search = ToolchainSearch::new(Preference::from_env()?, home.cache());
    Ok(BuildSettings {
        target_dir: Some(home.compiling()),
        sdk: Some(toolchain::write_sdk(home.folder())?),
        sections: PackageInfo::sections_of,
        ..BuildSettings::new(search, home.builds())
    })
}

pub(crate) fn build(dir: &Path, home: &Home) -> anyhow::Result<BuildOutcome> {
    toolchain::build(dir, &build_settings(home)?, &mut super::show::say)
}
