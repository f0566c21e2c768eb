use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolcell_install::digest::Digest;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A registry on this machine, which lists what is attached to an artifact by itself, and which a test can make lie. It
/// stops on drop.
pub(crate) struct Registry {
    port: u16,
    over: Arc<AtomicBool>,
    shelf: Arc<Mutex<Shelf>>,
}

/// Changes an answer: gets the method, the path and what the registry would answer.
type Tamper = dyn Fn(&str, &str, Answer) -> Answer + Send + Sync;

#[derive(Default)]
struct Shelf {
    blobs: BTreeMap<String, Vec<u8>>,
    /// By `repository/tag` and `repository/digest`: media type and bytes.
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    seen: Vec<Seen>,
    /// `Basic ..` or `Bearer ..`: what requests must carry.
    wanted: Option<String>,
    /// What the token server wants; it is asked for if `wanted` is a token.
    exchanged: Option<String>,
    tamper: Option<Arc<Tamper>>,
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// What a registry answers.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    Whole(Vec<u8>),
    /// Fewer bytes than the head says.
    Cut {
        claimed: u64,
        sent: Vec<u8>,
    },
    /// So many bytes of nothing, without a word on their number.
    Zeros(u64),
    /// A byte at a time, with a pause before each, for ever.
    Drops(Duration),
}

impl Answer {
    pub(crate) fn of(status: u16, media_type: &str, body: &[u8]) -> Self {
        let headers = vec![("content-type".to_owned(), media_type.to_owned())];
        Self {
            status,
            headers,
            body: Body::Whole(body.to_owned()),
        }
    }

    pub(crate) fn redirect(location: &str) -> Self {
        let headers = vec![("location".to_owned(), location.to_owned())];
        Self {
            status: 307,
            headers,
            body: Body::Whole(Vec::new()),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Registry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let over = Arc::<AtomicBool>::default();
        let shelf = Arc::<Mutex<Shelf>>::default();
        let ended = Arc::clone(&over);
        let kept = Arc::clone(&shelf);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let ended = Arc::clone(&ended);
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream.unwrap(), port, &kept, &ended));
            }
        });
        Self { port, over, shelf }
    }

    /// `127.0.0.1:PORT`
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Requests must carry these credentials.
    pub(crate) fn wants_password(&self, user: &str, password: &str) {
        self.shelf.lock().unwrap().wanted = Some(basic(user, password));
    }

    /// Requests must carry a token, which a server gives for these credentials.
    pub(crate) fn wants_token(&self, user: &str, password: &str) {
        let mut shelf = self.shelf.lock().unwrap();
        shelf.wanted = Some("Bearer a-token".to_owned());
        shelf.exchanged = Some(basic(user, password));
    }

    pub(crate) fn tamper(
        &self,
        change: impl Fn(&str, &str, Answer) -> Answer + Send + Sync + 'static,
    ) {
        self.shelf.lock().unwrap().tamper = Some(Arc::new(change));
    }

    /// Answers honestly again.
    pub(crate) fn heal(&self) {
        self.shelf.lock().unwrap().tamper = None;
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shelf.lock().unwrap().seen.clone()
    }

    /// Keeps a manifest as it is, under a tag or a digest.
    pub(crate) fn put_manifest(
        &self,
        repository: &str,
        reference: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Digest {
        let digest = Digest::of(bytes);
        let mut shelf = self.shelf.lock().unwrap();
        for name in [reference.to_owned(), digest.to_string()] {
            shelf.manifests.insert(
                format!("{repository}/{name}"),
                (media_type.to_owned(), bytes.to_owned()),
            );
        }
        digest
    }

    /// Keeps a blob, and returns its descriptor.
    pub(crate) fn put_blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes).to_string();
        self.shelf
            .lock()
            .unwrap()
            .blobs
            .insert(digest.clone(), bytes.to_owned());
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    /// Keeps a component in the CNCF layout, without a push.
    pub(crate) fn put_component(&self, repository: &str, tag: &str, component: &[u8]) -> Digest {
        let config = self.put_blob("application/vnd.wasm.config.v0+json", b"{}");
        let layer = self.put_blob("application/wasm", component);
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
        self.put_manifest(repository, tag, MANIFEST, manifest.to_string().as_bytes())
    }

    /// Attaches a document to the manifest `subject`.
    pub(crate) fn attach(
        &self,
        repository: &str,
        subject: Digest,
        media_type: &str,
        bytes: &[u8],
    ) -> Digest {
        let config = self.put_blob("application/vnd.oci.empty.v1+json", b"{}");
        let layer = self.put_blob(media_type, bytes);
        let subject = json!({ "mediaType": MANIFEST, "digest": subject, "size": 1 });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": media_type, "config": config, "layers": [layer],
            "subject": subject,
        });
        self.put_manifest(
            repository,
            "attached",
            MANIFEST,
            manifest.to_string().as_bytes(),
        )
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn basic(user: &str, password: &str) -> String {
    format!(
        "Basic {}",
        data_encoding::BASE64.encode(format!("{user}:{password}").as_bytes())
    )
}

fn serve(stream: TcpStream, port: u16, shelf: &Mutex<Shelf>, over: &AtomicBool) {
    let Some(seen) = read(&stream) else { return };
    let (answer, tamper) = {
        let mut shelf = shelf.lock().unwrap();
        shelf.seen.push(seen.clone());
        (shelf.answer(&seen, port), shelf.tamper.clone())
    };
    let answer = match tamper {
        Some(tamper) => tamper(&seen.method, &seen.path, answer),
        None => answer,
    };
    // The client may be gone before it has read everything.
    let _ = write(stream, &seen.method, answer, over);
}

