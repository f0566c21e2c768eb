//! Sigstore bundles: how they are read, and which way of checking one needs.

use serde_json::Value;
use sigstore_verify::types::bundle::{MediaType, VerificationMaterialContent};
use sigstore_verify::types::{Bundle, HashAlgorithm, SignatureContent};
use toolcell_spec::{ErrorCode, Refusal, read_unique_json};

use super::key::ManagedKey;
use super::refusal::problem;
use super::root::SigstoreRoot;
use super::{SIGNATURE_BYTES_MAX, ValidSignature, keyless, managed};
use crate::digest::Digest;
use crate::verifier::SignatureSubject;

/// A bundle has one of these fields.
const CONTENTS: [&str; 2] = ["messageSignature", "dsseEnvelope"];
const MATERIALS: [&str; 3] = ["certificate", "x509CertificateChain", "publicKey"];

pub(super) fn check(
    bytes: &[u8],
    subject: &SignatureSubject<'_>,
    keys: &[&ManagedKey],
    root: &SigstoreRoot,
    found: &str,
) -> Result<ValidSignature, Refusal> {
    let bundle = read(bytes).map_err(|(code, why)| problem(code, found, &why))?;
    match &bundle.verification_material.content {
        VerificationMaterialContent::PublicKey(hint) => {
            managed::check(&bundle, &hint.hint, subject, keys, root, found)
        }
        _ => keyless::check(&bundle, subject, root, found),
    }
}

/// Proves nothing.
pub(super) fn read(bytes: &[u8]) -> Result<Bundle, (ErrorCode, String)> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_eof() {
            (ErrorCode::SignatureTruncated, String::new())
        } else {
            (ErrorCode::SignatureMalformed, error.to_string())
        }
    })?;
    if let Some(why) = ambiguity(bytes, &value).filter(|_| guard!("bundle_ambiguity")) {
        return Err((ErrorCode::SignatureMalformed, why));
    }
    let media_type = value
        .get("mediaType")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if media_type.parse::<MediaType>().is_err() {
        return Err((
            ErrorCode::SignatureFormatUnknown,
            format!("its media type is `{media_type}`"),
        ));
    }
    serde_json::from_value(value)
        .map_err(|error| (ErrorCode::SignatureMalformed, error.to_string()))
}

/// Another verifier would read the other one of two values.
fn ambiguity(bytes: &[u8], bundle: &Value) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    if let Err(why) = read_unique_json(&text, SIGNATURE_BYTES_MAX) {
        return Some(why);
    }
    let material = bundle.get("verificationMaterial");
    [
        (Some(bundle), CONTENTS.as_slice()),
        (material, MATERIALS.as_slice()),
    ]
    .into_iter()
    .find_map(|(object, names)| {
        let is_given = |name: &&str| {
            object
                .and_then(|object| object.get(*name))
                .is_some_and(|value| !value.is_null())
        };
        let given: Vec<&str> = names.iter().copied().filter(is_given).collect();
        (given.len() > 1)
            .then(|| format!("it has {}, and one of them is allowed", given.join(" and ")))
    })
}

/// `None` unless the digest is one of SHA-256.
pub(super) fn claimed(bundle: &Bundle) -> Option<Digest> {
    let SignatureContent::MessageSignature(message) = &bundle.content else {
        return None;
    };
    let digest = message
        .message_digest
        .as_ref()
        .filter(|digest| digest.algorithm == HashAlgorithm::Sha2256)?;
    format!("sha256:{}", digest.digest.to_hex()).parse().ok()
}
