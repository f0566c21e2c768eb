//! Signs with a managed key or a minisign key, in the formats that cosign and minisign read.

use std::io::Cursor;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sigstore_verify::types::{DerPublicKey, pae};

use toolcell_spec::{ErrorCode, Refusal};
use zeroize::Zeroizing;

use super::key::{ManagedKey, MinisignKey};
use super::statement::{PAYLOAD_TYPE, SIGN_PREDICATE, STATEMENT_TYPE};
use super::{cosign_key, minisign as verification};
use crate::digest::Digest;
use crate::source::{MINISIGN, SIGSTORE_BUNDLE};
use crate::verifier::Signer;

/// In bytes.
pub const KEY_BYTES_MAX: u64 = 64 << 10;
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const ED25519_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

pub struct SigningKey {
    kind: KeyKind,
    signer: Signer,
}

enum KeyKind {
    Ecdsa(Box<EcdsaKeyPair>, ManagedKey),
    Ed25519(Box<Ed25519KeyPair>, ManagedKey),
    Minisign(Box<minisign::SecretKey>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureFile {
    /// [`SIGSTORE_BUNDLE`] or [`MINISIGN`].
    pub media_type: &'static str,
    pub ending: &'static str,
    pub bytes: Vec<u8>,
}

impl SigningKey {
    /// PKCS #8 in PEM, a key of cosign, or one of minisign. `password` is asked for only if the key is encrypted.
    pub fn read(
        text: &str,
        password: impl FnOnce() -> Result<Zeroizing<String>, Refusal>,
    ) -> Result<Self, Refusal> {
        super::provider::install();
        let text = text.trim();
        if text.starts_with(verification::BEGIN) {
            return Self::of_minisign(text, password);
        }
        let (label, body) =
            pem(text).ok_or_else(|| unreadable("it is neither a PEM key nor a minisign key"))?;
        match label {
            "PRIVATE KEY" => Self::of_pkcs8(&body),
            "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" => Self::of_pkcs8(
                &cosign_key::decrypt(&body, &password()?).map_err(|why| unreadable(&why))?,
            ),
            "PUBLIC KEY" => Err(unreadable("it is a public key, which cannot sign")),
            "ENCRYPTED PRIVATE KEY" => Err(unreadable(
                "encrypted PKCS #8 is not supported; `openssl pkcs8 -in KEY -out NEW` decrypts it, and \
                 `cosign import-key-pair --key NEW` encrypts it again",
            )),
            other => Err(unreadable(&format!(
                "`{other}` is not supported; `openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW` converts it"
            ))),
        }
    }

    fn of_pkcs8(der: &[u8]) -> Result<Self, Refusal> {
        let managed = |prefix: &[u8], key: &[u8]| {
            ManagedKey::from_der(DerPublicKey::new([prefix, key].concat()))
                .map_err(|why| unreadable(&why))
        };
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            let key = managed(&ED25519_PREFIX, pair.public_key().as_ref())?;
            return Ok(Self {
                signer: key.signer(),
                kind: KeyKind::Ed25519(Box::new(pair), key),
            });
        }
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &SystemRandom::new());
        let pair =
            pair.map_err(|_| unreadable("keys for ECDSA on P-256 and for Ed25519 can be used"))?;
        let key = managed(&P256_PREFIX, pair.public_key().as_ref())?;
        Ok(Self {
            signer: key.signer(),
            kind: KeyKind::Ecdsa(Box::new(pair), key),
        })
    }

