//! Sign-in with access tokens of OAuth 2.1, of issuers that the tests run themselves.
//!
//! Promise: Strangers stay out.

mod issuers;
mod protocol;
mod tokens;

use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair,
};
use serde_json::{Value, json};

use crate::support::{Coming, Home, Reply, Server, Web, frame, records};

/// Made for these tests alone.
const RSA_KEY: &str = include_str!("rsa_key_of_tests.pem");

/// A key of an issuer.
pub(super) enum Signer {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(super) fn rsa() -> Self {
        let lines = RSA_KEY.lines().filter(|line| !line.starts_with('-'));
        let der = BASE64.decode(lines.collect::<String>().as_bytes()).unwrap();
        Self::Rsa(RsaKeyPair::from_pkcs8(&der).unwrap())
    }

    pub(super) fn ec() -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let der = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(kind, der.as_ref(), &random).unwrap())
    }

    pub(super) fn ed() -> Self {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap())
    }

    /// The public key, as a JWK.
    pub(super) fn jwk(&self, kid: &str) -> Value {
        let encoded = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let mut jwk = match self {
            Self::Rsa(key) => {
                let key: PublicKeyComponents<Vec<u8>> = key.public().into();
                json!({ "kty": "RSA", "n": encoded(&key.n), "e": encoded(&key.e) })
            }
            Self::Ec(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encoded(x), "y": encoded(y) })
            }
            Self::Ed(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(key.public_key().as_ref()) })
            }
        };
        jwk["kid"] = json!(kid);
        jwk
    }

    fn sign(&self, algorithm: &str, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let padding: &'static dyn signature::RsaEncoding = match algorithm {
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding, &random, text, &mut signature).unwrap();
                signature
            }
            Self::Ec(key) => key.sign(&random, text).unwrap().as_ref().to_vec(),
            Self::Ed(key) => key.sign(text).as_ref().to_vec(),
        }
    }

    pub(super) fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, claims);
        let algorithm = header["alg"].as_str().unwrap();
        let signature = self.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
    }
}

fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    format!("{}.{}", part(header), part(claims))
}

pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs().try_into().unwrap()
}

/// An authorization server, as far as a resource server sees it: metadata and keys.
pub(crate) struct Issuer {
    pub(super) server: Server,
    pub(super) signer: Signer,
    documents: Arc<Mutex<Documents>>,
}

/// What it answers; an empty text: nothing, and the connection stays open.
#[derive(Default)]
struct Documents {
    metadata: String,
    keys: String,
}

impl Issuer {
    /// With a P-256 key of the id `one`.
    pub(crate) fn new() -> Self {
        Self::with(Signer::ec())
    }

    pub(super) fn with(signer: Signer) -> Self {
        let documents = Arc::<Mutex<Documents>>::default();
        let served = Arc::clone(&documents);
        let server = Server::start(move |visit| {
            let Some(head) = visit.head() else { return };
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let text = {
                let documents = served.lock().unwrap();
                match path.as_str() {
                    "/.well-known/openid-configuration" => documents.metadata.clone(),
                    "/keys" => documents.keys.clone(),
                    _ => {
                        visit.say("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
                        return;
                    }
                }
            };
            if text.is_empty() {
                visit.drain();
            } else {
                let length = text.len();
                visit.say(&format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}"
                ));
            }
        });
        let issuer = Self {
            server,
            signer,
            documents,
        };
        issuer.says_metadata(
            json!({ "issuer": issuer.url(), "jwks_uri": issuer.server.url("/keys") }),
        );
        issuer.has_keys(&[issuer.signer.jwk("one")]);
        issuer
    }

    pub(crate) fn url(&self) -> String {
        self.server.url("")
    }

    pub(super) fn says_metadata(&self, metadata: Value) {
        self.documents.lock().unwrap().metadata = metadata.to_string();
    }

    pub(super) fn has_keys(&self, keys: &[Value]) {
        self.says_keys(json!({ "keys": keys }).to_string());
    }

    pub(super) fn says_keys(&self, text: String) {
        self.documents.lock().unwrap().keys = text;
    }

    /// The number of requests for its keys.
    pub(super) fn fetches(&self) -> usize {
        let heads = self.server.heads();
        heads
            .iter()
            .filter(|head| head.starts_with("GET /keys "))
            .count()
    }

    pub(super) fn header(&self) -> Value {
        let algorithm = match self.signer {
            Signer::Rsa(_) => "RS256",
            Signer::Ec(_) => "ES256",
            Signer::Ed(_) => "EdDSA",
        };
        json!({ "alg": algorithm, "typ": "at+jwt", "kid": "one" })
    }

    /// The claims of a good token of `sub` for `web`.
    pub(super) fn claims(&self, web: &Web, sub: &str) -> Value {
        self.claims_for(&format!("http://{}/mcp", web.address), sub)
    }

    fn claims_for(&self, resource: &str, sub: &str) -> Value {
        json!({
            "iss": self.url(),
            "aud": resource,
            "sub": sub,
            "client_id": "test",
            "iat": now(),
            "exp": now() + 300,
            "jti": "1",
        })
    }

    pub(super) fn token(&self, web: &Web, sub: &str) -> String {
        self.signer.token(&self.header(), &self.claims(web, sub))
    }

    /// A token of `sub` for a server that runs elsewhere.
    pub(crate) fn token_for(&self, resource: &str, sub: &str) -> String {
        let claims = self.claims_for(resource, sub);
        self.signer.token(&self.header(), &claims)
    }

    /// The section of the settings.
    pub(super) fn section(&self, more: &str) -> String {
        format!("[[issuer]]\nurl = \"{}\"\n{more}\n", self.url())
    }

    pub(super) fn principal(&self, name: &str, claims: &str) -> String {
        let url = self.url();
        format!("[[principal]]\nname = \"{name}\"\nissuer = \"{url}\"\nclaims = {claims}\n")
    }
}

