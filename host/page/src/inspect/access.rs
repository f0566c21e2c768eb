//! Lets one browser see the page: the first that opens the address with the one-time code, which becomes a cookie.

use std::net::SocketAddr;

use http::header::HOST;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

use crate::cookie::{cookies, secret, session_cookie};

/// Keeps digests, whose comparison takes the same time for each guess.
pub(crate) struct Access {
    /// A cookie belongs to all ports of a host, so its name has the port.
    cookie: String,
    hosts: [String; 2],
    code: Mutex<Option<blake3::Hash>>,
    session: Mutex<Option<blake3::Hash>>,
}

impl Access {
    /// Returns the one-time code, too.
    pub(crate) fn new(address: SocketAddr) -> std::io::Result<(Self, String)> {
        let code = secret()?;
        let access = Self {
            cookie: format!("toolcell-page-{}", address.port()),
            hosts: [address.to_string(), format!("localhost:{}", address.port())],
            code: Mutex::new(Some(blake3::hash(code.as_bytes()))),
            session: Mutex::new(None),
        };
        Ok((access, code))
    }

    /// The cookie for the first who brings the code.
    pub(crate) fn enter(&self, code: &str) -> Option<HeaderValue> {
        let mut expected = self.code.lock();
        if *expected != Some(blake3::hash(code.as_bytes())) {
            return None;
        }
        let token = secret().ok()?;
        if guard!("page_code") {
            *expected = None;
        }
        *self.session.lock() = Some(blake3::hash(token.as_bytes()));
        session_cookie(&self.cookie, &token, "/", false)
    }

    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let session = *self.session.lock();
        let mut values = cookies(headers, &self.cookie);
        values.any(|value| session == Some(blake3::hash(value.as_bytes())))
            || !guard!("page_cookie")
    }

    /// A page from elsewhere that points its own name at this machine sends another host.
    pub(crate) fn is_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let only = hosts.next().filter(|_| hosts.next().is_none());
        only.is_some_and(|host| self.hosts.iter().any(|known| host == known.as_str()))
            || !guard!("page_host")
    }
}
