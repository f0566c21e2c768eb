//! Requests of other pages: a browser says where each comes from, and no page can change that.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Method};

/// `true` if no page of another origin sent the request. `public` is the origin that a proxy in front answers to.
pub fn is_own(method: &Method, headers: &HeaderMap, public: Option<&str>) -> bool {
    let host = headers.get(HOST).map(|host| host.as_bytes());
    let is_here = |origin: &[u8]| {
        let of_host = origin
            .strip_prefix(b"http://")
            .is_some_and(|own| Some(own) == host);
        of_host || public.is_some_and(|own| own.as_bytes() == origin)
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    let is_own = match (origins.next(), origins.next()) {
        (None, _) => matches!(*method, Method::GET | Method::HEAD),
        (Some(only), None) => is_here(only.as_bytes()),
        (Some(_), Some(_)) => false,
    };
    (is_own && !is_part_of_another(headers)) || !guard!("page_origin")
}

/// A page of another port gets the cookie sent, too, for an image or script that it names.
fn is_part_of_another(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|said| said == value);
    let is_elsewhere = is("sec-fetch-site", "same-site") || is("sec-fetch-site", "cross-site");
    is_elsewhere && !is("sec-fetch-mode", "navigate")
}
