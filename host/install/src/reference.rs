//! A reference to a tool to install: a registry reference, a file in a package of PyPI or npm, a URL, a file or a folder.

use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_with::SerializeDisplay;
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{ErrorCode, Refusal};
use url::{Host, Position, Url};

use crate::digest::Digest;
use crate::package_index::{PackageIndex, PackageReference};

/// In bytes.
const LENGTH_MAX: usize = 2048;

/// The source of a tool to install. Serialized and displayed in one spelling, which parses to the same.
///
/// ```
/// use toolcell_install::reference::ComponentReference;
///
/// let reference = ComponentReference::parse("ghcr.io/example/jq:1.2", "/projects/a".as_ref())?;
/// assert_eq!(reference.to_string(), "oci://ghcr.io/example/jq:1.2");
/// let file = ComponentReference::parse("./jq.wasm", "/projects/a".as_ref())?;
/// assert_eq!(file, ComponentReference::Path("/projects/a/jq.wasm".into()));
/// # Ok::<(), toolcell_spec::Refusal>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, SerializeDisplay)]
pub enum ComponentReference {
    Registry(RegistryReference),
    Package(PackageReference),
    /// `https`, or `http` on this machine.
    Url(Url),
    /// A component file, or a source folder that was built; absolute.
    Path(PathBuf),
}

/// `host[:port]/repository[:tag][@sha256:..]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegistryReference {
    /// Lower case, with the port unless it is https's default: one spelling, because trust policies match it.
    pub host: String,
    pub repository: String,
    /// `latest` is meant if there is neither a tag nor a digest.
    pub tag: Option<String>,
    /// The manifest's. It counts alone, even with a tag beside it.
    pub digest: Option<Digest>,
}

impl RegistryReference {
    /// The digest, else the tag, else `latest`.
    pub fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self {
            digest: Some(digest),
            ..self.clone()
        }
    }

    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.repository)
    }

    pub fn is_loopback(&self) -> bool {
        let host = match self
            .host
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
        {
            Some((inside, _)) => inside,
            None => self.host.split(':').next().unwrap_or_default(),
        };
        host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (
                name,
                Some(
                    digest
                        .parse::<Digest>()
                        .map_err(|error| error.to_string())?,
                ),
            ),
            None => (text, None),
        };
        let (host, path) = name
            .split_once('/')
            .ok_or("a registry reference is `host/repository:tag`")?;
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        let host = canonical_host(host)
            .ok_or_else(|| format!("`{host}` is not the host of a registry"))?;
        if !is_repository(repository) {
            return Err(format!(
                "`{repository}` is not a repository: parts of lower-case letters, digits, `.`, `_` and `-` are \
                 expected, separated by `/`"
            ));
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(format!(
                "`{tag}` is not a tag: at most 128 letters, digits, `.`, `_` and `-` are expected"
            ));
        }
        Ok(Self {
            host,
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

/// Without `oci://`.
impl fmt::Display for RegistryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest
            .iter()
            .try_for_each(|digest| write!(f, "@{digest}"))
    }
}

impl ComponentReference {
    /// Relative paths begin in `folder`. Fails on a text that is none of these kinds, or could be two of them.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Refusal> {
        let refused = |why: String| refusal(text, &why);
        if text.is_empty() || text.len() > LENGTH_MAX || text.chars().any(char::is_control) {
            return Err(refused(
                "it is empty, too long, or has control characters".to_owned(),
            ));
        }
        if let Some(registry) = text.strip_prefix("oci://") {
            return RegistryReference::parse(registry)
                .map(Self::Registry)
                .map_err(refused);
        }
        if let Some((index, rest)) = PackageIndex::of(text) {
            return PackageReference::parse(index, rest)
                .map(Self::Package)
                .map_err(refused);
        }
        if text.contains("://") {
            return parse_url(text).map(Self::Url).map_err(refused);
        }
        let path =
            std::path::absolute(folder.join(text)).map_err(|error| refused(error.to_string()))?;
        let path = without_steps_up(path);
        if text.starts_with(['/', '.']) || !begins_with_host(text) {
            return Ok(Self::Path(path));
        }
        if std::fs::symlink_metadata(&path).is_ok() {
            let why = format!("it could be a file and a registry; write ./{text} or oci://{text}");
            return Err(refused(why));
        }
        RegistryReference::parse(text)
            .map(Self::Registry)
            .map_err(refused)
    }

    pub fn is_path(&self) -> bool {
        matches!(self, Self::Path(_))
    }

    /// It always resolves to the same bytes.
    pub fn is_pinned(&self) -> bool {
        matches!(
            self,
            Self::Registry(RegistryReference {
                digest: Some(_),
                ..
            })
        )
    }

    /// The last part of the reference, without tag and ending.
    pub fn suggested_name(&self) -> Option<String> {
        let last = match self {
            Self::Registry(registry) => registry
                .repository
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned(),
            Self::Package(package) => package.tool_name().to_owned(),
            Self::Url(url) => url.path().rsplit('/').next().unwrap_or_default().to_owned(),
            Self::Path(path) => path.file_name()?.to_string_lossy().into_owned(),
        };
        let stem = last.strip_suffix(".wasm").unwrap_or(&last);
        Some(stem.to_owned()).filter(|name| crate::lock::is_name(name))
    }
}

