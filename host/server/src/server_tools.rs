use std::sync::{Arc, OnceLock};

use rmcp::model::Tool;
use tokio_util::sync::CancellationToken;
use toolcell::{Keep, ToolSet};
use toolcell_dialect::ListedTool;
use toolcell_engine::catalog::Surface;
use toolcell_spec::{Timestamp, ToolResult};

use crate::exposed_tools::ExposedTool;
use crate::loaded_tools::LoadedTools;
use crate::otc::{OtcTool, OtcTools};
use crate::telemetry::Telemetry;

use super::{ApprovalFallback, ExposedTools, Principals, TokenIssuers, WorkspaceService};

/// Any change replaces it as a whole.
pub struct ServerTools {
    pub tools: Arc<ToolSet>,
    pub offers: ExposedTools,
    pub approvals: ApprovalSettings,
    /// The ended calls that the host's log keeps.
    pub keep: Keep,
    pub telemetry: Option<Arc<Telemetry>>,
    /// `None` if calls have no workspace.
    pub workspaces: Option<Arc<WorkspaceService>>,
    /// Callers with rules of their own; all others have these tools.
    pub principals: Principals,
    /// `None` if no access tokens are accepted.
    pub issuers: Option<TokenIssuers>,
    /// `true` for the tools of a principal, which hears of no others.
    pub(super) is_narrowed: bool,
    pub(super) surface_reason: String,
    pub(super) since: Timestamp,
    outdated: CancellationToken,
    /// Made by the first request of Open Tool Calling.
    otc: OnceLock<OtcTools>,
}

#[derive(Clone, Debug)]
pub struct ApprovalSettings {
    /// "For the rest of the session" refers to it; `None` for the client's own session.
    pub session: Option<String>,
    pub elicitation: bool,
    pub away: ApprovalFallback,
}

impl ServerTools {
    pub fn new(all: ToolSet, offers: ExposedTools, approvals: ApprovalSettings) -> Self {
        let outdated = CancellationToken::new();
        let tools = all.on_surface(Arc::clone(offers.surface()), offers.terms().clone());
        Self {
            tools: Arc::new(tools),
            offers,
            approvals,
            keep: Keep::All,
            telemetry: None,
            workspaces: None,
            principals: Principals::default(),
            issuers: None,
            is_narrowed: false,
            surface_reason: Surface::CREATED.to_owned(),
            since: Timestamp::now(),
            outdated,
            otc: OnceLock::new(),
        }
    }

    /// The tools of one caller of these: the same host, what `all` grants and allows, and `offers`.
    pub fn for_principal(&self, all: ToolSet, offers: ExposedTools) -> Self {
        let mut own = Self::new(all, offers, self.approvals.clone());
        own.is_narrowed = true;
        own.keep = self.keep;
        own.telemetry.clone_from(&self.telemetry);
        own.outdated = self.outdated.clone();
        own
    }

    pub(super) fn otc(&self) -> &OtcTools {
        self.otc.get_or_init(|| {
            let tools = self.offers.offered();
            OtcTools::new(
                tools
                    .map(|offer| self.describe(offer, OtcTool::new))
                    .collect(),
            )
        })
    }

    /// Output that is kept by reference is never in a response, and so has no schema.
    pub(super) fn describe<T>(
        &self,
        offer: &ExposedTool,
        describe: impl FnOnce(&ListedTool<'_>) -> T,
    ) -> T {
        let inline = self.tools.host.keeping().inline;
        offer.listed(|listed| {
            describe(&ListedTool {
                output_schema: listed.output_schema.filter(|_| inline),
                ..listed
            })
        })
    }

    pub(super) fn surface_id(&self, loads: &LoadedTools) -> Arc<str> {
        loads.surface_id(self.offers.surface().id())
    }

    pub(super) fn fit(&self, result: &mut ToolResult) {
        let selection = self.offers.surface().selection();
        selection.fit(&mut result.model_facing_content);
    }

    /// A result can become a payload, so clients need a way to read it.
    pub(super) fn can_persist(&self) -> bool {
        self.tools.host.keeping().can_persist() && self.offers.can_persist()
    }

    /// Clients validate structured output against the announced schema: none where the operator keeps all output by
    /// reference.
    pub(super) fn shown(&self, mut described: Tool) -> Tool {
        if !self.tools.host.keeping().inline {
            described.output_schema = None;
        }
        described
    }

    /// `true` if the clients of this one see the same tools in `other`.
    pub(super) fn lists_as(&self, other: &Self) -> bool {
        self.principals.list_as(&other.principals, other)
            && self.offers.lists_as(&other.offers)
            && self.tools.host.keeping() == other.tools.host.keeping()
    }

    pub(super) fn outdate(&self) {
        self.outdated.cancel();
    }

    pub(super) fn outdated(&self) -> CancellationToken {
        self.outdated.clone()
    }
}
