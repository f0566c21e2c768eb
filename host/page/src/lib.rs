//! PAGE. Calls, approvals, tools and workspaces in a browser, for the user of a home or a principal of a server.
//!
//! The page is rendered here, and executes nothing: an answer to an approval and a call to try a tool are commands of the
//! program, or requests to the server. Everything that tools, callers and files say is shown as text.

#[macro_use(guard)]
extern crate toolcell_spec;

mod actions;
mod assets;
mod cookie;
mod diff;
mod inspect;
mod json_tree;
mod layout;
mod live;
mod origin;
mod route;
mod text;
mod user;
mod view;
pub mod waiting;
pub mod words;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use maud::Markup;
use toolcell_journal::{CallLog, Journal, PayloadStore};
use toolcell_spec::Refusal;
use toolcell_system::pool::{GUEST_FILES, PAGE, PoolState};

pub use actions::{DescribedTool, PageActions, PageAnswer, PageCommands, PageFuture, ToolRow};
pub use assets::asset;
pub use cookie::{cookies, secret, session_cookie};
pub use inspect::{InspectPage, Program, serve};
pub use layout::{PageProblem, sign_in};
pub use live::LiveChanges;
pub use origin::is_own;
pub use route::{guarded, is_view, views};
pub use user::{PagePrincipal, PageUser, UserWorkspaces};

use layout::{Place, ShownPage};

/// The page of one user: the stores that the views read, and who acts. An extension of each request for [`views`].
pub struct PageState {
    pub user: PageUser,
    pub log: CallLog,
    pub journal: Journal,
    pub payloads: PayloadStore,
    /// `None` if the user has none.
    pub workspaces: Option<Arc<dyn UserWorkspaces>>,
    /// Of a form with files.
    pub upload_bytes_max: usize,
    pub actions: Arc<dyn PageActions>,
    pub changes: Arc<LiveChanges>,
}

impl PageState {
    /// Reads and renders on a thread for it.
    pub(crate) async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, PageProblem> + Send + 'static,
    ) -> Result<T, PageProblem> {
        self.on(&PAGE, work).await
    }

    /// Works with files of a workspace, which can take long.
    pub(crate) async fn with_files<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, PageProblem> + Send + 'static,
    ) -> Result<T, PageProblem> {
        self.on(&GUEST_FILES, work).await
    }

    async fn on<T: Send + 'static>(
        self: &Arc<Self>,
        pool: &'static PoolState,
        work: impl FnOnce(&Self) -> Result<T, PageProblem> + Send + 'static,
    ) -> Result<T, PageProblem> {
        let state = Arc::clone(self);
        let done = pool.run(move || work(&state)).await;
        let done = done.unwrap_or_else(|error| Err(PageProblem::busy(error.to_string())));
        done.map_err(|problem| problem.told_to(&self.user))
    }

    /// The document of a view.
    pub(crate) fn page(
        &self,
        title: &str,
        place: Place,
        body: &Markup,
    ) -> Result<Response, PageProblem> {
        let commands = self.actions.commands();
        let shown = ShownPage {
            user: &self.user,
            waiting: live::waiting(&self.user, &self.journal)?,
            has_machines: commands.is_some_and(PageCommands::has_machines),
        };
        Ok(layout::page(title, place, Some(&shown), body))
    }
}

/// The page of whoever sent the request.
pub(crate) struct OwnPage(pub(crate) Arc<PageState>);

impl<S: Sync> FromRequestParts<S> for OwnPage {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageProblem> {
        let state = parts.extensions.get::<Arc<PageState>>().cloned();
        let nobody = || PageProblem::unknown("there is nothing here");
        state.map(Self).ok_or_else(nobody)
    }
}

impl From<Refusal> for PageProblem {
    fn from(refusal: Refusal) -> Self {
        Self::refused(&refusal)
    }
}