impl fmt::Display for ComponentReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(registry) => write!(f, "oci://{registry}"),
            Self::Package(package) => package.fmt(f),
            Self::Url(url) => f.write_str(url.as_str()),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for ComponentReference {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text, Path::new("/")).map_err(serde::de::Error::custom)
    }
}

/// `https`, or `http` to this machine; no user, no query, no fragment. A query is often a token, and a lock, which has
/// the reference, is committed.
pub(crate) fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("a URL has no user, no password and no fragment here".to_owned());
    }
    if url.query().is_some() {
        let why = "a URL has no query here, because toolcell.lock would have it, and it can be a token: use a URL \
                   without one, or download the file and install that";
        return Err(why.to_owned());
    }
    if url.host_str().is_some_and(is_rooted) {
        return Err("its host ends with a dot: write it without".to_owned());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => {
            Err("`http` is for this machine alone, because the bytes can be changed on their way; use `https`"
                .to_owned())
        }
        other => Err(format!("`{other}` is not supported; use `oci`, `https` or a path")),
    }
}

/// The host's name or address decides.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// A file is written the same from whichever folder it was named. The last part may be a link, which is followed when
/// it is read.
fn without_steps_up(path: PathBuf) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path;
    }
    let plain = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => folder.canonicalize().map(|folder| folder.join(name)),
        _ => path.canonicalize(),
    };
    plain.unwrap_or(path)
}

/// A host has a dot or a port, or is `localhost`, as with docker.
fn begins_with_host(text: &str) -> bool {
    text.split_once('/').is_some_and(|(first, _)| {
        is_host(first) && (first.contains(['.', ':']) || first == "localhost")
    })
}

fn is_host(text: &str) -> bool {
    canonical_host(text).is_some()
}

/// `None` if `text` is no host.
fn canonical_host(text: &str) -> Option<String> {
    let is_named = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    // The grammar of URLs decides what a host and a port are.
    let url = Url::parse(&format!("https://{text}/"))
        .ok()
        .filter(|url| is_named && url.path() == "/")?;
    url.host_str().filter(|name| !is_rooted(name))?;
    Some(url[Position::BeforeHost..Position::AfterPort].to_owned())
}

/// A name that ends with a dot is the same host, but a different text for a trust policy.
fn is_rooted(host: &str) -> bool {
    host.ends_with('.') && guard!("rooted_hosts")
}

fn is_repository(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes()
            .all(|byte| is_word(byte) || b"._-".contains(&byte))
            && part.bytes().next().is_some_and(is_word)
            && part.bytes().last().is_some_and(is_word)
    };
    text.len() <= 255 && text.split('/').all(is_part)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|byte| is_word(byte) || b".-".contains(&byte))
        && text.bytes().next().is_some_and(is_word)
}

/// Leaves out a URL's user, query and fragment, which can be secrets.
fn without_secrets(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Cow::Borrowed(text);
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    Cow::Owned(format!("{scheme}://{host}{path}"))
}

