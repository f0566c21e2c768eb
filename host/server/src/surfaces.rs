//! The surface of one caller as it is now: which tools it can call, and why not the others (AT-SCOPE-03, AT-SURF-08).

use rmcp::RoleServer;
use rmcp::model::{CustomResult, ErrorData};
use rmcp::service::RequestContext;
use toolcell_dialect::mcp;
use toolcell_engine::approval::Session;
use toolcell_engine::catalog::Surface;
use toolcell_spec::{LoadingState, SurfaceScope, ToolSurface};

use super::Server;
use super::loaded_tools::LoadedTools;
use super::session::{ClientIdentity, ClientSession};

pub(super) const SURFACE: &str = "toolcell/surface";

impl Server {
    /// Of `identity`; `session`: of its calls.
    pub(super) fn surface_of(
        &self,
        identity: &ClientIdentity,
        loads: &LoadedTools,
        session: Session,
    ) -> ToolSurface {
        // Before the offering, because a provider that is loaded in between must be in one of the two.
        let providers = self.providers();
        let offering = self.offering_of(identity.actor.as_deref());
        let shared = offering.offers.surface();
        let loaded = loads.names();
        let own = shared.after_loading(offering.surface_id(loads), |tool| {
            loaded.contains(&tool.declaration().qualified_name())
        });
        let names: Vec<String> = offering
            .offers
            .offered()
            .map(|offer| offer.name.clone())
            .collect();
        let listed = |surface: &Surface| surface.ids(LoadingState::Loaded).len();
        let reason = match listed(&own).saturating_sub(listed(shared)) {
            0 => offering.surface_reason.clone(),
            count => format!("updated: the caller loaded {count} of the tools"),
        };
        let mut record = own.record(
            &names,
            SurfaceScope::Session,
            offering.tools.host.producer(),
            &session.reference(),
            &reason,
        );
        record.created_at = offering.since;
        record
            .deferred_tools
            .iter_mut()
            .for_each(|tool| providers.mark(tool, &offering.offers));
        record
    }
}

impl ClientSession {
    pub(super) async fn surface(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.loaded(context, None).await?;
        let session = self
            .session_ref(context)
            .map_or(Session::None, Session::Named);
        let surface = self
            .server
            .surface_of(&self.identity, self.loads(context), session);
        Ok(CustomResult::new(mcp::cleaned(&surface)))
    }
}
