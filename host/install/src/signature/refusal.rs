//! Refusals of signatures: a code for each reason, and words that say what to do.

use toolcell_spec::{ErrorCode, Refusal};

use super::{SIGNATURE_BYTES_MAX, SIGNATURES_MAX};
use crate::digest::Digest;
use crate::reference::ComponentReference;
use crate::verifier::{Signer, quoted};

/// In characters.
const QUOTED_CHARS_MAX: usize = 300;

/// The problem, and what to do.
fn words(code: ErrorCode) -> (&'static str, &'static str) {
    const AGAIN: &str = "fetch it again, or ask the publisher for a signature of this version";
    match code {
        ErrorCode::SignatureTruncated => (
            "ends too early, so a part of it is missing",
            "fetch it again",
        ),
        ErrorCode::SignatureFormatUnknown => (
            "has a format that cannot be checked",
            "sigstore bundles and minisign signatures can be checked",
        ),
        ErrorCode::SignatureInvalid => (
            "is invalid: the signature or the component was changed",
            AGAIN,
        ),
        ErrorCode::SignatureWrongDigest => (
            "is over another digest, and does not hold for that one either",
            AGAIN,
        ),
        ErrorCode::SignatureReplayed => (
            "is a valid signature of another artifact, copied to this one",
            AGAIN,
        ),
        ErrorCode::SignatureWrongSubject => {
            ("does not name this artifact, and nothing else", AGAIN)
        }
        ErrorCode::SignatureIsAttestation => (
            "is an attestation, which says something of the artifact and does not sign it",
            AGAIN,
        ),
        ErrorCode::SignatureExpired => (
            "was made when the certificate of its signer was not valid",
            "check the clock of this machine, or ask the publisher to sign it again",
        ),
        ErrorCode::SignatureNotLogged => (
            "has no valid proof that a transparency log has it",
            "ask the publisher to sign it again, with a log; a log that is newer than this program needs a newer \
             `trusted_root` in your own toolcell.toml",
        ),
        ErrorCode::SignatureAuthorityUnknown => (
            "has a certificate of an unknown authority",
            "for a private sigstore deployment, set `trusted_root` in your own toolcell.toml",
        ),
        ErrorCode::SignatureTimeUnproven => (
            "does not prove when it was made",
            "ask the publisher to sign it again, with a log or a timestamp",
        ),
        ErrorCode::SignerUnknown => (
            "was made with a key that no [[signer]] entry has",
            "get the public key from the publisher, and name it in a [[signer]] entry of toolcell.toml",
        ),
        ErrorCode::SignatureMalformed => ("cannot be read", AGAIN),
        _ => ("is refused", AGAIN),
    }
}

/// `why` is quoted from the signature, and may be empty.
pub(super) fn problem(code: ErrorCode, found: &str, why: &str) -> Refusal {
    let (what, next) = words(code);
    let why: String = why.chars().take(QUOTED_CHARS_MAX).collect();
    let why = if why.is_empty() {
        why
    } else {
        format!(" ({})", quoted(&why))
    };
    let message = format!("the signature {found} {what}{why}; {next}");
    Refusal::new(code, message)
}

/// `true` if the signature could not be checked at all, so its artifact counts as unsigned.
pub(super) fn is_unverifiable(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::SignatureFormatUnknown
            | ErrorCode::SignerUnknown
            | ErrorCode::SignatureIsAttestation
    )
}

pub(super) fn replayed(found: &str, signed: &str, digest: &Digest) -> Refusal {
    let why = format!("it is over {signed}, and this is {digest}");
    problem(ErrorCode::SignatureReplayed, found, &why)
}

pub(super) fn unsigned(reference: &ComponentReference, entry: Option<&str>) -> Refusal {
    let next = match entry {
        Some(place) => format!("the [[signer]] entry at {place} names who must have signed it"),
        None if reference.is_path() => {
            "ask the publisher to sign it; a file can be installed as it is".to_owned()
        }
        None => {
            "ask the publisher to sign it; `toolcell install --allow-unsigned` accepts it as it is"
                .to_owned()
        }
    };
    let message = format!("{reference} is not signed, so its publisher is unknown; {next}");
    Refusal::new(ErrorCode::Unsigned, message)
}

/// `every_tag` is a signer's identity at every tag, if the policy names it at another tag.
pub(super) fn not_trusted(
    reference: &ComponentReference,
    signers: &[&Signer],
    entry: &str,
    every_tag: Option<String>,
) -> Refusal {
    let signers: Vec<String> = signers.iter().map(ToString::to_string).collect();
    let next = every_tag.map_or_else(
        || "if you trust this signer, add an entry".to_owned(),
        |identity| {
            format!(
                "they name another tag of the same workflow: `{identity}` in place of it names every tag, and no branch"
            )
        },
    );
    let message = format!(
        "{reference} is signed by {}, whom the [[signer]] entries for it do not name ({entry}); {next}",
        signers.join(", and by ")
    );
    Refusal::new(ErrorCode::SignerNotTrusted, message)
}

pub(super) fn too_large(found: &str, bytes: usize) -> Refusal {
    let message = format!(
        "the signature {found} has {bytes} bytes, and at most {SIGNATURE_BYTES_MAX} are read; ask the publisher for \
         the signature alone"
    );
    Refusal::new(ErrorCode::SignatureTooLarge, message)
}

pub(super) fn too_many(reference: &ComponentReference, found: usize) -> Refusal {
    let message = format!(
        "{reference} has {found} signatures, and at most {SIGNATURES_MAX} are checked; ask the publisher to remove \
         those that are not needed"
    );
    Refusal::new(ErrorCode::SignaturesTooMany, message)
}

pub(super) fn too_slow(reference: &ComponentReference) -> Refusal {
    let message = format!(
        "checking the signatures of {reference} took too long; try again on an idle machine"
    );
    Refusal::new(ErrorCode::SignaturesTooSlow, message)
}

pub(super) fn root_invalid(place: &str, why: &str) -> Refusal {
    let message = format!(
        "the sigstore trusted root {place} cannot be used ({why}); correct it, or remove `trusted_root` from \
         toolcell.toml"
    );
    Refusal::new(ErrorCode::TrustedRootInvalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_of_a_signature_has_words_of_its_own() {
        let mut seen = vec![words(ErrorCode::Unsigned).0];
        for code in [
            ErrorCode::SignatureTruncated,
            ErrorCode::SignatureMalformed,
            ErrorCode::SignatureFormatUnknown,
            ErrorCode::SignatureInvalid,
            ErrorCode::SignatureWrongDigest,
            ErrorCode::SignatureReplayed,
            ErrorCode::SignatureWrongSubject,
            ErrorCode::SignatureIsAttestation,
            ErrorCode::SignatureExpired,
            ErrorCode::SignatureNotLogged,
            ErrorCode::SignatureAuthorityUnknown,
            ErrorCode::SignatureTimeUnproven,
            ErrorCode::SignerUnknown,
        ] {
            let (what, _) = words(code);
            assert!(!seen.contains(&what), "{code}");
            seen.push(what);
            assert!(problem(code, "at x", "").message.contains(what));
        }
    }
}
