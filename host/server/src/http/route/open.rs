//! Answers to clients without a token.

use axum::body::Body;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use super::refusals::get_only;

/// What a client has to know to get a token (RFC 9728).
pub(super) fn metadata(method: &Method, metadata: Option<Value>) -> Response<Body> {
    match metadata {
        None => {
            let why = "this server has no sign-in; [[issuer]] in toolcell.toml turns it on";
            (StatusCode::NOT_FOUND, why).into_response()
        }
        Some(_) if !matches!(*method, Method::GET | Method::HEAD) => get_only(),
        Some(metadata) => {
            ([(CONTENT_TYPE, "application/json")], metadata.to_string()).into_response()
        }
    }
}
