//! Patterns of rules for words, paths and URLs, each compiled once.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, bail, ensure};
use globset::{Glob, GlobBuilder, GlobMatcher};
use url::Url;

use toolcell_system::resolved_path::ResolvedPath;

use super::network::{HostName, HostPattern, SplitUrl, host_and_port, is_plain, port_pattern};
use super::place::rooted;

/// In bytes. A longer one might have no automaton.
const WORD_PATTERN_MAX: usize = 4 << 10;

/// `*` matches any text.
#[derive(Clone, Debug)]
pub struct WordPattern(Arc<WordGlob>);

#[derive(Debug)]
struct WordGlob {
    glob: Glob,
    /// Made by its first use: of the patterns of many callers, few are used.
    matcher: OnceLock<GlobMatcher>,
}

impl WordPattern {
    pub fn text(&self) -> &str {
        self.0.glob.glob()
    }

    /// Fails on a text that is empty, too long, or no pattern.
    pub fn compile(text: &str) -> anyhow::Result<Self> {
        ensure!(!text.is_empty(), "an empty pattern matches nothing");
        ensure!(
            text.len() <= WORD_PATTERN_MAX,
            "a pattern has at most {WORD_PATTERN_MAX} bytes"
        );
        Ok(Self(Arc::new(WordGlob {
            glob: glob(text, false)?,
            matcher: OnceLock::new(),
        })))
    }

    pub fn matches(&self, word: &str) -> bool {
        let WordGlob { glob, matcher } = &*self.0;
        matcher
            .get_or_init(|| glob.compile_matcher())
            .is_match(word)
    }
}

/// Covers canonical host paths and everything below them.
#[derive(Clone, Debug)]
pub struct PathPattern {
    text: String,
    prefix: PathBuf,
    below: PatternExtent,
    links: Vec<PathBuf>,
    left: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
enum PatternExtent {
    All,
    Names(GlobMatcher),
    /// Only keeps the prefix from being moved or replaced.
    Nothing,
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.prefix == other.prefix
    }
}

impl Eq for PathPattern {}

impl PathPattern {
    /// `*` matches within one name, `**` across folders; a folder covers its contents.
    pub fn compile(text: &str, base: &Path) -> anyhow::Result<Self> {
        ensure!(!text.is_empty(), "an empty path matches nothing");
        let full = rooted(text, base)?;
        let mut literal = PathBuf::new();
        let mut rest = PathBuf::new();
        for component in full.components() {
            let name = component
                .as_os_str()
                .to_str()
                .context("the path is not UTF-8")?;
            let plain = rest.as_os_str().is_empty() && !name.contains(['*', '?', '[', '{']);
            match component {
                Component::ParentDir if !plain => bail!("`..` cannot stand behind a wildcard"),
                _ if plain => literal.push(component),
                _ => rest.push(component),
            }
        }
        let rest = rest.to_str().unwrap_or_default();
        let below = match rest {
            "" | "**" => PatternExtent::All,
            rest => PatternExtent::Names(glob(rest, true)?.compile_matcher()),
        };
        let ResolvedPath {
            end: prefix,
            links,
            left,
        } = ResolvedPath::resolve(&literal)?;
        Ok(Self {
            text: text.to_owned(),
            prefix,
            below,
            links,
            left,
        })
    }

    /// Covers the canonical `folder` and everything below it.
    pub(super) fn below(folder: PathBuf) -> Self {
        Self::at(folder, PatternExtent::All)
    }

    /// Only keeps the canonical `folder` from being moved or replaced.
    pub(super) fn itself(folder: PathBuf) -> Self {
        Self::at(folder, PatternExtent::Nothing)
    }

    fn at(folder: PathBuf, below: PatternExtent) -> Self {
        let text = folder.display().to_string();
        Self {
            text,
            prefix: folder,
            below,
            links: Vec::new(),
            left: Vec::new(),
        }
    }

    pub(super) fn links(&self) -> &[PathBuf] {
        &self.links
    }

