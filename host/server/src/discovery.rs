//! The host's own tools, which search and load the tools that are not listed (AT-DEF-12..18).

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProtocolVersion};
use rmcp::service::RequestContext;
use toolcell_dialect::mcp::{self, LOAD_TOOL, LoadArguments, SEARCH_TOOLS, SearchArguments};
use toolcell_engine::find::{SELECT, ToolQuery};
use toolcell_spec::{ErrorClass, ErrorCode, Input, LoadingState, Refusal, SurfaceReason};
use toolcell_system::pool::STORE;

use super::call::revision;
use super::exposed_tools::ExposedTool;
use super::sent_arguments::SentArguments;
use super::session::ClientSession;
use super::{Providers, ServerTools};

impl ClientSession {
    /// Answers a call of one of the host's own tools; `None` if `name` is not one of them here.
    pub(super) async fn discover(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Option<CallToolResult> {
        if ![SEARCH_TOOLS, LOAD_TOOL].contains(&name) {
            return None;
        }
        // Before the offering, because a provider that is loaded in between must be in one of the two.
        let providers = self.server.providers();
        let offering = self.offering();
        if !offering.offers.defers() {
            return None;
        }
        let sent = SentArguments::with(context).unwrap_or_else(|| SentArguments::new("{}", None));
        let answered = match name {
            SEARCH_TOOLS => {
                self.search(offering, providers, &sent.arguments, context)
                    .await
            }
            _ => self.load(&offering, &sent.arguments, context).await,
        };
        Some(answered.unwrap_or_else(|refusal| mcp::refused(&refusal)))
    }

    async fn search(
        &self,
        offering: Arc<ServerTools>,
        providers: Providers,
        input: &Input,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Refusal> {
        let arguments = SearchArguments::read(input)?;
        let query = ToolQuery::parse(&arguments.query)?;
        let limit = arguments.limit();
        let loaded = self.loads(context).names();
        let host = Arc::clone(&offering.tools.host);
        let surface = self.surface_id(&offering, context);
        // The first search builds the index, which takes long enough to delay other calls of this thread.
        let searched = Arc::clone(&offering);
        let found = STORE
            .run(move || searched.offers.search(&query, limit, &loaded))
            .await;
        let busy = |error: toolcell_system::pool::UnfinishedJob| {
            let message = format!("the tools cannot be searched now: {error}; search again later");
            Refusal::new(ErrorCode::TooManySearches, message)
        };
        let mut found = found.map_err(busy)??;
        providers.tell(&mut found, &offering.offers);
        host.announce_discovered(&surface, &found, self.session_ref(context))
            .await;
        Ok(mcp::found(&found))
    }

    /// Loads a tool for this caller only, and tells its client that the list has changed.
    async fn load(
        &self,
        offering: &ServerTools,
        input: &Input,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Refusal> {
        let offers = &offering.offers;
        let offer = offers.find(&LoadArguments::read(input)?.name)?;
        if offer.standing.state == LoadingState::Unavailable {
            return Err(unavailable(offer));
        }
        let is_new = offer.standing.state != LoadingState::Loaded;
        let added = is_new
            && self
                .loads(context)
                .add(&offer.qualified_name, |name| offers.has(name));
        if added {
            let surface = self.surface_id(offering, context);
            let selected = format!("{SELECT}{}", offer.name);
            let host = &offering.tools.host;
            let tool_id = &offer.tool.declaration().tool_id;
            host.announce_loaded(&surface, tool_id, &selected, self.session_ref(context))
                .await;
        }
        // In 2026-07-28 a client hears of changes only where it listens.
        if added && revision(context) < ProtocolVersion::V_2026_07_28 {
            // A client that left gets no answer either.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        Ok(mcp::loaded(&offering.shown(offer.described().clone())))
    }
}

/// The refusal to load a tool that cannot be called.
pub(super) fn unavailable(offer: &ExposedTool) -> Refusal {
    let (class, code, why) = match offer.standing.reason {
        Some(SurfaceReason::SetupRequired) => (
            ErrorClass::SetupRequired,
            ErrorCode::ToolRequiresSetup,
            "it has to be set up first",
        ),
        Some(SurfaceReason::CredentialMissing) => (
            ErrorClass::CredentialMissing,
            ErrorCode::SecretNotSet,
            "a secret that it needs is not set",
        ),
        Some(SurfaceReason::PolicyBlocked) => (
            ErrorClass::PermissionDenied,
            ErrorCode::DeniedByRule,
            "a rule denies its calls",
        ),
        Some(SurfaceReason::RoleNotAllowed) => (
            ErrorClass::PolicyBlocked,
            ErrorCode::RoleNotAllowed,
            "the role of the caller does not have it",
        ),
        Some(SurfaceReason::ModelUnsupported) => (
            ErrorClass::CapabilityGap,
            ErrorCode::ModelUnsupported,
            "it does not fit the capabilities of this surface",
        ),
        Some(_) => (
            ErrorClass::PolicyBlocked,
            ErrorCode::ToolDisabled,
            "it is disabled here",
        ),
        None => (
            ErrorClass::CapabilityGap,
            ErrorCode::ToolNotAvailable,
            "it is a draft, or was retired",
        ),
    };
    Refusal::new(
        code,
        format!("{} cannot be loaded: {why}; load another tool", offer.name),
    )
    .with_class(class)
}