fn read(stream: &TcpStream) -> Option<Seen> {
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let header = |name: &str| {
        let found = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let mut words = head.split(' ');
    let method = words.next()?.to_owned();
    let path = words.next()?.to_owned();
    let mut body = vec![
        0;
        header("content-length")
            .and_then(|length| length.parse().ok())
            .unwrap_or(0)
    ];
    reader.read_exact(&mut body).ok()?;
    Some(Seen {
        method,
        path,
        authorization: header("authorization"),
        body,
    })
}

fn write(
    mut stream: TcpStream,
    method: &str,
    answer: Answer,
    over: &AtomicBool,
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Status\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match &answer.body {
        Body::Whole(body) => head.push_str(&format!("content-length: {}\r\n", body.len())),
        Body::Cut { claimed, .. } => head.push_str(&format!("content-length: {claimed}\r\n")),
        Body::Zeros(_) | Body::Drops(_) => {}
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if method == "HEAD" {
        return Ok(());
    }
    match answer.body {
        Body::Whole(body) | Body::Cut { sent: body, .. } => stream.write_all(&body),
        Body::Zeros(count) => {
            let part = vec![0; 1 << 16];
            (0..count / part.len() as u64).try_for_each(|_| stream.write_all(&part))
        }
        Body::Drops(pause) => {
            while !over.load(Ordering::SeqCst) {
                std::thread::sleep(pause);
                stream.write_all(b" ")?;
            }
            Ok(())
        }
    }
}

impl Shelf {
    fn answer(&mut self, seen: &Seen, port: u16) -> Answer {
        let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
        if path == "/token" {
            return if seen.authorization == self.exchanged {
                Answer::of(200, "application/json", br#"{"token": "a-token"}"#)
            } else {
                error(401, "DENIED")
            };
        }
        if self.wanted.is_some() && seen.authorization != self.wanted {
            let challenge = match self.exchanged {
                Some(_) => {
                    format!("Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"here\"")
                }
                None => "Basic realm=\"here\"".to_owned(),
            };
            return error(401, "UNAUTHORIZED").with("www-authenticate", &challenge);
        }
        let path = path.strip_prefix("/v2/").unwrap_or_default();
        if let Some((repository, _)) = path.split_once("/blobs/uploads/") {
            return self.upload(seen, repository, query);
        }
        if let Some((_, digest)) = path.split_once("/blobs/") {
            return match self.blobs.get(digest) {
                Some(bytes) => Answer::of(200, "application/octet-stream", bytes),
                None => error(404, "BLOB_UNKNOWN"),
            };
        }
        if let Some((repository, reference)) = path.split_once("/manifests/") {
            return self.manifest(seen, repository, reference);
        }
        match path.split_once("/referrers/") {
            Some((repository, subject)) => self.referrers(repository, subject),
            None => error(404, "UNSUPPORTED"),
        }
    }

    fn upload(&mut self, seen: &Seen, repository: &str, query: &str) -> Answer {
        if seen.method == "POST" {
            return Answer::of(202, "text/plain", b"").with(
                "location",
                &format!("/v2/{repository}/blobs/uploads/1?state=x"),
            );
        }
        let digest = query
            .rsplit_once("digest=")
            .map(|(_, digest)| digest.replace("%3A", ":"))
            .unwrap_or_default();
        if digest != Digest::of(&seen.body).to_string() {
            return error(400, "DIGEST_INVALID");
        }
        self.blobs.insert(digest, seen.body.clone());
        Answer::of(201, "text/plain", b"").with("location", "/")
    }

    fn manifest(&mut self, seen: &Seen, repository: &str, reference: &str) -> Answer {
        if seen.method != "PUT" {
            let found = self.manifests.get(&format!("{repository}/{reference}"));
            return found.map_or_else(
                || error(404, "MANIFEST_UNKNOWN"),
                |(kind, bytes)| Answer::of(200, kind, bytes),
            );
        }
        let manifest: Value = serde_json::from_slice(&seen.body).unwrap();
        let kind = manifest["mediaType"].as_str().unwrap().to_owned();
        for name in [reference.to_owned(), Digest::of(&seen.body).to_string()] {
            self.manifests.insert(
                format!("{repository}/{name}"),
                (kind.clone(), seen.body.clone()),
            );
        }
        let answer = Answer::of(201, "text/plain", b"");
        match manifest["subject"]["digest"].as_str() {
            Some(subject) => answer.with("oci-subject", subject),
            None => answer,
        }
    }

    fn referrers(&self, repository: &str, subject: &str) -> Answer {
        let mut entries = Vec::new();
        for (name, (kind, bytes)) in &self.manifests {
            let manifest: Value = serde_json::from_slice(bytes).unwrap_or_default();
            let digest = Digest::of(bytes).to_string();
            if *name == format!("{repository}/{digest}") && manifest["subject"]["digest"] == subject
            {
                entries.push(json!({ "mediaType": kind, "digest": digest, "size": bytes.len() }));
            }
        }
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries });
        Answer::of(200, INDEX, index.to_string().as_bytes())
    }
}

fn error(status: u16, code: &str) -> Answer {
    Answer::of(
        status,
        "application/json",
        json!({ "errors": [{ "code": code }] })
            .to_string()
            .as_bytes(),
    )
}
