//! PAGE. A user's calls, approvals, tools and workspaces in a browser.
//!
//! The page is rendered here, and executes nothing: an answer to an approval and a call to try a tool are commands of the
//! program, run as the user would. Everything that tools, callers and files say is shown as text.

#[macro_use(guard)]
extern crate toolcell_spec;

mod access;
mod assets;
mod diff;
mod json_tree;
mod layout;
mod live;
mod program;
mod route;
mod serving;
mod text;
mod view;
pub mod waiting;
pub mod words;

use std::sync::Arc;

use toolcell::Home;
use toolcell_journal::{CallLog, Journal, PayloadStore};
use toolcell_spec::Refusal;
use toolcell_system::pool::STORE;
use toolcell_workspace::Workspaces;

use access::Access;
use layout::PageProblem;
use live::LiveChanges;
pub use program::Program;
pub use serving::{InspectPage, serve};

/// The stores that the views read, and the program that acts for them.
pub(crate) struct PageState {
    pub(crate) access: Access,
    pub(crate) log: CallLog,
    pub(crate) journal: Journal,
    pub(crate) payloads: PayloadStore,
    pub(crate) workspaces: Workspaces,
    pub(crate) program: Program,
    pub(crate) changes: LiveChanges,
}

impl PageState {
    pub(crate) fn new(home: &Home, log: CallLog, program: Program, access: Access) -> Self {
        Self {
            access,
            log,
            journal: Journal::new(home.journal(), home.journal_key()),
            payloads: PayloadStore::new(home.payloads()),
            workspaces: Workspaces::new(home.workspaces()),
            program,
            changes: LiveChanges::default(),
        }
    }

    /// Reads and renders on a thread for the host's own store.
    pub(crate) async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, PageProblem> + Send + 'static,
    ) -> Result<T, PageProblem> {
        let state = Arc::clone(self);
        let done = STORE.run(move || work(&state)).await;
        done.unwrap_or_else(|error| Err(PageProblem::failed(&error)))
    }
}

impl From<Refusal> for PageProblem {
    fn from(refusal: Refusal) -> Self {
        Self::refused(&refusal)
    }
}
