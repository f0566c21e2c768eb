//! Looks at a server before a process works with it. Makes nothing there.

use std::time::Duration;

use async_nats::jetstream::{self, Context};
use serde::Deserialize;
use toolcell_spec::Timestamp;

use super::resources::stream_names;
use super::{ClusterError, ClusterSettings, client};

/// In which JetStream answers one request.
const ANSWER: Duration = Duration::from_secs(1);

/// A NATS server's own account, and what it keeps for toolcell.
#[derive(Debug)]
pub struct ServerReport {
    pub version: String,
    /// Bytes of a message.
    pub max_payload: usize,
    /// Servers of its cluster that it tells of, itself included.
    pub servers: usize,
    /// An error: it cannot be used.
    pub jetstream: Result<JetStreamReport, String>,
}

#[derive(Debug)]
pub struct JetStreamReport {
    /// Bytes on disk, and how many the account may have; `None`: as many as there are.
    pub used: u64,
    pub allowed: Option<u64>,
    /// Of toolcell, as far as a process has made them.
    pub streams: Vec<StreamReport>,
}

#[derive(Debug)]
pub struct StreamReport {
    pub name: String,
    pub replicas: usize,
    /// Replicas that do not have everything.
    pub behind: usize,
    /// The clock of the server minus that of this process, in milliseconds.
    pub clock_ahead: i64,
}

/// Asks the first of the servers that answers.
///
/// # Errors
///
/// None answers, or none lets this process in.
pub async fn report(settings: &ClusterSettings) -> Result<ServerReport, ClusterError> {
    let client = client(settings).await?;
    let info = client.server_info();
    let mut context = jetstream::new(client);
    context.set_timeout(ANSWER);
    let jetstream = jetstream_report(&context, settings.protocol).await;
    Ok(ServerReport {
        version: info.version,
        max_payload: info.max_payload,
        servers: info.connect_urls.len().max(1),
        jetstream,
    })
}

async fn jetstream_report(context: &Context, protocol: u32) -> Result<JetStreamReport, String> {
    let account = context.query_account().await;
    let account = account.map_err(|error| error.to_string())?;
    let mut streams = Vec::new();
    for name in stream_names(protocol) {
        streams.extend(stream_report(context, name).await);
    }
    Ok(JetStreamReport {
        used: account.storage,
        allowed: account
            .limits
            .max_storage
            .and_then(|max| max.try_into().ok()),
        streams,
    })
}

/// `None` if it is not there. The client leaves out the time of the answer.
async fn stream_report(context: &Context, name: String) -> Option<StreamReport> {
    #[derive(Deserialize)]
    struct Info {
        config: Config,
        cluster: Option<Peers>,
        ts: Timestamp,
    }
    #[derive(Deserialize)]
    struct Config {
        num_replicas: usize,
    }
    #[derive(Deserialize)]
    struct Peers {
        #[serde(default)]
        replicas: Vec<Peer>,
    }
    #[derive(Deserialize)]
    struct Peer {
        current: bool,
    }
    let asked = Timestamp::now();
    let info: Info = context
        .request(format!("STREAM.INFO.{name}"), &())
        .await
        .ok()?;
    let peers = info.cluster.map(|cluster| cluster.replicas);
    let peers = peers.unwrap_or_default();
    // It was made between the question and the answer.
    let half = Timestamp::now().unix_millis() / 2 + asked.unix_millis() / 2;
    Some(StreamReport {
        name,
        replicas: info.config.num_replicas,
        behind: peers.iter().filter(|peer| !peer.current).count(),
        clock_ahead: info.ts.unix_millis() - half,
    })
}
