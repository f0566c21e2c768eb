//! The queue and the store over NATS JetStream.

mod approvals;
mod calls;
mod claim_watch;
mod objects;
mod places;
mod report;
mod resources;
mod store;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use nkeys::KeyPair;
use tokio_util::sync::CancellationToken;

use crate::claim::LeaseTerms;
use crate::store::Unavailable;

pub use approvals::{ApproverAnswer, OpenApproval, SealedAnswer};
pub use calls::{Ask, AskError, CallAnswer};
pub use places::{CallRun, Runner, StartRequest, WorkerCall};
pub use report::{JetStreamReport, ServerReport, StreamReport, report};
pub use workers::{ClusterState, OpenCall, WorkerState, WorkerTool};

use claim_watch::ClaimWatch;
use objects::Objects;
pub use resources::PROTOCOL;
use resources::Resources;

/// How a process reaches its cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Addresses of NATS servers, `nats://` or `tls://`.
    pub servers: Vec<String>,
    /// Name of this process, as others see it.
    pub name: String,
    pub login: Login,
    /// Certificates of the authority that signed the servers', besides the system's.
    pub ca: Option<PathBuf>,
    /// Seed of the nkey with which this process signs its questions; `None` for one that only works.
    pub key: Option<Arc<str>>,
    /// Copies of each value, on as many servers.
    pub replicas: usize,
    /// Calls that wait; more are refused.
    pub queue_max: i64,
    pub lease: LeaseTerms,
    /// Version of the protocol.
    pub protocol: u32,
    /// Tells the operator of this process what went wrong.
    pub warn: WarnFn,
}

#[derive(Clone)]
pub struct WarnFn(pub Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for WarnFn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("WarnFn")
    }
}

#[derive(Clone, Default)]
pub enum Login {
    #[default]
    None,
    /// A file with a user's JWT and seed.
    Credentials(PathBuf),
    /// Seed of an nkey.
    Nkey(Arc<str>),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::Credentials(_) => "Credentials",
            Self::Nkey(_) => "Nkey",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot read the credentials: {0}")]
    Login(std::io::Error),
    #[error("the key is no seed of an nkey: {0}")]
    Key(String),
    #[error("no server answers at {servers}: {error}")]
    Connect { servers: String, error: String },
    #[error("{what} cannot be used: {error}")]
    Resource { what: &'static str, error: String },
}

/// Since this process began.
#[derive(Debug, Default)]
pub struct Counts {
    /// Questions that a worker was given, those that it or another one was given before included.
    pub deliveries: AtomicU64,
    pub redeliveries: AtomicU64,
    /// Results of this worker that came too late, and were thrown away.
    pub superseded: AtomicU64,
    /// Calls whose worker was silent, as this process found.
    pub leases_lost: AtomicU64,
}

/// A connection of this process to its cluster.
pub struct Cluster {
    client: Client,
    context: Context,
    resources: Resources,
    objects: Objects,
    watching: Arc<ClaimWatch>,
    protocols: Arc<workers::Protocols>,
    /// Name of this process among the workers, with characters that a key can have.
    place_name: String,
    counts: Counts,
    /// Signs questions.
    key: KeyPair,
    settings: ClusterSettings,
    stop: CancellationToken,
}

/// In which the first connection is made.
const CONNECT: Duration = Duration::from_secs(5);
/// In which a server answers a request; at most a quarter of a lease, so that one without an answer costs no lease.
const ANSWER: Duration = Duration::from_secs(5);

/// A connection on which three of them have no answer is made anew: a network that is cut says nothing.
const PING: Duration = Duration::from_secs(10);

impl Cluster {
    /// Connects, makes what is missing, and begins to watch and to sweep, until the value is dropped.
    ///
    /// # Errors
    ///
    /// No server answers, or refuses what the cluster needs.
    pub async fn connect(settings: ClusterSettings) -> Result<Arc<Self>, ClusterError> {
        let key = match &settings.key {
            Some(seed) => KeyPair::from_seed(seed),
            None => Ok(KeyPair::new_user()),
        };
        let key = key.map_err(|error| ClusterError::Key(error.to_string()))?;
        let client = client(&settings).await?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER.min(settings.lease.time / 4));
        let resources = Resources::open(&context, &settings).await?;
        let objects = Objects::new(resources.objects.clone());
        let watching = Arc::new(ClaimWatch::new(settings.lease));
        let cluster = Arc::new(Self {
            client,
            context,
            resources,
            objects,
            watching,
            protocols: Arc::default(),
            place_name: place_name(&settings.name),
            counts: Counts::default(),
            key,
            settings,
            stop: CancellationToken::new(),
        });
        tokio::spawn(workers::watch(
            Arc::downgrade(&cluster),
            cluster.stop.clone(),
        ));
        tokio::spawn(claim_watch::watch(
            Arc::downgrade(&cluster),
            cluster.stop.clone(),
        ));
        tokio::spawn(claim_watch::sweep(
            Arc::downgrade(&cluster),
            cluster.stop.clone(),
        ));
        Ok(cluster)
    }

    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Tells the operator of this process.
    pub fn warn(&self, what: &str) {
        (self.settings.warn.0)(what);
    }

