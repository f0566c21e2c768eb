//! The page at `/`, for principals and approvers who may see it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Form, FromRequest};
use axum::response::IntoResponse;
use http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use toolcell_engine::scheduler::in_turn;
use toolcell_page::{PageProblem, asset, guarded, is_own, is_view, sign_in};
use tower_service::Service;

use super::refusals::{RefusalForm, RefusalResponse, closing, noted};
use super::{ConnectionState, Routes};
use crate::http::PublicUrl;

const ENTER: &str = "/enter";
const LEAVE: &str = "/leave";
/// Of the form with a token.
const FORM_BYTES_MAX: usize = 32 << 10;
/// A rendered view is in memory as a whole.
const VIEW_BYTES_MAX: usize = 16 << 20;

#[derive(Deserialize)]
struct SignInForm {
    token: String,
}

impl Routes {
    /// `true` for a path of the page, if anybody may see it.
    pub(super) fn has_page_at(&self, path: &str) -> bool {
        let is_of_page = is_view(path) || [ENTER, LEAVE].contains(&path) || asset(path).is_some();
        is_of_page && self.table().has_page
    }

    pub(super) async fn page(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Response<Body> {
        let answer = self.view(request, client).await;
        let mut response = answer.unwrap_or_else(|refused| *refused);
        if let Some(url) = &self.proxy.public_url
            && !url.path().is_empty()
        {
            response = below(url, response).await;
        }
        guarded(response.headers_mut());
        response
    }

    async fn view(
        &self,
        request: Request<Incoming>,
        client: &ConnectionState,
    ) -> Result<Response<Body>, RefusalResponse> {
        let (method, headers) = (request.method(), request.headers());
        let public = self.proxy.public_url.as_ref().map(PublicUrl::origin);
        if !is_own(method, headers, public) {
            let why = "a form of another page was sent here; nothing was changed";
            let problem = PageProblem::new(StatusCode::FORBIDDEN, why);
            return Err(closing(noted(problem.into_response())).into());
        }
        match request.uri().path() {
            path if let Some(asset) = asset(path) => return Ok(asset),
            ENTER if method == Method::POST => return self.enter(request).await,
            LEAVE if method == Method::POST => {
                self.pages.end(headers);
                return Ok(to_first());
            }
            ENTER | LEAVE => return Ok(to_first()),
            _ => {}
        }
        let Some(session) = self.pages.find(headers) else {
            return Err(closing(sign_in(None)).into());
        };
        let table = self.table();
        let holder = match table.holder_of(Some(&session.token)).await {
            Ok(holder) => holder,
            // An issuer that does not answer now leaves the session as it is.
            Err(problem) if problem.status >= 500 => {
                return Err(closing(RefusalForm::Text.answer(problem)).into());
            }
            Err(problem) => {
                self.pages.end(headers);
                return Err(closing(noted(sign_in(Some(&problem.detail)))).into());
            }
        };
        let Some(state) = self.api.page(&holder.role, session.changes) else {
            self.pages.end(headers);
            return Err(closing(noted(sign_in(Some(NOT_YOURS)))).into());
        };
        let answer = async {
            let admitted = self.admit(holder, request, client, RefusalForm::Text);
            let mut request = admitted.await?;
            request.extensions_mut().insert(Arc::new(state));
            // A router is always ready.
            let Ok(response) = self.views.clone().call(request).await;
            Ok(response)
        };
        in_turn(Some(&holder.name), Box::pin(answer)).await
    }

    async fn enter(&self, request: Request<Incoming>) -> Result<Response<Body>, RefusalResponse> {
        let refused = |why: &str| -> RefusalResponse { closing(noted(sign_in(Some(why)))).into() };
        let (head, body) = request.into_parts();
        let body = Limited::new(body, FORM_BYTES_MAX).collect();
        let read = tokio::time::timeout(self.limits.body_time, body).await;
        let Ok(Ok(body)) = read else {
            return Err(refused("the form cannot be read"));
        };
        let request = Request::from_parts(head, Body::from(body.to_bytes()));
        let Ok(Form(form)) = Form::<SignInForm>::from_request(request, &()).await else {
            return Err(refused("the form cannot be read"));
        };
        let token = form.token.trim();
        let table = self.table();
        let holder = table.holder_of(Some(token)).await;
        let holder = holder.map_err(|problem| -> RefusalResponse {
            if problem.status >= 500 {
                closing(RefusalForm::Text.answer(problem)).into()
            } else {
                refused(&problem.detail)
            }
        })?;
        if self.api.page(&holder.role, Arc::default()).is_none() {
            return Err(refused(NOT_YOURS));
        }
        match self.pages.begin(token, &holder.name) {
            Some(cookie) => Ok(([(SET_COOKIE, cookie)], to_first()).into_response()),
            None => Err(refused("the system gives no random numbers")),
        }
    }
}

const NOT_YOURS: &str = "the page is for principals with page = true, and for approvers";

fn to_first() -> Response<Body> {
    let to = [(LOCATION, HeaderValue::from_static("/"))];
    (StatusCode::SEE_OTHER, to).into_response()
}

/// The page's own links begin at the path by which clients reach the server. Foreign text has no quotation marks in it:
/// they are escaped.
async fn below(url: &PublicUrl, response: Response<Body>) -> Response<Body> {
    let is_view = |headers: &HeaderMap| {
        let media_type = headers.get(CONTENT_TYPE);
        media_type.is_some_and(|media_type| media_type.as_bytes().starts_with(b"text/html"))
    };
    if !is_view(response.headers()) {
        return response;
    }
    let (head, body) = response.into_parts();
    let body = Limited::new(body, VIEW_BYTES_MAX).collect().await;
    let text = body
        .ok()
        .and_then(|body| String::from_utf8(body.to_bytes().into()).ok());
    let Some(mut text) = text else {
        return PageProblem::failed(&"the view cannot be shown").into_response();
    };
    for attribute in ["href", "src", "action"] {
        let own = format!(" {attribute}=\"/");
        text = text.replace(&own, &format!(" {attribute}=\"{}/", url.path()));
    }
    let mut response = Response::from_parts(head, Body::from(text));
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    response
}
