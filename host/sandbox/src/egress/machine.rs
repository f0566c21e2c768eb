//! Determines which addresses lead back to this machine, and to this process. The kernel is asked at each request,
//! because an earlier list of interfaces lacks later addresses, and addresses routed here without an interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;

use toolcell_policy::network::reached;

use crate::locked;

/// The process keeps them, because a host is built before its server has a port.
static LISTENING: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

/// No machine has them: they are for documentation (RFC 5737, RFC 3849).
const NOWHERE_4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 0);
const NOWHERE_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
/// RFC 863. A UDP socket that is connected sends nothing.
const DISCARD: u16 = 9;

/// Registers an address at which this process listens, until dropped: no tool connects there, whatever was granted.
///
/// ```
/// use std::net::TcpListener;
///
/// use toolcell_sandbox::ListenGuard;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let closed = ListenGuard::at(listener.local_addr()?);
/// // No tool connects to `listener` until this:
/// drop(closed);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ListenGuard(SocketAddr);

impl ListenGuard {
    /// An unspecified address means every address of this machine.
    pub fn at(address: SocketAddr) -> Self {
        locked(&LISTENING).push(address);
        Self(address)
    }
}

impl Drop for ListenGuard {
    fn drop(&mut self) {
        let mut listening = locked(&LISTENING);
        if let Some(at) = listening.iter().position(|address| *address == self.0) {
            listening.swap_remove(at);
        }
    }
}

pub(super) fn listens_at(address: SocketAddr, here: bool) -> bool {
    let ip = reached(address.ip());
    locked(&LISTENING).iter().any(|own| {
        // On Linux a connection to an unspecified address goes to this machine.
        let everywhere = ip.is_unspecified() || own.ip().is_unspecified() && here;
        own.port() == address.port() && (own.ip().to_canonical() == ip || everywhere)
    })
}

/// Sends nothing, and takes microseconds.
pub(super) fn is_here(address: IpAddr) -> bool {
    let address = reached(address);
    if address.is_loopback() || address.is_unspecified() {
        return true;
    }
    let nowhere = if address.is_ipv4() {
        IpAddr::from(NOWHERE_4)
    } else {
        NOWHERE_6.into()
    };
    // With `net.ipv4.ip_nonlocal_bind` every address can be bound, and only the route tells whose it is.
    binds(address) && !binds(nowhere) || routed_back(address)
}

fn binds(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The kernel would use the destination itself as the source address.
fn routed_back(address: IpAddr) -> bool {
    let unspecified = if address.is_ipv4() {
        IpAddr::from(Ipv4Addr::UNSPECIFIED)
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let from = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect((address, DISCARD))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{ListenGuard, is_here, listens_at};

    #[test]
    fn only_addresses_of_this_machine_lead_here() {
        let here = |address: &str| is_here(address.parse().unwrap());
        assert!(
            here("127.0.0.1")
                && here("127.9.9.9")
                && here("::1")
                && here("0.0.0.0")
                && here("::ffff:127.0.0.1")
        );
        assert!(!here("8.8.8.8") && !here("2606:4700::1111") && !here("64:ff9b::808:808"));
        assert!(
            here("64:ff9b::7f00:1"),
            "a translator of addresses leads wherever the inner address does"
        );
    }

    #[test]
    fn every_spelling_of_the_own_address_is_known() {
        let at = |address: &str, here: bool| listens_at(address.parse().unwrap(), here);
        let one: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let listening = ListenGuard::at(one);
        assert!(
            at("127.0.0.1:1", true)
                && at("[::ffff:127.0.0.1]:1", true)
                && at("0.0.0.0:1", true)
                && at("[::]:1", true)
        );
        assert!(!at("127.0.0.1:2", true) && !at("127.0.0.2:1", true));
        drop(listening);
        assert!(!at("127.0.0.1:1", true));
        let _everywhere = ListenGuard::at("[::]:3".parse().unwrap());
        assert!(at("127.0.0.2:3", true) && at("192.0.2.7:3", true) && !at("192.0.2.7:3", false));
    }
}
