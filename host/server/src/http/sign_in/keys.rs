//! Public keys of an issuer (JWK, RFC 7517), and the signatures that they verify.

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value};
use toolcell_policy::SignatureAlgorithm;
use toolcell_spec::read_unique_json;

use super::token::AccessToken;

/// A token without `kid` is checked with each of them.
const KEYS_MAX: usize = 64;
const VALUES_MAX: usize = 10_000;

/// Keys in the order of their document.
#[derive(Default)]
pub(super) struct KeySet(Vec<PublicKey>);

struct PublicKey {
    id: Option<String>,
    /// The only one that it is for, if it names one.
    algorithm: Option<String>,
    material: KeyMaterial,
}

enum KeyMaterial {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// Uncompressed points.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Leaves out keys that verify no signature. Fails if the document is no JWKS, or has too many keys.
    pub(super) fn parse(document: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(document).map_err(|error| error.to_string())?;
        let document = read_unique_json(text, VALUES_MAX)?;
        let keys = document.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or("it has no list of keys")?;
        if keys.len() > KEYS_MAX {
            return Err(format!("it has more than {KEYS_MAX} keys"));
        }
        let keys = keys.iter().filter_map(Value::as_object);
        Ok(Self(keys.filter_map(PublicKey::parse).collect()))
    }

    /// The number of keys for which one of `algorithms` is there.
    pub(super) fn usable(&self, algorithms: &[SignatureAlgorithm]) -> usize {
        let is_usable = |key: &&PublicKey| algorithms.iter().any(|one| key.verifies_by(*one));
        self.0.iter().filter(is_usable).count()
    }

    /// `true` if one of the keys could have signed the token.
    pub(super) fn knows(&self, token: &AccessToken<'_>) -> bool {
        self.0.iter().any(|key| key.is_for(token))
    }

    /// `false` for a token that newer keys may verify. One that names no key has to be verified by one of these.
    pub(super) fn suffice(&self, token: &AccessToken<'_>) -> bool {
        if token.key.is_none() {
            self.verify(token)
        } else {
            self.knows(token)
        }
    }

    pub(super) fn verify(&self, token: &AccessToken<'_>) -> bool {
        let mut keys = self.0.iter().filter(|key| key.is_for(token));
        keys.any(|key| {
            let (signed, signature) = (token.signed.as_bytes(), &token.signature);
            key.material.verify(token.algorithm, signed, signature)
        })
    }
}

impl PublicKey {
    fn parse(key: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| BASE64URL_NOPAD.decode(text(name)?.as_bytes()).ok();
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let is_whole = x.len() == size && y.len() == size;
            is_whole.then(|| [&[4], x.as_slice(), y.as_slice()].concat())
        };
        let is_for_signatures = key.get("use").is_none_or(|usage| usage == "sig");
        let verifies = key.get("key_ops").is_none_or(|uses| {
            let mut uses = uses.as_array().into_iter().flatten();
            uses.any(|usage| usage == "verify")
        });
        if !(is_for_signatures && verifies) && guard!("token_key_use") {
            return None;
        }
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyMaterial::Rsa(RsaPublicKeyComponents {
                n: bytes("n")?,
                e: bytes("e")?,
            }),
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes("x")?),
            _ => return None,
        };
        Some(Self {
            id: text("kid").map(str::to_owned),
            algorithm: text("alg").map(str::to_owned),
            material,
        })
    }

    fn is_for(&self, token: &AccessToken<'_>) -> bool {
        let is_named = token.key.is_none() || token.key == self.id;
        is_named && (self.allows(token.algorithm) || !guard!("token_key_algorithm"))
    }

    fn allows(&self, algorithm: SignatureAlgorithm) -> bool {
        let names = |name: &String| SignatureAlgorithm::of_name(name) == Some(algorithm);
        self.algorithm.as_ref().is_none_or(names)
    }

    fn verifies_by(&self, algorithm: SignatureAlgorithm) -> bool {
        use SignatureAlgorithm as Alg;
        let fits = match self.material {
            KeyMaterial::P256(_) => algorithm == Alg::Es256,
            KeyMaterial::P384(_) => algorithm == Alg::Es384,
            KeyMaterial::Ed25519(_) => algorithm == Alg::EdDsa,
            KeyMaterial::Rsa(_) => !matches!(algorithm, Alg::Es256 | Alg::Es384 | Alg::EdDsa),
        };
        fits && self.allows(algorithm)
    }
}

impl KeyMaterial {
    /// The type of the key decides, so that no token makes one type of key another.
    fn verify(&self, algorithm: SignatureAlgorithm, signed: &[u8], signature: &[u8]) -> bool {
        use SignatureAlgorithm as Alg;
        let of = |known: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(known, key).verify(signed, signature)
        };
        let rsa = |known: &'static RsaParameters, key: &RsaPublicKeyComponents<Vec<u8>>| {
            key.verify(known, signed, signature)
        };
        let verified = match (self, algorithm) {
            (Self::Rsa(key), Alg::Rs256) => rsa(&RSA_PKCS1_2048_8192_SHA256, key),
            (Self::Rsa(key), Alg::Rs384) => rsa(&RSA_PKCS1_2048_8192_SHA384, key),
            (Self::Rsa(key), Alg::Rs512) => rsa(&RSA_PKCS1_2048_8192_SHA512, key),
            (Self::Rsa(key), Alg::Ps256) => rsa(&RSA_PSS_2048_8192_SHA256, key),
            (Self::Rsa(key), Alg::Ps384) => rsa(&RSA_PSS_2048_8192_SHA384, key),
            (Self::Rsa(key), Alg::Ps512) => rsa(&RSA_PSS_2048_8192_SHA512, key),
            (Self::P256(key), Alg::Es256) => of(&ECDSA_P256_SHA256_FIXED, key),
            (Self::P384(key), Alg::Es384) => of(&ECDSA_P384_SHA384_FIXED, key),
            (Self::Ed25519(key), Alg::EdDsa) => of(&ED25519, key),
            _ => return false,
        };
        verified.is_ok()
    }
}
