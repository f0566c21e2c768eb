use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::{BASE64, HEXLOWER};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm, SigningKey, date_time_ymd,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};

use super::timestamps::Timestamps;

/// Who the certificates of [`Sigstore`] are for, unless a test says otherwise.
pub(crate) const IDENTITY: &str = "release@acme.test";
pub(crate) const ISSUER: &str = "https://accounts.acme.test";
/// What a signature states, as cosign has it.
pub(crate) const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
const STARTED: &str = "2020-01-01T00:00:00Z";

/// A private sigstore deployment: an authority for certificates, a log of certificates, a log of signatures, and an
/// authority for timestamps.
pub(crate) struct Sigstore {
    authority: Issuer<'static, KeyPair>,
    authority_der: Vec<u8>,
    certificates: KeyPair,
    signatures: KeyPair,
    timestamps: Timestamps,
}

/// What a test wants of a signature.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) identity: &'static str,
    /// Seconds from the beginning of the certificate to the signature; it is valid for 600 s.
    pub(crate) age: u64,
    /// Whether the log of certificates has the certificate.
    pub(crate) in_certificate_log: bool,
    pub(crate) predicate: &'static str,
    /// How many artifacts a statement names.
    pub(crate) subjects: usize,
    /// What it calls them.
    pub(crate) name: Option<&'static str>,
    /// Whether it names them by SHA-512, as npm does.
    pub(crate) by_sha512: bool,
    /// Whether the entry is one of Rekor v2, which has no time.
    pub(crate) is_rekor_v2: bool,
    pub(crate) is_timestamped: bool,
    /// Of the signer's key.
    pub(crate) algorithm: &'static SignatureAlgorithm,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            identity: IDENTITY,
            age: 60,
            in_certificate_log: true,
            predicate: SIGN_PREDICATE,
            subjects: 1,
            name: None,
            by_sha512: false,
            is_rekor_v2: false,
            is_timestamped: false,
            algorithm: &PKCS_ECDSA_P256_SHA256,
        }
    }
}

/// A key with its certificate.
struct Certified {
    key: KeyPair,
    der: Vec<u8>,
    /// Seconds since 1970.
    begins: u64,
}

