//! A software bill of materials, in CycloneDX, of a source folder's own lock file. It names what the lock file pins:
//! also what only tests and builds need, where the lock file does not tell them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use data_encoding::{BASE64, HEXLOWER};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::digest::Digest;
use crate::package::{PackageInfo, text};

pub const MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";
const DEPENDENCIES_MAX: usize = 10_000;
/// Hex digits that tell two sources of a package apart.
const DIGEST_LENGTH: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PinnedDependency {
    name: String,
    version: String,
    kind: &'static str,
    /// Its source outside of the public registry of its kind. It has no package URL then, because that would name the
    /// package of another publisher.
    elsewhere: Option<String>,
    /// Algorithm, as CycloneDX names it, and hash in hex.
    hashes: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sbom {
    pub json: Value,
    /// `None` if only the component itself is listed.
    pub lock_file: Option<&'static str>,
    pub dependencies: usize,
}

impl Sbom {
    /// The same for the same sources: without a time or a random number.
    pub fn new(package: &PackageInfo, component: Digest, folder: Option<&Path>) -> Self {
        let found = folder.and_then(|folder| dependencies(folder, package));
        let (lock_file, mut listed) =
            found.map_or((None, Vec::new()), |(name, listed)| (Some(name), listed));
        listed.sort();
        // One entry for each reference, although a lock file may name a package several times.
        listed.dedup_by(|next, kept| {
            let is_same = next.reference() == kept.reference();
            if is_same {
                kept.hashes.append(&mut next.hashes);
                kept.hashes.sort();
                kept.hashes.dedup();
            }
            is_same
        });
        listed.truncate(DEPENDENCIES_MAX);
        let licence = package.licence.as_ref();
        let own = without_nulls(json!({
            "type": "application",
            "bom-ref": component.to_string(),
            "name": package.name,
            "hashes": [{ "alg": "SHA-256", "content": component.hex() }],
            "version": package.version,
            "licenses": licence.map(|licence| json!([{ "license": { "name": licence } }])),
        }));
        let toolcell = json!({ "type": "application", "name": "toolcell", "version": env!("CARGO_PKG_VERSION") });
        let json = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": { "tools": { "components": [toolcell] }, "component": own },
            "components": listed.iter().map(PinnedDependency::json).collect::<Vec<_>>(),
        });
        Self {
            json,
            lock_file,
            dependencies: listed.len(),
        }
    }
}

impl PinnedDependency {
    fn new(kind: &'static str, name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            kind,
            elsewhere: None,
            hashes: Vec::new(),
        }
    }

    /// Its package URL, or else name, version and a digest of the source, which can contain a credential or a path of
    /// the author's machine.
    fn reference(&self) -> String {
        let name = self.name.replace('@', "%40");
        let version = self.version.replace('+', "%2B");
        match &self.elsewhere {
            None => format!("pkg:{}/{name}@{version}", self.kind),
            Some(source) => {
                let digest: String = Digest::of(source.as_bytes())
                    .hex()
                    .chars()
                    .take(DIGEST_LENGTH)
                    .collect();
                format!("{}:{name}@{version}:{digest}", self.kind)
            }
        }
    }

    fn json(&self) -> Value {
        let hashes: Vec<Value> = self
            .hashes
            .iter()
            .map(|(alg, content)| json!({ "alg": alg, "content": content }))
            .collect();
        without_nulls(json!({
            "type": "library",
            "bom-ref": self.reference(),
            "name": self.name,
            "version": self.version,
            "purl": self.elsewhere.is_none().then(|| self.reference()),
            "hashes": (!hashes.is_empty()).then_some(hashes),
        }))
    }
}

fn without_nulls(mut fields: Value) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

