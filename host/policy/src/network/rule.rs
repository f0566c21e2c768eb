use std::fmt;

use anyhow::{Context, bail};

use toolcell_spec::RuleSource;

use super::{
    HostName, METHOD_CHARS_MAX, NetworkRequest, Origin, Scheme, SplitUrl, host_and_port,
    port_pattern,
};

const SAFE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Requests of a grant, a denial or a scope: `[METHOD+METHOD@][SCHEME://]HOST[:PORT][/PATH]`.
///
/// `HOST` is a name, `*.NAME` (any name below it, not itself), `*`, or an address. Without scheme or port, grants and
/// scopes mean `https` and the scheme's own port; denials mean all. `PATH` covers what is below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NetworkRule {
    /// `None`: either.
    scheme: Option<Scheme>,
    host: HostPattern,
    /// `None`: any.
    port: Option<u16>,
    methods: MethodSet,
    path: String,
    /// `true` if a grant's host is an address or `localhost`, which permits a special-purpose address.
    pub(super) named: bool,
    /// As written, for the record: `--allow-net=api.example.com`.
    pub(super) words: String,
    pub(super) source: RuleSource,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HostPattern {
    Any,
    Below(String),
    Is(HostName),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MethodSet {
    All,
    /// Sorted.
    Listed(Vec<String>),
}

impl NetworkRule {
    pub(crate) fn allow(spec: &str, words: &str, source: RuleSource) -> anyhow::Result<Self> {
        let mut rule = Self::parse(spec, true)?;
        rule.named = match &rule.host {
            HostPattern::Is(HostName::Address(address)) => {
                if address.is_unspecified() || address.to_canonical() != *address {
                    bail!("write the address that is meant, such as 127.0.0.1");
                }
                true
            }
            HostPattern::Is(HostName::Name(name)) => name == super::LOCALHOST,
            HostPattern::Any | HostPattern::Below(_) => false,
        };
        Ok(Self {
            words: words.to_owned(),
            source,
            ..rule
        })
    }

    /// An omitted part means everything.
    pub(crate) fn deny(spec: &str, words: &str, source: RuleSource) -> anyhow::Result<Self> {
        Ok(Self {
            words: words.to_owned(),
            source,
            ..Self::parse(spec, false)?
        })
    }

    pub(super) fn declared(spec: &str) -> anyhow::Result<Self> {
        Self::parse(spec, true).with_context(|| format!("network_scope `{spec}`"))
    }

    /// Has an effect only together with a grant.
    pub(super) fn any() -> Self {
        Self {
            scheme: None,
            host: HostPattern::Any,
            port: None,
            methods: MethodSet::All,
            path: "/".to_owned(),
            named: false,
            words: String::new(),
            source: RuleSource::CliArg,
        }
    }

    pub(super) fn is_metadata(&self) -> bool {
        matches!(&self.host, HostPattern::Is(host) if host.is_metadata())
    }

    pub(super) fn origin(origin: &Origin) -> Self {
        Self {
            scheme: Some(origin.scheme),
            host: HostPattern::Is(origin.host.clone()),
            port: Some(origin.port),
            ..Self::any()
        }
    }

    fn parse(spec: &str, exact: bool) -> anyhow::Result<Self> {
        let (methods, rest) = match spec.split_once('@') {
            Some((methods, rest))
                if methods.bytes().all(|b| b.is_ascii_uppercase() || b == b'+') =>
            {
                (MethodSet::parse(methods)?, rest)
            }
            _ => (MethodSet::All, spec),
        };
        let SplitUrl {
            scheme,
            authority,
            path,
        } = SplitUrl::parse(rest);
        let scheme =
            scheme.map(|word| Scheme::parse(word).with_context(|| format!("the scheme `{word}`")));
        let scheme = scheme.transpose()?.or(exact.then_some(Scheme::Https));
        if path.contains(['?', '#', '\\', '%'])
            || path.split('/').any(|part| part == "." || part == "..")
        {
            bail!("the path is a plain prefix: no query, no escapes, no `..`");
        }
        let (host, port) = host_and_port(authority)?;
        let port = match port {
            Some(port) => port_pattern(port)?,
            None if exact => scheme.map(Scheme::default_port),
            None => None,
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        Ok(Self {
            scheme,
            host: HostPattern::parse(host)?,
            port,
            methods,
            path,
            ..Self::any()
        })
    }

    /// Intersection with words, source and `named` of `self`; `None` if empty.
    pub(super) fn meet(&self, other: &Self) -> Option<Self> {
        Some(Self {
            scheme: either(self.scheme, other.scheme)?,
            host: self.host.meet(&other.host)?,
            port: either(self.port, other.port)?,
            methods: self.methods.meet(&other.methods)?,
            path: match (
                covers(&self.path, &other.path),
                covers(&other.path, &self.path),
            ) {
                (true, _) => other.path.clone(),
                (_, true) => self.path.clone(),
                _ => return None,
            },
            named: self.named,
            words: self.words.clone(),
            source: self.source,
        })
    }

    /// `None` if no safe method is covered.
    pub(super) fn safe(&self) -> Option<Self> {
        let safe = MethodSet::Listed(SAFE.map(str::to_owned).to_vec());
        Some(Self {
            methods: self.methods.meet(&safe)?,
            ..self.clone()
        })
    }

    /// `None` for all.
    pub(crate) fn methods(&self) -> Option<&[String]> {
        match &self.methods {
            MethodSet::All => None,
            MethodSet::Listed(methods) => Some(methods),
        }
    }

    pub(super) fn covers(&self, request: &NetworkRequest<'_>, host: &HostName) -> bool {
        self.matches(request, host)
            && (self.path == "/" || is_plain(request.path) && covers(&self.path, request.path))
    }

    /// `true` if the rule could deny the request: it denies paths that servers interpret differently.
    pub(super) fn touches(&self, request: &NetworkRequest<'_>, host: &HostName) -> bool {
        self.matches(request, host)
            && (self.path == "/" || !is_plain(request.path) || covers(&self.path, request.path))
    }

    fn matches(&self, request: &NetworkRequest<'_>, host: &HostName) -> bool {
        let origin = request.origin;
        self.scheme.is_none_or(|scheme| scheme == origin.scheme)
            && self.port.is_none_or(|port| port == origin.port)
            && self.methods.contain(request.method)
            && self.host.matches(host)
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let MethodSet::Listed(methods) = &self.methods {
            write!(f, "{}@", methods.join("+"))?;
        }
        write!(f, "{}://", self.scheme.map_or("*", Scheme::as_str))?;
        match &self.host {
            HostPattern::Any => f.write_str("*")?,
            HostPattern::Below(name) => write!(f, "*.{name}")?,
            HostPattern::Is(host) => host.fmt(f)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}")?,
            None => f.write_str(":*")?,
        }
        f.write_str(if self.path == "/" { "" } else { &self.path })
    }
}

impl HostPattern {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let (below, text) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        // Names in other scripts are converted to the ASCII form (Punycode) that is used on the wire.
        let ascii = if text.is_ascii() {
            text.to_owned()
        } else {
            url::Host::parse(text)?.to_string()
        };
        let host = HostName::parse(&ascii)
            .with_context(|| format!("`{text}` is neither a host name nor an address"))?;
        Ok(match host {
            HostName::Name(name) if below => Self::Below(name),
            HostName::Address(_) if below => bail!("`*.` stands before a name"),
            host => Self::Is(host),
        })
    }

    pub(crate) fn matches(&self, host: &HostName) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Below(parent), HostName::Name(name)) => is_below(name, parent),
            (Self::Below(_), HostName::Address(_)) => false,
            (Self::Is(this), host) => this == host,
        }
    }

    fn meet(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, narrower) | (narrower, Self::Any) => Some(narrower.clone()),
            (Self::Below(a), Self::Below(b)) if a == b || is_below(a, b) => Some(self.clone()),
            (Self::Below(a), Self::Below(b)) => is_below(b, a).then(|| other.clone()),
            (Self::Below(_), Self::Is(host)) => self.matches(host).then(|| other.clone()),
            (Self::Is(host), _) => other.matches(host).then(|| self.clone()),
        }
    }
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent)
        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl MethodSet {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut methods: Vec<String> = text.split('+').map(str::to_owned).collect();
        if methods
            .iter()
            .any(|method| method.is_empty() || method.len() > METHOD_CHARS_MAX)
        {
            bail!(
                "methods are words with `+` between them, such as GET+HEAD@https://api.example.com"
            );
        }
        methods.sort();
        methods.dedup();
        Ok(Self::Listed(methods))
    }

    fn contain(&self, method: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(methods) => methods.iter().any(|listed| listed == method),
        }
    }

    fn meet(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::All, narrower) | (narrower, Self::All) => Some(narrower.clone()),
            (Self::Listed(methods), other) => {
                let both: Vec<String> = methods
                    .iter()
                    .filter(|method| other.contain(method))
                    .cloned()
                    .collect();
                (!both.is_empty()).then_some(Self::Listed(both))
            }
        }
    }
}

/// Intersects choices, of which an inner `None` leaves all open; the outer `None` if empty.
#[allow(
    clippy::option_option,
    reason = "the inner one is a choice that is open"
)]
fn either<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<Option<T>> {
    match (one, other) {
        (Some(one), Some(other)) => (one == other).then_some(Some(one)),
        (one, other) => Some(one.or(other)),
    }
}

fn covers(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'))
}

/// `true` if all servers agree on `path`: no escapes that could hide a separator, no backslash, no `;`, no empty and no
/// dot segments.
pub(crate) fn is_plain(path: &str) -> bool {
    let doubtful = ["%2e", "%2f", "%5c", "%25", "%3b", "//", "\\", ";"];
    let lower = path.to_ascii_lowercase();
    !doubtful.iter().any(|mark| lower.contains(mark))
        && !path.split('/').any(|part| part == "." || part == "..")
}

#[cfg(test)]
mod tests;
