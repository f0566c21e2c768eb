//! Bundles that were signed with a managed key. They need no transparency log, because the verifier has the key; a log
//! entry that is there must hold.

use sigstore_verify::crypto::{SigningScheme, verify_signature, verify_signature_prehashed};
use sigstore_verify::types::bundle::MessageSignature;
use sigstore_verify::types::{Bundle, HashAlgorithm, Sha256Hash, SignatureContent};
use sigstore_verify::{PublicKeyVerificationPolicy, Verifier};
use toolcell_spec::{ErrorCode, Refusal};

use super::ValidSignature;
use super::bundle::claimed;
use super::key::ManagedKey;
use super::keyless;
use super::refusal::{self, problem};
use super::root::SigstoreRoot;
use super::statement::{self, PAYLOAD_TYPE};
use crate::verifier::SignatureSubject;

pub(super) fn check(
    bundle: &Bundle,
    hint: &str,
    subject: &SignatureSubject<'_>,
    keys: &[&ManagedKey],
    root: &SigstoreRoot,
    found: &str,
) -> Result<ValidSignature, Refusal> {
    let mut broken = None;
    for key in keys {
        match check_with(key, bundle, subject, found) {
            Ok(()) => {
                let is_logged = logged(key, bundle, subject, root, found)?;
                return Ok(ValidSignature {
                    signer: key.signer(),
                    signed_at: None,
                    is_logged,
                });
            }
            Err(refused)
                if !matches!(
                    refused.code,
                    ErrorCode::SignatureInvalid | ErrorCode::SignatureWrongDigest
                ) =>
            {
                return Err(refused);
            }
            // It may have been made with any other key, except if it says that it is this one's.
            Err(refused) if key.hint() == hint => broken = Some(refused),
            Err(_) => {}
        }
    }
    let unknown = || {
        problem(
            ErrorCode::SignerUnknown,
            found,
            &format!("the key with the hint `{hint}`"),
        )
    };
    Err(broken.unwrap_or_else(unknown))
}

fn check_with(
    key: &ManagedKey,
    bundle: &Bundle,
    subject: &SignatureSubject<'_>,
    found: &str,
) -> Result<(), Refusal> {
    match &bundle.content {
        SignatureContent::DsseEnvelope(envelope) => {
            let holds = verify_signature(
                &key.der,
                &envelope.pae(),
                &envelope.signature.sig,
                key.scheme,
            )
            .is_ok();
            if !holds && guard!("managed_key") {
                return Err(problem(ErrorCode::SignatureInvalid, found, ""));
            }
            if envelope.payload_type != PAYLOAD_TYPE {
                let why = format!("its payload is of the type `{}`", envelope.payload_type);
                return Err(problem(ErrorCode::SignatureFormatUnknown, found, &why));
            }
            statement::check(envelope.payload.as_bytes(), subject, found)
        }
        SignatureContent::MessageSignature(message) => {
            check_message(key, bundle, message, subject, found)
        }
        _ => Err(problem(ErrorCode::SignatureFormatUnknown, found, "")),
    }
}

fn check_message(
    key: &ManagedKey,
    bundle: &Bundle,
    message: &MessageSignature,
    subject: &SignatureSubject<'_>,
    found: &str,
) -> Result<(), Refusal> {
    if let Some(digest) = &message.message_digest
        && digest.algorithm != HashAlgorithm::Sha2256
    {
        return Err(problem(
            ErrorCode::SignatureFormatUnknown,
            found,
            &format!("its digest is {}", digest.algorithm),
        ));
    }
    if let Some(other) = claimed(bundle).filter(|claimed| *claimed != subject.digest) {
        let hash = Sha256Hash::from(*other.bytes());
        let is_genuine =
            verify_signature_prehashed(&key.der, hash.as_bytes(), &message.signature, key.scheme)
                .is_ok();
        return Err(if is_genuine {
            refusal::replayed(found, &other.to_string(), &subject.digest)
        } else {
            // With Ed25519 nothing can be said of bytes that are not there, so the hint has to do.
            problem(
                ErrorCode::SignatureWrongDigest,
                found,
                &format!("it names {other}, and this is {}", subject.digest),
            )
        });
    }
    if verify_signature(&key.der, subject.bytes, &message.signature, key.scheme).is_ok()
        || !guard!("managed_key")
    {
        Ok(())
    } else {
        Err(problem(
            ErrorCode::SignatureInvalid,
            found,
            unsupported(key),
        ))
    }
}

/// A reason why a genuine signature of a file may not hold.
fn unsupported(key: &ManagedKey) -> &'static str {
    match key.scheme {
        SigningScheme::Ed25519 => {
            "or it is one of Ed25519ph, which cosign makes of files, and which is not supported"
        }
        _ => "",
    }
}

/// Fails if the entry of the transparency log is invalid.
fn logged(
    key: &ManagedKey,
    bundle: &Bundle,
    subject: &SignatureSubject<'_>,
    root: &SigstoreRoot,
    found: &str,
) -> Result<bool, Refusal> {
    if bundle.verification_material.tlog_entries.is_empty() {
        return Ok(false);
    }
    let policy = PublicKeyVerificationPolicy::new(key.der.clone());
    let verifier: &Verifier = root.verifier()?;
    match verifier.verify(subject.bytes, bundle, &policy) {
        Ok(result) => Ok(result.tlog_verified()),
        Err(error) => Err(keyless::refusal(&error, bundle, verifier, subject, found)),
    }
}