    /// Keeps an object for some hours. Returns its name, the SHA-256 of its bytes in hexadecimal.
    ///
    /// # Errors
    ///
    /// No server takes it.
    pub async fn put_object(&self, bytes: &[u8]) -> Result<String, Unavailable> {
        self.objects.put(bytes).await
    }

    /// An object by its name, of at most 64 MiB.
    ///
    /// # Errors
    ///
    /// It is not there, or has other bytes than its name says.
    pub async fn object(&self, name: &str) -> Result<Vec<u8>, Unavailable> {
        self.objects.get(name).await
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many calls of the cluster wait, are decided about, and run, as this process sees it.
    pub fn stages(&self) -> [u64; 3] {
        self.watching.stages()
    }

    /// Version of the protocol.
    pub fn protocol(&self) -> u32 {
        self.settings.protocol
    }

    /// After which a silent worker has lost its call.
    pub fn lease(&self) -> Duration {
        self.settings.lease.time
    }

    /// Name of this process, as others see it.
    pub fn name(&self) -> &str {
        &self.settings.name
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn place_name(name: &str) -> String {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    name.chars()
        .map(|letter| if is_allowed(letter) { letter } else { '_' })
        .collect()
}

async fn client(settings: &ClusterSettings) -> Result<Client, ClusterError> {
    let options = ConnectOptions::new()
        .name(&settings.name)
        .connection_timeout(CONNECT)
        .request_timeout(Some(ANSWER))
        .ping_interval(PING)
        // Whoever waits is told by the state of the connection, and by its own time limit.
        .max_reconnects(None)
        .event_callback(|event| async move { tracing::debug!(%event, "cluster") });
    let options = match &settings.login {
        Login::None => options,
        Login::Credentials(file) => options
            .credentials_file(file)
            .await
            .map_err(ClusterError::Login)?,
        Login::Nkey(seed) => {
            // Later, the client only says that it cannot sign.
            KeyPair::from_seed(seed).map_err(|error| ClusterError::Key(error.to_string()))?;
            options.nkey(seed.to_string())
        }
    };
    let options = match &settings.ca {
        Some(file) => {
            // Later, the client says neither which file it was nor that it was a file.
            std::fs::File::open(file).map_err(|error| ClusterError::Resource {
                what: "the file of ca",
                error: format!("{}: {error}", file.display()),
            })?;
            options.add_root_certificates(file.clone())
        }
        None => options,
    };
    options
        .connect(settings.servers.clone())
        .await
        .map_err(|error| ClusterError::Connect {
            servers: settings.servers.join(", "),
            error: error.to_string(),
        })
}

/// The public key of a seed.
///
/// # Errors
///
/// It is no seed of an nkey.
pub fn public_key(seed: &str) -> Result<String, nkeys::error::Error> {
    KeyPair::from_seed(seed).map(|pair| pair.public_key())
}

/// Makes a new key of a gateway. Returns its public key and its seed.
///
/// # Errors
///
/// The system gives no random bytes.
pub fn new_key() -> Result<(String, String), nkeys::error::Error> {
    let pair = KeyPair::new_user();
    Ok((pair.public_key(), pair.seed()?))
}
