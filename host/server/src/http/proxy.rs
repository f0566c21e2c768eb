//! A reverse proxy in front of the server. What a request says about its way here counts only as far as the operator
//! says so.

use std::net::IpAddr;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Uri};
use toolcell_policy::network::{Authority, Origin};

use super::listener::Peer;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Proxies, as the operator describes them. By default, there is none.
#[derive(Clone, Debug, Default)]
pub struct ProxySettings {
    /// The URL by which clients reach the server.
    pub public_url: Option<PublicUrl>,
    /// Proxies whose `X-Forwarded-For` names the client, in the log.
    pub trusted: Vec<Peer>,
}

/// An origin and the path of the server there.
///
/// ```
/// use toolcell_server::PublicUrl;
///
/// let url = PublicUrl::parse("https://example.com/tools/").unwrap();
/// assert_eq!(url.to_string(), "https://example.com/tools");
/// assert!(PublicUrl::parse("https://user@example.com").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    origin: String,
    /// Empty, or begins with `/` and does not end with it.
    path: String,
}

impl PublicUrl {
    /// Fails for anything but `http(s)://HOST[:PORT][/PATH]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (_, rest) = text
            .split_once("://")
            .ok_or("give a URL, such as https://example.com/tools")?;
        let at = rest.find('/').map(|at| text.len() - rest.len() + at);
        let (origin, path) = text.split_at(at.unwrap_or(text.len()));
        Origin::parse(origin).map_err(|why| why.to_string())?;
        let path = path.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        if !path.bytes().all(is_plain) || path.split('/').any(|part| part == "..") {
            return Err("the path of a URL has letters, digits and - . _ ~ only".to_owned());
        }
        Ok(Self {
            origin: origin.to_ascii_lowercase(),
            path: path.to_owned(),
        })
    }

    /// `http(s)://HOST[:PORT]`.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Empty, or begins with `/` and does not end with it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The host that requests name if a proxy passes it on.
    pub fn authority(&self) -> Option<Authority> {
        let (_, host) = self.origin.split_once("://")?;
        Authority::parse(host).ok()
    }

    /// The URL of `name`, which stands between the origin and the path of a resource (RFC 8615, RFC 9728).
    pub(super) fn well_known(&self, name: &str, resource: &str) -> String {
        format!("{}{name}{}{resource}", self.origin, self.path)
    }

    /// A proxy may or may not remove the path of the server.
    pub(super) fn inner(&self, uri: &Uri) -> Option<Uri> {
        let all = uri.path_and_query()?.as_str();
        let rest = all.strip_prefix(self.path.as_str())?;
        if self.path.is_empty() || !(rest.is_empty() || rest.starts_with(['/', '?'])) {
            return None;
        }
        let rest = if rest.starts_with('/') {
            rest.to_owned()
        } else {
            format!("/{rest}")
        };
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(rest).ok()?);
        Uri::from_parts(parts).ok()
    }

    /// A path of this server, as clients see it.
    pub(super) fn outer(&self, location: &HeaderValue) -> Option<HeaderValue> {
        let location = location.to_str().ok()?;
        let is_path = location.starts_with('/') && !location.starts_with("//");
        (is_path && !self.path.is_empty())
            .then(|| HeaderValue::try_from(format!("{}{location}", self.path)).ok())
            .flatten()
    }
}

impl std::fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

impl ProxySettings {
    /// The last address that a trusted proxy has seen, and that is no trusted proxy itself. A client can write the
    /// addresses before it.
    pub(super) fn client(&self, peer: Option<Peer>, headers: &HeaderMap) -> String {
        let Some(peer) = peer else {
            return "an unknown address".to_owned();
        };
        let mut client = peer;
        // A line that cannot be read ends the search, as an address does that cannot be parsed.
        let lines: Vec<&str> = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .map(|line| line.to_str().unwrap_or_default())
            .collect();
        let mut named = lines.iter().rev().flat_map(|line| line.rsplit(','));
        while self.trusted.contains(&client) {
            let Some(Ok(address)) = named.next().map(|name| name.trim().parse::<IpAddr>()) else {
                break;
            };
            client = Peer::Address(address.to_canonical());
        }
        client.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let settings = ProxySettings {
            public_url: None,
            trusted: ["127.0.0.1", "10.0.0.1", "unix"]
                .map(|text| text.parse().unwrap())
                .to_vec(),
        };
        let client = |peer: &str, lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, HeaderValue::from_static(line));
            }
            settings.client(Some(peer.parse().unwrap()), &headers)
        };
        assert_eq!(client("192.0.2.1", &["203.0.113.9"]), "192.0.2.1");
        assert_eq!(
            client("127.0.0.1", &["6.6.6.6, 203.0.113.9"]),
            "203.0.113.9"
        );
        assert_eq!(
            client("127.0.0.1", &["6.6.6.6, 203.0.113.9, 10.0.0.1"]),
            "203.0.113.9"
        );
        assert_eq!(client("unix", &["6.6.6.6", "203.0.113.9"]), "203.0.113.9");
        assert_eq!(
            client("127.0.0.1", &["6.6.6.6, ::ffff:10.0.0.1"]),
            "6.6.6.6"
        );
        assert_eq!(client("127.0.0.1", &["6.6.6.6, <b>"]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        // What a proxy appends to a line that cannot be read does not hide the line.
        let mut headers = HeaderMap::new();
        headers.append(FORWARDED_FOR, HeaderValue::from_static("6.6.6.6"));
        let unread = HeaderValue::from_bytes(b"\xff, 203.0.113.9").unwrap();
        headers.append(FORWARDED_FOR, unread);
        let peer = "127.0.0.1".parse().unwrap();
        assert_eq!(settings.client(Some(peer), &headers), "127.0.0.1");
    }

    #[test]
    fn the_path_of_the_server_is_removed_once_and_added_to_its_own_paths() {
        let url = PublicUrl::parse("https://Example.com/a/tools").unwrap();
        let inner =
            |uri: &'static str| url.inner(&Uri::from_static(uri)).map(|uri| uri.to_string());
        assert_eq!(inner("/a/tools/mcp?x=1").as_deref(), Some("/mcp?x=1"));
        assert_eq!(inner("/a/tools").as_deref(), Some("/"));
        assert_eq!(inner("/a/tools?x").as_deref(), Some("/?x"));
        assert_eq!((inner("/a/toolsmith"), inner("/mcp")), (None, None));
        let outer = |text| url.outer(&HeaderValue::from_static(text));
        assert_eq!(outer("/v1/calls/1").unwrap(), "/a/tools/v1/calls/1");
        assert_eq!(
            (outer("//evil.example/"), outer("https://x/")),
            (None, None)
        );
        for wrong in [
            "example.com",
            "ftp://example.com",
            "https://a@b",
            "https://a/b c",
            "https://a/../b",
            "https://a/?q",
        ] {
            assert!(PublicUrl::parse(wrong).is_err(), "{wrong}");
        }
        let root = PublicUrl::parse("https://example.com/").unwrap();
        assert_eq!(
            (
                root.to_string().as_str(),
                root.inner(&Uri::from_static("/mcp"))
            ),
            ("https://example.com", None)
        );
    }
}
