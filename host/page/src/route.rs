//! The path of each view, behind one gate.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use maud::{DOCTYPE, html};
use serde::Deserialize;

use super::layout::{HTML, PageProblem};
use super::view::{approvals, call, calls, tools, workspaces};
use super::{PageState, assets, live};

/// A form has arguments of a call at most, and a file in memory.
const FORM_BYTES_MAX: usize = 4 << 20;
const UPLOAD_BYTES_MAX: usize = 32 << 20;
/// They show nothing of the user.
const PUBLIC: [&str; 4] = ["/enter", "/page.css", "/page.js", "/icon.svg"];
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn router(state: Arc<PageState>) -> Router {
    let upload = post(workspaces::upload).layer(DefaultBodyLimit::max(UPLOAD_BYTES_MAX));
    Router::new()
        .route("/enter", get(enter))
        .route("/page.css", get(assets::style))
        .route("/page.js", get(assets::script))
        .route("/icon.svg", get(assets::icon))
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
        .layer(from_fn_with_state(Arc::clone(&state), gate))
        .with_state(state)
}

/// Before a body is read.
async fn gate(State(state): State<Arc<PageState>>, request: Request, next: Next) -> Response {
    let access = &state.access;
    let headers = request.headers();
    let mut response = if !access.is_host(headers) {
        let why = "this page does not answer to that Host: open the address that toolcell inspect printed";
        PageProblem::new(StatusCode::MISDIRECTED_REQUEST, why).into_response()
    } else if !access.is_own(request.method(), headers) {
        let why = "a form of another page was sent here; nothing was changed";
        PageProblem::new(StatusCode::FORBIDDEN, why).into_response()
    } else if !PUBLIC.contains(&request.uri().path()) && !access.is_known(headers) {
        let why = "open the address that toolcell inspect printed: its code lets one browser in";
        PageProblem::new(StatusCode::UNAUTHORIZED, why).into_response()
    } else {
        next.run(request).await
    };
    guarded(response.headers_mut());
    response
}

/// Downloads have a policy of their own already.
fn guarded(headers: &mut HeaderMap) {
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

#[derive(Deserialize)]
struct EntryQuery {
    #[serde(default)]
    code: String,
}

async fn enter(
    State(state): State<Arc<PageState>>,
    Query(entry): Query<EntryQuery>,
) -> Result<Response, PageProblem> {
    let why =
        "this code is wrong or was used: end toolcell inspect and start it again for a new one";
    let refused = || PageProblem::new(StatusCode::FORBIDDEN, why);
    let cookie = state.access.enter(&entry.code).ok_or_else(refused)?;
    // A browser sends the cookie only if the way to the views begins at this page.
    let onward = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content="0; url=/";
                link rel="icon" href="/icon.svg" type="image/svg+xml";
                title { "toolcell" }
            }
            body { p { a href="/" { "Show the page" } } }
        }
    };
    let headers = [
        (SET_COOKIE, cookie),
        (CONTENT_TYPE, HeaderValue::from_static(HTML)),
    ];
    Ok((headers, onward.into_string()).into_response())
}

/// After a form: the browser gets the view, so that a reload sends nothing again.
pub(crate) fn see(path: &str) -> Result<Response, PageProblem> {
    let to = HeaderValue::from_str(path).map_err(|error| PageProblem::failed(&error))?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response())
}
