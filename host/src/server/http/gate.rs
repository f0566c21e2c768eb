use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};

/// The loopback names, which do not depend on DNS.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The allowlist of hosts and origins. A web page from elsewhere, or one that points its own name at this machine (DNS
/// rebinding), sends another host or origin, and cannot change that.
#[derive(Clone, Debug)]
pub struct Gate {
    port: u16,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Gate {
    /// Allows the loopback names with `port`, and also `hosts` (`name` or `name:port`) and `origins` (`https://name`).
    pub fn new(port: u16, hosts: &[String], origins: &[String]) -> Self {
        let lower =
            |names: &[String]| names.iter().map(|name| name.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { port, hosts: lower(hosts), origins: lower(origins) }
    }

    /// Checks the host and origin of a request. Fails with the status and the reason of the refusal.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err((StatusCode::BAD_REQUEST, "a request has one Host header"));
        };
        let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
        let known = |authority: &Authority| self.is_host(authority);
        if !host.is_some_and(|host| known(&host)) || !uri.authority().is_none_or(known) {
            return Err((StatusCode::FORBIDDEN, "this server does not answer to that Host"));
        }
        let foreign = |origin: &http::HeaderValue| !origin.to_str().is_ok_and(|origin| self.is_origin(origin));
        if headers.get_all(ORIGIN).iter().any(foreign) {
            return Err((StatusCode::FORBIDDEN, "this server does not answer to that Origin"));
        }
        Ok(())
    }

    fn is_host(&self, authority: &Authority) -> bool {
        let host = authority.host().to_ascii_lowercase();
        let port = authority.port_u16();
        let here = LOOPBACK.contains(&host.as_str()) && port.unwrap_or(80) == self.port;
        let allowed = |name: &String| *name == host || port.is_some_and(|port| *name == format!("{host}:{port}"));
        // User names and passwords before the host are refused.
        !authority.as_str().contains('@') && (here || self.hosts.iter().any(allowed))
    }

    fn is_origin(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let here = origin.strip_prefix("http://").and_then(|host| host.parse::<Authority>().ok()).is_some_and(|host| {
            LOOPBACK.contains(&host.host())
                && host.port_u16().unwrap_or(80) == self.port
                && !host.as_str().contains('@')
        });
        here || self.origins.contains(&origin)
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use http::header::{HOST, ORIGIN};
    use http::{HeaderMap, HeaderValue};

    fn enters(host: &str, origin: Option<&str>) -> bool {
        let gate = Gate::new(4780, &["tools.example".to_owned()], &["https://app.example".to_owned()]);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        gate.check(&"/mcp".parse().unwrap(), &headers).is_ok()
    }

    #[test]
    fn only_names_that_were_allowed_are_answered() {
        for host in
            ["localhost:4780", "127.0.0.1:4780", "[::1]:4780", "LOCALHOST:4780", "tools.example", "tools.example:9"]
        {
            assert!(enters(host, None), "{host}");
        }
        for host in [
            "evil.test",
            "evil.test:4780",
            "localhost",
            "localhost:80",
            "localhost.evil.test:4780",
            "0.0.0.0:4780",
            "a@localhost:4780",
            "127.0.0.1.nip.io:4780",
            "tools.example.evil.test",
        ] {
            assert!(!enters(host, None), "{host}");
        }
    }

    #[test]
    fn only_origins_that_were_allowed_are_answered() {
        for origin in ["http://localhost:4780", "http://127.0.0.1:4780", "https://app.example"] {
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
        let gate = Gate::new(4780, &[], &[]);
        let mut headers = HeaderMap::new();
        assert!(gate.check(&"/".parse().unwrap(), &headers).is_err());
        headers.append(HOST, HeaderValue::from_static("localhost:4780"));
        assert!(gate.check(&"http://evil.test/".parse().unwrap(), &headers).is_err());
        assert!(gate.check(&"http://localhost:4780/".parse().unwrap(), &headers).is_ok());
        headers.append(HOST, HeaderValue::from_static("evil.test"));
        assert!(gate.check(&"/".parse().unwrap(), &headers).is_err());
    }
}
