use std::sync::Arc;
use std::time::Duration;

use rmcp::model::Tool;
use tokio_util::sync::CancellationToken;
use toolcell::{Grants, Host, Keep, Limits, Policy};
use toolcell_core::catalog::Surface;
use toolcell_core::record::Timestamp;

use crate::telemetry::Telemetry;

use super::{ApprovalFallback, ExposedTools};

/// The tools of a server, and the host, grants, policy and limits of their calls. Any change replaces it as a whole.
pub struct ToolSet {
    pub host: Arc<Host>,
    pub offers: ExposedTools,
    pub grants: Arc<Grants>,
    pub policy: Arc<Policy>,
    pub limits: Limits,
    pub approvals: ApprovalSettings,
    /// The ended calls that the host's log keeps.
    pub keep: Keep,
    /// Where spans and metrics of calls go, if anywhere.
    pub telemetry: Option<Arc<Telemetry>>,
    /// Why its surface differs from the one before.
    pub(super) surface_reason: String,
    /// When it replaced the one before.
    pub(super) since: Timestamp,
    outdated: CancellationToken,
}

/// How approvals are requested.
#[derive(Clone, Debug)]
pub struct ApprovalSettings {
    /// How long a question stays open.
    pub expire: Duration,
    /// The session that "for the rest of the session" refers to; `None` for the client's own session.
    pub session: Option<String>,
    /// `true` if the client may ask its user.
    pub elicitation: bool,
    /// The handling of a call if the user cannot be asked.
    pub away: ApprovalFallback,
}

impl ToolSet {
    /// An offering whose host logs every call.
    pub fn new(
        host: Arc<Host>,
        offers: ExposedTools,
        grants: Arc<Grants>,
        policy: Arc<Policy>,
        limits: Limits,
        approvals: ApprovalSettings,
    ) -> Self {
        let outdated = CancellationToken::new();
        Self {
            host,
            offers,
            grants,
            policy,
            limits,
            approvals,
            keep: Keep::All,
            telemetry: None,
            surface_reason: Surface::CREATED.to_owned(),
            since: Timestamp::now(),
            outdated,
        }
    }

    /// Returns whether an offered tool's result can become a payload, so clients need a way to read it.
    pub(super) fn can_persist(&self) -> bool {
        self.host.keeping().can_persist() && self.offers.can_persist()
    }

    /// The description of an offered tool for clients. They validate structured output against the announced schema, so
    /// none is announced where the operator keeps all output by reference.
    pub(super) fn shown(&self, mut described: Tool) -> Tool {
        if !self.host.keeping().inline {
            described.output_schema = None;
        }
        described
    }

    /// Returns whether `other` lists the same tools to each caller.
    pub(super) fn lists_as(&self, other: &Self) -> bool {
        self.offers.lists_as(&other.offers) && self.host.keeping() == other.host.keeping()
    }

    /// Marks the offering as replaced.
    pub(super) fn outdate(&self) {
        self.outdated.cancel();
    }

    /// Returns a token that is canceled once the offering is replaced.
    pub(super) fn outdated(&self) -> CancellationToken {
        self.outdated.clone()
    }
}