impl Sigstore {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_der = params.self_signed(&key).unwrap().der().to_vec();
        let authority = Issuer::new(params, key);
        let timestamps = Timestamps::new(&authority);
        let certificates = KeyPair::generate().unwrap();
        let signatures = KeyPair::generate().unwrap();
        Self {
            authority,
            authority_der,
            certificates,
            signatures,
            timestamps,
        }
    }

    /// The trusted root of this deployment.
    pub(crate) fn root(&self) -> Value {
        let log = |key: &KeyPair| {
            json!({
                "baseUrl": "https://log.acme.test",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": BASE64.encode(&key.subject_public_key_info()),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": { "start": STARTED },
                },
                "logId": { "keyId": BASE64.encode(&id(key)) },
            })
        };
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(&self.signatures)],
            "certificateAuthorities": [{
                "subject": { "organization": "acme", "commonName": "acme" },
                "uri": "https://fulcio.acme.test",
                "certChain": { "certificates": [{ "rawBytes": BASE64.encode(&self.authority_der) }] },
                "validFor": { "start": STARTED },
            }],
            "ctlogs": [log(&self.certificates)],
            "timestampAuthorities": [{
                "subject": { "organization": "acme", "commonName": "acme" },
                "uri": "https://timestamps.acme.test",
                "certChain": { "certificates": [
                    { "rawBytes": BASE64.encode(self.timestamps.certificate()) },
                    { "rawBytes": BASE64.encode(&self.authority_der) },
                ] },
                "validFor": { "start": STARTED },
            }],
        })
    }

    /// The bundle that `cosign sign-blob` makes of `artifact`.
    pub(crate) fn message(&self, artifact: &[u8], wanted: &Wanted) -> Value {
        let certified = self.certify(wanted);
        let signature = certified.key.sign(artifact).unwrap();
        let digest = Sha256::digest(artifact);
        let first = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": { "hash": { "algorithm": "sha256", "value": HEXLOWER.encode(&digest) } },
                "signature": {
                    "content": BASE64.encode(&signature),
                    "publicKey": { "content": BASE64.encode(pem(&certified.der).as_bytes()) },
                },
            },
        });
        let body = if wanted.is_rekor_v2 {
            second(&certified, artifact, &signature)
        } else {
            first
        };
        let mut bundle = self.bundle(&certified, wanted, ("hashedrekord", &body), &signature);
        bundle["messageSignature"] = json!({
            "messageDigest": { "algorithm": "SHA2_256", "digest": BASE64.encode(&digest) },
            "signature": BASE64.encode(&signature),
        });
        bundle
    }

    /// The bundle that `cosign sign` makes of an artifact with these bytes.
    pub(crate) fn statement(&self, artifact: &[u8], wanted: &Wanted) -> Value {
        let certified = self.certify(wanted);
        let digest = if wanted.by_sha512 {
            json!({ "sha512": HEXLOWER.encode(&Sha512::digest(artifact)) })
        } else {
            json!({ "sha256": HEXLOWER.encode(&Sha256::digest(artifact)) })
        };
        let mut subject = json!({ "digest": digest });
        if let Some(name) = wanted.name {
            subject["name"] = name.into();
        }
        let payload = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": vec![subject; wanted.subjects],
            "predicateType": wanted.predicate,
            "predicate": {},
        })
        .to_string();
        let kind = "application/vnd.in-toto+json";
        let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        let raw = certified.key.sign(message.as_bytes()).unwrap();
        let signature = BASE64.encode(&raw);
        let hash = json!({ "algorithm": "sha256", "value": HEXLOWER.encode(&Sha256::digest(payload.as_bytes())) });
        let first = json!({
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": hash,
                "payloadHash": hash,
                "signatures": [{ "signature": signature, "verifier": BASE64.encode(pem(&certified.der).as_bytes()) }],
            },
        });
        let second = second(&certified, message.as_bytes(), &raw);
        let entry = if wanted.is_rekor_v2 {
            ("hashedrekord", &second)
        } else {
            ("dsse", &first)
        };
        let mut bundle = self.bundle(&certified, wanted, entry, &raw);
        bundle["dsseEnvelope"] = json!({
            "payload": BASE64.encode(payload.as_bytes()),
            "payloadType": kind,
            "signatures": [{ "sig": signature }],
        });
        bundle
    }

    /// A bundle without its content, whose log entry has this body. The entry is the second one of its log.
    fn bundle(
        &self,
        certified: &Certified,
        wanted: &Wanted,
        (kind, body): (&str, &Value),
        signature: &[u8],
    ) -> Value {
        let body = body.to_string();
        let time = certified.begins + wanted.age;
        let promised = format!(
            "{{\"body\":\"{}\",\"integratedTime\":{time},\"logID\":\"{}\",\"logIndex\":1}}",
            BASE64.encode(body.as_bytes()),
            HEXLOWER.encode(&id(&self.signatures)),
        );
        let sibling = Sha256::digest([&[0][..], b"another entry"].concat());
        let leaf = Sha256::digest([&[0][..], body.as_bytes()].concat());
        let root = BASE64.encode(&Sha256::digest([&[1][..], &sibling, &leaf].concat()));
        let note = format!("log.acme.test\n2\n{root}\n");
        let signed = [
            &id(&self.signatures)[..4],
            &self.signatures.sign(note.as_bytes()).unwrap(),
        ]
        .concat();
        let mut bundle = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": { "rawBytes": BASE64.encode(&certified.der) },
                "tlogEntries": [{
                    "logIndex": "1",
                    "logId": { "keyId": BASE64.encode(&id(&self.signatures)) },
                    "kindVersion": { "kind": kind, "version": "0.0.1" },
                    "integratedTime": time.to_string(),
                    "inclusionPromise": {
                        "signedEntryTimestamp": BASE64.encode(&self.signatures.sign(promised.as_bytes()).unwrap()),
                    },
                    "inclusionProof": {
                        "logIndex": "1",
                        "rootHash": root,
                        "treeSize": "2",
                        "hashes": [BASE64.encode(&sibling)],
                        "checkpoint": { "envelope": format!("{note}\n— log.acme.test {}\n", BASE64.encode(&signed)) },
                    },
                    "canonicalizedBody": BASE64.encode(body.as_bytes()),
                }],
            },
        });
        let material = &mut bundle["verificationMaterial"];
        if wanted.is_rekor_v2 {
            let entry = material["tlogEntries"][0].as_object_mut().unwrap();
            entry.remove("integratedTime");
            entry.remove("inclusionPromise");
            entry["kindVersion"]["version"] = json!("0.0.2");
        }
        if wanted.is_timestamped {
            let token = BASE64.encode(&self.timestamps.token(signature, time));
            material["timestampVerificationData"] =
                json!({ "rfc3161Timestamps": [{ "signedTimestamp": token }] });
        }
        bundle
    }

    fn certify(&self, wanted: &Wanted) -> Certified {
        let key = KeyPair::generate_for(wanted.algorithm).unwrap();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let begins = now - wanted.age - 5;
        let mut params = CertificateParams::default();
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(begins);
        params.not_after = params.not_before + Duration::from_secs(600);
        params.serial_number = Some(SerialNumber::from_slice(&[1, 2, 3]));
        params.subject_alt_names = vec![if wanted.identity.contains("://") {
            SanType::URI(wanted.identity.try_into().unwrap())
        } else {
            SanType::Rfc822Name(wanted.identity.try_into().unwrap())
        }];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        let issuer = der(0x0c, ISSUER.as_bytes());
        params.custom_extensions = vec![CustomExtension::from_oid_content(
            &[1, 3, 6, 1, 4, 1, 57264, 1, 8],
            issuer,
        )];
        if wanted.in_certificate_log {
            let before = params.signed_by(&key, &self.authority).unwrap();
            let stamp = der(0x04, &self.stamp(first_inside(before.der()), begins));
            let extension =
                CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 11129, 2, 4, 2], stamp);
            params.custom_extensions.push(extension);
        }
        let der = params
            .signed_by(&key, &self.authority)
            .unwrap()
            .der()
            .to_vec();
        Certified { key, der, begins }
    }

    /// The list of one timestamp of the log of certificates, for a certificate without it.
    fn stamp(&self, certificate: &[u8], seconds: u64) -> Vec<u8> {
        let time = (seconds * 1000).to_be_bytes();
        let issuer = Sha256::digest(self.authority.key().subject_public_key_info());
        let length = u32::try_from(certificate.len()).unwrap().to_be_bytes();
        let signed = [
            &[0, 0][..],
            &time,
            &[0, 1],
            &issuer,
            &length[1..],
            certificate,
            &[0, 0],
        ]
        .concat();
        let signature = self.certificates.sign(&signed).unwrap();
        let stamp = [
            &[0][..],
            &id(&self.certificates),
            &time,
            &[0, 0, 4, 3],
            &prefixed(&signature),
        ]
        .concat();
        prefixed(&prefixed(&stamp))
    }
}