/// A server with one tool, and the file of its records.
pub(super) struct Serving {
    pub(super) web: Web,
    pub(super) home: Home,
}

impl Serving {
    pub(super) fn of(settings: &str) -> Self {
        Self::with(settings, &[])
    }

    pub(super) fn with(settings: &str, options: &[&str]) -> Self {
        let home = Home::new();
        home.configure(settings);
        let record = format!("--record-to={}", home.path().join("records").display());
        let options = options.iter().copied().chain([record.as_str()]);
        let arguments = Web::arguments(&["probe#invocation"], options);
        let arguments: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
        let web = Web::run(home.toolcell(&arguments));
        Self { web, home }
    }

    /// A server with one issuer, which knows `anna` by the claim `sub`.
    pub(super) fn for_anna(issuer: &Issuer, more: &str) -> Self {
        let anna = issuer.principal("anna", "{ sub = \"anna\" }");
        Self::of(&format!("{}{anna}", issuer.section(more)))
    }

    /// Sends a call, and does not wait for the response.
    pub(super) fn begin(&self, token: &str) -> TcpStream {
        let authorization = format!("Bearer {token}");
        let headers = self.web.changed(&[("Authorization", &authorization)]);
        let body = json!({ "tool": "invocation", "input": {} }).to_string();
        self.web.begin("POST /v1/calls", &headers, &body)
    }

    pub(super) fn call(&self, token: &str) -> Reply {
        Coming::head(self.begin(token)).whole()
    }

    /// The first request of an MCP client.
    pub(super) fn greet(&self, authorization: &str) -> Reply {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let body = frame(json!(0), "initialize", params);
        self.web
            .request("POST /mcp", &[("Authorization", authorization)], &body)
    }

    /// Fails unless the call is refused with this status, and with the parts of `WWW-Authenticate` and of the reason.
    #[track_caller]
    pub(super) fn refuses(&self, token: &str, status: u16, told: &str) {
        let reply = self.call(token);
        assert_eq!(reply.status, status, "{told}: {reply:?}");
        assert!(reply.body.contains(told), "{told}: {reply:?}");
        let mut parts = token.split('.').filter(|part| part.len() > 20);
        assert!(
            !parts.any(|part| format!("{reply:?}").contains(part)),
            "{reply:?}"
        );
    }

    #[track_caller]
    pub(super) fn takes(&self, token: &str) {
        let reply = self.call(token);
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    /// The last one is written after its answer.
    pub(super) fn records_of(&self, calls: usize) -> Vec<Value> {
        let began = std::time::Instant::now();
        loop {
            let records = self.records();
            if records.len() >= calls {
                return records;
            }
            assert!(began.elapsed().as_secs() < 20, "{records:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub(super) fn records(&self) -> Vec<Value> {
        records(&self.home.path().join("records"))
    }
}
