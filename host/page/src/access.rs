//! Lets one browser see the page: the first that opens the address with the one-time code, which becomes a cookie.

use std::net::SocketAddr;

use data_encoding::HEXLOWER;
use http::header::{COOKIE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};

const SECRET_BYTES: usize = 32;

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
        let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", self.cookie);
        HeaderValue::from_str(&cookie).ok()
    }

    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let session = *self.session.lock();
        let cookies = headers.get_all(COOKIE).iter();
        let mut pairs = cookies
            .filter_map(|cookie| cookie.to_str().ok())
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='));
        let is_session = |(name, value): (&str, &str)| {
            name == self.cookie && session == Some(blake3::hash(value.as_bytes()))
        };
        pairs.any(is_session) || !guard!("page_cookie")
    }

    /// A page from elsewhere that points its own name at this machine sends another host.
    pub(crate) fn is_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let only = hosts.next().filter(|_| hosts.next().is_none());
        only.is_some_and(|host| self.hosts.iter().any(|known| host == known.as_str()))
            || !guard!("page_host")
    }

    /// A browser says where each request that changes something comes from, and no page can change that.
    pub(crate) fn is_own(&self, method: &Method, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        let is_here = |origin: &HeaderValue| {
            self.hosts
                .iter()
                .any(|host| origin.as_bytes() == format!("http://{host}").as_bytes())
        };
        let is_own = match (origins.next(), origins.next()) {
            (None, _) => matches!(*method, Method::GET | Method::HEAD),
            (Some(only), None) => is_here(only),
            (Some(_), Some(_)) => false,
        };
        (is_own && !is_part_of_another(headers)) || !guard!("page_origin")
    }
}

/// A page of another port gets the cookie sent, too, for an image or script that it names.
fn is_part_of_another(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|said| said == value);
    let is_elsewhere = is("sec-fetch-site", "same-site") || is("sec-fetch-site", "cross-site");
    is_elsewhere && !is("sec-fetch-mode", "navigate")
}

/// Hexadecimal; nobody can guess it.
fn secret() -> std::io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(HEXLOWER.encode(&bytes))
}