    fn of_minisign(
        text: &str,
        password: impl FnOnce() -> Result<Zeroizing<String>, Refusal>,
    ) -> Result<Self, Refusal> {
        let invalid = |error: minisign::PError| unreadable(&error.to_string());
        let raw = text
            .lines()
            .nth(1)
            .and_then(|line| BASE64.decode(line.trim().as_bytes()).ok())
            .map(Zeroizing::new);
        let raw = raw.ok_or_else(|| unreadable("it is a damaged minisign key"))?;
        let key = match raw.get(2..4) {
            // `minisign -W` writes no checksum, which the reader of key files would miss.
            Some([0, 0]) => minisign::SecretKey::from_bytes(&raw),
            // Without a password it would ask for one itself.
            Some(b"Sc") => minisign::SecretKeyBox::from(text.to_owned())
                .into_secret_key(Some(password()?.to_string())),
            _ => return Err(unreadable("it is a damaged minisign key")),
        };
        let key = key.map_err(invalid)?;
        let public = minisign::PublicKey::from_secret_key(&key).map_err(invalid)?;
        let public = MinisignKey::parse(&public.to_base64()).map_err(|why| unreadable(&why))?;
        Ok(Self {
            signer: public.signer(),
            kind: KeyKind::Minisign(Box::new(key)),
        })
    }

    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// `name` is what the signature says of itself. Fails without random numbers.
    pub fn sign_file(&self, bytes: &[u8], name: &str) -> Result<SignatureFile, Refusal> {
        let content = |signature: Vec<u8>| {
            let digest = BASE64.encode(Digest::of(bytes).bytes());
            let message = json!({ "algorithm": "SHA2_256", "digest": digest });
            (
                "messageSignature",
                json!({ "messageDigest": message, "signature": BASE64.encode(&signature) }),
            )
        };
        match &self.kind {
            KeyKind::Minisign(key) => of_minisign(key, bytes, &format!("file:{name}")),
            kind => Ok(bundle(kind, content(raw(kind, bytes)?))),
        }
    }

    /// Like `cosign sign`; minisign signs the bytes of the manifest. Fails without random numbers.
    pub fn sign_manifest(&self, manifest: &[u8]) -> Result<SignatureFile, Refusal> {
        if let KeyKind::Minisign(key) = &self.kind {
            return of_minisign(key, manifest, &Digest::of(manifest).to_string());
        }
        let statement = json!({
            "_type": STATEMENT_TYPE,
            "subject": [{ "digest": { "sha256": Digest::of(manifest).hex() } }],
            "predicateType": SIGN_PREDICATE,
            "predicate": {},
        });
        let payload = statement.to_string().into_bytes();
        let signature = raw(&self.kind, &pae(PAYLOAD_TYPE, &payload))?;
        let envelope = json!({
            "payload": BASE64.encode(&payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{ "sig": BASE64.encode(&signature) }],
        });
        Ok(bundle(&self.kind, ("dsseEnvelope", envelope)))
    }
}

fn raw(kind: &KeyKind, message: &[u8]) -> Result<Vec<u8>, Refusal> {
    let failed = || Refusal::host_fault("the system has no random numbers to sign with");
    match kind {
        KeyKind::Ecdsa(pair, _) => pair
            .sign(&SystemRandom::new(), message)
            .map(|made| made.as_ref().to_vec())
            .map_err(|_| failed()),
        KeyKind::Ed25519(pair, _) => Ok(pair.sign(message).as_ref().to_vec()),
        KeyKind::Minisign(_) => Err(failed()),
    }
}

fn bundle(kind: &KeyKind, (name, content): (&str, Value)) -> SignatureFile {
    let hint = match kind {
        KeyKind::Ecdsa(_, key) | KeyKind::Ed25519(_, key) => key.hint(),
        KeyKind::Minisign(_) => String::new(),
    };
    let bundle = json!({
        "mediaType": SIGSTORE_BUNDLE,
        "verificationMaterial": { "publicKey": { "hint": hint }, "tlogEntries": [] },
        name: content,
    });
    SignatureFile {
        media_type: SIGSTORE_BUNDLE,
        ending: ".sigstore.json",
        bytes: bundle.to_string().into_bytes(),
    }
}

fn of_minisign(
    key: &minisign::SecretKey,
    bytes: &[u8],
    about: &str,
) -> Result<SignatureFile, Refusal> {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    // A line of its own: a name with a line break would end the comment.
    let about: String = about.chars().filter(|char| !char.is_control()).collect();
    let comment = format!("timestamp:{seconds}\t{about}\thashed");
    let made = minisign::sign(
        None,
        key,
        Cursor::new(bytes),
        Some(&comment),
        Some("signature from toolcell"),
    );
    let made = made.map_err(|error| Refusal::host_fault(error.to_string()))?;
    Ok(SignatureFile {
        media_type: MINISIGN,
        ending: ".minisig",
        bytes: made.to_string().into_bytes(),
    })
}

/// Label and content.
fn pem(text: &str) -> Option<(&str, Zeroizing<Vec<u8>>)> {
    let (label, rest) = text.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let body: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
    Some((label, Zeroizing::new(BASE64.decode(body.as_bytes()).ok()?)))
}

