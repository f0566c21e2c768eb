//! Refusals before a request is anybody's.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{Extension, IntoResponse};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{Response, StatusCode};
use rmcp::model::{ErrorData, RequestId};
use serde_json::json;
use toolcell_spec::ErrorCode;

use super::{API, ConnectionState, RETRY_AFTER, WORKER};
use crate::http::problem::Problem;

const NO_PLACE: &str = "too many of your requests are open; end one, or wait";

const NO_MEMORY: &str = "requests of others take all of the memory for bodies; try again later";

pub(super) type RefusalResponse = Box<Response<Body>>;

#[derive(Clone, Copy)]
pub(super) enum RefusalForm {
    Document,
    Text,
}

impl RefusalForm {
    pub(super) fn of_path(path: &str) -> Self {
        if path.starts_with(API) || path.starts_with(WORKER) {
            Self::Document
        } else {
            Self::Text
        }
    }

    pub(super) fn answer(self, problem: Problem) -> Response<Body> {
        match self {
            Self::Document => problem.into_response(),
            Self::Text => problem.into_text(),
        }
    }

    pub(super) fn unread(self, code: ErrorCode) -> RefusalResponse {
        let answer = match code {
            ErrorCode::TooMuchMemory => Problem::new(code, NO_MEMORY).after(RETRY_AFTER),
            _ => code.into(),
        };
        let answer = self.answer(answer);
        match code {
            ErrorCode::TooMuchMemory | ErrorCode::BodyTooLarge => closing(answer).into(),
            _ => answer.into(),
        }
    }
}

/// Marks the answer to a client that was refused access.
#[derive(Clone)]
pub(super) struct AccessRefused;

pub(super) fn noted(response: Response<Body>) -> Response<Body> {
    (Extension(AccessRefused), response).into_response()
}

pub(super) fn closing(response: Response<Body>) -> Response<Body> {
    ([(CONNECTION, "close")], response).into_response()
}

pub(super) fn get_only() -> Response<Body> {
    let allowed = [(ALLOW, "GET, HEAD")];
    (StatusCode::METHOD_NOT_ALLOWED, allowed, "GET only").into_response()
}

pub(super) fn busy(why: &str) -> RefusalResponse {
    let problem = Problem::new(ErrorCode::TooMuchMemory, why).after(RETRY_AFTER);
    problem.into_text().into()
}

pub(super) fn rpc_error(id: Option<&RequestId>, why: &str) -> RefusalResponse {
    rpc_refusal(id, &ErrorData::invalid_request(why.to_owned(), None))
}

pub(super) fn rpc_refusal(id: Option<&RequestId>, error: &ErrorData) -> RefusalResponse {
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    let media_type = [(CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, media_type, error.to_string())
        .into_response()
        .into()
}

/// A place for the request among its principal's.
pub(super) async fn claim(
    client: &ConnectionState,
    name: &Arc<str>,
    form: RefusalForm,
) -> Result<(), RefusalResponse> {
    let taken = |_| {
        let problem = Problem::new(ErrorCode::TooManyConnections, NO_PLACE).after(RETRY_AFTER);
        closing(noted(form.answer(problem))).into()
    };
    client.connection.belongs_to(name).await.map_err(taken)
}
