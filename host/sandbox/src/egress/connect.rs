use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use toolcell_policy::network::{HostName, LOCALHOST, Scheme};
use wasmtime_wasi_http::Error;

use super::gate::NetworkGate;
use super::meter::MeteredSocket;
use super::target::RequestTarget;
use super::tls::TlsFailure;

const ADDRESSES_TRIED_MAX: usize = 4;

pub(super) type Socket = MeteredSocket;

pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Looks the host up once and vets its addresses. `patience` is for all of them together.
pub(super) async fn open(
    gate: &Arc<NetworkGate>,
    target: &RequestTarget,
    patience: Duration,
) -> Result<Box<dyn ByteStream>, Error> {
    let addresses = look_up(gate, target).await?;
    gate.vet(target, &addresses)?;
    let addresses = if guard!("resolve_once") {
        addresses
    } else {
        look_up(gate, target).await?
    };
    let socket = connect(target, &addresses, patience).await?;
    let ends = socket
        .local_addr()
        .and_then(|from| socket.peer_addr().map(|to| (from, to)));
    let (from, to) = ends.map_err(|_| Error::ConnectionTerminated)?;
    gate.vet_route(target, from, to)?;
    // Requests are written whole, so that waiting for more data (Nagle's algorithm) only adds latency.
    let _ = socket.set_nodelay(true);
    let socket = MeteredSocket::new(socket, Arc::clone(gate));
    match target.origin.scheme {
        Scheme::Http => Ok(Box::new(socket)),
        Scheme::Https => match gate.uplink.tls.handshake(&target.origin.host, socket).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(TlsFailure::Certificate(why)) => Err(gate.unproven(target, &why)),
            Err(TlsFailure::Other(error)) => Err(error),
        },
    }
}

async fn look_up(gate: &NetworkGate, target: &RequestTarget) -> Result<Vec<IpAddr>, Error> {
    let name = match &target.origin.host {
        HostName::Address(address) => return Ok(vec![*address]),
        HostName::Name(name) if name == LOCALHOST => {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        HostName::Name(name) => name,
    };
    let unknown = || Error::DnsError {
        rcode: Some("NXDOMAIN".to_owned()),
        info_code: None,
    };
    let addresses = gate
        .uplink
        .resolver
        .resolve(name)
        .await
        .map_err(|_| unknown())?;
    if addresses.is_empty() {
        Err(unknown())
    } else {
        Ok(addresses)
    }
}

async fn connect(
    target: &RequestTarget,
    addresses: &[IpAddr],
    patience: Duration,
) -> Result<TcpStream, Error> {
    let tried = addresses.len().clamp(1, ADDRESSES_TRIED_MAX);
    let share = patience / u32::try_from(tried).unwrap_or(1);
    let mut last = Error::ConnectionTimeout;
    for address in addresses.iter().take(tried) {
        let address = SocketAddr::new(*address, target.origin.port);
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => last = refused(&error),
            Err(_) => last = Error::ConnectionTimeout,
        }
    }
    Err(last)
}

fn refused(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
        io::ErrorKind::TimedOut => Error::ConnectionTimeout,
        _ => Error::DestinationUnavailable,
    }
}
