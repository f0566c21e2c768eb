//! Where clients connect: an address, or a socket in the file system.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// The socket of a server.
#[derive(Debug)]
pub enum HttpListener {
    /// Clients connect to an address.
    Tcp(TcpListener),
    /// Clients connect to a file.
    Unix(UnixListener),
}

impl From<TcpListener> for HttpListener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl HttpListener {
    /// `None` for a file.
    pub fn address(&self) -> anyhow::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map(Some)
                .context("cannot find the address"),
            Self::Unix(_) => Ok(None),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<ClientStream> {
        match self {
            Self::Tcp(listener) => Ok(ClientStream::Tcp(listener.accept().await?.0)),
            Self::Unix(listener) => Ok(ClientStream::Unix(listener.accept().await?.0)),
        }
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Address(IpAddr),
    /// A program of this machine that may open the server's file.
    Socket,
}

impl FromStr for Peer {
    type Err = String;

    /// An IP address, or `unix`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Self::Socket);
        }
        let address = text.parse::<IpAddr>();
        address
            .map(|address| Self::Address(address.to_canonical()))
            .map_err(|_| "give an IP address, or unix".to_owned())
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket => f.write_str("unix"),
        }
    }
}

pub(super) enum ClientStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl ClientStream {
    /// `None` if the client is gone already.
    pub(super) fn peer(&self) -> Option<Peer> {
        match self {
            Self::Tcp(stream) => {
                let peer = stream.peer_addr().ok()?;
                Some(Peer::Address(peer.ip().to_canonical()))
            }
            Self::Unix(_) => Some(Peer::Socket),
        }
    }

    /// Waits for the first byte, and leaves it to be read. `false` if the client sends none.
    pub(super) async fn speaks(&self) -> bool {
        let stream = match self {
            Self::Tcp(stream) => return matches!(stream.peek(&mut [0]).await, Ok(1)),
            Self::Unix(stream) => stream,
        };
        let peek = || SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]);
        loop {
            if stream.readable().await.is_err() {
                return false;
            }
            match stream.try_io(Interest::READABLE, peek) {
                Ok(read) => return read == 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }

    /// Answers go out at once, and a client that stops reading is dropped after `stalled`. On systems other than Linux, and
    /// on a file, only the end of the response frees the connection.
    pub(super) fn prepare(&self, stalled: Duration) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
            #[cfg(target_os = "linux")]
            let _ = SockRef::from(stream).set_tcp_user_timeout(Some(stalled));
            #[cfg(not(target_os = "linux"))]
            let _ = stalled;
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