fn unreadable(why: &str) -> Refusal {
    let message = format!("the key to sign with cannot be read: {why}");
    Refusal::new(ErrorCode::KeyUnreadable, message)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Place, unencrypted};
    use super::*;

    #[test]
    fn a_manifest_is_signed_as_cosign_does_it() {
        let place = Place::new("ghcr.io/acme/jq:1", b"a manifest");
        // Of RFC 8410, section 10.3.
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                   -----END PRIVATE KEY-----";
        let key = SigningKey::read(pem, || panic!("it is not encrypted")).unwrap();
        let made = key.sign_manifest(b"a manifest").unwrap();
        assert_eq!(
            (made.media_type, made.ending),
            (SIGSTORE_BUNDLE, ".sigstore.json")
        );
        let public = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
        let policy = || place.trusting(&format!("key {public}"));
        let verdict = place
            .judge(policy(), std::slice::from_ref(&made.bytes))
            .unwrap();
        assert_eq!(verdict.signer.as_ref(), Some(key.signer()));
        assert!(verdict.is_named && verdict.notes.is_empty(), "{verdict:?}");
        let other = key.sign_manifest(b"another manifest").unwrap().bytes;
        assert_eq!(
            place
                .judge(policy(), std::slice::from_ref(&other))
                .unwrap_err()
                .code,
            ErrorCode::SignatureReplayed
        );
        // Beside one that holds, one that does not is noted.
        let verdict = place.judge(policy(), &[other, made.bytes.clone()]).unwrap();
        assert!(
            verdict.notes[0].contains("a valid signature of another artifact"),
            "{verdict:?}"
        );
        let mut bundle: Value = serde_json::from_slice(&made.bytes).unwrap();
        let payload = |name: &str, predicate: &str| {
            let digest = json!({ "sha256": Digest::of(b"a manifest").hex() });
            let subject = json!([{ "name": name, "digest": digest }]);
            json!({ "_type": STATEMENT_TYPE, "subject": subject, "predicateType": predicate, "predicate": {} })
        };
        let mut earlier = payload("", SIGN_PREDICATE);
        earlier["_type"] = json!("https://in-toto.io/Statement/v0.1");
        for (payload, code) in [
            (payload("ghcr.io/acme/jq", SIGN_PREDICATE), None),
            (payload("ghcr.io/acme/jq:2", SIGN_PREDICATE), None),
            (
                payload("GHCR.io:443/acme/jq@sha256:00", SIGN_PREDICATE),
                None,
            ),
            (
                payload("ghcr.io", SIGN_PREDICATE),
                Some(ErrorCode::SignatureWrongSubject),
            ),
            (
                payload("ghcr.io/acme/jq2", SIGN_PREDICATE),
                Some(ErrorCode::SignatureWrongSubject),
            ),
            (
                payload("", "https://slsa.dev/provenance/v1"),
                Some(ErrorCode::SignatureIsAttestation),
            ),
            (earlier, Some(ErrorCode::SignatureFormatUnknown)),
            (json!({}), Some(ErrorCode::SignatureMalformed)),
        ] {
            let payload = payload.to_string().into_bytes();
            bundle["dsseEnvelope"]["payload"] = json!(BASE64.encode(&payload));
            let signature = raw(&key.kind, &pae(PAYLOAD_TYPE, &payload)).unwrap();
            bundle["dsseEnvelope"]["signatures"][0]["sig"] = json!(BASE64.encode(&signature));
            let judged = place.judge(policy(), &[bundle.to_string().into_bytes()]);
            assert_eq!(judged.err().map(|refusal| refusal.code), code);
        }
    }

    #[test]
    fn minisign_signs_the_bytes_of_a_manifest() {
        let (secret, public) = unencrypted();
        let place = Place::new("ghcr.io/acme/jq:1", b"a manifest");
        let key = SigningKey::read(&secret, || panic!("it is not encrypted")).unwrap();
        let made = key.sign_manifest(b"a manifest").unwrap();
        assert_eq!(made.media_type, MINISIGN);
        let verdict = place
            .judge(place.trusting(&format!("minisign {public}")), &[made.bytes])
            .unwrap();
        assert_eq!(verdict.signer.as_ref(), Some(key.signer()));
    }
}