/// What Rekor v2 logs of a `signature` of these bytes.
fn second(certified: &Certified, signed: &[u8], signature: &[u8]) -> Value {
    json!({
        "apiVersion": "0.0.2",
        "kind": "hashedrekord",
        "spec": { "hashedRekordV002": {
            "data": { "algorithm": "SHA2_256", "digest": BASE64.encode(&Sha256::digest(signed)) },
            "signature": {
                "content": BASE64.encode(signature),
                "verifier": {
                    "x509Certificate": { "rawBytes": BASE64.encode(&certified.der) },
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                },
            },
        } },
    })
}

/// The id of a log.
fn id(key: &KeyPair) -> Vec<u8> {
    Sha256::digest(key.subject_public_key_info()).to_vec()
}

fn pem(certificate: &[u8]) -> String {
    let text = BASE64.encode(certificate);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| str::from_utf8(line).unwrap())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

/// `bytes` after their length in two bytes.
fn prefixed(bytes: &[u8]) -> Vec<u8> {
    [
        &u16::try_from(bytes.len()).unwrap().to_be_bytes()[..],
        bytes,
    ]
    .concat()
}

/// A value in DER, of less than 65,536 bytes.
pub(super) fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    match (high, low) {
        (0, 0..128) => [&[tag, low][..], content].concat(),
        (0, _) => [&[tag, 0x81, low][..], content].concat(),
        _ => [&[tag, 0x82, high, low][..], content].concat(),
    }
}

/// The first value inside of a sequence in DER, with its header.
pub(super) fn first_inside(sequence: &[u8]) -> &[u8] {
    let (header, _) = lengths(sequence);
    let inside = &sequence[header..];
    let (header, content) = lengths(inside);
    &inside[..header + content]
}

/// The lengths of the header and the content of the value that `bytes` begin with.
pub(super) fn lengths(bytes: &[u8]) -> (usize, usize) {
    match bytes[1] {
        short @ 0..128 => (2, usize::from(short)),
        long => {
            let digits = usize::from(long & 0x7f);
            (
                2 + digits,
                bytes[2..2 + digits]
                    .iter()
                    .fold(0, |length, digit| length << 8 | usize::from(*digit)),
            )
        }
    }
}