    /// Adds the links and folders on the way, because a tool that changed one could undo a denial.
    pub(super) fn with_way(&self) -> impl Iterator<Item = Self> + '_ {
        let links = self.links.iter().cloned().map(Self::below);
        [self.clone()]
            .into_iter()
            .chain(links)
            .chain(self.left.iter().cloned().map(Self::itself))
    }

    /// `false` if the pattern only keeps a folder in its place.
    pub fn covers_anything(&self) -> bool {
        !matches!(self.below, PatternExtent::Nothing)
    }

    /// `None` for a pattern with wildcards.
    pub fn exact(&self) -> Option<&Path> {
        matches!(self.below, PatternExtent::All).then_some(self.prefix.as_path())
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Expects a canonical `path`; a covered folder around it counts.
    pub fn covers(&self, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(&self.prefix) else {
            return false;
        };
        match &self.below {
            PatternExtent::All => true,
            PatternExtent::Nothing => false,
            PatternExtent::Names(glob) => rest
                .ancestors()
                .any(|part| !part.as_os_str().is_empty() && glob.is_match(part)),
        }
    }

    pub fn reaches_into(&self, folder: &Path) -> bool {
        self.covers(folder)
            || self.prefix.starts_with(folder)
            || (matches!(self.below, PatternExtent::Names(_)) && folder.starts_with(&self.prefix))
    }

    /// `true` if a move uncovers nothing. A pattern for names at a certain depth can lose names at another depth.
    pub fn survives_move(&self, from: &Path, to: &Path) -> bool {
        match &self.below {
            PatternExtent::All | PatternExtent::Nothing => true,
            PatternExtent::Names(_) if !from.starts_with(&self.prefix) => true,
            PatternExtent::Names(glob) => {
                let anywhere = glob
                    .glob()
                    .glob()
                    .strip_prefix("**/")
                    .is_some_and(|name| !name.contains('/'));
                anywhere && to.starts_with(&self.prefix)
            }
        }
    }

    pub fn prefix(&self) -> &Path {
        &self.prefix
    }
}

/// Compares scheme, host, port and path separately, so that user information before an `@` cannot pass for a host. An
/// omitted port means the scheme's own in an allowance, every one elsewhere; an omitted scheme or path means every one.
///
/// Hosts that no request could reach are covered too: `https://a!b.example.com` is below `*.example.com`.
#[derive(Clone, Debug)]
pub struct UrlPattern {
    text: String,
    scheme: Option<String>,
    host: HostPattern,
    port: PortPattern,
    path: Option<GlobMatcher>,
}

impl PartialEq for UrlPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for UrlPattern {}

#[derive(Clone, Copy, Debug)]
enum PortPattern {
    Any,
    Open,
    Is(u16),
}

