//! This process in a cluster: as a gateway, which has its calls run by workers, or as a worker.

mod approver;
mod calls;
mod files;
mod metrics;
mod runner;
mod survey;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use toolcell::{Elsewhere, Home};
use toolcell_cluster::{
    Cluster, ClusterError, ClusterSettings, LeaseTerms, Login, PROTOCOL, Unavailable, WarnFn,
    new_key,
};
use toolcell_config::ClusterConfig;
use toolcell_server::read_private;
use toolcell_server::telemetry::MetricSource;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::private::{self, OnDisk};
use toolcell_workspace::Quota;

use metrics::ClusterMetrics;
pub(crate) use runner::WorkerCalls;
pub(crate) use survey::survey;

use super::show;

/// A connection to the servers that a configuration names.
pub(crate) struct ClusterConnection {
    pub(crate) cluster: Arc<Cluster>,
    /// With the protocol before, while machines are upgraded.
    pub(crate) older: Option<Arc<Cluster>>,
    /// The most that files of a workspace may take at this worker.
    pub(crate) quota: Quota,
    config: ClusterConfig,
    metrics: Arc<ClusterMetrics>,
}

impl fmt::Debug for ClusterConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.cluster.name())
    }
}

impl ClusterConnection {
    /// `is_gateway`: this process signs calls.
    pub(crate) async fn open(
        home: &Home,
        config: &ClusterConfig,
        is_gateway: bool,
    ) -> Result<Self, Refusal> {
        let settings = settings(home, config, is_gateway);
        let settings = settings
            .map_err(|error| Refusal::new(ErrorCode::PolicyUnreadable, format!("{error:#}")))?;
        let before = settings.protocol - 1;
        let older = ClusterSettings {
            protocol: before,
            ..settings.clone()
        };
        let cluster = Cluster::connect(settings).await.map_err(unreachable)?;
        let older = match before {
            0 => None,
            _ => Some(Cluster::connect(older).await.map_err(unreachable)?),
        };
        Ok(Self {
            metrics: Arc::new(ClusterMetrics::new(Arc::clone(&cluster))),
            cluster,
            older,
            quota: Quota::default(),
            config: config.clone(),
        })
    }

    /// Files of a workspace may take no more at this worker.
    pub(crate) fn with_quota(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// Runs the calls of tools on the workers.
    pub(crate) fn elsewhere(&self) -> Arc<dyn Elsewhere> {
        Arc::new(calls::ClusterCalls {
            cluster: Arc::clone(&self.cluster),
            older: self.older.clone(),
            principal: None,
            wait: self.config.wait,
            metrics: Arc::clone(&self.metrics),
        })
    }

    pub(crate) fn metrics(&self) -> Arc<dyn MetricSource> {
        Arc::<ClusterMetrics>::clone(&self.metrics)
    }

    pub(crate) fn config(&self) -> &ClusterConfig {
        &self.config
    }
}

pub(crate) fn unanswered(error: Unavailable) -> Refusal {
    Refusal::new(ErrorCode::ClusterUnavailable, error.to_string())
}

fn unreachable(error: ClusterError) -> Refusal {
    let code = match error {
        ClusterError::Login(_) | ClusterError::Key(_) => ErrorCode::PolicyUnreadable,
        ClusterError::Connect { .. } | ClusterError::Resource { .. } => {
            ErrorCode::ClusterUnavailable
        }
    };
    Refusal::new(code, error.to_string())
}

fn settings(
    home: &Home,
    config: &ClusterConfig,
    is_gateway: bool,
) -> anyhow::Result<ClusterSettings> {
    anyhow::ensure!(
        !config.servers.is_empty(),
        "[cluster] names no servers: give their addresses in toolcell.toml, or one with --cluster=nats://ADDRESS"
    );
    let login = match (&config.credentials, &config.nkey) {
        (Some(file), _) => {
            // Refuses a file that others can read.
            read_private(file, "credentials of the cluster")?;
            Login::Credentials(file.clone())
        }
        (None, Some(file)) => Login::Nkey(seed(file)?),
        (None, None) => Login::None,
    };
    let key = is_gateway.then(|| gateway_key(home, config)).transpose()?;
    let name = config.name.clone().unwrap_or_else(|| {
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_string_lossy();
        format!("{machine}-{}", std::process::id())
    });
    Ok(ClusterSettings {
        servers: config.servers.clone(),
        name,
        login,
        ca: config.ca.clone(),
        key,
        replicas: config.replicas,
        queue_max: config.queue,
        lease: LeaseTerms {
            time: config.lease,
            ..LeaseTerms::default()
        },
        protocol: protocol(),
        warn: WarnFn(Arc::new(|what| show::say(&format!("warning: {what}")))),
    })
}

/// A program that is not optimised takes another one, for the test of upgrades.
fn protocol() -> u32 {
    let other = cfg!(debug_assertions).then(|| std::env::var("TOOLCELL_CLUSTER_PROTOCOL"));
    let other = other.and_then(|other| other.ok()?.parse().ok());
    other.unwrap_or(PROTOCOL)
}

fn seed(file: &Path) -> anyhow::Result<Arc<str>> {
    Ok(read_private(file, "seed of an nkey")?.trim().into())
}

/// The seed of the gateway of this home, which is made if there is none.
pub(crate) fn gateway_key(home: &Home, config: &ClusterConfig) -> anyhow::Result<Arc<str>> {
    if let Some(file) = &config.key {
        return seed(file);
    }
    let file = home.cluster_key();
    if !file.exists() {
        let (_, seed) = new_key().context("cannot make a key")?;
        if let Some(folder) = file.parent() {
            private::create_dir(folder).context("cannot create the folder of keys")?;
        }
        // Another process may be first: its key counts.
        let made = private::create_atomically(&file, &[seed.as_bytes()], OnDisk::Name);
        if let Err(error) = made
            && !file.exists()
        {
            return Err(error).context("cannot write the key of this gateway");
        }
    }
    seed(&file)
}

/// How `--cluster` changes `config`.
pub(crate) fn with_address(config: Option<ClusterConfig>, address: Option<&str>) -> ClusterConfig {
    let mut config = config.unwrap_or_default();
    if let Some(address) = address {
        config.servers = vec![address.to_owned()];
    }
    config
}

/// In a record: where the call ran, and the objects with its payloads.
const NOTE: &str = "cluster";

/// Of all payloads of one call: a worker keeps what is beyond.
const OBJECTS_BYTES_MAX: u64 = 64 << 20;
