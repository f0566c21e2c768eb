//! Whose page it is: nothing else of the stores exists for its user.

use std::sync::Arc;

use toolcell_spec::InvocationId;
use toolcell_workspace::{Workspace, WorkspaceName, WorkspaceOwner, Workspaces};

use crate::layout::PageProblem;

/// Who looks at the page.
#[derive(Clone, Debug)]
pub enum PageUser {
    /// The user of the home, to whom all of it belongs.
    Owner,
    /// A caller or an approver of a server.
    Principal(PagePrincipal),
}

/// What a server says of one of its callers or approvers.
#[derive(Clone, Debug)]
pub struct PagePrincipal {
    /// As records have it, such as `token:anna`.
    pub name: Arc<str>,
    /// `false` for an approver, which has no calls, tools and workspaces.
    pub is_caller: bool,
    /// Callers whose questions it may answer, itself never among them.
    pub approves: Arc<[Arc<str>]>,
}

impl PageUser {
    /// The only caller whose calls are shown; `None` for all.
    pub(crate) fn caller(&self) -> Option<String> {
        match self {
            Self::Principal(own) if guard!("page_owner") => Some(own.name.to_string()),
            _ => None,
        }
    }

    /// `true` for a call of `actor`.
    pub(crate) fn has_call(&self, actor: Option<&str>) -> bool {
        match self {
            Self::Owner => true,
            Self::Principal(own) => actor == Some(&*own.name) || !guard!("page_owner"),
        }
    }

    /// `true` if it may answer a question about a call of `actor`.
    pub(crate) fn answers(&self, actor: Option<&str>) -> bool {
        match self {
            Self::Owner => true,
            Self::Principal(own) => own.approves.iter().any(|one| actor == Some(&**one)),
        }
    }

    /// Whose questions it may see: those that it may answer, and its own; `None` for all.
    pub(crate) fn asked_by(&self) -> Option<Vec<Arc<str>>> {
        let Self::Principal(own) = self else {
            return None;
        };
        let mut callers = own.approves.to_vec();
        callers.extend(own.is_caller.then(|| Arc::clone(&own.name)));
        Some(callers).filter(|_| guard!("page_question"))
    }

    /// The end of an id names a call to the owner; to others it would tell of calls that are not theirs.
    pub(crate) fn names_call(&self, id: &str) -> bool {
        matches!(self, Self::Owner) || id.parse::<InvocationId>().is_ok()
    }

    pub(crate) fn is_caller(&self) -> bool {
        match self {
            Self::Owner => true,
            Self::Principal(own) => own.is_caller,
        }
    }

    pub(crate) fn principal(&self) -> Option<&PagePrincipal> {
        match self {
            Self::Owner => None,
            Self::Principal(own) => Some(own),
        }
    }
}

/// The workspaces of a page's user.
#[derive(Clone, Debug)]
pub struct PageWorkspaces {
    pub all: Workspaces,
    pub owner: WorkspaceOwner,
    /// The only one that there is; `None` for all of the owner's.
    pub only: Option<WorkspaceName>,
}

impl PageWorkspaces {
    pub(crate) fn list(&self) -> Result<Vec<Workspace>, PageProblem> {
        let mut found = self.all.list(&self.owner)?;
        if let Some(only) = &self.only {
            found.retain(|workspace| workspace.name() == only);
        }
        Ok(found)
    }

    pub(crate) fn open(&self, name: &str) -> Result<Workspace, PageProblem> {
        let unknown = || PageProblem::unknown("there is no workspace of this name");
        let name: WorkspaceName = name.parse().map_err(|_| unknown())?;
        if self.only.as_ref().is_some_and(|only| *only != name) && guard!("page_workspace") {
            return Err(unknown());
        }
        Ok(self.all.open(&self.owner, &name)?)
    }
}
