use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A server on the loopback interface that counts its connections, and answers as the test tells it. It stops on drop.
pub(crate) struct Server {
    pub(crate) port: u16,
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
    over: AtomicBool,
    heads: Mutex<Vec<String>>,
}

/// One connection, from the server's side.
pub(crate) struct Visit {
    stream: Box<dyn Stream>,
    /// The socket itself, closed after the visit.
    socket: TcpStream,
    seen: Arc<Seen>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A certificate for some names, and the authority that signed it.
pub(crate) struct Identity {
    config: Arc<ServerConfig>,
    authority: String,
}

impl Server {
    /// Serves plain text.
    pub(crate) fn start(serve: impl Fn(&mut Visit) + Send + Sync + 'static) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").unwrap(), None, serve)
    }

    /// Answers every request with `response`.
    pub(crate) fn saying(response: &'static str) -> Self {
        Self::start(move |visit| {
            if visit.head().is_some() {
                visit.say(response);
            }
        })
    }

    /// Answers every request with a small text.
    pub(crate) fn hello() -> Self {
        Self::saying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
    }

    /// Answers with hello, at an address of this machine.
    pub(crate) fn hello_at(address: &str) -> Self {
        Self::listen(TcpListener::bind(address).unwrap(), None, |visit| {
            if visit.head().is_some() {
                visit.say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
            }
        })
    }

    /// Speaks TLS as `identity`.
    pub(crate) fn secure(
        identity: &Identity,
        serve: impl Fn(&mut Visit) + Send + Sync + 'static,
    ) -> Self {
        Self::listen(
            TcpListener::bind("127.0.0.1:0").unwrap(),
            Some(Arc::clone(&identity.config)),
            serve,
        )
    }

    fn listen(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        serve: impl Fn(&mut Visit) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let server = Self {
            port: address.port(),
            address,
            seen: Arc::clone(&seen),
        };
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(socket) = socket else { return };
                if seen.over.load(Ordering::SeqCst) {
                    return;
                }
                seen.connections.fetch_add(1, Ordering::SeqCst);
                let open = seen.open.fetch_add(1, Ordering::SeqCst) + 1;
                seen.most_open.fetch_max(open, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                let seen = Arc::clone(&seen);
                let tls = tls.clone();
                std::thread::spawn(move || {
                    let held = socket.try_clone().unwrap();
                    let stream: Box<dyn Stream> = match tls {
                        Some(config) => Box::new(StreamOwned::new(
                            ServerConnection::new(config).unwrap(),
                            socket,
                        )),
                        None => Box::new(socket),
                    };
                    serve(&mut Visit {
                        stream,
                        socket: held,
                        seen,
                    });
                });
            }
        });
        server
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The maximum number of connections that were open at the same time.
    pub(crate) fn most_open(&self) -> usize {
        self.seen.most_open.load(Ordering::SeqCst)
    }

    /// Connections that are open now.
    pub(crate) fn open(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    /// The heads of all requests, in order of arrival.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.heads.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.seen.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Visit {
    /// Reads up to the empty line. `None` if the client has closed the connection.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if self.stream.read(&mut byte).ok()? == 0 {
                return None;
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        self.seen.heads.lock().unwrap().push(head.clone());
        Some(head)
    }

    /// Sends `text`. Returns whether the client was still connected.
    pub(crate) fn say(&mut self, text: &str) -> bool {
        self.say_bytes(text.as_bytes())
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush())
            .is_ok()
    }

    /// Reads to the end of the connection. Returns the number of bytes.
    pub(crate) fn drain(&mut self) -> usize {
        let mut total = 0;
        let mut buffer = [0; 64 << 10];
        while let Ok(read @ 1..) = self.stream.read(&mut buffer) {
            total += read;
        }
        total
    }

    /// Reads until the text ends with `end`.
    pub(crate) fn until(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(end.as_bytes()) && matches!(self.stream.read(&mut byte), Ok(1)) {
            text.push(byte[0]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
        self.seen.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A server that shows `certificate`.
fn configured(certificate: CertificateDer<'static>, key: &KeyPair) -> ServerConfig {
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], private)
        .unwrap()
}

impl Identity {
    pub(crate) fn of(names: &[&str]) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let root = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        Self {
            config: Arc::new(configured(certificate.der().clone(), &key)),
            authority: root.pem(),
        }
    }

    /// The certificate of an authority, which a server uses as its own.
    pub(crate) fn of_authority(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut authority = CertificateParams::new(names).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = authority.self_signed(&key).unwrap();
        Self {
            config: Arc::new(configured(root.der().clone(), &key)),
            authority: root.pem(),
        }
    }

    /// A file in `dir` with the certificate of the authority.
    pub(crate) fn authority_in(&self, dir: &Path) -> PathBuf {
        let file = dir.join("authority.pem");
        std::fs::write(&file, &self.authority).unwrap();
        file
    }
}
