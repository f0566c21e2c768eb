use http::{HeaderMap, HeaderName};

/// Whether a header decides where a request goes, where it ends, or what becomes of the connection. toolcell writes
/// these headers itself; a guest can neither set nor see them.
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

/// Returns the first header that carries a credential. A guest may send none, because a credential that it holds was
/// leaked to it.
pub(super) fn credential(headers: &HeaderMap) -> Option<&'static str> {
    const CREDENTIALS: [&str; 6] = ["authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "private-token"];
    CREDENTIALS.into_iter().find(|name| headers.contains_key(*name))
}
