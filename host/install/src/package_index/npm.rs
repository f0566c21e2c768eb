//! The npm registry and its mirrors.

use data_encoding::{BASE64, HEXLOWER};
use serde::Deserialize;
use toolcell_spec::Refusal;
use url::Url;

use super::{ArchiveHash, FoundVersion, INDEX_BYTES_MAX, PackageReference, absent, unusable};
use crate::web::WebSource;

#[derive(Deserialize)]
struct Manifest {
    version: String,
    dist: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    tarball: String,
    /// Subresource integrity: one hash or several, each with its name.
    integrity: Option<String>,
    attestations: Option<Attestations>,
}

#[derive(Deserialize)]
struct Attestations {
    url: String,
}

pub(super) async fn find(
    web: &WebSource,
    index: &Url,
    package: &PackageReference,
) -> Result<FoundVersion, Refusal> {
    let version = package.version.as_deref().unwrap_or("latest");
    let name = package.name.replace('/', "%2f");
    let joined = index.join(&format!("./{name}/{version}"));
    let page = joined.map_err(|error| unusable(index, &error.to_string()))?;
    let text = web
        .document((&page, &page), "application/json", INDEX_BYTES_MAX)
        .await?
        .ok_or_else(|| absent(package, index))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
        unusable(
            index,
            &format!("its answer is not the manifest of a version: {error}"),
        )
    })?;
    let hash = manifest
        .dist
        .integrity
        .iter()
        .flat_map(|hashes| hashes.split_whitespace())
        .find_map(|hash| BASE64.decode(hash.strip_prefix("sha512-")?.as_bytes()).ok())
        .ok_or_else(|| unusable(index, "it names no SHA-512 of the package"))?;
    let joined = |url: &str| {
        index
            .join(url)
            .map_err(|error| unusable(index, &error.to_string()))
    };
    let attestations = manifest.dist.attestations;
    Ok(FoundVersion {
        version: manifest.version,
        url: joined(&manifest.dist.tarball)?,
        hash: ArchiveHash::Sha512(HEXLOWER.encode(&hash)),
        attestations: attestations.map(|named| joined(&named.url)).transpose()?,
    })
}

/// The name and the version of `pkg:npm/%40SCOPE/NAME@VERSION`.
pub(super) fn package_url(url: &str) -> Option<(String, &str)> {
    let (name, version) = url.strip_prefix("pkg:npm/")?.rsplit_once('@')?;
    let scoped = name.strip_prefix("%40").map(|rest| format!("@{rest}"));
    Some((scoped.unwrap_or_else(|| name.to_owned()), version))
}

/// Such as `latest`: the index says which version it is.
pub(super) fn is_tag(version: &str) -> bool {
    !version.starts_with(|c: char| c.is_ascii_digit())
}
