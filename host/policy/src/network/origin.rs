use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Url;

use super::OriginError;
use super::address::is_metadata;
use super::authority::{Authority, SplitUrl};

const METADATA_NAMES: [&str; 2] = ["instance-data.ec2.internal", "metadata.google.internal"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(super) fn parse(word: &str) -> Result<Self, OriginError> {
        match word {
            "http" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            _ => Err(OriginError::Scheme),
        }
    }

    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Canonical: a lowercase name without a final dot, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostName {
    Name(String),
    Address(IpAddr),
}

impl HostName {
    /// `None` for spellings that two programs could read differently: addresses in other notations (`127.1`, `0x7f.1`,
    /// `2130706433`), escapes, zone identifiers, and characters that a name cannot contain.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // A name that ends in a number is an address to some resolvers, and a name to others.
        let last = name.rsplit('.').next().unwrap_or_default();
        let number = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
        (name.len() <= 253 && name.split('.').all(label) && !number).then_some(Self::Name(name))
    }

    /// `true` for a cloud's metadata service, which hands out credentials.
    pub fn is_metadata(&self) -> bool {
        match self {
            Self::Name(name) => METADATA_NAMES.contains(&name.as_str()),
            Self::Address(address) => is_metadata(*address),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub scheme: Scheme,
    pub host: HostName,
    pub port: u16,
}

impl Origin {
    /// Permits at most a `/` after `SCHEME://HOST[:PORT]`.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let SplitUrl {
            scheme,
            authority,
            path,
        } = SplitUrl::parse(text);
        let origin = Self::of_parts(scheme.unwrap_or_default(), authority)?;
        if matches!(path, "" | "/") {
            Ok(origin)
        } else {
            Err(OriginError::Path)
        }
    }

    /// A missing port is the scheme's own.
    pub fn of_parts(scheme: &str, authority: &str) -> Result<Self, OriginError> {
        let scheme = Scheme::parse(scheme)?;
        let Authority { host, port } = Authority::parse(authority)?;
        Ok(Self {
            scheme,
            host,
            port: port.unwrap_or(scheme.default_port()),
        })
    }

    /// `None` unless it is an `http` or `https` URL without user information, which can be mistaken for a host.
    pub fn of_url(url: &Url) -> Option<Self> {
        let scheme = Scheme::parse(url.scheme()).ok()?;
        if !url.username().is_empty() || url.password().is_some() {
            return None;
        }
        Some(Self {
            scheme,
            host: HostName::parse(url.host_str()?)?,
            port: url.port().unwrap_or(scheme.default_port()),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{HostName, Origin, Url};

    #[test]
    fn a_host_has_one_spelling() {
        for (text, host) in [
            ("API.Example.com.", "api.example.com"),
            ("[0:0::1]", "[::1]"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(HostName::parse(text).unwrap().to_string(), host);
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_no_host() {
        let wrong = [
            "",
            ".",
            "a..b",
            "127.1",
            "0",
            "2130706433",
            "0177.0.0.1",
            "0x7f.1",
            "0x7f000001",
            "1.2.3.4.",
            "127.0.0.1.5",
            "a%2eb",
            "b\u{fc}cher.example",
            "[::1%25eth0]",
            "::1",
            "[127.0.0.1]",
            "-a.example",
            "a b",
            "*.example",
            "a@b",
        ];
        for text in wrong {
            assert_eq!(HostName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_origin_of_a_url_is_what_a_browser_would_ask() {
        let of = |url: &str| {
            Url::parse(url)
                .ok()
                .and_then(|url| Origin::of_url(&url))
                .map(|origin| origin.to_string())
        };
        assert_eq!(
            of("https://Example.com:443/a?b"),
            Some("https://example.com".to_owned())
        );
        assert_eq!(
            of("http://b\u{fc}cher.example:81"),
            Some("http://xn--bcher-kva.example:81".to_owned())
        );
        assert_eq!(
            of("http://2130706433/"),
            Some("http://127.0.0.1".to_owned())
        );
        assert_eq!(
            of("http://[::ffff:127.0.0.1]/"),
            Some("http://[::ffff:127.0.0.1]".to_owned())
        );
        for not in [
            "file:///etc/passwd",
            "example.com",
            "https://a@b.example/",
            "https://:p@b.example/",
            "ftp://a/",
        ] {
            assert_eq!(of(not), None, "{not}");
        }
    }
}