impl UrlPattern {
    /// Compiles `[SCHEME://]HOST[:PORT][/PATH]`, where `HOST` may be `*` or `*.suffix`, `PORT` may be `*`, and a path
    /// may contain wildcards and covers what is below.
    pub fn compile(text: &str) -> anyhow::Result<Self> {
        let SplitUrl {
            scheme,
            authority,
            path,
        } = SplitUrl::parse(text);
        let scheme = scheme
            .map(str::to_ascii_lowercase)
            .filter(|scheme| scheme != "*");
        ensure!(
            !authority.contains(['@', '?', '#', '\\']),
            "a pattern has no user, no query and no fragment"
        );
        let (host, port) = host_and_port(authority)?;
        let port = match port.map(port_pattern).transpose()? {
            None => PortPattern::Open,
            Some(None) => PortPattern::Any,
            Some(Some(port)) => PortPattern::Is(port),
        };
        let path = match path.trim_end_matches('/') {
            "" | "/*" | "/**" => None,
            path => Some(glob(path, true)?.compile_matcher()),
        };
        Ok(Self {
            text: text.to_owned(),
            scheme,
            host: HostPattern::parse(host)?,
            port,
            path,
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// `true` only for certainty: the port is the scheme's own or named, and the path is covered both as written and
    /// percent-decoded.
    pub(super) fn covers(&self, url: &Url) -> bool {
        self.covers_origin(url, url.port().is_none())
            && self
                .readings(url)
                .is_none_or(|readings| readings == [true, true])
    }

    /// `true` for possibility: any port unless named, and the path as written or percent-decoded. A path that servers
    /// interpret differently matches; `plain` rules that out for the path as written.
    pub fn touches(&self, url: &Url, plain: bool) -> bool {
        self.covers_origin(url, true)
            && self.readings(url).is_none_or(|readings| {
                readings != [false, false] || !plain || !is_plain(url.path())
            })
    }

    fn covers_origin(&self, url: &Url, open: bool) -> bool {
        let scheme = self.scheme.as_deref();
        scheme.is_none_or(|scheme| scheme == url.scheme())
            && self.covers_host(url)
            && match self.port {
                PortPattern::Any => true,
                PortPattern::Open => open,
                PortPattern::Is(port) => url.port_or_known_default() == Some(port),
            }
    }

    /// Unreachable hosts are compared as text.
    fn covers_host(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else {
            return false;
        };
        let as_text = || HostName::Name(host.trim_end_matches('.').to_ascii_lowercase());
        self.host
            .matches(&HostName::parse(host).unwrap_or_else(as_text))
    }

    /// Coverage as written, and percent-decoded; `None` if every path is covered.
    fn readings(&self, url: &Url) -> Option<[bool; 2]> {
        let glob = self.path.as_ref()?;
        let decoded = percent_encoding::percent_decode_str(url.path()).decode_utf8_lossy();
        let covered = |path: &str| Path::new(path).ancestors().any(|part| glob.is_match(part));
        Some([covered(url.path()), covered(&decoded)])
    }
}

fn glob(text: &str, path: bool) -> anyhow::Result<Glob> {
    let mut builder = GlobBuilder::new(text);
    builder
        .literal_separator(path)
        .backslash_escape(true)
        .empty_alternates(true);
    builder
        .build()
        .with_context(|| format!("`{text}` is not a pattern"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> PathPattern {
        PathPattern::compile(text, Path::new("/project")).unwrap()
    }

    #[test]
    fn a_path_covers_itself_and_what_is_below_and_no_sibling() {
        let pattern = path("src");
        assert!(
            pattern.covers(Path::new("/project/src"))
                && pattern.covers(Path::new("/project/src/a/b"))
        );
        assert!(
            !pattern.covers(Path::new("/project/src-evil"))
                && !pattern.covers(Path::new("/project/SRC"))
        );
        let folder = std::fs::canonicalize(std::env::temp_dir()).unwrap();
        let around = folder
            .join("..")
            .join(folder.file_name().unwrap())
            .join("x/");
        assert!(
            path(around.to_str().unwrap()).covers(&folder.join("x/a")),
            "`..` and a slash at the end"
        );
    }

    #[test]
    fn one_star_stays_within_a_name_and_two_go_through_folders() {
        let names = path("/project/*.key");
        assert!(
            names.covers(Path::new("/project/a.key"))
                && names.covers(Path::new("/project/a.key/b"))
        );
        assert!(
            !names.covers(Path::new("/project/sub/a.key")) && !names.covers(Path::new("/project"))
        );
        let deep = path("**/.env");
        assert!(
            deep.covers(Path::new("/project/.env")) && deep.covers(Path::new("/project/a/b/.env"))
        );
        assert!(!deep.covers(Path::new("/elsewhere/.env")));
        assert!(deep.reaches_into(Path::new("/project/a")) && deep.reaches_into(Path::new("/")));
        assert!(!names.reaches_into(Path::new("/elsewhere")));
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_an_error() {
        let wrong = ["", "a/*/../b", "[", "{a"];
        assert!(
            wrong
                .iter()
                .all(|text| PathPattern::compile(text, Path::new("/")).is_err())
        );
        let wrong = [
            "https://u@host",
            "https://host:port",
            "https://",
            "*.1.2.3.4",
            "https://host?x",
        ];
        assert!(wrong.iter().all(|text| UrlPattern::compile(text).is_err()));
    }

    #[test]
    fn a_url_is_compared_part_by_part() {
        let covers = |pattern: &str, url: &str| {
            UrlPattern::compile(pattern)
                .unwrap()
                .covers(&Url::parse(url).unwrap())
        };
        assert!(covers(
            "https://api.example.com",
            "https://API.example.com./v1"
        ));
        assert!(
            !covers("https://api.example.com", "http://api.example.com/"),
            "another scheme"
        );
        assert!(
            !covers("https://api.example.com", "https://api.example.com:8443/"),
            "another port"
        );
        assert!(covers(
            "https://api.example.com:8443",
            "https://api.example.com:8443/"
        ));
        assert!(covers(
            "https://api.example.com:443",
            "https://api.example.com/"
        ));
        assert!(
            !covers("api.example.com", "https://api.example.com@evil.example/"),
            "a user is not a host"
        );
        assert!(covers(
            "evil.example",
            "https://api.example.com@evil.example/"
        ));
        assert!(
            covers("*.example.com", "https://a.b.example.com/")
                && !covers("*.example.com", "https://example.com/")
        );
        assert!(!covers("*.example.com", "https://evilexample.com/"));
        assert!(covers("*:*", "http://[::1]:9/") && covers("[::1]:*", "http://[0:0::1]:9/"));
        assert!(
            covers("http://127.0.0.1", "http://0x7f.1/"),
            "one address, written in another way"
        );
    }

    #[test]
    fn a_url_path_covers_what_is_below_and_is_read_decoded_too() {
        let pattern = UrlPattern::compile("https://h/admin").unwrap();
        let covers = |url: &str| pattern.covers(&Url::parse(url).unwrap());
        let touches = |url: &str| pattern.touches(&Url::parse(url).unwrap(), true);
        assert!(
            covers("https://h/admin")
                && covers("https://h/admin/x?y")
                && covers("https://h/a/../admin")
        );
        assert!(!touches("https://h/administrator") && !touches("https://h/"));
        assert!(touches("https://h/%61dmin") && !covers("https://h/%61dmin"));
    }

    #[test]
    fn what_a_denial_does_not_say_means_everything() {
        let touches = |pattern: &str, url: &str, plain| {
            UrlPattern::compile(pattern)
                .unwrap()
                .touches(&Url::parse(url).unwrap(), plain)
        };
        for url in ["http://h/", "https://h/", "https://h:8443/", "ftp://h:1/"] {
            assert!(
                touches("h", url, true) && !touches("h:2", url, true),
                "{url}"
            );
        }
        assert!(
            touches("https://h", "https://h:8443/", true)
                && !touches("https://h", "http://h:8443/", true)
        );
        for path in [
            "//admin/x",
            "/x;y",
            "/%2561dmin",
            "/a%2f..%2fadmin",
            "//x",
            "/x%5c",
        ] {
            assert!(
                touches("h/admin", &format!("http://h{path}"), true),
                "{path}"
            );
        }
        // For example, the path as written had dot segments, which parsing the URL removed.
        assert!(touches("h/admin", "http://h/x", false) && !touches("h/admin", "http://h/x", true));
        assert!(!touches("h/admin", "http://other/x", false));
    }

    #[test]
    fn a_host_that_no_request_can_be_sent_to_is_compared_as_text() {
        let long = format!("{}.example.com", "a".repeat(64));
        for host in [
            "a!b.example.com",
            "-a.example.com",
            "a.example.com..",
            &long,
        ] {
            let url = Url::parse(&format!("https://{host}/x")).unwrap();
            assert_eq!(HostName::parse(url.host_str().unwrap()), None, "{host}");
            let touches = |pattern: &str| UrlPattern::compile(pattern).unwrap().touches(&url, true);
            for pattern in ["*", "*.example.com", "https://*.com/x"] {
                assert!(touches(pattern), "{pattern} of {host}");
            }
            for pattern in [
                "example.com",
                "*.b.example.com",
                "other.test",
                "*.test",
                "1.2.3.4",
            ] {
                assert!(!touches(pattern), "{pattern} of {host}");
            }
        }
        let same = UrlPattern::compile("example.com").unwrap();
        assert!(same.touches(&Url::parse("https://EXAMPLE.com../").unwrap(), true));
    }
}
