//! In place of `cluster`, in a program without many machines.

use std::sync::Arc;

use toolcell::{Elsewhere, Home};
use toolcell_config::ClusterConfig;
use toolcell_server::telemetry::MetricSource;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_toolchain::SurveyFinding;
use toolcell_workspace::Quota;

/// There is none.
#[derive(Debug)]
pub(crate) enum ClusterConnection {}

impl ClusterConnection {
    #[expect(clippy::unused_async, reason = "the other one connects")]
    pub(crate) async fn open(
        _home: &Home,
        _config: &ClusterConfig,
        _is_gateway: bool,
    ) -> Result<Self, Refusal> {
        let message = "this program was built without clusters: leave out --cluster";
        Err(Refusal::new(ErrorCode::ClusterUnavailable, message))
    }

    pub(crate) fn with_quota(self, _quota: Quota) -> Self {
        match self {}
    }

    pub(crate) fn metrics(&self) -> Arc<dyn MetricSource> {
        match *self {}
    }

    pub(crate) fn elsewhere(&self) -> Arc<dyn Elsewhere> {
        match *self {}
    }
}

pub(crate) fn with_address(config: Option<ClusterConfig>, _address: Option<&str>) -> ClusterConfig {
    config.unwrap_or_default()
}

#[expect(clippy::unnecessary_wraps, reason = "the other one asks servers")]
pub(crate) fn survey(
    _home: &Home,
    _config: Option<&ClusterConfig>,
) -> anyhow::Result<Vec<SurveyFinding>> {
    Ok(Vec::new())
}
