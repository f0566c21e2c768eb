//! Requests as the handlers read them, and answers as JSON.

use std::fmt::Display;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::response::IntoResponse;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolcell_dialect::http as dialect;
use toolcell_spec::{ErrorCode, InvocationId, ToolResult};

use crate::ServerTools;
use crate::http::problem::{Problem, whole_seconds};

use super::{ApiCaller, ApiState, TokenRole};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) struct CallerRequest(
    pub(super) Arc<ApiState>,
    pub(super) Arc<ApiCaller>,
    pub(super) Arc<ServerTools>,
);

pub(super) struct RequestApprover {
    pub(super) name: Arc<str>,
    /// Whose questions it may see and answer.
    pub(super) callers: Arc<[Arc<str>]>,
}

pub(super) struct RequestEngine(pub(super) Arc<ApiCaller>);

pub(super) struct PathParams<T>(pub(super) T);

pub(super) struct QueryParams<T>(pub(super) T);

impl FromRequestParts<Arc<ApiState>> for CallerRequest {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<ApiState>,
    ) -> Result<Self, Problem> {
        match parts.extensions.get::<TokenRole>() {
            Some(TokenRole::Caller(caller)) => {
                let offering = caller.offering(&shared.server);
                Ok(Self(Arc::clone(shared), Arc::clone(caller), offering))
            }
            _ => Err(ErrorCode::NotACaller.into()),
        }
    }
}

impl FromRequestParts<Arc<ApiState>> for RequestApprover {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<ApiState>,
    ) -> Result<Self, Problem> {
        let role = parts.extensions.get::<TokenRole>();
        Self::new(shared, role.ok_or(ErrorCode::NotAnApprover)?)
    }
}

impl RequestApprover {
    pub(super) fn new(shared: &ApiState, role: &TokenRole) -> Result<Self, Problem> {
        let callers = shared.callers();
        match role {
            TokenRole::Approver(name) => Ok(Self {
                callers: shared.server.callers_beside(name, &callers),
                name: Arc::clone(name),
            }),
            TokenRole::Caller(caller) => {
                let own = shared.server.callers_to_approve(caller.name(), &callers);
                Ok(Self {
                    name: Arc::clone(caller.name()),
                    callers: own.ok_or(ErrorCode::NotAnApprover)?,
                })
            }
            TokenRole::Engine(_) => Err(ErrorCode::NotAnApprover.into()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for RequestEngine {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match parts.extensions.get::<TokenRole>() {
            Some(TokenRole::Engine(engine)) => Ok(Self(Arc::clone(engine))),
            _ => Err(ErrorCode::NotAnEngine.into()),
        }
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path(value)| Self(value))
            .map_err(|_| ErrorCode::UnknownPath.into())
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::from_request_parts(parts, state).await;
        let wrong = |error: QueryRejection| {
            let why = format!("cannot read the query: {}", error.body_text());
            Problem::new(ErrorCode::QueryInvalid, why)
        };
        read.map(|Query(value)| Self(value)).map_err(wrong)
    }
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    // These types have no map with other keys than texts, and so can be written.
    let text = serde_json::to_vec(value).unwrap_or_default();
    (status, [(CONTENT_TYPE, JSON)], text).into_response()
}

pub(super) fn ended(offering: &ServerTools, result: &ToolResult) -> Response<Body> {
    let status =
        StatusCode::from_u16(dialect::status(result)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut headers = located(result.invocation_id);
    let error = result.error.as_ref();
    let after = error.and_then(|error| error.retry_after.or(error.retry.retry_after));
    headers.extend(after.map(|seconds| (RETRY_AFTER, whole_seconds(seconds).into())));
    if status == StatusCode::UNAUTHORIZED {
        // What is missing is a credential of the tool, which no header of the caller replaces.
        let missing = HeaderValue::from_static("Toolcell realm=\"tool\"");
        headers.insert(WWW_AUTHENTICATE, missing);
    }
    (headers, json(status, &shown(offering, result))).into_response()
}

pub(super) fn shown(offering: &ServerTools, result: &ToolResult) -> serde_json::Value {
    let mut result = result.clone();
    offering.fit(&mut result);
    dialect::result(&result)
}

pub(super) fn located(id: InvocationId) -> HeaderMap {
    let place = HeaderValue::from_str(&format!("/v1/calls/{id}"));
    place.into_iter().map(|place| (LOCATION, place)).collect()
}

pub(super) fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    is_media_type(headers, &["application/json"])?;
    let text = text(body)?;
    // serde would also read a list of the fields.
    if !text.trim_start().starts_with('{') {
        return Err(unreadable("it is not a JSON object"));
    }
    serde_json::from_str(text).map_err(unreadable)
}

pub(super) fn text(body: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(body).map_err(|_| unreadable("it is not UTF-8 text"))
}

pub(super) fn unreadable(why: impl Display) -> Problem {
    let detail = format!("cannot read the body: {why}");
    Problem::new(ErrorCode::BodyInvalid, detail)
}

/// A form of a web page is none of `known`, so that no page can send one.
pub(super) fn is_media_type(
    headers: &HeaderMap,
    known: &[&'static str],
) -> Result<&'static str, Problem> {
    let given = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    let found = known
        .iter()
        .find(|known| known.eq_ignore_ascii_case(essence));
    found.copied().ok_or_else(|| {
        let known = known.join(" or ");
        Problem::new(
            ErrorCode::MediaTypeUnsupported,
            format!("the body is of type {essence:?}; send {known}"),
        )
    })
}

/// A call that does not exist is as unknown as one of another caller.
pub(super) fn call_id(text: &str) -> Result<InvocationId, Problem> {
    text.parse().map_err(|_| ErrorCode::UnknownCall.into())
}