fn dependencies(
    folder: &Path,
    package: &PackageInfo,
) -> Option<(&'static str, Vec<PinnedDependency>)> {
    let beside = |name: &str| text(&folder.join(name));
    if folder.join("Cargo.toml").is_file() {
        // In a workspace, the lock file is in a folder above.
        let folder = folder.canonicalize().ok()?;
        let lock = folder
            .ancestors()
            .find_map(|folder| text(&folder.join("Cargo.lock")))?;
        return Some(("Cargo.lock", of_cargo(&lock, package)?));
    }
    if let Some(lock) = beside("package-lock.json") {
        return Some(("package-lock.json", of_npm(&lock)?));
    }
    if let Some(lock) = beside("go.sum") {
        return Some(("go.sum", of_go(&lock)));
    }
    beside("requirements.txt").map(|lock| ("requirements.txt", of_python(&lock)))
}

const CRATES_IO: [&str; 2] = [
    "registry+https://github.com/rust-lang/crates.io-index",
    "sparse+https://index.crates.io/",
];

#[derive(Deserialize)]
struct CargoLock {
    package: Vec<CargoPackage>,
}

#[derive(Deserialize)]
struct CargoPackage {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

impl CargoPackage {
    /// `need` is `name`, or `name version` where several are pinned, or with the source in parentheses.
    fn is(&self, need: &str) -> bool {
        // The package has the commit of a repository after `#`, and what needs it does not.
        let plain = |text: &str| text.split('#').next().unwrap_or_default().to_owned();
        let mut words = need.split(' ');
        let is_named = words.next() == Some(&self.name);
        let is_of_version = words.next().is_none_or(|version| version == self.version);
        let source = self.source.as_deref().map(plain);
        is_named
            && is_of_version
            && words.next().is_none_or(|wanted| {
                source.is_some_and(|source| source == plain(wanted.trim_matches(['(', ')'])))
            })
    }
}

/// Those that the package needs, directly or through others.
fn of_cargo(lock: &str, package: &PackageInfo) -> Option<Vec<PinnedDependency>> {
    let lock: CargoLock = toml::from_str(lock).ok()?;
    let mut by_name: BTreeMap<&str, Vec<&CargoPackage>> = BTreeMap::new();
    for entry in &lock.package {
        by_name.entry(&entry.name).or_default().push(entry);
    }
    let own = by_name
        .get(package.name.as_str())?
        .iter()
        .find(|entry| entry.source.is_none())?;
    let mut waiting = vec![*own];
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(entry) = waiting.pop() {
        for need in &entry.dependencies {
            let name = need.split(' ').next().unwrap_or_default();
            let named = by_name.get(name).into_iter().flatten().copied();
            for one in named.filter(|one| one.is(need)) {
                if !seen.insert((&one.name, &one.version, &one.source))
                    || found.len() >= DEPENDENCIES_MAX
                {
                    continue;
                }
                let source = one.source.clone().unwrap_or_else(|| "path".to_owned());
                let is_public = CRATES_IO.iter().any(|start| source.starts_with(start));
                let hash = one.checksum.clone().map(|hash| ("SHA-256", hash));
                found.push(PinnedDependency {
                    elsewhere: Some(source).filter(|_| !is_public),
                    hashes: hash.into_iter().collect(),
                    ..PinnedDependency::new("cargo", &one.name, &one.version)
                });
                waiting.push(one);
            }
        }
    }
    Some(found)
}

fn of_npm(lock: &str) -> Option<Vec<PinnedDependency>> {
    let lock: Value = serde_json::from_str(lock).ok()?;
    let packages = lock.get("packages")?.as_object()?;
    let is =
        |entry: &Value, name: &str| entry.get(name).and_then(Value::as_bool).unwrap_or_default();
    let kept = packages
        .iter()
        .filter(|(_, entry)| !is(entry, "dev") && !is(entry, "link"));
    let dependency = |(path, entry): (&String, &Value)| {
        let name = path.rsplit_once("node_modules/")?.1;
        let version = entry.get("version")?.as_str()?;
        let hash = || {
            let hash = entry.get("integrity")?.as_str()?.strip_prefix("sha512-")?;
            Some((
                "SHA-512",
                HEXLOWER.encode(&BASE64.decode(hash.as_bytes()).ok()?),
            ))
        };
        // Mirrors serve the packages of the public registry over https.
        let resolved = entry.get("resolved").and_then(Value::as_str);
        let elsewhere = resolved
            .filter(|place| !place.starts_with("https://"))
            .map(str::to_owned);
        Some(PinnedDependency {
            elsewhere,
            hashes: hash().into_iter().collect(),
            ..PinnedDependency::new("npm", name, version)
        })
    };
    Some(kept.filter_map(dependency).collect())
}

/// Go's hashes are over the names and hashes of a module's files, which is none of CycloneDX's algorithms.
fn of_go(lock: &str) -> Vec<PinnedDependency> {
    let dependency = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let version = words.next()?;
        let is_module = !version.ends_with("/go.mod");
        is_module.then(|| PinnedDependency::new("golang", name, version))
    };
    lock.lines().filter_map(dependency).collect()
}

