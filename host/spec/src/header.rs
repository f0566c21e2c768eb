/// Headers that decide where a request goes or ends, or what becomes of the connection. Tools neither set nor see them;
/// a credential in one would be request smuggling. In lowercase.
pub const CONNECTION_HEADERS: [&str; 16] = [
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
