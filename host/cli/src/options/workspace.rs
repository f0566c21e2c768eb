//! The workspaces of calls, servers and sessions.

use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use toolcell::{CallWorkspace, Home};
use toolcell_config::{WorkspaceConfig, WorkspaceScope};
use toolcell_engine::pipeline::call_workspace;
use toolcell_server::{WorkspaceService, WorkspaceSharing};
use toolcell_spec::Refusal;
use toolcell_workspace::{OnFailure, WorkspaceOwner, Workspaces};

/// The files that the tool keeps between calls.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Grants")]
pub(crate) struct WorkspaceOptions {
    /// Keep files between calls in a workspace, which tools see as /workspace and where relative paths start; created if
    /// missing (see `toolcell workspace`). Without NAME, each session of a server gets its own
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    workspace: Option<String>,
    /// Restore the workspace if the call does not succeed
    #[arg(long, requires = "workspace")]
    workspace_rollback: bool,
}

impl WorkspaceOptions {
    /// The workspace of the user of `home`.
    ///
    /// # Errors
    ///
    /// Failures of the file system.
    pub(crate) fn open(&self, home: &Home) -> Result<Option<CallWorkspace>, Refusal> {
        let Some(name) = &self.workspace else {
            return Ok(None);
        };
        let given = home.workspace(name)?;
        Ok(Some(match self.on_failure() {
            Some(OnFailure::RollBack) => given.rolled_back(),
            Some(OnFailure::Keep) | None => given,
        }))
    }

    /// As [`Self::open`], for a call that another process began: the files of its session are gone.
    pub(crate) fn open_again(&self, home: &Home) -> Result<Option<CallWorkspace>, Refusal> {
        if self.workspace.as_deref() == Some("") {
            return Ok(None);
        }
        self.open(home)
    }

    fn on_failure(&self) -> Option<OnFailure> {
        self.workspace_rollback.then_some(OnFailure::RollBack)
    }

    /// The workspaces that a server gives to its calls: by these options, and else by `config`.
    pub(crate) fn service(
        &self,
        home: &Home,
        mut config: WorkspaceConfig,
    ) -> Result<Option<Arc<WorkspaceService>>, Refusal> {
        let sharing = match self.workspace.as_deref() {
            Some("") => {
                config.scope = WorkspaceScope::Session;
                WorkspaceSharing::Session
            }
            Some(name) => WorkspaceSharing::One(name.parse()?),
            None => match config.scope {
                WorkspaceScope::None => return Ok(None),
                WorkspaceScope::Session => WorkspaceSharing::Session,
                WorkspaceScope::Principal => WorkspaceSharing::Principal,
            },
        };
        let config = config.served();
        let on_failure = self.on_failure().unwrap_or(config.on_failure);
        let workspaces = Workspaces::new(home.workspaces());
        let service = WorkspaceService::new(workspaces, sharing, config.settings, on_failure);
        Ok(Some(Arc::new(service)))
    }

    /// As [`Self::service`], for the sessions of managed agents.
    pub(crate) fn of_sessions(
        &self,
        home: &Home,
        mut config: WorkspaceConfig,
    ) -> SessionWorkspaces {
        config.on_failure = self.on_failure().unwrap_or(config.on_failure);
        SessionWorkspaces {
            workspaces: Workspaces::new(home.workspaces()),
            one: self.workspace.clone().filter(|name| !name.is_empty()),
            config,
        }
    }
}

/// Gives each session of managed agents a workspace of the user, under its id, or all of them one.
#[derive(Clone, Debug)]
pub(crate) struct SessionWorkspaces {
    workspaces: Workspaces,
    one: Option<String>,
    config: WorkspaceConfig,
}

impl SessionWorkspaces {
    /// Blocks.
    ///
    /// # Errors
    ///
    /// Failures of the file system.
    pub(crate) fn open(&self, session: &str) -> Result<CallWorkspace, Refusal> {
        let name = self.one.as_deref().unwrap_or(session).parse()?;
        let owner = WorkspaceOwner::user();
        self.workspaces.sweep();
        let settings = &self.config.settings;
        let opened = self.workspaces.open_or_create(&owner, &name, settings)?;
        Ok(call_workspace(Arc::new(opened), self.config.on_failure))
    }
}
