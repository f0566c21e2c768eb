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

/// Headers with a credential. No guest sends one, because it would have leaked to it, and no caller, because all
/// arguments of a call are on record.
pub const CREDENTIAL_HEADERS: [&str; 6] = [
    "authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "private-token",
];
