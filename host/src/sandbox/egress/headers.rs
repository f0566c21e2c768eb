use http::{HeaderMap, HeaderName};

/// Headers that decide where a request goes, where it ends, or what becomes of the connection: toolcell writes them
/// itself, and a guest can neither set nor see them.
pub(super) fn is_ours(name: &HeaderName) -> bool {
    const OURS: [&str; 16] = [
        "alt-svc",
        "alt-used",
        "connection",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
    ];
    guard!("framing_headers") && OURS.contains(&name.as_str())
}

/// The first header that carries a credential. A guest has none to send: what it could put there it would have from
/// somebody who should not have given it away.
pub(super) fn credential(headers: &HeaderMap) -> Option<&'static str> {
    const CREDENTIALS: [&str; 6] = ["authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "private-token"];
    CREDENTIALS.into_iter().find(|name| headers.contains_key(*name))
}
