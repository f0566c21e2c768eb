//! The files of the page, which are part of the program.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = include_str!("assets/page.js");
const ICON: &str = include_str!("assets/icon.svg");

/// The file at `path`, which anybody may see.
pub fn asset(path: &str) -> Option<Response> {
    let (media_type, text) = match path {
        "/page.css" => ("text/css; charset=utf-8", STYLE),
        "/page.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "/icon.svg" => ("image/svg+xml", ICON),
        _ => return None,
    };
    Some(([(CONTENT_TYPE, media_type)], text).into_response())
}
