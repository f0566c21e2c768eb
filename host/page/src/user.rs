//! The user of a page. Nothing but its own exists for it.

use std::sync::Arc;

use toolcell_spec::{InvocationId, Refusal};
use toolcell_workspace::{Workspace, WorkspaceName};

/// The user of a page.
#[derive(Clone, Debug)]
pub enum PageUser {
    /// The user of the home, to whom all of it belongs.
    Owner,
    /// A caller or an approver of a server.
    Principal(PagePrincipal),
}

/// A caller or an approver of a server.
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

    /// Callers whose questions it may see: it may answer them, or asked itself; `None` for all.
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
pub trait UserWorkspaces: Send + Sync {
    /// # Errors
    ///
    /// Failures of the file system.
    fn list(&self) -> Result<Vec<Workspace>, Refusal>;

    /// # Errors
    ///
    /// `unknown_workspace`, and failures of the file system.
    fn open(&self, name: &WorkspaceName) -> Result<Workspace, Refusal>;
}
