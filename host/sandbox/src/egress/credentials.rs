use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue};
use toolcell_policy::network::Origin;
use toolcell_policy::secret::{ScrubStream, Scrubber, Secrets};
use toolcell_policy::{SecretPlacement, SecretUse};
use url::form_urlencoded;
use wasmtime_wasi_http::Error;

/// Added after a request was vetted, and removed from every response, so that the guest never holds them.
pub(crate) struct RequestSecrets {
    uses: Vec<SecretUse>,
    secrets: Secrets,
    scrubber: Arc<Scrubber>,
    found: Arc<AtomicBool>,
}

impl RequestSecrets {
    /// `None` for a call without secrets.
    pub(crate) fn new(uses: &[SecretUse], secrets: Secrets) -> anyhow::Result<Option<Self>> {
        if uses.is_empty() {
            return Ok(None);
        }
        let scrubber = Scrubber::of_secrets(&secrets)?;
        Ok(Some(Self {
            uses: uses.to_vec(),
            secrets,
            scrubber,
            found: Arc::default(),
        }))
    }

    /// `true` if the secret was granted for an origin.
    pub(super) fn hold(&self, name: &str) -> bool {
        self.uses.iter().any(|granted| granted.name == name)
    }

    /// `true` if a response contained a secret.
    pub(super) fn found(&self) -> bool {
        self.found.load(Ordering::Relaxed)
    }

    /// Only for exactly `origin`; secrets replace what the guest wrote in the same place.
    pub(super) fn put_into(
        &self,
        origin: &Origin,
        headers: &mut HeaderMap,
        path_and_query: &mut String,
    ) -> Result<(), Error> {
        // In a response that is compressed, or cut into ranges that the guest chose, no secret could be found.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.remove(RANGE);
        for granted in self
            .uses
            .iter()
            .filter(|granted| granted.origin == *origin || !guard!("secret_origin"))
        {
            let secret = self
                .secrets
                .get(&granted.name)
                .ok_or(Error::HttpRequestDenied)?;
            match &granted.placement {
                SecretPlacement::Header { name, prefix } => {
                    let name = HeaderName::try_from(name).map_err(|_| Error::HttpRequestDenied)?;
                    let value = zeroize::Zeroizing::new([prefix, secret.expose()].concat());
                    let mut value = HeaderValue::try_from(value.as_str())
                        .map_err(|_| Error::HttpRequestDenied)?;
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                SecretPlacement::Query { key } => {
                    *path_and_query = with_parameter(path_and_query, key, secret.expose())
                }
            }
        }
        Ok(())
    }

    /// Refuses a compressed body, in which no secret could be found.
    pub(super) fn scrub_head(&self, headers: &mut HeaderMap) -> Result<(), Error> {
        let plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
        if !headers.get_all(CONTENT_ENCODING).iter().all(plain) && guard!("compressed_bodies") {
            return Err(Error::HttpResponseContentCoding(None));
        }
        // A label differs in length from the secret that it replaces.
        headers.remove(CONTENT_LENGTH);
        let named: Vec<HeaderName> = headers
            .keys()
            .filter(|name| self.finds(name.as_str().as_bytes()))
            .cloned()
            .collect();
        for name in named {
            headers.remove(name);
        }
        for value in headers.values_mut() {
            if let Some(scrubbed) = self.scrubber.scrub(value.as_bytes()) {
                self.found.store(true, Ordering::Relaxed);
                *value = HeaderValue::from_bytes(&scrubbed).unwrap_or(HeaderValue::from_static(""));
            }
        }
        Ok(())
    }

    fn finds(&self, bytes: &[u8]) -> bool {
        let found = self.scrubber.scrub(bytes).is_some();
        self.found.fetch_or(found, Ordering::Relaxed);
        found
    }

    pub(super) fn scrub_body(&self) -> BodyScrubber {
        BodyScrubber {
            stream: ScrubStream::new(Arc::clone(&self.scrubber)),
            found: Arc::clone(&self.found),
        }
    }
}

pub(super) struct BodyScrubber {
    stream: ScrubStream,
    found: Arc<AtomicBool>,
}

impl BodyScrubber {
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let shown = self.stream.push(chunk);
        self.found.fetch_or(self.stream.found(), Ordering::Relaxed);
        shown
    }

    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.stream.finish()
    }
}

/// Leaves exactly one parameter `key`, because the server might read a second one that the guest wrote.
fn with_parameter(path_and_query: &str, key: &str, value: &str) -> String {
    let (path, query) = path_and_query
        .split_once('?')
        .unwrap_or((path_and_query, ""));
    let is_key = |pair: &str| form_urlencoded::parse(pair.as_bytes()).any(|(name, _)| name == key);
    let others = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !is_key(pair));
    let ours = form_urlencoded::Serializer::new(String::new())
        .append_pair(key, value)
        .finish();
    let pairs: Vec<&str> = others.chain([ours.as_str()]).collect();
    format!("{path}?{}", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::with_parameter;

    #[test]
    fn a_query_has_the_parameter_once_and_keeps_the_rest_as_it_was() {
        for (given, expected) in [
            ("/a", "/a?key=s+%26%2B"),
            ("/a?", "/a?key=s+%26%2B"),
            ("/a?b=1&c", "/a?b=1&c&key=s+%26%2B"),
            ("/a?key=mine&b=%20&k%65y=mine", "/a?b=%20&key=s+%26%2B"),
        ] {
            assert_eq!(with_parameter(given, "key", "s &+"), expected);
        }
    }
}
