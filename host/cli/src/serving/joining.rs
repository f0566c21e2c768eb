//! A server as a gateway or a worker of a cluster.

use std::sync::Arc;

use toolcell::Home;
use toolcell_config::ConfigLayers;
use toolcell_spec::Refusal;

use super::super::cluster::{self, ClusterConnection};
use super::ServingOptions;

impl ServingOptions {
    /// Connects once: another configuration of the cluster counts at the next start.
    pub(super) async fn connect(
        &self,
        home: &Home,
        layers: &ConfigLayers,
    ) -> Result<Option<&Arc<ClusterConnection>>, Refusal> {
        if !self.works && self.cluster.is_none() {
            return Ok(None);
        }
        let address = self.cluster.as_ref().and_then(Option::as_deref);
        let config = cluster::with_address(layers.cluster.clone(), address);
        let open = || async {
            let quota = layers.workspace.settings.quota;
            let connection = ClusterConnection::open(home, &config, !self.works).await;
            let connection = connection.map(|opened| opened.with_quota(quota))?;
            if let Some(Some(telemetry)) = self.telemetry.get() {
                telemetry.include(connection.metrics());
            }
            Ok(Arc::new(connection))
        };
        self.connection.get_or_try_init(open).await.map(Some)
    }
}
