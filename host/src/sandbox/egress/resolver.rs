//! Looking names up without a thread that waits: what the C library does blocks until its name servers answer or its own
//! patience ends, and cannot be stopped. Here a look-up is a future, and dropping it closes its sockets.

mod ask;
mod message;
mod system;

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::executor::BoxFuture;
use crate::pool::NAMES;

use system::System;

/// Look-ups at once, of all calls: each has two sockets of its own.
const LOOK_UPS_MAX: usize = 256;

/// Looks names up.
pub trait Resolver: Debug + Send + Sync {
    /// Every address of `name`: lower case, no final dot. Dropping the future ends the look-up.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Looks names up in `/etc/hosts`, then asks the name servers of `/etc/resolv.conf`, with its search list and options. Both
/// files are read again when they change. Other sources of `nsswitch.conf` (mDNS, LDAP) are not asked. Nothing is cached,
/// so that no call learns of another's look-ups.
#[derive(Debug)]
pub struct SystemResolver {
    servers: Vec<SocketAddr>,
    system: Mutex<Option<Arc<System>>>,
    at_once: Semaphore,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::asking(Vec::new())
    }
}

impl SystemResolver {
    /// Asks these name servers instead of those of `/etc/resolv.conf`; none are no change.
    pub fn asking(servers: Vec<SocketAddr>) -> Self {
        Self { servers, system: Mutex::default(), at_once: Semaphore::new(LOOK_UPS_MAX) }
    }

    async fn system(&self) -> io::Result<Arc<System>> {
        let before = self.system.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = NAMES.run(move || System::read(before)).await.map_err(io::Error::other)?;
        *self.system.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&now));
        Ok(now)
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let _place = self.at_once.acquire().await.map_err(io::Error::other)?;
            let system = self.system().await?;
            if let Some(addresses) = system.hosts.get(name) {
                return Ok(addresses.clone());
            }
            let servers = if self.servers.is_empty() { &system.servers } else { &self.servers };
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for candidate in system.candidates(name) {
                match ask::addresses(&candidate, servers, &system.patience).await {
                    Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
                    Ok(_) => {}
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}
