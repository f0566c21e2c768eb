//! Asking name servers: over UDP, and over TCP for an answer that does not fit.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::message::{self, Answer, Kind, UDP_BYTES_MAX};

/// How long to wait for a name server, and how often to ask each.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    pub(super) each: Duration,
    pub(super) attempts: u32,
}

/// Every address of `name`, those of IPv4 first: few are tried, and machines without IPv6 are more common than those
/// without IPv4. Nothing where there is no such name.
pub(super) async fn addresses(name: &str, servers: &[SocketAddr], patience: &Patience) -> io::Result<Vec<IpAddr>> {
    let (v4, v6) = tokio::join!(of(name, Kind::V4, servers, patience), of(name, Kind::V6, servers, patience));
    match (v4, v6) {
        (Ok(v4), Ok(v6)) => Ok(v4.into_iter().chain(v6).collect()),
        // Half an answer is not vetted as a whole one would be, but every address of it is.
        (Ok(found), Err(_)) | (Err(_), Ok(found)) if !found.is_empty() => Ok(found),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

async fn of(name: &str, kind: Kind, servers: &[SocketAddr], patience: &Patience) -> io::Result<Vec<IpAddr>> {
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..patience.attempts {
        for server in servers {
            match timeout(patience.each, one(name, kind, *server)).await {
                Ok(Ok(Answer::Addresses(addresses))) => return Ok(addresses),
                Ok(Ok(Answer::NoName)) => return Ok(Vec::new()),
                Ok(Ok(Answer::Cut | Answer::Failed)) => last = io::Error::other("the name server does not answer"),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
    }
    Err(last)
}

async fn one(name: &str, kind: Kind, server: SocketAddr) -> io::Result<Answer> {
    // An answer is believed for its id, the port that it comes to and the address that it comes from.
    let mut id = [0; 2];
    rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty())?;
    let question = message::question(u16::from_be_bytes(id), name, kind).ok_or(io::ErrorKind::InvalidInput)?;
    match over_udp(&question, kind, server).await? {
        Answer::Cut => over_tcp(&question, kind, server).await,
        answer => Ok(answer),
    }
}

async fn over_udp(question: &[u8], kind: Kind, server: SocketAddr) -> io::Result<Answer> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // From now on the kernel drops what others send.
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = [0; UDP_BYTES_MAX];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answer) = message::answer(question, buffer.get(..length).unwrap_or_default(), kind) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(question: &[u8], kind: Kind, server: SocketAddr) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes()[..], question].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    message::answer(question, &answer, kind).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