fn refusal(text: &str, why: &str) -> Refusal {
    let shown: String = without_secrets(text).chars().take(200).collect();
    let shown = visible(&shown, Whitespace::WrittenOut);
    let message = format!(
        "`{shown}` cannot be installed: {why}. A reference is `host/repository:tag` of a registry, a URL, a file, a \
         folder, or a file in a package: `pypi:NAME#FILE`, `npm:NAME#FILE`"
    );
    Refusal::new(ErrorCode::BadReference, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn parse(text: &str) -> Result<ComponentReference, Refusal> {
        ComponentReference::parse(text, Path::new("/nowhere"))
    }

    #[test]
    fn a_reference_says_of_which_kind_it_is() {
        for (text, shown) in [
            ("ghcr.io/x/jq:1", "oci://ghcr.io/x/jq:1"),
            ("oci://ghcr.io/x/jq", "oci://ghcr.io/x/jq"),
            ("localhost:5000/jq", "oci://localhost:5000/jq"),
            ("[::1]:5000/a/b:c", "oci://[::1]:5000/a/b:c"),
            ("GHCR.io/x/jq", "oci://ghcr.io/x/jq"),
            ("ghcr.io:443/x/jq", "oci://ghcr.io/x/jq"),
            (
                "https://example.org/a/jq.wasm",
                "https://example.org/a/jq.wasm",
            ),
            ("http://127.0.0.1:8/jq.wasm", "http://127.0.0.1:8/jq.wasm"),
            ("jq.wasm", "/nowhere/jq.wasm"),
            ("tools/jq", "/nowhere/tools/jq"),
            ("./ghcr.io/x", "/nowhere/ghcr.io/x"),
            ("/a/b", "/a/b"),
        ] {
            let reference = parse(text).unwrap();
            assert_eq!(reference.to_string(), shown);
            assert_eq!(parse(shown).unwrap(), reference, "one spelling");
        }
        let pinned = parse(&format!("ghcr.io/x/jq:1@{DIGEST}")).unwrap();
        let ComponentReference::Registry(registry) = &pinned else {
            panic!("{pinned:?}")
        };
        assert_eq!(
            (registry.version().as_str(), pinned.is_pinned()),
            (DIGEST, true)
        );
    }

    #[test]
    fn what_is_no_reference_is_refused_with_its_reason() {
        for (text, why) in [
            ("", "empty"),
            ("a\nb", "control characters"),
            ("http://example.org/jq.wasm", "use `https`"),
            ("ftp://example.org/jq.wasm", "`ftp` is not supported"),
            ("file:///etc/passwd", "`file` is not supported"),
            ("https://me:secret@example.org/jq", "no user"),
            ("https://example.org/jq?token=secret", "no query"),
            ("https://example.org/jq?", "no query"),
            ("ghcr.io/X/jq", "is not a repository"),
            ("ghcr.io/x//jq", "is not a repository"),
            ("ghcr.io/../jq", "is not a repository"),
            ("ghcr.io/x/jq:", "is not a tag"),
            ("oci://ghcr.io", "host/repository"),
            ("oci://gh cr/x", "not the host"),
            ("oci://ghcr.io./x/jq", "not the host"),
            ("https://example.org./jq.wasm", "ends with a dot"),
            ("ghcr.io/x/jq@sha512:00", "is not a digest"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::BadReference);
            assert!(refusal.message.contains(why), "{text}: {refusal}");
            assert!(!refusal.message.contains("secret"), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_file_that_looks_like_a_registry_has_to_be_written_as_one() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("my.folder")).unwrap();
        std::fs::write(root.path().join("my.folder/jq"), "").unwrap();
        let refusal = ComponentReference::parse("my.folder/jq", root.path()).unwrap_err();
        assert!(
            refusal
                .message
                .contains("write ./my.folder/jq or oci://my.folder/jq"),
            "{refusal}"
        );
        assert!(
            ComponentReference::parse("./my.folder/jq", root.path())
                .unwrap()
                .is_path()
        );
    }

    #[test]
    fn a_path_has_one_spelling_from_whichever_folder_it_is_named() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(folder.join("deep/er")).unwrap();
        let parse =
            |text: &str, inner: &str| ComponentReference::parse(text, &folder.join(inner)).unwrap();
        let jq = parse("./jq.wasm", "");
        assert_eq!(
            [
                parse("../jq.wasm", "deep"),
                parse("../../jq.wasm", "deep/er")
            ],
            [jq.clone(), jq]
        );
        assert_eq!(
            parse("..", "deep/er").suggested_name().as_deref(),
            Some("deep")
        );
        assert_eq!(
            parse("../jq.wasm", "gone"),
            ComponentReference::Path(folder.join("gone/../jq.wasm"))
        );
    }

    #[test]
    fn a_tool_has_the_name_of_the_last_part() {
        for (text, name) in [
            ("ghcr.io/x/jq:1", Some("jq")),
            ("https://example.org/a/my-tool.wasm", Some("my-tool")),
            ("./a.wasm", Some("a")),
            ("https://example.org/", None),
        ] {
            assert_eq!(
                parse(text).unwrap().suggested_name().as_deref(),
                name,
                "{text}"
            );
        }
    }
}
