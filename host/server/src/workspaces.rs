//! Which workspace a call of a client has. What a client names is one of its own: nobody's else exists for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde_json::Value;
use toolcell::CallWorkspace;
use toolcell_engine::pipeline::call_workspace;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_workspace::{
    OnFailure, Workspace, WorkspaceName, WorkspaceOwner, WorkspaceSettings, Workspaces,
};

/// In `_meta` of a call: the name of the workspace.
const META: &str = "toolcell/workspace";
/// Without a name of the client's.
const DEFAULT: &str = "default";
/// Of one owner: a client could make one after the other.
const WORKSPACES_MAX: usize = 100;
/// Between two searches for workspaces whose time is over.
const SWEEP: Duration = Duration::from_secs(10 * 60);

/// Whose calls share a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceSharing {
    /// The calls of one session of MCP; where there are no sessions, of one caller.
    Session,
    /// Those of one caller.
    Principal,
    /// All: this one of the user of the home.
    One(WorkspaceName),
}

/// Gives the calls of a server their workspaces.
#[derive(Debug)]
pub struct WorkspaceService {
    workspaces: Workspaces,
    sharing: WorkspaceSharing,
    settings: WorkspaceSettings,
    on_failure: OnFailure,
    swept: Mutex<Option<Instant>>,
}

impl WorkspaceService {
    /// New workspaces get `settings`.
    pub fn new(
        workspaces: Workspaces,
        sharing: WorkspaceSharing,
        settings: WorkspaceSettings,
        on_failure: OnFailure,
    ) -> Self {
        Self {
            workspaces,
            sharing,
            settings,
            on_failure,
            swept: Mutex::default(),
        }
    }

    /// Whose workspaces a client sees.
    pub(super) fn owner(&self, principal: &str, session: Option<&str>) -> WorkspaceOwner {
        match (&self.sharing, session) {
            _ if !guard!("workspace_owner") => WorkspaceOwner::user(),
            (WorkspaceSharing::One(_), _) => WorkspaceOwner::user(),
            (WorkspaceSharing::Session, Some(session)) => WorkspaceOwner::session(session),
            (WorkspaceSharing::Session | WorkspaceSharing::Principal, _) => {
                WorkspaceOwner::principal(principal)
            }
        }
    }

    /// Nobody can come back to the files of a session that ended.
    pub(super) fn session_ended(self: Arc<Self>, session: &str) {
        let owner = WorkspaceOwner::session(session);
        if self.sharing == WorkspaceSharing::Session && self.workspaces.has_any(&owner) {
            // Many files may take long; what is left when the process ends is removed once its time is over.
            std::thread::spawn(move || self.workspaces.remove_all(&owner));
        }
    }

    /// The workspace of a call, made if there is none; `named` is the client's word for it. Blocks.
    ///
    /// # Errors
    ///
    /// A name that is none, or that of no workspace which the client may have; failures of the file system.
    pub(super) fn for_call(
        &self,
        owner: &WorkspaceOwner,
        named: Option<&str>,
    ) -> Result<Arc<Workspace>, Refusal> {
        let name = self.name(named)?;
        let workspace = match self.workspaces.open(owner, &name) {
            Err(refusal) if refusal.code == ErrorCode::UnknownWorkspace => {
                self.sweep();
                self.has_room(owner)?;
                self.workspaces
                    .open_or_create(owner, &name, &self.settings)?
            }
            opened => opened?,
        };
        Ok(Arc::new(workspace))
    }

    pub(super) fn given(&self, workspace: Arc<Workspace>) -> CallWorkspace {
        call_workspace(workspace, self.on_failure)
    }

    /// One that is there.
    ///
    /// # Errors
    ///
    /// As [`Self::for_call`], and `unknown_workspace`.
    pub(super) fn open(
        &self,
        owner: &WorkspaceOwner,
        named: Option<&str>,
    ) -> Result<Workspace, Refusal> {
        self.workspaces.open(owner, &self.name(named)?)
    }

    /// # Errors
    ///
    /// Failures of the file system.
    pub(super) fn list(&self, owner: &WorkspaceOwner) -> Result<Vec<Workspace>, Refusal> {
        let mut found = self.workspaces.list(owner)?;
        if let WorkspaceSharing::One(only) = &self.sharing {
            found.retain(|workspace| workspace.name() == only);
        }
        Ok(found)
    }

    /// # Errors
    ///
    /// As [`Self::open`].
    pub(super) fn remove(&self, owner: &WorkspaceOwner, named: &str) -> Result<(), Refusal> {
        self.workspaces.remove(owner, &self.name(Some(named))?)
    }

    /// # Errors
    ///
    /// As [`Self::open`], `workspace_exists`, and `workspace_full` if the client has too many.
    pub(super) fn fork(
        &self,
        owner: &WorkspaceOwner,
        named: &str,
        new: &WorkspaceName,
    ) -> Result<Workspace, Refusal> {
        let name = self.name(Some(named))?;
        let new = self.name(Some(new.as_str()))?;
        self.has_room(owner)?;
        self.workspaces.fork(owner, &name, &new)
    }

    fn name(&self, named: Option<&str>) -> Result<WorkspaceName, Refusal> {
        let name = named.map(str::parse).transpose()?;
        match (&self.sharing, name) {
            (WorkspaceSharing::One(only), Some(name))
                if name != *only && guard!("workspace_one") =>
            {
                let message = format!("there is no workspace {name}; leave its name out");
                Err(Refusal::new(ErrorCode::UnknownWorkspace, message))
            }
            (WorkspaceSharing::One(only), _) => Ok(only.clone()),
            (_, Some(name)) => Ok(name),
            (_, None) => DEFAULT.parse(),
        }
    }

    fn has_room(&self, owner: &WorkspaceOwner) -> Result<(), Refusal> {
        if self.workspaces.list(owner)?.len() < WORKSPACES_MAX {
            return Ok(());
        }
        let message = format!("you have {WORKSPACES_MAX} workspaces; remove some first");
        Err(Refusal::new(ErrorCode::WorkspaceFull, message))
    }

    /// Those of sessions that nobody comes back to.
    fn sweep(&self) {
        let mut swept = self.swept.lock();
        if swept.is_none_or(|at| at.elapsed() >= SWEEP) {
            *swept = Some(Instant::now());
            self.workspaces.sweep();
        }
    }
}

pub(super) fn named(context: &RequestContext<RoleServer>) -> Option<&str> {
    context.meta.get(META).and_then(Value::as_str)
}
