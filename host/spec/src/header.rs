/// Headers that decide where a request goes, where it ends, or what becomes of the connection. toolcell writes them
/// itself: a tool can neither set nor see them, and a credential in one of them would be request smuggling. In
/// lowercase.
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
