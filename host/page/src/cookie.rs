//! The cookie by which a page knows its browser.

use data_encoding::HEXLOWER;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

const SECRET_BYTES: usize = 32;

/// Hexadecimal; nobody can guess it.
///
/// # Errors
///
/// The system gives no random numbers.
pub fn secret() -> std::io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(HEXLOWER.encode(&bytes))
}

/// The header that sets the cookie, for a browser session and the pages below `path`.
pub fn session_cookie(name: &str, value: &str, path: &str, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path={path}{secure}");
    HeaderValue::from_str(&cookie).ok()
}

/// The values of the cookie `name` in a request.
pub fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let all = headers.get_all(COOKIE).iter();
    let pairs = all
        .filter_map(|cookie| cookie.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='));
    pairs.filter_map(move |(known, value)| (known == name).then_some(value))
}
