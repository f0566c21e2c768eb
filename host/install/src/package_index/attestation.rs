//! What the publisher of a package attests, as bundles of sigstore.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolcell_spec::Refusal;
use url::Url;

use super::{PackageArchive, PackageIndex, PackageReference, unusable};
use crate::source::{REFERRER_BYTES_MAX, Referrer, SIGSTORE_BUNDLE};
use crate::web::WebSource;

/// That it published the archive, and where it built that. An index attests other things itself.
pub(crate) const PREDICATES: [&str; 2] = [
    "https://docs.pypi.org/attestations/publish/v1",
    "https://slsa.dev/provenance/v1",
];
const INTEGRITY_JSON: &str = "application/vnd.pypi.integrity.v1+json";

/// Of PyPI (PEP 740).
#[derive(Deserialize)]
struct Provenance {
    attestation_bundles: Vec<AttestationBundle>,
}

#[derive(Deserialize)]
struct AttestationBundle {
    attestations: Vec<Attestation>,
}

#[derive(Deserialize)]
struct Attestation {
    verification_material: VerificationMaterial,
    envelope: Envelope,
}

#[derive(Deserialize)]
struct VerificationMaterial {
    certificate: String,
    transparency_entries: Vec<Value>,
}

#[derive(Deserialize)]
struct Envelope {
    statement: String,
    signature: String,
}

#[derive(Deserialize)]
struct NpmAttestations<'a> {
    #[serde(borrow)]
    attestations: Vec<NpmAttestation<'a>>,
}

#[derive(Deserialize)]
struct NpmAttestation<'a> {
    #[serde(rename = "predicateType")]
    predicate_type: String,
    #[serde(borrow)]
    bundle: &'a RawValue,
}

/// None, if the index names none.
pub(crate) async fn find(
    web: &WebSource,
    package: &PackageReference,
    archive: &PackageArchive,
) -> Result<Vec<Referrer>, Refusal> {
    let Some(url) = &archive.attestations else {
        return Ok(Vec::new());
    };
    let media_type = match package.index {
        PackageIndex::Pypi => INTEGRITY_JSON,
        PackageIndex::Npm => "application/json",
    };
    let document = web.document((url, &archive.index), media_type, REFERRER_BYTES_MAX);
    let Some(text) = document.await? else {
        return Ok(Vec::new());
    };
    let bundles = match package.index {
        PackageIndex::Pypi => of_pypi(&text),
        PackageIndex::Npm => of_npm(&text),
    };
    let bundles = bundles.map_err(|error| {
        let why = format!("{url} has no attestations that can be read: {error}");
        unusable(&archive.index, &why)
    })?;
    let found = |(at, bytes)| referrer(url, at, bytes);
    Ok(bundles.into_iter().enumerate().map(found).collect())
}

fn referrer(url: &Url, at: usize, bytes: Vec<u8>) -> Referrer {
    Referrer {
        media_type: SIGSTORE_BUNDLE.to_owned(),
        found: format!("{url}, the attestation {}", at + 1),
        bytes,
    }
}

fn of_pypi(text: &[u8]) -> serde_json::Result<Vec<Vec<u8>>> {
    let read: Provenance = serde_json::from_slice(text)?;
    let all = read.attestation_bundles.into_iter();
    let bundle = |attestation: Attestation| {
        let Attestation {
            verification_material: material,
            envelope,
        } = attestation;
        serde_json::to_vec(&json!({
            "mediaType": SIGSTORE_BUNDLE,
            "verificationMaterial": {
                "certificate": { "rawBytes": material.certificate },
                "tlogEntries": material.transparency_entries,
            },
            "dsseEnvelope": {
                "payload": envelope.statement,
                "payloadType": "application/vnd.in-toto+json",
                "signatures": [{ "sig": envelope.signature }],
            },
        }))
    };
    all.flat_map(|bundle| bundle.attestations)
        .map(bundle)
        .collect()
}

fn of_npm(text: &[u8]) -> serde_json::Result<Vec<Vec<u8>>> {
    let read: NpmAttestations<'_> = serde_json::from_slice(text)?;
    let is_publishers = |one: &&NpmAttestation<'_>| PREDICATES.contains(&&*one.predicate_type);
    // As they are written, because a field that is there twice is refused.
    let bundle = |one: &NpmAttestation<'_>| one.bundle.get().as_bytes().to_vec();
    Ok(read
        .attestations
        .iter()
        .filter(is_publishers)
        .map(bundle)
        .collect())
}
