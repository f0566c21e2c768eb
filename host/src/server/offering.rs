use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::host::{Grants, Host, Limits, Policy};

use super::{Away, Offers};

/// What a server serves, and with what. It is replaced as a whole when anything of it changes.
pub struct Offering {
    pub host: Arc<Host>,
    pub offers: Offers,
    pub grants: Arc<Grants>,
    pub policy: Arc<Policy>,
    pub limits: Limits,
    pub approvals: ApprovalSettings,
    outdated: CancellationToken,
}

/// How somebody is asked about a call.
#[derive(Clone, Debug)]
pub struct ApprovalSettings {
    /// How long a question stays open.
    pub expire: Duration,
    /// What "for the rest of the session" means, where it is not the client's own session.
    pub session: Option<String>,
    /// Whether a client's user may be asked through the client.
    pub elicitation: bool,
    /// What becomes of a call where they cannot be.
    pub away: Away,
}

impl Offering {
    pub fn new(
        host: Arc<Host>,
        offers: Offers,
        grants: Arc<Grants>,
        policy: Arc<Policy>,
        limits: Limits,
        approvals: ApprovalSettings,
    ) -> Self {
        Self { host, offers, grants, policy, limits, approvals, outdated: CancellationToken::new() }
    }

    /// Says that another one took the place of this.
    pub(super) fn outdate(&self) {
        self.outdated.cancel();
    }

    /// Ends when another one has taken the place of this.
    pub(super) fn outdated(&self) -> CancellationToken {
        self.outdated.clone()
    }
}
