//! Asks the C library, which blocks: on a few threads of its own, so that nothing but other look-ups waits for one whose
//! name servers do not answer. A call whose time is over waits no longer, and its look-up ends by itself.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use toolcell_system::BoxFuture;
use toolcell_system::pool::PoolState;

use super::{ADDRESSES_MAX, Resolver};

/// As many threads as there may be calls at once, unless that is set: one whose name servers are silent has its thread for
/// half a minute.
static LOOK_UPS: PoolState = PoolState::new("look-ups", 64, 1_024);

/// Looks names up as other programs of this machine do, with all sources of `nsswitch.conf`. A call waits for its look-up as
/// long as its time lasts; a program whose calls look up many names at once brings a [`Resolver`] of its own, or has the
/// feature `resolver`.
///
/// ```
/// use toolcell_sandbox::{Resolver, SystemResolver};
///
/// let resolver: &dyn Resolver = &SystemResolver::default();
/// let addresses = resolver.resolve("localhost");
/// ```
#[derive(Debug, Default)]
pub struct SystemResolver(());

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let found = LOOK_UPS.run(move || look_up(&name)).await;
            found.map_err(io::Error::other)?
        })
    }
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    // The port is none of the name's: connections get theirs from the request.
    let found = (name, 0).to_socket_addrs()?;
    Ok(found.map(|found| found.ip()).take(ADDRESSES_MAX).collect())
}
