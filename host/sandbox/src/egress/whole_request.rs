//! Requests whose response the host reads as a whole, through the same gate.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::gate::NetworkGate;
use super::{exchange, headers, target};

const BODY_BYTES_MAX: usize = 16 << 20;

pub(crate) struct WholeRequest {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The limits of the call count too.
    pub(crate) within: Duration,
    pub(crate) room: usize,
}

/// The headers of its connection are left out.
pub(crate) struct WholeResponse {
    pub(crate) status: u16,
    /// Each name once, with all its values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum RequestFailure {
    Malformed(&'static str),
    TooLarge(usize),
    Failed(Error),
}

impl WholeRequest {
    pub(crate) async fn send(
        self,
        gate: Arc<NetworkGate>,
    ) -> Result<WholeResponse, RequestFailure> {
        let within = self.within;
        let bytes_max = self.room.min(BODY_BYTES_MAX);
        let header_bytes = u64::from(gate.limits().header_bytes);
        let request = self
            .request(header_bytes)
            .map_err(RequestFailure::Malformed)?;
        let answer = async {
            let patience = Some(within);
            let options = RequestOptions {
                connect_timeout: patience,
                first_byte_timeout: patience,
                between_bytes_timeout: patience,
            };
            let (response, connection) = exchange::send(gate, request, options)
                .await
                .map_err(RequestFailure::Failed)?;
            let (parts, body) = response.into_parts();
            let mut reading = pin!(read(body, bytes_max));
            let mut connection = Box::into_pin(connection);
            // The body arrives only while the connection is polled.
            let body = tokio::select! {
                biased;
                body = &mut reading => body?,
                ended = &mut connection => {
                    ended.map_err(RequestFailure::Failed)?;
                    reading.await?
                }
            };
            Ok::<_, RequestFailure>(WholeResponse {
                status: parts.status.as_u16(),
                headers: listed(&parts.headers),
                body,
            })
        };
        let timed = tokio::time::timeout(within, answer).await;
        timed.unwrap_or(Err(RequestFailure::Failed(Error::HttpResponseTimeout)))
    }

    fn request(self, header_bytes: u64) -> Result<Request<WasiBody>, &'static str> {
        let length: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if length as u64 > header_bytes {
            return Err("the headers are too large");
        }
        let body = Full::new(Bytes::from(self.body))
            .map_err(|never| match never {})
            .boxed_unsync();
        let mut request = Request::new(body);
        *request.method_mut() =
            Method::from_bytes(self.method.as_bytes()).map_err(|_| "the method is not valid")?;
        let authority = self.url.find("://").map_or(0, |at| at + "://".len());
        let (before, path) = match self
            .url
            .get(authority..)
            .and_then(|rest| rest.find(['/', '?', '#']))
        {
            Some(at) => self.url.split_at(authority + at),
            None => (self.url.as_str(), ""),
        };
        let url = before.to_owned() + &target::escaped(path);
        *request.uri_mut() = Uri::try_from(url).map_err(|_| "the URL is not valid")?;
        for (name, value) in self.headers {
            let name =
                HeaderName::try_from(name).map_err(|_| "the name of a header is not valid")?;
            if headers::is_ours(&name) {
                return Err("a header belongs to the connection");
            }
            let value =
                HeaderValue::try_from(value).map_err(|_| "the value of a header is not valid")?;
            request.headers_mut().append(name, value);
        }
        Ok(request)
    }
}

async fn read(mut body: WasiBody, bytes_max: usize) -> Result<Vec<u8>, RequestFailure> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(RequestFailure::Failed)?.into_data() else {
            continue;
        };
        if bytes.len().saturating_add(data.len()) > bytes_max {
            return Err(RequestFailure::TooLarge(bytes_max));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Each name once, because a JSON object has a name once.
pub(crate) fn listed(headers: &HeaderMap) -> Vec<(String, String)> {
    let seen = headers.keys().filter(|name| !super::headers::is_ours(name));
    let joined = |name: &HeaderName| {
        let values = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()));
        values.collect::<Vec<_>>().join(", ")
    };
    seen.map(|name| (name.as_str().to_owned(), joined(name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, url: &str, headers: &[(&str, &str)]) -> WholeRequest {
        WholeRequest {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body: Vec::new(),
            within: Duration::from_secs(1),
            room: 100,
        }
    }

    #[test]
    fn a_request_has_the_form_of_http() {
        let request = ask(
            "PATCH",
            "https://ex.test/a?b#c",
            &[("X-A", "1"), ("x-a", "2")],
        )
        .request(100)
        .unwrap();
        assert_eq!(
            (
                request.method().as_str(),
                request.uri().to_string().as_str()
            ),
            ("PATCH", "https://ex.test/a?b")
        );
        let spaced = ask("GET", "http://ex.test/a b?q=\u{e4}", &[])
            .request(100)
            .unwrap();
        assert_eq!(spaced.uri().to_string(), "http://ex.test/a%20b?q=%C3%A4");
        let values: Vec<_> = request.headers().get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        for (method, url, headers, why) in [
            ("GE T", "http://ex.test/", &[][..], "method"),
            ("GET", "http://ex test/", &[], "URL"),
            ("GET", "http://ex.test/", &[("a b", "1")], "name"),
            ("GET", "http://ex.test/", &[("a", "1\r\nb: 2")], "value"),
            (
                "GET",
                "http://ex.test/",
                &[("Host", "evil.test")],
                "connection",
            ),
            (
                "GET",
                "http://ex.test/",
                &[("Transfer-Encoding", "chunked")],
                "connection",
            ),
        ] {
            let rule = ask(method, url, headers)
                .request(100)
                .map(drop)
                .unwrap_err();
            assert!(rule.contains(why), "{method} {url} {headers:?}: {rule}");
        }
        let long = "x".repeat(100);
        assert_eq!(
            ask("GET", "http://ex.test/", &[("a", &long)])
                .request(100)
                .map(drop)
                .unwrap_err(),
            "the headers are too large"
        );
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_a_limit() {
        let body = |bytes: &'static [u8]| {
            Full::new(Bytes::from_static(bytes))
                .map_err(|never| match never {})
                .boxed_unsync()
        };
        assert_eq!(read(body(b"1234"), 4).await.unwrap(), b"1234");
        assert!(matches!(
            read(body(b"12345"), 4).await,
            Err(RequestFailure::TooLarge(4))
        ));
    }

    #[test]
    fn repeated_headers_are_joined_and_those_of_the_connection_are_left_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-a", "1"),
            ("connection", "close"),
            ("x-b", "\u{e4}"),
            ("x-a", "2"),
        ] {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut found = listed(&headers);
        found.sort();
        assert_eq!(found, [of("x-a", "1, 2"), of("x-b", "\u{e4}")]);
    }
}
