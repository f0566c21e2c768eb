//! PyPI and its mirrors: the simple index as JSON (PEP 691), and wheels.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toolcell_spec::{ErrorCode, Refusal};
use url::Url;

use super::{ArchiveHash, FoundVersion, INDEX_BYTES_MAX, PackageReference, absent, unusable};
use crate::web::WebSource;

const SIMPLE_JSON: &str = "application/vnd.pypi.simple.v1+json";

#[derive(Deserialize)]
struct Project {
    files: Vec<ProjectFile>,
}

#[derive(Deserialize)]
struct ProjectFile {
    filename: String,
    url: String,
    hashes: BTreeMap<String, String>,
    /// The URL of its attestations.
    provenance: Option<String>,
    /// `true`, or why.
    #[serde(default)]
    yanked: Value,
}

impl ProjectFile {
    fn version(&self) -> Option<&str> {
        wheel(&self.filename).map(|(_, version)| version)
    }

    fn is_yanked(&self) -> bool {
        !matches!(self.yanked, Value::Null | Value::Bool(false))
    }
}

pub(super) async fn find(
    web: &WebSource,
    index: &Url,
    package: &PackageReference,
) -> Result<FoundVersion, Refusal> {
    let joined = index.join(&format!("{}/", package.name));
    let page = joined.map_err(|error| unusable(index, &error.to_string()))?;
    let text = web
        .document((&page, &page), SIMPLE_JSON, INDEX_BYTES_MAX)
        .await?
        .ok_or_else(|| absent(package, index))?;
    let project: Project = serde_json::from_slice(&text).map_err(|error| {
        unusable(
            index,
            &format!("its answer is not JSON of PEP 691: {error}"),
        )
    })?;
    let file = choose(&project, package).ok_or_else(|| {
        let message = format!(
            "{package} has no wheel for all platforms; name a version that has one: {}",
            versions(&project)
        );
        Refusal::new(ErrorCode::ReferenceNotFound, message)
    })?;
    let hash = file
        .hashes
        .get("sha256")
        .ok_or_else(|| unusable(index, "it names no SHA-256 of the wheel"))?;
    let joined = |url: &String| {
        page.join(url)
            .map_err(|error| unusable(index, &error.to_string()))
    };
    Ok(FoundVersion {
        version: file.version().unwrap_or_default().to_owned(),
        url: joined(&file.url)?,
        hash: ArchiveHash::Sha256(hash.to_ascii_lowercase()),
        attestations: file.provenance.as_ref().map(joined).transpose()?,
    })
}

/// The wheel of the version, or of the newest release. A wheel for one platform has programs of it.
fn choose<'p>(project: &'p Project, package: &PackageReference) -> Option<&'p ProjectFile> {
    let mut wheels = project
        .files
        .iter()
        .filter(|file| file.filename.ends_with("-none-any.whl"));
    match &package.version {
        Some(version) => wheels.rfind(|file| file.version() == Some(version)),
        None => wheels
            .filter(|file| !file.is_yanked())
            .filter_map(|file| Some((release(file.version()?)?, file)))
            .max_by(|one, other| one.0.cmp(&other.0))
            .map(|(_, file)| file),
    }
}

/// The name and the version of `NAME-VERSION(-BUILD)?-PYTHON-ABI-PLATFORM.whl`.
pub(super) fn wheel(filename: &str) -> Option<(&str, &str)> {
    let mut parts = filename.strip_suffix(".whl")?.split('-');
    Some((parts.next()?, parts.next()?))
}

/// `None` for a pre-release, and for what has no order by its numbers alone.
fn release(version: &str) -> Option<Vec<u64>> {
    let mut numbers: Vec<u64> = version
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    // 1.0 is 1.0.0.
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

fn versions(project: &Project) -> String {
    let mut known: Vec<&str> = project
        .files
        .iter()
        .filter_map(ProjectFile::version)
        .collect();
    known.dedup();
    match known.as_slice() {
        [] => "there is none".to_owned(),
        [.., _] => known
            .iter()
            .rev()
            .take(5)
            .copied()
            .collect::<Vec<_>>()
            .join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::PackageIndex;
    use super::*;

    #[test]
    fn the_newest_release_is_chosen_and_a_named_version_as_it_is() {
        let file = |version: &str, tags: &str, yanked: Value| ProjectFile {
            filename: format!("x-{version}-{tags}.whl"),
            url: String::new(),
            hashes: BTreeMap::new(),
            provenance: None,
            yanked,
        };
        let project = Project {
            files: vec![
                file("1.10.0", "py3-none-any", Value::Null),
                file("1.9", "py3-none-any", Value::Bool(false)),
                file("2.0rc1", "py3-none-any", Value::Null),
                file("3.0", "py3-none-any", "broken".into()),
                file("4.0", "cp313-cp313-linux_x86_64", Value::Null),
            ],
        };
        let chosen = |text: &str| {
            let package = PackageReference::parse(PackageIndex::Pypi, text).unwrap();
            choose(&project, &package).map(|file| file.version().unwrap().to_owned())
        };
        assert_eq!(chosen("x#a").as_deref(), Some("1.10.0"));
        assert_eq!(chosen("x==2.0rc1#a").as_deref(), Some("2.0rc1"));
        assert_eq!(chosen("x==3.0#a").as_deref(), Some("3.0"));
        assert_eq!(chosen("x==4.0#a"), None);
    }
}
