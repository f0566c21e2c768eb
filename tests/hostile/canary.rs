//! What no guest may touch, see or reach: a folder, a secret, listeners.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::inotify;
use toolcell_spec::digest;

/// The content of the canary file.
pub(super) const CONTENT: &str = "canary-b7c9-nobody-may-read-this";

/// A folder beside all granted folders.
pub(super) struct Canary {
    dir: PathBuf,
    before: BTreeMap<PathBuf, (String, SystemTime)>,
    watch: OwnedFd,
}

impl Canary {
    pub(super) fn place(dir: &Path) -> Self {
        std::fs::create_dir_all(dir.join("deep/er")).unwrap();
        for file in ["canary.txt", "deep/canary.txt", "deep/er/canary.txt"] {
            std::fs::write(dir.join(file), CONTENT).unwrap();
        }
        let before = look(dir);
        let watch =
            inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        for file in before.keys().filter(|path| path.is_file()) {
            inotify::add_watch(&watch, file.as_path(), inotify::WatchFlags::ALL_EVENTS).unwrap();
        }
        Self {
            dir: dir.to_owned(),
            before,
            watch,
        }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.dir.join("canary.txt")
    }

    /// Every access and change that was seen.
    pub(super) fn harmed(self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        while let Ok(event) = events.next() {
            wrong.push(format!(
                "X: the canary file was touched: {:?}",
                event.events()
            ));
        }
        let after = look(&self.dir);
        if after != self.before {
            wrong.push(format!(
                "X: the canary folder was {:?}, and is {after:?}",
                self.before
            ));
        }
        wrong
    }
}

fn look(dir: &Path) -> BTreeMap<PathBuf, (String, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let content = if metadata.is_dir() {
            found.extend(look(&path));
            String::new()
        } else {
            digest(&std::fs::read(&path).unwrap())
        };
        found.insert(path, (content, metadata.modified().unwrap()));
    }
    found
}

/// The spellings in which a guest might hide or leak a secret.
pub(super) fn spellings(secret: &str) -> Vec<String> {
    let mut spellings = vec![secret.to_owned(), secret.chars().rev().collect()];
    let json = serde_json::to_string(secret).unwrap();
    spellings.push(json.trim_matches('"').to_owned());
    let mut hex = String::new();
    let mut percent = String::new();
    for byte in secret.bytes() {
        write!(hex, "{byte:02x}").unwrap();
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            percent.push(char::from(byte))
        } else {
            write!(percent, "%{byte:02X}").unwrap()
        }
    }
    // Base64 has three forms, by the position in the text; the first and last characters depend on the text around.
    for before in 0..3 {
        let encoded = base64(&[vec![b' '; before], secret.as_bytes().to_vec()].concat());
        spellings.push(encoded[4..encoded.len() - 4].to_owned());
    }
    spellings.extend([hex.to_uppercase(), hex, percent]);
    spellings
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for place in 0..4 {
            let shown = place <= chunk.len();
            text.push(if shown {
                char::from(ALPHABET[bits >> (18 - 6 * place) & 63])
            } else {
                '='
            });
        }
    }
    text
}

/// Listeners on both loopback addresses that count connections and packets.
pub(super) struct Listeners {
    pub(super) port: u16,
    hits: Arc<AtomicU64>,
}

impl Listeners {
    pub(super) fn open() -> Self {
        let hits = Arc::new(AtomicU64::new(0));
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        listen(first, &hits);
        // The machine may lack IPv6, or the port may be taken; then there is one listener less.
        if let Ok(second) = TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            listen(second, &hits);
        }
        for address in [
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
        ] {
            if let Ok(socket) = UdpSocket::bind(address) {
                let hits = Arc::clone(&hits);
                socket
                    .set_read_timeout(Some(Duration::from_secs(600)))
                    .unwrap();
                std::thread::spawn(move || {
                    while socket.recv(&mut [0; 16]).is_ok() {
                        hits.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        }
        Self { port, hits }
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits.load(Ordering::SeqCst)
    }
}

fn listen(listener: TcpListener, hits: &Arc<AtomicU64>) {
    let hits = Arc::clone(hits);
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            hits.fetch_add(1, Ordering::SeqCst);
        }
    });
}
