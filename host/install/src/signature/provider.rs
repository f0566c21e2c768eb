//! Cryptography for sigstore: `ring`, which the program has for TLS, and P-256 over a digest, which `ring` lacks.

use p256::ecdsa::signature::hazmat::PrehashVerifier;
use p256::ecdsa::{Signature, VerifyingKey};
use ring::digest;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sigstore_verify::crypto::{
    CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider,
};
use sigstore_verify::types::HashAlgorithm;

pub(super) fn install() {
    // A provider that was installed before is this one: nothing else in the program installs any.
    let _ = install_default_provider(&RingProvider);
}

#[derive(Debug)]
struct RingProvider;

struct RingHash(digest::Context);

impl HashContext for RingHash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for RingProvider {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        let backend = match algorithm {
            HashAlgorithm::Sha2256 => &digest::SHA256,
            HashAlgorithm::Sha2384 => &digest::SHA384,
            HashAlgorithm::Sha2512 => &digest::SHA512,
            _ => {
                return Err(Error::UnsupportedAlgorithm(format!(
                    "digests with {algorithm}"
                )));
            }
        };
        Ok(Box::new(RingHash(digest::Context::new(backend))))
    }

    fn verify_raw(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        data: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        UnparsedPublicKey::new(algorithm(scheme)?, key)
            .verify(data, signature)
            .map_err(|_| invalid(scheme))
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        digest: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        if !matches!(
            scheme,
            SigningScheme::EcdsaP256Sha256 | SigningScheme::EcdsaP256Sha384
        ) {
            return Err(Error::UnsupportedAlgorithm(format!(
                "{} over a digest",
                scheme.name()
            )));
        }
        let verify = || {
            let key = VerifyingKey::from_sec1_bytes(key).ok()?;
            let signature = Signature::from_der(signature).ok()?;
            key.verify_prehash(digest, &signature).ok()
        };
        verify().ok_or_else(|| invalid(scheme))
    }
}

fn algorithm(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    let algorithm: &'static dyn VerificationAlgorithm = match scheme {
        SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &signature::ED25519,
        SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
        SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        other => return Err(Error::UnsupportedAlgorithm(other.name().to_owned())),
    };
    Ok(algorithm)
}

fn invalid(scheme: SigningScheme) -> Error {
    Error::Verification(format!("the {} signature does not hold", scheme.name()))
}
