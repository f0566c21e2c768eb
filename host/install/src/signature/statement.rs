//! A signed statement: the in-toto statement in an envelope, in the format of `cosign sign`.

use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha2::{Digest as _, Sha512};
use toolcell_spec::{ErrorCode, Refusal};

use super::refusal::{self, problem};
use crate::digest::Digest;
use crate::package_index::attestation::PREDICATES;
use crate::reference::ComponentReference;
use crate::trust::plain_repository;
use crate::verifier::SignatureSubject;

pub(super) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
pub(super) const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// Statements of other types describe an artifact's origin or contents, and sign nothing but a package.
pub(super) const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

#[derive(Deserialize)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    subject: Vec<StatementSubject>,
}

#[derive(Deserialize)]
struct StatementSubject {
    #[serde(default)]
    name: String,
    digest: SubjectDigests,
}

#[derive(Deserialize)]
struct SubjectDigests {
    sha256: Option<String>,
    sha512: Option<String>,
}

/// `payload`, whose signature holds, must sign `subject` and nothing else.
pub(super) fn check(
    payload: &[u8],
    subject: &SignatureSubject<'_>,
    found: &str,
) -> Result<(), Refusal> {
    let statement: Statement = serde_json::from_slice(payload)
        .map_err(|error| problem(ErrorCode::SignatureMalformed, found, &error.to_string()))?;
    if !signs(&statement.predicate_type, subject.reference) && guard!("signed_predicate") {
        let why = format!("of the type `{}`", statement.predicate_type);
        return Err(problem(ErrorCode::SignatureIsAttestation, found, &why));
    }
    if statement.kind != STATEMENT_TYPE {
        let why = format!("its statement is of the type `{}`", statement.kind);
        return Err(problem(ErrorCode::SignatureFormatUnknown, found, &why));
    }
    let [signed] = statement.subject.as_slice() else {
        return Err(problem(
            ErrorCode::SignatureWrongSubject,
            found,
            &format!("it names {} artifacts", statement.subject.len()),
        ));
    };
    let (digest, is_same) = match (&signed.digest.sha256, &signed.digest.sha512) {
        (Some(hex), _) => {
            let digest = format!("sha256:{hex}");
            let is_same = digest.parse::<Digest>().ok() == Some(subject.digest);
            (digest, is_same)
        }
        // Of a package of npm.
        (None, Some(hex)) => {
            let is_same = *hex == HEXLOWER.encode(&Sha512::digest(subject.bytes));
            (format!("sha512:{hex}"), is_same)
        }
        (None, None) => {
            let why = "it names no SHA-256 or SHA-512 digest";
            return Err(problem(ErrorCode::SignatureWrongSubject, found, why));
        }
    };
    if !is_same && guard!("signed_digest") {
        return Err(refusal::replayed(found, &digest, &subject.digest));
    }
    if !is_named(&signed.name, subject.reference) {
        return Err(problem(
            ErrorCode::SignatureWrongSubject,
            found,
            &format!("it is for `{}`", signed.name),
        ));
    }
    Ok(())
}

fn signs(predicate: &str, reference: &ComponentReference) -> bool {
    match reference {
        ComponentReference::Package(_) => PREDICATES.contains(&predicate),
        _ => predicate == SIGN_PREDICATE,
    }
}

/// Most statements that sign a component have no name. Those about a package have, and without it the index could serve
/// any other package of the same publisher.
fn is_named(name: &str, reference: &ComponentReference) -> bool {
    let registry = match reference {
        ComponentReference::Registry(registry) => registry,
        ComponentReference::Package(package) => return package.is_attested_as(name),
        _ => return true,
    };
    let Some((host, rest)) = name.split_once('/') else {
        return name.is_empty();
    };
    let repository = rest.split([':', '@']).next().unwrap_or_default();
    plain_repository(host, repository) == plain_repository(&registry.host, &registry.repository)
}
