//! The sockets of a server: of its own, or passed by systemd.

use std::fmt;
use std::fs::{File, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use listenfd::ListenFd;
use rustix::fs::{FlockOperation, flock};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};
use toolcell_server::HttpListener;

use crate::exit::BadRequest;

/// A burst of more is accepted seconds later.
const BACKLOG: u32 = 1_024;
/// Another server begins to listen within a moment.
const LOCK_TIME: Duration = Duration::from_secs(5);
const LOCK_STEP: Duration = Duration::from_millis(10);
/// Set by systemd for a service with a socket unit.
const PASSED: &str = "LISTEN_FDS";

/// Where the server listens, as the operator writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenPlace {
    Address(SocketAddr),
    File(PathBuf),
}

impl ListenPlace {
    /// `ADDRESS:PORT` or `unix:PATH`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if Path::new(path).is_absolute() => Ok(Self::File(PathBuf::from(path))),
            Some(_) => Err("give an absolute path: unix:/run/toolcell/http.sock".to_owned()),
            None => text.parse().map(Self::Address).map_err(|_| {
                "give an address with a port, such as 127.0.0.1:4780, or unix:PATH".to_owned()
            }),
        }
    }
}

impl fmt::Display for ListenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::File(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that systemd listens at.
pub(super) enum PassedSocket {
    Tcp(StdTcpListener),
    Unix(StdUnixListener),
}

impl PassedSocket {
    /// `None` if this process was not started for a socket. To be called before threads exist, because the variables that
    /// name it are removed.
    pub(super) fn take() -> anyhow::Result<Option<Self>> {
        if std::env::var_os(PASSED).is_none() {
            return Ok(None);
        }
        let mut passed = ListenFd::from_env();
        if passed.len() > 1 {
            let why = "systemd passes more than one socket, and one can be served: keep one line with ListenStream";
            return Err(BadRequest(why.to_owned()).into());
        }
        let taken = match passed.take_tcp_listener(0) {
            Ok(listener) => Ok(listener.map(Self::Tcp)),
            Err(_) => passed.take_unix_listener(0).map(|it| it.map(Self::Unix)),
        };
        let taken = taken.map_err(|error| {
            BadRequest(format!(
                "the socket that {PASSED} names cannot be served: {error}"
            ))
        })?;
        if taken.as_ref().is_some_and(Self::is_connected) {
            let why = "systemd passes the connection of one client, and a server needs the socket where all connect: set \
                       Accept=no in the .socket unit";
            return Err(BadRequest(why.to_owned()).into());
        }
        Ok(taken)
    }

    fn is_connected(&self) -> bool {
        let peer = match self {
            Self::Tcp(listener) => listener
                .as_fd()
                .try_clone_to_owned()
                .and_then(|fd| TcpStream::from(fd).peer_addr().map(drop)),
            Self::Unix(listener) => listener
                .as_fd()
                .try_clone_to_owned()
                .and_then(|fd| UnixStream::from(fd).peer_addr().map(drop)),
        };
        peer.is_ok()
    }

    pub(super) fn place(&self) -> io::Result<ListenPlace> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenPlace::Address),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().unwrap_or(Path::new("/"));
                Ok(ListenPlace::File(path.to_owned()))
            }
        }
    }

    /// Permissions to connect. systemd made the file; an abstract socket has none, and is open to all users.
    pub(super) fn mode(&self) -> u32 {
        let mode = |listener: &StdUnixListener| {
            let address = listener.local_addr().ok()?;
            let metadata = address.as_pathname()?.metadata().ok()?;
            Some(metadata.mode() & 0o777)
        };
        match self {
            Self::Tcp(_) => 0o777,
            Self::Unix(listener) => mode(listener).unwrap_or(0o777),
        }
    }

    /// Must be called within a runtime.
    pub(super) fn listen(self) -> io::Result<HttpListener> {
        match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(HttpListener::Tcp)
            }
            Self::Unix(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(HttpListener::Unix)
            }
        }
    }
}

/// Removes the file of a server that ends, unless another one has replaced it.
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let now = self.path.symlink_metadata();
        if now.is_ok_and(|now| now.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Must be called within a runtime.
pub(super) fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    // A server that follows another one takes its port at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Clients connect only once the file has `mode`. Must be called within a runtime.
pub(super) fn listen_in(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    // Of two servers that start at once, each would take the other's socket, which does not listen yet, for a stale one.
    let _alone = lock_folder(path);
    remove_stale(path)?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    let inode = path.symlink_metadata()?.ino();
    let file = SocketFile {
        path: path.to_owned(),
        inode,
    };
    Ok((socket.listen(BACKLOG)?, file))
}

/// Until it is closed, no other server begins to listen in the folder. `None` if others keep it locked, or it cannot be read:
/// that must not keep a server from starting.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = File::open(path.parent()?).ok()?;
    let began = Instant::now();
    while flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        if began.elapsed() >= LOCK_TIME {
            return None;
        }
        std::thread::sleep(LOCK_STEP);
    }
    Some(folder)
}

/// Removes the socket of a server that was killed. Fails if one listens there, and for any other file.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(there) = path.symlink_metadata() else {
        return Ok(());
    };
    if !there.file_type().is_socket() {
        return Err(io::Error::other("there is a file that is not a socket"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}
