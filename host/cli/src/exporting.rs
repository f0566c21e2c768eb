use std::sync::Arc;

use toolcell::Listener;
use toolcell_config::ConfigLayers;
use toolcell_server::telemetry::Telemetry;

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
pub(crate) fn start(
    layers: &ConfigLayers,
    grants: &GrantOptions,
    above: &'static str,
) -> Option<Arc<Telemetry>> {
    let network = grants.network();
    let started = Telemetry::start(
        &layers.telemetry,
        network.extra_roots.as_deref(),
        above,
        show::say,
    );
    started.unwrap_or_else(|error| {
        show::say(&format!(
            "warning: nothing is sent to the collector of telemetry: {error:#}"
        ));
        None
    })
}

pub(crate) fn listeners(telemetry: Option<&Arc<Telemetry>>) -> Vec<Arc<dyn Listener>> {
    telemetry
        .map(|telemetry| Arc::<Telemetry>::clone(telemetry) as Arc<dyn Listener>)
        .into_iter()
        .collect()
}
