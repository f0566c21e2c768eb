//! Web pages of an allowed origin: a browser hides an answer that does not name their origin (CORS).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::{HeaderMap, HeaderValue, Method};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const SENT: &str = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, \
                    last-event-id, idempotency-key, prefer, traceparent, tracestate";
const READ: HeaderValue = HeaderValue::from_static(
    "mcp-session-id, mcp-protocol-version, location, retry-after, www-authenticate",
);
/// The tool chooses the names of headers that repeat arguments.
const ARGUMENT_PREFIX: &str = "mcp-param-";
/// A browser need not ask again, in seconds.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

pub(super) fn asks(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

pub(super) fn permission(asked: &HeaderMap) -> HeaderMap {
    let mut allowed = SENT.to_owned();
    let names = asked
        .get(ACCESS_CONTROL_REQUEST_HEADERS)
        .and_then(|names| names.to_str().ok())
        .unwrap_or_default();
    for name in names
        .split(',')
        .map(|name| name.trim().to_ascii_lowercase())
    {
        if name.starts_with(ARGUMENT_PREFIX) {
            allowed = format!("{allowed}, {name}");
        }
    }
    let mut headers = HeaderMap::new();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    headers
}

/// Never shares with the pages of all origins.
pub(super) fn share_with(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READ);
    headers.append(VARY, HeaderValue::from_static("origin"));
}
