use std::sync::Arc;

use toolcell::{Home, Listener};
use toolcell_config::{ConfigLayers, configured_telemetry};
use toolcell_engine::approval::Session;
use toolcell_server::telemetry::Telemetry;
use toolcell_spec::TraceContext;

use super::options::GrantOptions;
use super::show;

/// Sends what waits when it is dropped.
pub(crate) struct TelemetryGuard(pub Option<Arc<Telemetry>>);

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        self.0.iter().for_each(|telemetry| telemetry.close());
    }
}

/// Calls go on without telemetry all the same.
pub(crate) fn start(layers: &ConfigLayers, grants: &GrantOptions) -> Option<Arc<Telemetry>> {
    let network = grants.network();
    told(Telemetry::start(
        &layers.telemetry,
        network.extra_roots.as_deref(),
        show::say,
    ))
}

/// As the user's own file says, for a command that reads no other one.
pub(crate) fn of_user(home: &Home) -> Option<Arc<Telemetry>> {
    let settings = configured_telemetry(home);
    told(settings.and_then(|settings| Telemetry::start(&settings, None, show::say)))
}

fn told(started: anyhow::Result<Option<Arc<Telemetry>>>) -> Option<Arc<Telemetry>> {
    started.unwrap_or_else(|error| {
        show::say(&format!(
            "warning: nothing is sent to the collector of telemetry: {error:#}"
        ));
        None
    })
}

/// The place of a call in the trace of its session.
pub(crate) fn trace(telemetry: Option<&Arc<Telemetry>>, session: &Session) -> Option<TraceContext> {
    telemetry?.trace(Some(&session.reference()))
}

pub(crate) fn listeners(telemetry: Option<&Arc<Telemetry>>) -> Vec<Arc<dyn Listener>> {
    telemetry
        .map(|telemetry| Arc::<Telemetry>::clone(telemetry) as Arc<dyn Listener>)
        .into_iter()
        .collect()
}
