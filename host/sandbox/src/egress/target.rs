use http::request::Parts;
use http::{Method, Uri};
use percent_encoding::{AsciiSet, utf8_percent_encode};
use toolcell_policy::network::{METHOD_CHARS_MAX, NetworkRequest, Origin, OriginError};

const PATH_BYTES_MAX: usize = 8 << 10;
/// Escaped beside all letters beyond ASCII.
const ESCAPED: &AsciiSet = &AsciiSet::EMPTY.add(b' ');

/// Escapes spaces, and letters beyond ASCII; what no request may have stays.
pub(crate) fn escaped(text: &str) -> String {
    if text.len() > PATH_BYTES_MAX {
        // It is refused where it is used.
        return text.to_owned();
    }
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Parsed once and from one place, so that what is vetted is what is sent.
#[derive(Clone, Debug)]
pub(super) struct RequestTarget {
    pub(super) origin: Origin,
    pub(super) method: Method,
    path_and_query: String,
    path_bytes: usize,
}

impl RequestTarget {
    /// The error is the rule that the form breaks.
    pub(super) fn from_parts(parts: &Parts) -> Result<Self, &'static str> {
        let origin = origin(&parts.uri).map_err(OriginError::as_str)?;
        if matches!(parts.method, Method::CONNECT | Method::TRACE)
            || parts.method.as_str().len() > METHOD_CHARS_MAX
        {
            return Err("the method is never sent");
        }
        let path = parts.uri.path();
        let path = if path.is_empty() { "/" } else { path };
        // Any form but origin-form could name another host in the request line.
        if !path.starts_with('/') {
            return Err("the path does not begin with /");
        }
        let path_and_query = match parts.uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        if path_and_query.len() > PATH_BYTES_MAX {
            return Err("path and query are too long");
        }
        if !path_and_query.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the path holds bytes that must be escaped");
        }
        Ok(Self {
            origin,
            method: parts.method.clone(),
            path_bytes: path.len(),
            path_and_query,
        })
    }

    pub(super) fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    pub(super) fn request(&self) -> NetworkRequest<'_> {
        NetworkRequest {
            origin: &self.origin,
            method: self.method.as_str(),
            path: self.path_and_query.get(..self.path_bytes).unwrap_or("/"),
        }
    }

    /// Value of the `Host` header.
    pub(super) fn authority(&self) -> String {
        let Origin { scheme, host, port } = &self.origin;
        if *port == scheme.default_port() {
            host.to_string()
        } else {
            format!("{host}:{port}")
        }
    }
}

fn origin(uri: &Uri) -> Result<Origin, OriginError> {
    let scheme = uri.scheme_str().unwrap_or_default();
    Origin::of_parts(scheme, uri.authority().ok_or(OriginError::NoHost)?.as_str())
}

#[cfg(test)]
mod tests {
    use super::RequestTarget;

    fn of(method: &str, uri: &str) -> Result<String, &'static str> {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap();
        RequestTarget::from_parts(&request.into_parts().0)
            .map(|target| format!("{} {}", target.origin, target.path_and_query()))
    }

    #[test]
    fn a_request_has_one_host_one_port_and_a_path() {
        assert_eq!(
            of("GET", "https://API.ex.test.:443/a?b=http://c"),
            Ok("https://api.ex.test /a?b=http://c".to_owned())
        );
        assert_eq!(
            of("GET", "http://[::1]:8080/"),
            Ok("http://[::1]:8080 /".to_owned())
        );
        assert_eq!(
            of("PROPFIND", "https://ex.test"),
            Ok("https://ex.test /".to_owned())
        );
    }

    #[test]
    fn a_request_that_could_be_read_in_two_ways_is_none() {
        let wrong = [
            "http://127.0.0.1@evil.test/",
            "http://user:pass@ex.test/",
            "http://127.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://ex.test:0/",
            "http://ex.test:/",
            "http://ex.test:99999/",
            "ftp://ex.test/",
            "file://ex.test/",
            "ws://ex.test/",
        ];
        for uri in wrong {
            assert!(of("GET", uri).is_err(), "{uri}");
        }
        assert!(
            of("CONNECT", "http://ex.test/").is_err() && of("TRACE", "http://ex.test/").is_err()
        );
        assert!(of("GET", &format!("http://ex.test/{}", "a".repeat(9_000))).is_err());
    }
}