/// Written in two parts, because it is no option of this program.
const PYTHON_HASH: &str = concat!("--", "hash=sha256:");

/// `name==version`, with several hashes if a version has several files.
fn of_python(lock: &str) -> Vec<PinnedDependency> {
    let joined = lock.replace("\\\r\n", " ").replace("\\\n", " ");
    let dependency = |line: &str| {
        let line = line.split(" #").next()?.trim();
        let (name, rest) = line
            .split_once("==")
            .filter(|_| !line.starts_with(['#', '-']))?;
        let name = name
            .split('[')
            .next()?
            .trim()
            .to_ascii_lowercase()
            .replace(['_', '.'], "-");
        let version = rest.split([' ', ';']).next()?;
        let hashes = rest
            .split_whitespace()
            .filter_map(|word| word.strip_prefix(PYTHON_HASH));
        Some(PinnedDependency {
            hashes: hashes.map(|hash| ("SHA-256", hash.to_owned())).collect(),
            ..PinnedDependency::new("pypi", &name, version)
        })
    };
    joined.lines().filter_map(dependency).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(dependencies: &[PinnedDependency]) -> Vec<String> {
        dependencies
            .iter()
            .map(|one| format!("{} {} {}", one.name, one.version, one.hashes.len()))
            .collect()
    }

    #[test]
    fn a_package_url_names_public_packages_alone_and_each_once() {
        let lock = r#"
            [[package]]
            name = "tool"
            version = "0.1.0"
            dependencies = ["a 1.0.0 (registry+https://github.com/rust-lang/crates.io-index)", "b", "c",
                "a 1.0.0 (git+https://example.org/a)"]
            [[package]]
            name = "a"
            version = "1.0.0"
            source = "registry+https://github.com/rust-lang/crates.io-index"
            [[package]]
            name = "a"
            version = "1.0.0"
            source = "git+https://example.org/a#00"
            [[package]]
            name = "b"
            version = "0.1.0"
            [[package]]
            name = "c"
            version = "1.0.0"
            source = "sparse+https://index.example.org/"
        "#;
        let tool = PackageInfo {
            name: "tool".to_owned(),
            ..PackageInfo::default()
        };
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("Cargo.toml"), "").unwrap();
        std::fs::write(root.path().join("Cargo.lock"), lock).unwrap();
        let bill = Sbom::new(&tool, Digest::of(b"x"), Some(root.path()));
        let listed = bill.json["components"].as_array().unwrap();
        let purls: Vec<&str> = listed
            .iter()
            .filter_map(|one| one["purl"].as_str())
            .collect();
        assert_eq!((bill.dependencies, purls), (4, vec!["pkg:cargo/a@1.0.0"]));
        let mut references: Vec<&str> = listed
            .iter()
            .map(|one| one["bom-ref"].as_str().unwrap())
            .collect();
        references.dedup();
        assert_eq!(references.len(), 4, "{references:?}");
        assert!(
            !bill.json.to_string().contains("example.org"),
            "{}",
            bill.json
        );
        // One package with two files, each with a hash.
        std::fs::remove_file(root.path().join("Cargo.toml")).unwrap();
        let twice =
            format!("a==1.0 ; os_name == 'x' {PYTHON_HASH}00\na==1.0 {PYTHON_HASH}11\na==1.0\n");
        std::fs::write(root.path().join("requirements.txt"), twice).unwrap();
        let bill = Sbom::new(&tool, Digest::of(b"x"), Some(root.path()));
        assert_eq!(
            (
                bill.dependencies,
                bill.json["components"][0]["hashes"]
                    .as_array()
                    .unwrap()
                    .len()
            ),
            (1, 2)
        );
    }

    #[test]
    fn of_a_workspace_only_what_the_tool_needs_is_listed() {
        let lock = r#"
            [[package]]
            name = "tool"
            version = "0.1.0"
            dependencies = ["a", "b 2.0.0"]
            [[package]]
            name = "other"
            version = "0.1.0"
            dependencies = ["c"]
            [[package]]
            name = "a"
            version = "1.0.0"
            source = "registry+https://example.org"
            checksum = "00"
            dependencies = ["b 2.0.0"]
            [[package]]
            name = "b"
            version = "1.0.0"
            source = "registry+https://example.org"
            [[package]]
            name = "b"
            version = "2.0.0"
            source = "registry+https://example.org"
            checksum = "11"
            [[package]]
            name = "c"
            version = "1.0.0"
            source = "registry+https://example.org"
        "#;
        let tool = PackageInfo {
            name: "tool".to_owned(),
            ..PackageInfo::default()
        };
        let mut found = of_cargo(lock, &tool).unwrap();
        found.sort();
        assert_eq!(named(&found), ["a 1.0.0 1", "b 2.0.0 1"]);
    }

    #[test]
    fn lock_files_of_other_languages_are_read() {
        let npm = r#"{"packages": {"": {"version": "1.0.0"},
            "node_modules/@x/a": {"version": "2.0.0", "integrity": "sha512-AAAA"},
            "node_modules/a/node_modules/b": {"version": "3.0.0"},
            "node_modules/e": {"version": "1.0.0", "resolved": "git+ssh://git@example.org/e.git#00"},
            "node_modules/c": {"version": "1.0.0", "dev": true}, "node_modules/d": {"link": true}}}"#;
        let npm = of_npm(npm).unwrap();
        assert_eq!(named(&npm), ["@x/a 2.0.0 1", "b 3.0.0 0", "e 1.0.0 0"]);
        assert_eq!(
            (&npm[0].json()["purl"], &npm[2].json()["purl"]),
            (&json!("pkg:npm/%40x/a@2.0.0"), &Value::Null)
        );
        let go = of_go("example.org/a v1.0.0 h1:x=\nexample.org/a v1.0.0/go.mod h1:y=\n");
        assert_eq!(named(&go), ["example.org/a v1.0.0 0"]);
        let hash = PYTHON_HASH;
        let python = format!(
            "# made\n-i https://example.org\nA_b[c]==1.0 ; python_version > \"3\" \\\n    {hash}00 \\\n    {hash}11 # via \
             d\nrequests>=2\n"
        );
        assert_eq!(named(&of_python(&python)), ["a-b 1.0 2"]);
    }

    #[test]
    fn the_document_is_the_same_each_time_and_names_the_component() {
        let package = PackageInfo {
            name: "a".into(),
            version: Some("1".into()),
            licence: Some("MIT".into()),
            ..PackageInfo::default()
        };
        let bill = || Sbom::new(&package, Digest::of(b"x"), None);
        assert_eq!(bill(), bill());
        let json = bill().json;
        assert_eq!(
            (&json["bomFormat"], &json["specVersion"]),
            (&json!("CycloneDX"), &json!("1.6"))
        );
        assert_eq!(
            json["metadata"]["component"]["hashes"][0]["content"],
            Digest::of(b"x").hex()
        );
        assert_eq!(
            json["metadata"]["component"]["licenses"][0]["license"]["name"],
            "MIT"
        );
    }
}
