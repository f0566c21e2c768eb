//! The path of each view, and what every answer says to a browser.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::layout::PageProblem;
use super::live;
use super::view::{approvals, call, calls, machines, principal, tools, workspaces};

/// A form has arguments of a call at most, and a file in memory.
const FORM_BYTES_MAX: usize = 4 << 20;
pub(crate) const UPLOAD_BYTES_MAX: usize = 32 << 20;
const FIRST_PARTS: [&str; 8] = [
    "",
    "calls",
    "approvals",
    "tools",
    "workspaces",
    "principal",
    "machines",
    "changes",
];
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The views. Each request has the [`PageState`](crate::PageState) of its user as an extension.
pub fn views() -> Router {
    let upload = post(workspaces::upload).layer(DefaultBodyLimit::max(UPLOAD_BYTES_MAX));
    Router::new()
        .route("/changes", get(live::follow))
        .route("/", get(calls::show))
        .route("/calls/{id}", get(call::show))
        .route("/calls/{id}/replay", post(call::replay::run))
        .route("/calls/{id}/whole/{part}", get(call::whole))
        .route("/calls/{id}/media/{at}", get(call::media))
        .route("/calls/{id}/artifacts/{digest}", get(call::artifact))
        .route("/approvals", get(approvals::list))
        .route(
            "/approvals/{id}",
            get(approvals::show).post(approvals::answer),
        )
        .route("/approvals/{id}/arguments", get(approvals::whole))
        .route("/principal", get(principal::show))
        .route("/machines", get(machines::show))
        .route("/tools", get(tools::list))
        .route("/tools/{name}", get(tools::show).post(tools::attempt))
        .route("/workspaces", get(workspaces::list))
        .route("/workspaces/{name}", get(workspaces::show))
        .route("/workspaces/{name}/file", get(workspaces::download))
        .route("/workspaces/{name}/preview", get(workspaces::preview))
        .route("/workspaces/{name}/diff", get(workspaces::diff))
        .route("/workspaces/{name}/upload", upload)
        .route("/workspaces/{name}/snapshots", post(workspaces::snapshot))
        .route("/workspaces/{name}/restore", post(workspaces::restore))
        .fallback(|| async { PageProblem::unknown("there is nothing here") })
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
}

/// `true` for the path of a view.
pub fn is_view(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    path.starts_with('/') && FIRST_PARTS.contains(&first)
}

/// Headers of every answer of the page. Downloads have a policy of their own already.
pub fn guarded(headers: &mut HeaderMap) {
    let fixed = |name: HeaderName, value: &'static str| (name, HeaderValue::from_static(value));
    headers
        .entry(CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(POLICY));
    headers.extend([
        fixed(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        fixed(X_FRAME_OPTIONS, "DENY"),
        fixed(CACHE_CONTROL, "no-store"),
        // With none at all, a browser would hide the origin of this page's own forms.
        fixed(REFERRER_POLICY, "same-origin"),
        fixed(
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        fixed(
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ]);
}

/// After a form: the browser gets the view, so that a reload sends nothing again.
pub(crate) fn see(path: &str) -> Result<Response, PageProblem> {
    let to = HeaderValue::from_str(path).map_err(|error| PageProblem::failed(&error))?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response())
}
