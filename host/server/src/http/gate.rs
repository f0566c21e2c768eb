use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};
use toolcell_policy::network::{Authority, HostName, LOCALHOST, Origin, Scheme};
use toolcell_spec::ErrorCode;

use super::PublicUrl;
use super::problem::Problem;

/// A web page from elsewhere, or one that points its own name at this machine (DNS rebinding), sends another host or
/// origin, and cannot change that.
#[derive(Clone, Debug)]
pub struct OriginGate {
    port: u16,
    hosts: Vec<Authority>,
    /// Lowercase; the schemes can be a browser's own: `vscode-webview://ID`.
    origins: Vec<String>,
    /// The server's own, behind a proxy.
    public: Option<String>,
}

impl OriginGate {
    /// Allows the loopback names with `port` or without, and also `hosts`, with any port if they have none, and
    /// `origins` (`https://name`).
    pub fn new(port: u16, hosts: &[Authority], origins: &[String]) -> Self {
        let origins = origins
            .iter()
            .map(|origin| origin.trim_end_matches('/').to_ascii_lowercase());
        Self {
            port,
            hosts: hosts.to_vec(),
            origins: origins.collect(),
            public: None,
        }
    }

    /// Pages of the server itself come from `url`, too.
    #[must_use]
    pub(super) fn with_public(mut self, url: Option<&PublicUrl>) -> Self {
        self.public = url.map(|url| url.origin().to_owned());
        self
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let refused = |why: &str| Problem::new(ErrorCode::HostOrOriginRefused, why);
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(refused("a request has one Host header").with_status(400));
        };
        let known = |host: &str| Authority::parse(host).is_ok_and(|host| self.is_host(&host));
        if !host.to_str().is_ok_and(known)
            || !uri.authority().is_none_or(|host| known(host.as_str()))
        {
            return Err(refused("this server does not answer to that Host"));
        }
        if !self.is_own_page(headers) {
            return Err(refused("this server does not answer to that Origin"));
        }
        Ok(())
    }

    /// No web page of another origin sent the request.
    pub(super) fn is_own_page(&self, headers: &HeaderMap) -> bool {
        let known =
            |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| self.is_origin(origin));
        headers.get_all(ORIGIN).iter().all(known)
    }

    /// The request names an IP address, which no page can point elsewhere, or an allowed host, with any port.
    pub(super) fn is_address(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        let host = host
            .to_str()
            .ok()
            .and_then(|host| Authority::parse(host).ok());
        host.is_some_and(|Authority { host, .. }| {
            matches!(host, HostName::Address(_))
                || is_loopback(&host)
                || self.hosts.iter().any(|known| known.host == host)
        })
    }

    fn is_host(&self, authority: &Authority) -> bool {
        let Authority { host, port } = authority;
        let here = is_loopback(host) && port.is_none_or(|port| port == self.port);
        let allowed = |known: &Authority| {
            known.host == *host && (known.port.is_none() || known.port == *port)
        };
        here || self.hosts.iter().any(allowed)
    }

    /// The origin of a page that may read the answer; `None` for a page of this server, which may anyway.
    pub(super) fn reader<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let only = origins.next().filter(|_| origins.next().is_none())?;
        only.to_str()
            .is_ok_and(|origin| self.origins.contains(&origin.to_ascii_lowercase()))
            .then_some(only)
    }

    fn is_origin(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let is_here = |origin: Origin| {
            origin.scheme == Scheme::Http && is_loopback(&origin.host) && origin.port == self.port
        };
        let is_public = || self.public.as_ref() == Some(&origin);
        Origin::parse(&origin).is_ok_and(is_here) || self.origins.contains(&origin) || is_public()
    }
}

/// A loopback name that needs no DNS.
pub(super) fn is_loopback(host: &HostName) -> bool {
    match host {
        HostName::Name(name) => name == LOCALHOST,
        HostName::Address(address) => [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ]
        .contains(address),
    }
}

#[cfg(test)]
mod tests {
    use super::{Authority, OriginGate};
    use http::header::{HOST, ORIGIN};
    use http::{HeaderMap, HeaderValue};

    fn enters(host: &str, origin: Option<&str>) -> bool {
        let hosts =
            ["tools.example", "ported.example:9"].map(|host| Authority::parse(host).unwrap());
        let gate = OriginGate::new(
            4780,
            &hosts,
            &[
                "https://app.example".to_owned(),
                "vscode-webview://id".to_owned(),
            ],
        );
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        gate.check(&"/mcp".parse().unwrap(), &headers).is_ok()
    }

    #[test]
    fn only_names_that_were_allowed_are_answered() {
        for host in [
            "localhost:4780",
            "127.0.0.1:4780",
            "[::1]:4780",
            "localhost",
            "LOCALHOST:4780",
            "tools.example",
            "tools.example:9",
            "ported.example:9",
        ] {
            assert!(enters(host, None), "{host}");
        }
        for host in [
            "evil.test",
            "evil.test:4780",
            "localhost:80",
            "localhost.evil.test:4780",
            "0.0.0.0:4780",
            "a@localhost:4780",
            "127.0.0.1.nip.io:4780",
            "tools.example.evil.test",
            "ported.example",
            "ported.example:8",
            "127.0.0.2:4780",
            "127.1:4780",
            "",
        ] {
            assert!(!enters(host, None), "{host}");
        }
    }

    #[test]
    fn only_origins_that_were_allowed_are_answered() {
        for origin in [
            "http://localhost:4780",
            "http://127.0.0.1:4780",
            "https://app.example",
            "vscode-webview://id",
        ] {
            assert!(enters("localhost:4780", Some(origin)), "{origin}");
        }
        for origin in [
            "null",
            "http://evil.test",
            "http://localhost:3000",
            "https://localhost:4780",
            "http://app.example",
            "https://app.example.evil.test",
            "http://localhost:4780@evil.test",
        ] {
            assert!(!enters("localhost:4780", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let gate = OriginGate::new(4780, &[], &[]);
        let mut headers = HeaderMap::new();
        assert!(gate.check(&"/".parse().unwrap(), &headers).is_err());
        headers.append(HOST, HeaderValue::from_static("localhost:4780"));
        assert!(
            gate.check(&"http://evil.test/".parse().unwrap(), &headers)
                .is_err()
        );
        assert!(
            gate.check(&"http://localhost:4780/".parse().unwrap(), &headers)
                .is_ok()
        );
        headers.append(HOST, HeaderValue::from_static("evil.test"));
        assert!(gate.check(&"/".parse().unwrap(), &headers).is_err());
    }
}
