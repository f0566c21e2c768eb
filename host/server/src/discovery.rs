//! The host's own tools, which search and load the tools that are not listed (AT-DEF-12..18).

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProtocolVersion};
use rmcp::service::RequestContext;
use toolcell_dialect::mcp::{self, LOAD_TOOL, LoadArguments, SEARCH_TOOLS, SearchArguments};
use toolcell_engine::find::{SELECT, ToolQuery};
use toolcell_spec::{ErrorCode, Input, LoadingState, Refusal, SurfaceReason, ToolSearchResult};
use toolcell_system::pool::STORE;

use super::call::revision;
use super::exposed_tools::ExposedTool;
use super::loaded_tools::LoadedTools;
use super::sent_arguments::SentArguments;
use super::session::{ClientIdentity, ClientSession};
use super::{Server, ServerTools};

impl Server {
    pub(super) async fn search(
        &self,
        query: ToolQuery,
        limit: usize,
        (identity, loads): (&ClientIdentity, &LoadedTools),
        session: Option<String>,
    ) -> Result<ToolSearchResult, Refusal> {
        // Before the offering, because a provider that is loaded in between must be in one of the two.
        let providers = self.providers();
        let offering = self.offering_of(identity.actor.as_deref());
        let surface = offering.surface_id(loads);
        let loaded = loads.names();
        // The first search builds the index, which takes long enough to delay other calls of this thread.
        let searched = Arc::clone(&offering);
        let found = STORE
            .run(move || searched.offers.search(&query, limit, &loaded))
            .await;
        let busy = |error| {
            let message = format!("the tools cannot be searched now: {error}; search again later");
            let mut refusal = Refusal::new(ErrorCode::TooManySearches, message);
            refusal.retry_after = Some(1.0);
            refusal
        };
        let mut found = found.map_err(busy)??;
        let providers = if offering.is_narrowed {
            providers.of(&offering.offers)
        } else {
            providers
        };
        providers.tell(&mut found, &offering.offers);
        let host = &offering.tools.host;
        host.announce_discovered(&surface, &found, session).await;
        Ok(found)
    }
}

impl ServerTools {
    /// Loads no code: the first call does. `true` if the tool was deferred for this caller.
    pub(super) async fn load(
        &self,
        offer: &ExposedTool,
        loads: &LoadedTools,
        session: Option<String>,
    ) -> bool {
        let can_be_loaded = matches!(
            offer.standing.state,
            LoadingState::Deferred | LoadingState::Discoverable
        );
        let is_new =
            can_be_loaded && loads.add(&offer.qualified_name, |name| self.offers.has(name));
        if is_new {
            let selected = format!("{SELECT}{}", offer.name);
            let tool_id = &offer.tool.declaration().tool_id;
            self.tools
                .host
                .announce_loaded(&self.surface_id(loads), tool_id, &selected, session)
                .await;
        }
        is_new
    }
}

impl ClientSession {
    /// `None` if `name` is not one of the host's own tools here.
    pub(super) async fn discover(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Option<CallToolResult> {
        if ![SEARCH_TOOLS, LOAD_TOOL].contains(&name) || !self.offering().offers.defers() {
            return None;
        }
        let sent = SentArguments::with(context).unwrap_or_else(|| SentArguments::new("{}", None));
        let answered = match name {
            SEARCH_TOOLS => self.search(&sent.arguments, context).await,
            _ => self.load(&sent.arguments, context).await,
        };
        Some(answered.unwrap_or_else(|refusal| mcp::refused(&refusal)))
    }

    async fn search(
        &self,
        input: &Input,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Refusal> {
        let arguments = SearchArguments::read(input)?;
        let query = ToolQuery::parse(&arguments.query)?;
        let loads = self.loads(context);
        let session = self.session_ref(context);
        let found = self
            .server
            .search(query, arguments.limit(), (&self.identity, loads), session)
            .await?;
        Ok(mcp::found(&found))
    }

    async fn load(
        &self,
        input: &Input,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Refusal> {
        let offering = self.offering();
        let offer = offering.offers.find(&LoadArguments::read(input)?.name)?;
        if offer.standing.state == LoadingState::Unavailable {
            return Err(unavailable(offer));
        }
        let loads = self.loads(context);
        if !offer.is_listed(loads) {
            self.server.providers().check(offer)?;
        }
        let session = self.session_ref(context);
        let is_new = offering.load(offer, loads, session).await;
        // In 2026-07-28 a client hears of changes only where it listens.
        if is_new && revision(context) < ProtocolVersion::V_2026_07_28 {
            // A client that left gets no answer either.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        Ok(mcp::loaded(&offering.shown(offer.described().clone())))
    }
}

pub(super) fn unavailable(offer: &ExposedTool) -> Refusal {
    let (code, why) = match offer.standing.reason {
        Some(SurfaceReason::SetupRequired) => {
            (ErrorCode::ToolRequiresSetup, "it has to be set up first")
        }
        Some(SurfaceReason::CredentialMissing) => {
            (ErrorCode::SecretNotSet, "a secret that it needs is not set")
        }
        Some(SurfaceReason::PolicyBlocked) => (ErrorCode::DeniedByRule, "a rule denies its calls"),
        Some(SurfaceReason::RoleNotAllowed) => (
            ErrorCode::RoleNotAllowed,
            "the role of the caller does not have it",
        ),
        Some(SurfaceReason::ModelUnsupported) => (
            ErrorCode::ModelUnsupported,
            "it does not fit the capabilities of this surface",
        ),
        Some(_) => (ErrorCode::ToolDisabled, "it is disabled here"),
        None => (ErrorCode::ToolNotAvailable, "it is a draft, or was retired"),
    };
    Refusal::new(
        code,
        format!("{} cannot be loaded: {why}; load another tool", offer.name),
    )
}
