//! Asks name servers without blocking a thread: a look-up is a future, and dropping it closes its sockets.

use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use tokio::sync::Semaphore;
use toolcell_system::BoxFuture;
use toolcell_system::file_state::FileState;
use toolcell_system::pool::NAMES;

use super::{ADDRESSES_MAX, Resolver};
use crate::locked;

/// Maximum number of concurrent look-ups of all calls; each has sockets of its own.
const LOOK_UPS_MAX: usize = 256;
const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// Bytes that are read of a file; a larger one is cut. Lists of hosts that block advertisements have a few megabytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Looks names up in `/etc/hosts`, then asks the name servers of `/etc/resolv.conf`, with its search list and options.
/// Both files are read again when they change. Other sources of `nsswitch.conf` (mDNS, LDAP) are not asked. Nothing is
/// cached, so that no call learns of another's look-ups.
///
/// ```
/// use std::net::SocketAddr;
///
/// use toolcell_sandbox::SystemResolver;
///
/// let server = SocketAddr::from(([192, 0, 2, 53], 53));
/// let resolver = SystemResolver::asking(vec![server]);
/// ```
pub struct SystemResolver {
    servers: Vec<SocketAddr>,
    system: Mutex<Option<Arc<SystemConfig>>>,
    at_once: Semaphore,
}

/// Contents of the files when they were read.
struct SystemConfig {
    states: [Option<FileState>; 2],
    config: ResolverConfig,
    options: ResolverOpts,
    hosts: Hosts,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::asking(Vec::new())
    }
}

impl Debug for SystemResolver {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemResolver")
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

impl SystemResolver {
    /// Asks these name servers instead of the ones in `/etc/resolv.conf`; an empty list changes nothing.
    pub fn asking(servers: Vec<SocketAddr>) -> Self {
        Self {
            servers,
            system: Mutex::default(),
            at_once: Semaphore::new(LOOK_UPS_MAX),
        }
    }

    async fn system(&self) -> io::Result<Arc<SystemConfig>> {
        let before = locked(&self.system).clone();
        let now = NAMES
            .run(move || SystemConfig::read(before))
            .await
            .map_err(io::Error::other)?;
        *locked(&self.system) = Some(Arc::clone(&now));
        Ok(now)
    }

    /// Asks the name servers. The resolver lives as long as the look-up, because its sockets are closed with it.
    async fn ask(&self, name: Name, system: &SystemConfig) -> io::Result<Vec<IpAddr>> {
        let mut config = system.config.clone();
        if !self.servers.is_empty() {
            let (domain, search, _) = config.into_parts();
            config = ResolverConfig::from_parts(
                domain,
                search,
                self.servers.iter().map(name_server).collect(),
            );
        }
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::new())
            .with_options(system.options.clone())
            .build()
            .map_err(io::Error::other)?;
        let found = resolver.lookup_ip(name).await.map_err(io::Error::other)?;
        Ok(found.iter().take(ADDRESSES_MAX).collect())
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let _place = self.at_once.acquire().await.map_err(io::Error::other)?;
            let system = self.system().await?;
            let name = Name::from_ascii(name).map_err(io::Error::other)?;
            match system.hosts(&name) {
                known if !known.is_empty() => Ok(known),
                _ => self.ask(name, &system).await,
            }
        })
    }
}

impl SystemConfig {
    /// Reads the files, or returns `before` if they have not changed since.
    fn read(before: Option<Arc<Self>>) -> Arc<Self> {
        let states = [RESOLV_CONF, HOSTS].map(|file| FileState::from_file(&File::open(file).ok()?));
        before
            .filter(|before| before.states == states)
            .unwrap_or_else(|| Arc::new(Self::parse(states)))
    }

    fn parse(states: [Option<FileState>; 2]) -> Self {
        #[cfg(not(target_vendor = "apple"))]
        let configured = system_conf::parse_resolv_conf(bytes(RESOLV_CONF));
        // The file is not what its programs go by.
        #[cfg(target_vendor = "apple")]
        let configured = system_conf::read_system_conf();
        let (config, mut options) = configured.unwrap_or_else(|_| {
            // As the C library does if no name server is configured.
            let here = NameServerConfig::udp_and_tcp(IpAddr::from([127, 0, 0, 1]));
            (
                ResolverConfig::from_name_servers(vec![here]),
                ResolverOpts::default(),
            )
        });
        options.cache_size = 0;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // The hosts file is read here, once for each change.
        options.use_hosts_file = ResolveHosts::Never;
        let mut hosts = Hosts::default();
        // Entries before an unreadable line count.
        let _ = hosts.read_hosts_conf(bytes(HOSTS).as_slice());
        Self {
            states,
            config,
            options,
            hosts,
        }
    }

    /// Returns the addresses that `/etc/hosts` has for `name`.
    fn hosts(&self, name: &Name) -> Vec<IpAddr> {
        let of = |kind| {
            self.hosts
                .lookup_static_host(&Query::query(name.clone(), kind))
        };
        let found = [RecordType::A, RecordType::AAAA].into_iter().filter_map(of);
        found
            .flat_map(|lookup| {
                lookup
                    .answers()
                    .iter()
                    .filter_map(|record| record.data.ip_addr())
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

fn bytes(file: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(file) {
        let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    }
    bytes
}
