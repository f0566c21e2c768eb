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
        .document(&page, "application/json", INDEX_BYTES_MAX)
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
    let url = index
        .join(&manifest.dist.tarball)
        .map_err(|error| unusable(index, &error.to_string()))?;
    Ok(FoundVersion {
        version: manifest.version,
        url,
        hash: ArchiveHash::Sha512(HEXLOWER.encode(&hash)),
    })
}
