//! Bundles whose key has a certificate of sigstore: the certificate says who signed, and a transparency log when.

use sigstore_verify::crypto::{KeyAlgorithm, parse_certificate_info};
use sigstore_verify::types::{Bundle, Sha256Hash, SignatureContent};
use sigstore_verify::{
    CertificateError, Error, TransparencyLogError, VerificationPolicy, Verifier,
};
use toolcell_spec::{ErrorCode, Refusal};

use super::bundle::claimed;
use super::refusal::{self, problem};
use super::root::SigstoreRoot;
use super::{ValidSignature, statement};
use crate::verifier::{SignatureSubject, Signer};

/// Uses no network. The policy says whether the signer is trusted.
pub(super) fn check(
    bundle: &Bundle,
    subject: &SignatureSubject<'_>,
    root: &SigstoreRoot,
    found: &str,
) -> Result<ValidSignature, Refusal> {
    if let Some(algorithm) = unsupported(bundle) {
        return Err(problem(
            ErrorCode::SignatureFormatUnknown,
            found,
            &format!("its certificate has a key for {algorithm:?}"),
        ));
    }
    let verifier = root.verifier()?;
    let mut policy = VerificationPolicy::any_identity();
    if !root.has_certificate_log()? {
        policy = policy.skip_sct();
    }
    let result = verifier
        .verify(subject.bytes, bundle, &policy)
        .map_err(|error| self::refusal(&error, bundle, verifier, subject, found))?;
    if let SignatureContent::DsseEnvelope(envelope) = &bundle.content {
        statement::check(envelope.payload.as_bytes(), subject, found)?;
    }
    let (Some(identity), Some(issuer)) = (result.identity(), result.issuer()) else {
        return Err(problem(
            ErrorCode::SignatureMalformed,
            found,
            "its certificate does not say who signed",
        ));
    };
    let earliest = result.verified_timestamps().iter().min();
    Ok(ValidSignature {
        signer: Signer::Identity {
            identity: identity.to_string(),
            issuer: issuer.to_owned(),
        },
        signed_at: result
            .integrated_time()
            .or(earliest.copied())
            .map(|time| time.as_second()),
        is_logged: result.tlog_verified(),
    })
}

/// Signatures of messages are verified over a digest, which the cryptography here does with P-256 alone.
fn unsupported(bundle: &Bundle) -> Option<KeyAlgorithm> {
    let SignatureContent::MessageSignature(_) = &bundle.content else {
        return None;
    };
    let algorithm = parse_certificate_info(bundle.signing_certificate()?)
        .ok()?
        .key_algorithm;
    (!matches!(algorithm, KeyAlgorithm::EcdsaP256 | KeyAlgorithm::Ed25519)).then_some(algorithm)
}

pub(super) fn refusal(
    error: &Error,
    bundle: &Bundle,
    verifier: &Verifier,
    subject: &SignatureSubject<'_>,
    found: &str,
) -> Refusal {
    if let Error::ArtifactMismatch(_) = error {
        return mismatch(bundle, verifier, subject, found);
    }
    let code = match error {
        Error::SignatureInvalid(_) => ErrorCode::SignatureInvalid,
        Error::Certificate(_) if is_expired(bundle, verifier, subject) => {
            ErrorCode::SignatureExpired
        }
        Error::Certificate(
            CertificateError::Expired { .. } | CertificateError::NotYetValid { .. },
        )
        | Error::TransparencyLog(TransparencyLogError::IntegratedTime(_)) => {
            ErrorCode::SignatureExpired
        }
        Error::Certificate(CertificateError::Malformed(_)) => ErrorCode::SignatureMalformed,
        Error::Certificate(CertificateError::Sct(_)) | Error::TransparencyLog(_) => {
            ErrorCode::SignatureNotLogged
        }
        Error::Certificate(_) => ErrorCode::SignatureAuthorityUnknown,
        Error::Timestamp(_) => ErrorCode::SignatureTimeUnproven,
        Error::Bundle(_) if !bundle.has_inclusion_proof() => ErrorCode::SignatureNotLogged,
        Error::UnsupportedBundle(_) | Error::UnsupportedArtifact(_) => {
            ErrorCode::SignatureFormatUnknown
        }
        Error::InvalidTrustRoot(why) => return refusal::root_invalid("for this signature", why),
        _ => ErrorCode::SignatureMalformed,
    };
    problem(code, found, &error.to_string())
}

/// `true` if the signature was made while the certificate was not valid. The chain is checked first, and its error says
/// only that it does not hold.
fn is_expired(bundle: &Bundle, verifier: &Verifier, subject: &SignatureSubject<'_>) -> bool {
    let Some(certificate) = bundle
        .signing_certificate()
        .and_then(|der| parse_certificate_info(der).ok())
    else {
        return false;
    };
    let valid = certificate.not_before..=certificate.not_after;
    let mut times = bundle
        .verification_material
        .tlog_entries
        .iter()
        .filter_map(|entry| entry.integrated_time);
    if times.any(|time| !valid.contains(&time)) {
        return true;
    }
    // Only a verification returns the times of timestamps.
    let policy = VerificationPolicy::any_identity().skip_certificate_chain();
    verifier
        .verify(subject.bytes, bundle, &policy)
        .is_ok_and(|result| {
            result
                .verified_timestamps()
                .iter()
                .any(|time| !valid.contains(time))
        })
}

/// The bundle is a genuine one of another artifact, or a changed one.
fn mismatch(
    bundle: &Bundle,
    verifier: &Verifier,
    subject: &SignatureSubject<'_>,
    found: &str,
) -> Refusal {
    let SignatureContent::DsseEnvelope(_) = &bundle.content else {
        let Some(other) = claimed(bundle) else {
            return problem(ErrorCode::SignatureWrongDigest, found, "");
        };
        let policy = VerificationPolicy::any_identity().skip_sct();
        let is_genuine = verifier
            .verify(Sha256Hash::from(*other.bytes()), bundle, &policy)
            .is_ok();
        return if is_genuine {
            refusal::replayed(found, &other.to_string(), &subject.digest)
        } else {
            problem(
                ErrorCode::SignatureWrongDigest,
                found,
                &format!("it names {other}, and this is {}", subject.digest),
            )
        };
    };
    // The signature over the statement was checked before its digest.
    problem(
        ErrorCode::SignatureReplayed,
        found,
        &format!("its statement does not name {}", subject.digest),
    )
}
