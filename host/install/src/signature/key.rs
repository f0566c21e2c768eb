//! Public keys that a policy names.

use std::fmt;

use data_encoding::{BASE64, HEXUPPER};
use sigstore_verify::crypto::{KeyAlgorithm, SigningScheme};
use sigstore_verify::types::DerPublicKey;

use crate::digest::Digest;
use crate::verifier::Signer;

/// Algorithm, id, key.
const MINISIGN_BYTES: usize = 2 + 8 + 32;

/// ECDSA on P-256, or Ed25519.
#[derive(Clone, PartialEq, Eq)]
pub struct ManagedKey {
    /// The SubjectPublicKeyInfo form.
    pub(super) der: DerPublicKey,
    pub(super) scheme: SigningScheme,
}

impl ManagedKey {
    /// PEM (`-----BEGIN PUBLIC KEY-----`), or its base64 text without the first and last line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let der = if text.starts_with("-----") {
            DerPublicKey::from_pem(text).map_err(|_| "it is not a PEM public key".to_owned())?
        } else {
            let joined: String = text.split_whitespace().collect();
            let bytes = BASE64.decode(joined.as_bytes());
            DerPublicKey::new(bytes.map_err(|_| "it is neither PEM nor base64".to_owned())?)
        };
        Self::from_der(der)
    }

    pub(super) fn from_der(der: DerPublicKey) -> Result<Self, String> {
        let algorithm =
            KeyAlgorithm::from_spki(&der).map_err(|_| "it is not a public key".to_owned())?;
        match algorithm {
            KeyAlgorithm::EcdsaP256 | KeyAlgorithm::Ed25519 => Ok(Self {
                der,
                scheme: algorithm.default_signing_scheme(),
            }),
            _ => Err(
                "it is of another kind: keys for ECDSA on P-256 and for Ed25519 can be used"
                    .to_owned(),
            ),
        }
    }

    /// A bundle's hint at the key that signed it, in cosign's format. It proves nothing.
    pub(super) fn hint(&self) -> String {
        BASE64.encode(Digest::of(self.der.as_bytes()).bytes())
    }

    pub fn signer(&self) -> Signer {
        Signer::Key {
            fingerprint: Digest::of(self.der.as_bytes()).to_string(),
        }
    }
}

impl fmt::Debug for ManagedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManagedKey({})", self.signer())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinisignKey {
    pub(super) key: minisign_verify::PublicKey,
    pub(super) raw: [u8; MINISIGN_BYTES],
}

impl MinisignKey {
    /// The line in base64, or the content of `minisign.pub`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = text
            .lines()
            .map(str::trim)
            .rfind(|line| !line.is_empty())
            .unwrap_or_default();
        let raw = BASE64
            .decode(line.as_bytes())
            .ok()
            .and_then(|raw| raw.try_into().ok());
        match (minisign_verify::PublicKey::from_base64(line), raw) {
            (Ok(key), Some(raw)) => Ok(Self { key, raw }),
            _ => {
                Err("it is not a minisign public key: 56 letters and digits that begin with RW are expected".to_owned())
            }
        }
    }

    /// 8 bytes, backwards, as minisign prints it.
    pub(super) fn id(&self) -> String {
        let mut id: Vec<u8> = self.raw.iter().skip(2).take(8).copied().collect();
        id.reverse();
        HEXUPPER.encode(&id)
    }

    pub fn signer(&self) -> Signer {
        Signer::Minisign {
            key_id: self.id(),
            fingerprint: Digest::of(&self.raw).to_string(),
        }
    }
}
