//! Lets one browser see the page of `toolcell inspect`, with its one-time code.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CONTENT_TYPE, SET_COOKIE};
use http::{HeaderValue, StatusCode};
use maud::{DOCTYPE, html};
use serde::Deserialize;

use super::access::Access;
use crate::layout::{HTML, PageProblem};
use crate::{PageState, asset, guarded, is_own, views};

const ENTER: &str = "/enter";

pub(super) struct InspectState {
    pub(super) access: Access,
    pub(super) page: Arc<PageState>,
}

pub(super) fn router(state: Arc<InspectState>) -> Router {
    Router::new()
        .route(ENTER, get(enter))
        .with_state(Arc::clone(&state))
        .merge(views())
        .layer(from_fn_with_state(state, gate))
}

/// Before a body is read.
async fn gate(
    State(state): State<Arc<InspectState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = &state.access;
    let headers = request.headers();
    let mut response = if !access.is_host(headers) {
        let why = "this page does not answer to that Host: open the address that toolcell inspect printed";
        PageProblem::new(StatusCode::MISDIRECTED_REQUEST, why).into_response()
    } else if !is_own(request.method(), headers, None) {
        let why = "a form of another page was sent here; nothing was changed";
        PageProblem::new(StatusCode::FORBIDDEN, why).into_response()
    } else if let Some(asset) = asset(request.uri().path()) {
        asset
    } else if request.uri().path() != ENTER && !access.is_known(headers) {
        let why = "open the address that toolcell inspect printed: its code lets one browser in";
        PageProblem::new(StatusCode::UNAUTHORIZED, why).into_response()
    } else {
        request.extensions_mut().insert(Arc::clone(&state.page));
        next.run(request).await
    };
    guarded(response.headers_mut());
    response
}

#[derive(Deserialize)]
struct EntryQuery {
    #[serde(default)]
    code: String,
}

async fn enter(
    State(state): State<Arc<InspectState>>,
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
