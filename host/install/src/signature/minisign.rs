//! Signatures of minisign, over bytes.

use data_encoding::{BASE64, HEXUPPER};
use minisign_verify::{Error, Signature};
use ring::signature::{ED25519, UnparsedPublicKey};
use toolcell_spec::{ErrorCode, Refusal};

use super::ValidSignature;
use super::key::MinisignKey;
use super::refusal::problem;
use crate::verifier::SignatureSubject;

/// How a signature begins.
pub(super) const BEGIN: &str = "untrusted comment:";
const TRUSTED: &str = "trusted comment: ";
const LINES: [usize; 2] = [2 + 8 + 64, 64];
/// The last second of the year 9999: a later one has no date that could be shown.
const SECONDS_MAX: i64 = 253_402_300_799;

/// The key, and what the signature says of itself.
struct SignatureParts {
    id: String,
    signature: Vec<u8>,
    comment: String,
    global: Vec<u8>,
}

pub(super) fn check(
    text: &str,
    subject: &SignatureSubject<'_>,
    keys: &[&MinisignKey],
    found: &str,
) -> Result<ValidSignature, Refusal> {
    let parts = parts(text).map_err(|code| problem(code, found, ""))?;
    let signature = Signature::decode(text).map_err(|error| match error {
        Error::UnsupportedAlgorithm => problem(ErrorCode::SignatureFormatUnknown, found, ""),
        other => problem(ErrorCode::SignatureMalformed, found, &other.to_string()),
    })?;
    // Several keys can have the id of a signature, because an id can be chosen.
    let mut known = keys.iter().filter(|key| key.id() == parts.id).peekable();
    if known.peek().is_none() {
        return Err(problem(
            ErrorCode::SignerUnknown,
            found,
            &format!("the minisign key {}", parts.id),
        ));
    }
    let mut genuine = false;
    for key in known {
        // Releases of minisign before 0.10 sign the bytes themselves.
        if key.key.verify(subject.bytes, &signature, true).is_ok() || !guard!("minisign") {
            let signed_at = timestamp(&parts.comment);
            return Ok(ValidSignature {
                signer: key.signer(),
                signed_at,
                is_logged: false,
            });
        }
        genuine |= parts.is_genuine(key);
    }
    let code = if genuine {
        ErrorCode::SignatureReplayed
    } else {
        ErrorCode::SignatureInvalid
    };
    Err(problem(code, found, &parts.comment))
}

impl SignatureParts {
    /// Holds for any bytes: the key also signs the signature with its comment.
    fn is_genuine(&self, key: &MinisignKey) -> bool {
        let signed = [self.signature.as_slice(), self.comment.as_bytes()].concat();
        let key: Vec<u8> = key.raw.iter().skip(2 + 8).copied().collect();
        UnparsedPublicKey::new(&ED25519, key)
            .verify(&signed, &self.global)
            .is_ok()
    }
}

fn parts(text: &str) -> Result<SignatureParts, ErrorCode> {
    let lines: Vec<&str> = text.lines().collect();
    let [_, signature, comment, global, ..] = *lines.as_slice() else {
        return Err(ErrorCode::SignatureTruncated);
    };
    let decoded = |line: &str, length: usize| match BASE64.decode(line.as_bytes()) {
        Ok(bytes) if bytes.len() == length => Ok(bytes),
        _ if line.len() < length.div_ceil(3) * 4 => Err(ErrorCode::SignatureTruncated),
        _ => Err(ErrorCode::SignatureMalformed),
    };
    let [signature_bytes, global_bytes] = LINES;
    let signature = decoded(signature, signature_bytes)?;
    let comment = comment
        .strip_prefix(TRUSTED)
        .ok_or(ErrorCode::SignatureMalformed)?
        .to_owned();
    let global = decoded(global, global_bytes)?;
    let mut id: Vec<u8> = signature.iter().skip(2).take(8).copied().collect();
    id.reverse();
    let signature = signature.into_iter().skip(2 + 8).collect();
    Ok(SignatureParts {
        id: HEXUPPER.encode(&id),
        signature,
        comment,
        global,
    })
}

fn timestamp(comment: &str) -> Option<i64> {
    let seconds: Option<i64> = comment
        .split_whitespace()
        .find_map(|word| word.strip_prefix("timestamp:")?.parse().ok());
    seconds.filter(|seconds| (0..=SECONDS_MAX).contains(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_no_date_is_none() {
        for (comment, expected) in [
            ("timestamp:1700000000\tfile:a", Some(1_700_000_000)),
            ("file:a timestamp:0", Some(0)),
            ("timestamp:-5", None),
            ("timestamp:9223372036854775807", None),
            ("timestamp:x", None),
            ("", None),
        ] {
            assert_eq!(timestamp(comment), expected, "{comment}");
        }
    }
}
