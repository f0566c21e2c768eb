//! The folder that holds toolcell's state.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use etcetera::BaseStrategy;
use toolcell_engine::pipeline::{CallWorkspace, call_workspace};
use toolcell_spec::Refusal;
use toolcell_workspace::{OnFailure, WorkspaceOwner, WorkspaceSettings, Workspaces};

/// The folder that holds all state.
///
/// ```
/// let home = toolcell::Home::at("/var/lib/agent/toolcell");
/// assert!(home.payloads().starts_with(home.folder()));
/// ```
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl<P: Into<PathBuf>> From<P> for Home {
    fn from(folder: P) -> Self {
        Self(folder.into())
    }
}

impl Home {
    /// The environment variable that names the folder.
    pub const VARIABLE: &str = "TOOLCELL_HOME";

    /// The user's own settings.
    pub const SETTINGS_FILE: &str = "toolcell.toml";

    /// Returns the folder that `TOOLCELL_HOME` names, or else `toolcell` in the platform's data folder.
    ///
    /// # Errors
    ///
    /// The platform names no data folder, for example because `HOME` is not set.
    pub fn find() -> anyhow::Result<Self> {
        if let Some(home) = std::env::var_os(Self::VARIABLE).filter(|home| !home.is_empty()) {
            let home = std::path::absolute(&home)
                .with_context(|| format!("cannot find the folder of {}", Self::VARIABLE))?;
            return Ok(Self(home));
        }
        let base = base("a folder for toolcell's data")?;
        Ok(Self(base.data_dir().join("toolcell")))
    }

    /// `folder` is created when it is needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the user's own `toolcell.toml`, whether it exists or not: in the folder that `TOOLCELL_HOME`
    /// names, else in the platform's configuration folder.
    ///
    /// # Errors
    ///
    /// The platform names no configuration folder.
    pub fn user_file(&self) -> anyhow::Result<PathBuf> {
        if std::env::var_os(Self::VARIABLE).is_some_and(|home| !home.is_empty()) {
            return Ok(self.0.join(Self::SETTINGS_FILE));
        }
        let base = base("the folder for configuration")?;
        Ok(base.config_dir().join("toolcell").join(Self::SETTINGS_FILE))
    }

    /// The folders of state and of the user's configuration, canonical: no grant may reach them.
    pub fn protected(&self) -> Vec<PathBuf> {
        let config = self
            .user_file()
            .ok()
            .and_then(|file| file.parent().map(Path::to_owned));
        let folders = [Some(self.0.clone()), config].into_iter().flatten();
        let mut folders: Vec<PathBuf> = folders
            .map(|folder| folder.canonicalize().unwrap_or(folder))
            .collect();
        folders.dedup();
        folders
    }

    /// Can be created again: compiled components, the toolchain for guests.
    pub fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    pub fn components(&self) -> PathBuf {
        self.cache().join("components")
    }

    /// Not beside the sources of tools, where a tool with a grant could replace a compiled build script.
    pub fn compiling(&self) -> PathBuf {
        self.cache().join("builds")
    }

    /// Components built with the user's consent, and records of their sources.
    pub fn builds(&self) -> PathBuf {
        self.0.join("builds")
    }

    /// Authenticates compiled components; kept apart from them.
    pub fn component_key(&self) -> PathBuf {
        self.0.join("keys").join("components")
    }

    /// Calls for which an approval was requested.
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    /// The log of all calls.
    pub fn calls(&self) -> PathBuf {
        self.journal().join("calls")
    }

    /// Links the lines of the log of calls; kept apart from it.
    pub fn calls_key(&self) -> PathBuf {
        self.0.join("keys").join("calls")
    }

    /// The seed of the key with which this gateway of a cluster signs its calls.
    pub fn cluster_key(&self) -> PathBuf {
        self.0.join("keys").join("cluster")
    }

    /// Seals what calls in the journal would run with; kept apart from it.
    pub fn journal_key(&self) -> PathBuf {
        self.0.join("keys").join("journal")
    }

    /// Folders that live as long as one call.
    pub fn scratch(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// Project files that the user has trusted.
    pub fn trusted(&self) -> PathBuf {
        self.0.join("trusted")
    }

    /// The secrets are sealed.
    pub fn secrets(&self) -> PathBuf {
        self.0.join("secrets").join("store")
    }

    /// Seals the secrets; kept apart from them.
    pub fn secret_key(&self) -> PathBuf {
        self.0.join("keys").join("secrets")
    }

    /// Returns the workspace `name` of the user of this home, for [`CallContext`](crate::CallContext); makes it if there is
    /// none.
    ///
    /// # Errors
    ///
    /// A name that is none, and failures of the file system.
    pub fn workspace(&self, name: &str) -> Result<CallWorkspace, Refusal> {
        let workspaces = Workspaces::new(self.workspaces());
        let settings = WorkspaceSettings::default();
        let owner = WorkspaceOwner::user();
        let workspace = workspaces.open_or_create(&owner, &name.parse()?, &settings)?;
        Ok(call_workspace(Arc::new(workspace), OnFailure::Keep))
    }

    /// What the callers of servers have used of their quotas today.
    pub fn quotas(&self) -> PathBuf {
        self.0.join("quotas.json")
    }

    /// The calls of managed agents that began, for each environment and session.
    pub fn managed(&self) -> PathBuf {
        self.0.join("managed")
    }

    /// Files that callers keep between calls.
    pub fn workspaces(&self) -> PathBuf {
        self.0.join("workspaces")
    }

    /// Results that were too large to stay inline.
    pub fn payloads(&self) -> PathBuf {
        self.0.join("payloads")
    }
}

/// The platform's folders, of which `what` is wanted.
fn base(what: &str) -> anyhow::Result<impl BaseStrategy> {
    let variable = Home::VARIABLE;
    etcetera::choose_base_strategy()
        .with_context(|| format!("cannot find {what}; set {variable} to choose one"))
}
